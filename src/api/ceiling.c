/* What the operator allows at most. The service's own ceilings (schema/bodies.c) are where it
 * begins; settings can only lower them. What a profile brings along is cut down to it, what a
 * caller asks for beyond it is refused. */
#include "api/api.h"

#include "base/units.h"
#include "schema/bodies.h"
#include "schema/options.h"

#include <string.h>

int coto_ceiling_init(struct coto_policy *ceiling, struct coto_err *err)
{
    if (coto_policy_init(ceiling, err))
        return -1;
    for (unsigned i = 0; i < coto_limit_count; i++)
        if (*coto_limits[i].ceiling &&
            coto_policy_set(ceiling, coto_limits[i].opt, coto_limits[i].ceiling,
                            COTO_SOURCE_PROFILE, "service", err))
            return -1;
    return coto_policy_set(ceiling, COTO_OPT_TIMEOUT, COTO_TIMEOUT_MAX, COTO_SOURCE_PROFILE,
                           "service", err);
}

/* As a person would write it. */
static void add_least(struct coto_buf *out, enum coto_opt opt)
{
    int64_t min = coto_options[opt].min;

    if (coto_options[opt].type == COTO_TYPE_SIZE)
        coto_units_add_size(out, min);
    else if (coto_options[opt].type == COTO_TYPE_DURATION)
        coto_units_add_duration(out, min);
    else if (coto_options[opt].type == COTO_TYPE_CPUS)
        coto_units_add_cpus(out, min);
    else
        coto_buf_addf(out, "%lld", (long long)min);
}

int coto_ceiling_lower(struct coto_policy *ceiling, enum coto_opt opt, const char *name,
                       const char *text, struct coto_err *err)
{
    int64_t most = coto_policy_num(ceiling, opt);
    coto_auto_buf said = {0};

    coto_policy_value_text(ceiling, opt, &said);
    bool is_set = coto_policy_set(ceiling, opt, text, COTO_SOURCE_FILE, name, err) == 0;
    if (is_set && coto_policy_num(ceiling, opt) <= most)
        return 0;
    coto_auto_buf least = {0};
    const char *form = coto_options[opt].type == COTO_TYPE_SIZE       ? "a size such as 256m: "
                       : coto_options[opt].type == COTO_TYPE_DURATION ? "a time such as 30s: "
                                                                      : "a number: ";
    add_least(&least, opt);
    if (is_set)
        coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%s' is more than the service can allow", name, text);
    else
        coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%.60s' is not possible", name, text);
    return coto_err_remedy(err, "%s%s at least, %s at most", is_set ? "" : form, coto_buf_str(&least), coto_buf_str(&said));
}

static bool has_ceiling(enum coto_opt opt)
{
    for (unsigned i = 0; i < coto_limit_count; i++)
        if (coto_limits[i].opt == opt && *coto_limits[i].ceiling)
            return true;
    return opt == COTO_OPT_TIMEOUT;
}

/* The operator's come after those of the profile. */
static int add_modules(const struct coto_policy *ceiling, struct coto_policy *policy, struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(ceiling, COTO_OPT_MODULES);

    for (size_t i = 0; i < list->count; i++)
        if (coto_policy_set(policy, COTO_OPT_MODULES, list->items[i], COTO_SOURCE_PROFILE, "service", err))
            return -1;
    return 0;
}

static int add_cold(const struct coto_policy *ceiling, struct coto_policy *policy, struct coto_err *err)
{
    if (!coto_policy_num(ceiling, COTO_OPT_COLD))
        return 0;
    return coto_policy_set(policy, COTO_OPT_COLD, "true", COTO_SOURCE_FLAG, "service", err);
}

int coto_ceiling_apply(const struct coto_policy *ceiling, struct coto_policy *policy,
                       struct coto_err *err)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        enum coto_opt opt = (enum coto_opt)i;
        enum coto_source source = policy->v[opt].source; /* a weaker one would not win */
        coto_auto_buf text = {0};
        if (!has_ceiling(opt) || coto_policy_num(policy, opt) <= coto_policy_num(ceiling, opt))
            continue;
        coto_policy_value_text(ceiling, opt, &text);
        if (source < COTO_SOURCE_PROFILE)
            source = COTO_SOURCE_PROFILE;
        if (coto_policy_set(policy, opt, coto_buf_str(&text), source, "service", err))
            return -1;
    }
    return add_cold(ceiling, policy, err) || add_modules(ceiling, policy, err) ? -1 : 0;
}

bool coto_ceiling_has_word(const char *const *words, const char *word)
{
    if (!words || !*words)
        return true;
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words;
}
