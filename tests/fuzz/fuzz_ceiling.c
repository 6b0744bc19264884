/* A parsed policy never widens. Policy text goes over a base profile, as a file does: what it does not
 * name by its own key stays as the base has it, flags stay above it, a refused one changes
 * nothing. Then an operator's ceiling comes down on it. The first two bytes choose base, flags and
 * ceiling. */
#include "api/api.h"
#include "base/units.h"
#include "policy/pairs.h"
#include "policytext.h"
#include "schema/bodies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool is_same(const struct coto_policy *a, const struct coto_policy *b, int opt)
{
    coto_auto_buf one = {0}, two = {0};
    const struct coto_strv *x = &a->v[opt].list, *y = &b->v[opt].list;

    for (size_t i = 0; x->count == y->count && i < x->count; i++)
        if (strcmp(x->items[i], y->items[i]) != 0)
            return false;
    coto_policy_value_text(a, (enum coto_opt)opt, &one);
    coto_policy_value_text(b, (enum coto_opt)opt, &two);
    return x->count == y->count && a->v[opt].num == b->v[opt].num &&
           strcmp(coto_buf_str(&one), coto_buf_str(&two)) == 0;
}

static void check_same(const struct coto_policy *a, const struct coto_policy *b)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        must(is_same(a, b, i) && a->v[i].source == b->v[i].source &&
             strcmp(a->v[i].origin, b->v[i].origin) == 0);
}

/* An option has one name, which may be written with _ for -. */
static bool is_name(const char *key, const char *name)
{
    for (; *key && (*key == *name || (*key == '_' && *name == '-')); key++)
        name++;
    return *key == *name;
}

/* The last value that the text has for a key; NULL: it does not name it. */
static const char *said(const struct coto_buf *pairs, const char *name)
{
    const char *key, *value, *found = NULL;

    for (size_t pos = 0; coto_policy_next_pair(pairs, &pos, &key, &value);)
        if (is_name(key, name))
            found = value;
    return found;
}

/* ---- the base ---- */

static void make_base(struct coto_policy *base, const char *profile, unsigned flags)
{
    static const struct {
        enum coto_opt opt;
        const char *text;
    } rows[] = {{COTO_OPT_MEMORY, "64m"},      {COTO_OPT_SECCOMP, "strict"},
                {COTO_OPT_REQUIRE, "seccomp"}, {COTO_OPT_TIMEOUT, "5s"}};
    struct coto_err err = {0};

    must(coto_policy_init(base, &err) == 0);
    must(coto_policy_apply_profile(base, profile, &err) == 0);
    for (unsigned i = 0; i < 4; i++)
        if (flags >> i & 1)
            must(coto_policy_set(base, rows[i].opt, rows[i].text, COTO_SOURCE_FLAG, "--flag", &err) == 0);
    must(coto_policy_check(base, &err) == 0);
}

/* ---- what came of the text ---- */

static void check_taken(const struct coto_policy *base, const struct coto_policy *policy,
                        const struct coto_buf *pairs)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        bool is_flag = base->v[i].source == COTO_SOURCE_FLAG;
        bool is_said = said(pairs, coto_options[i].name) && i != COTO_OPT_PROFILE;
        if (is_flag || !is_said)
            must(is_same(base, policy, i));
        else
            must(policy->v[i].source == COTO_SOURCE_FILE &&
                 coto_opt_is_policy((enum coto_opt)i));
    }
}

static bool has(const struct coto_strv *list, const char *word)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], word) == 0)
            return true;
    return false;
}

