/* Policy text as a stranger writes it: every pair that comes out lies within its
 * limits, and a refusal names a line. The pairs then go where coto sends them: into
 * a policy, which takes or refuses each and stays whole. */
#include "base/units.h"
#include "policy/policy.h"
#include "policy/yaml_text.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 64 /* each is followed by a hash of the whole */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const struct coto_yaml *yaml)
{
    if (strncmp(yaml->message, "line ", 5) != 0 || !strchr(yaml->message, ':') ||
        !memchr(yaml->message, 0, sizeof yaml->message))
        abort();
}

static void check_pairs(const struct coto_yaml *yaml)
{
    for (size_t i = 0; i < yaml->count; i++) {
        const struct coto_yaml_pair *pair = &yaml->pairs[i];
        size_t len = strlen(pair->key);
        if (len == 0 || len > 64 || !pair->value || !pair->note)
            abort();
        if (strchr(pair->note, '\n'))
            abort();
    }
}

/* No number is beyond what its row allows, whatever the text said. */
static void check_bounds(const struct coto_policy *policy)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        const struct coto_opt_row *row = &coto_options[i];
        int64_t num = policy->v[i].num;
        bool is_number = row->type == COTO_TYPE_INT || row->type == COTO_TYPE_SIZE ||
                         row->type == COTO_TYPE_DURATION || row->type == COTO_TYPE_CPUS;
        bool is_none = num == COTO_UNIT_NONE && row->max == COTO_MAX_NONE;
        if (is_number && !is_none && (num < row->min || num > row->max))
            abort();
    }
}

/* One pair: it changes its own option, or nothing at all and says why. */
static void apply_pair(struct coto_policy *policy, const struct coto_yaml_pair *pair)
{
    struct coto_err err = {0};
    char before[COTO_SHA256_HEX];
    char after[COTO_SHA256_HEX];

    coto_policy_hash(policy, before);
    if (!coto_policy_set_key(policy, pair->key, pair->value, COTO_SOURCE_FILE, "policy.yaml", &err))
        return;
    coto_policy_hash(policy, after);
    if (err.kind == COTO_ERR_NONE || !err.text[0] || strcmp(before, after) != 0)
        abort();
}

static void set_again(struct coto_policy *policy, enum coto_opt opt, const char *text)
{
    struct coto_err err = {0};

    if (coto_policy_set(policy, opt, text, COTO_SOURCE_FILE, "again", &err))
        abort();
}

/* What a policy says of itself, read as settings, makes the same policy. */
static void check_stable(const struct coto_policy *policy)
{
    struct coto_policy again;
    struct coto_err err = {0};
    char one[COTO_SHA256_HEX];
    char two[COTO_SHA256_HEX];

    if (coto_policy_init(&again, &err))
        abort();
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        const struct coto_strv *list = &policy->v[i].list;
        coto_auto_buf text = {0};
        if (!coto_opt_is_policy((enum coto_opt)i))
            continue;
        coto_policy_value_text(policy, (enum coto_opt)i, &text);
        for (size_t n = 0; n < list->count; n++)
            if (!strchr(list->items[n], ','))
                set_again(&again, (enum coto_opt)i, list->items[n]);
        if (list->count == 0)
            set_again(&again, (enum coto_opt)i, coto_buf_str(&text));
    }
    coto_policy_hash(policy, one);
    coto_policy_hash(&again, two);
    for (int i = 0; i < COTO_OPT_COUNT; i++) /* a comma inside an item splits it */
        for (size_t n = 0; n < policy->v[i].list.count; n++)
            if (strchr(policy->v[i].list.items[n], ','))
                memcpy(one, two, sizeof one);
    if (strcmp(one, two) != 0)
        abort();
    coto_policy_fini(&again);
}

/* A bad value leaves the policy usable and says why. */
static void apply_pairs(const struct coto_yaml *yaml)
{
    struct coto_policy policy;
    struct coto_err err = {0};
    coto_auto_buf text = {0};

    if (coto_policy_init(&policy, &err))
        abort();
    for (size_t i = 0; i < yaml->count && i < PAIRS_MAX; i++)
        apply_pair(&policy, &yaml->pairs[i]);
    check_bounds(&policy);
    check_stable(&policy);
    coto_policy_text(&policy, &text);
    if (text.failed || text.len == 0)
        abort();
    bool is_refused = coto_policy_check(&policy, &err);
    if (is_refused != (err.kind != COTO_ERR_NONE) || is_refused != (err.text[0] != '\0'))
        abort();
    coto_policy_fini(&policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct coto_yaml yaml = {.text = text, .len = size};

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (coto_yaml_read(&yaml)) {
        check_refusal(&yaml);
    } else {
        check_pairs(&yaml);
        apply_pairs(&yaml);
    }
    coto_yaml_fini(&yaml);
    coto_yaml_fini(&yaml);
    free(text);
    return 0;
}
