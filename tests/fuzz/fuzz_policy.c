/* Policy text as a stranger writes it: every pair that comes out lies within its
 * limits, and a refusal names a line. The pairs then go where coto sends them: into
 * a policy, which takes or refuses each and stays whole. */
#include "policy/policy.h"
#include "policy/yaml_text.h"

#include <stdlib.h>
#include <string.h>

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

/* A bad value leaves the policy usable and says why. */
static void apply_pairs(const struct coto_yaml *yaml)
{
    struct coto_policy policy;
    struct coto_err err = {0};
    coto_auto_buf text = {0};

    if (coto_policy_init(&policy, &err))
        abort();
    for (size_t i = 0; i < yaml->count; i++) {
        err = (struct coto_err){0};
        if (coto_policy_set_key(&policy, yaml->pairs[i].key, yaml->pairs[i].value,
                                COTO_SOURCE_FILE, "policy.yaml", &err) &&
            (err.kind == COTO_ERR_NONE || !err.text[0]))
            abort();
    }
    coto_policy_text(&policy, &text);
    if (text.failed || text.len == 0)
        abort();
    (void)coto_policy_check(&policy, &err);
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