/* What coto_policy_check let through. */
static void check_checked(const struct coto_policy *policy)
{
    const struct coto_strv *require = coto_policy_list(policy, COTO_OPT_REQUIRE);
    const struct coto_strv *missing = coto_policy_list(policy, COTO_OPT_ALLOW_MISSING);
    int64_t level = coto_policy_num(policy, COTO_OPT_ISOLATION);

    must(level != COTO_ISOLATION_VM && coto_policy_num(policy, COTO_OPT_NETWORK) == COTO_NETWORK_NONE);
    must(coto_policy_list(policy, COTO_OPT_NETWORK_ALLOW)->count == 0);
    for (size_t i = 0; i < missing->count; i++)
        must(!has(require, "all") && !has(require, missing->items[i]));
    if (level == COTO_ISOLATION_PROCESS || level == COTO_ISOLATION_SUBPROCESS)
        must(!*coto_policy_str(policy, COTO_OPT_RUNTIME));
    if (level == COTO_ISOLATION_DOCKER)
        must(coto_policy_list(policy, COTO_OPT_MOUNT)->count == 0 &&
             !*coto_policy_str(policy, COTO_OPT_ROOTFS) && !*coto_policy_str(policy, COTO_OPT_IMAGE_KEY));
    must(!*coto_policy_str(policy, COTO_OPT_PROMPT_HASH) || !*coto_policy_str(policy, COTO_OPT_PROMPT_FILE));
    must(strcmp(coto_policy_str(policy, COTO_OPT_WORKDIR), "/tmp") != 0);
}

/* ---- the ceiling ---- */

static bool has_ceiling(int opt)
{
    bool found = opt == COTO_OPT_TIMEOUT;

    for (unsigned i = 0; i < coto_limit_count; i++)
        found = found || ((int)coto_limits[i].opt == opt && *coto_limits[i].ceiling);
    return found;
}

static void make_ceiling(struct coto_policy *ceiling, unsigned bits)
{
    static const struct {
        enum coto_opt opt;
        const char *text;
    } rows[] = {{COTO_OPT_MEMORY, "32m"}, {COTO_OPT_CPUS, "0.5"}, {COTO_OPT_TIMEOUT, "1s"},
                {COTO_OPT_PIDS, "3"},     {COTO_OPT_DISK, "1m"},  {COTO_OPT_OUTPUT_LIMIT, "1k"}};
    struct coto_err err = {0};

    must(coto_ceiling_init(ceiling, &err) == 0);
    for (unsigned i = 0; i < 6; i++)
        if (bits >> i & 1)
            must(coto_ceiling_lower(ceiling, rows[i].opt, "max", rows[i].text, &err) == 0);
}

static void check_ceiling(struct coto_policy *policy, unsigned bits)
{
    struct coto_policy ceiling, before;
    struct coto_err err = {0};

    make_ceiling(&ceiling, bits);
    must(coto_policy_copy(policy, &before, &err) == 0);
    check_same(policy, &before);
    must(coto_ceiling_apply(&ceiling, policy, &err) == 0);
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        int64_t most = coto_policy_num(&ceiling, (enum coto_opt)i);
        int64_t was = coto_policy_num(&before, (enum coto_opt)i);
        if (has_ceiling(i) && was > most)
            must(coto_policy_num(policy, (enum coto_opt)i) == most);
        else
            must(is_same(&before, policy, i));
    }
    coto_policy_fini(&before);
    coto_policy_fini(&ceiling);
}

static void overlay(const struct coto_buf *pairs, const uint8_t *choice)
{
    const char *profile = coto_profiles[choice[0] % coto_profile_count].name;
    struct coto_policy base, policy;
    struct coto_err err = {0};

    make_base(&base, profile, choice[0] >> 4);
    must(coto_policy_copy(&base, &policy, &err) == 0);
    if (coto_policy_apply_pairs(&policy, pairs, "policy.yaml", &err)) {
        must(err.kind != COTO_ERR_NONE && err.text[0]);
        check_same(&base, &policy);
    } else {
        must(err.kind == COTO_ERR_NONE);
        if (said(pairs, "profile")) {
            coto_policy_fini(&base);
            make_base(&base, said(pairs, "profile"), choice[0] >> 4);
        }
        check_taken(&base, &policy, pairs);
        if (coto_policy_check(&policy, &err) == 0)
            check_checked(&policy);
        else
            must(err.kind != COTO_ERR_NONE && err.text[0]);
    }
    check_ceiling(&policy, choice[1]);
    coto_policy_fini(&policy);
    coto_policy_fini(&base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    coto_auto_buf pairs = {0};

    if (size >= 2 && coto_fuzz_pairs(data + 2, size - 2, &pairs))
        overlay(&pairs, data);
    return 0;
}
