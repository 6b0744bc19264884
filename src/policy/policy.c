#include "policy/policy.h"

#include "base/units.h"
#include "policy/nearest.h"
#include "policy/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_default(struct coto_policy *policy, enum coto_opt opt, struct coto_err *err)
{
    struct coto_value value = {.source = COTO_SOURCE_DEFAULT, .origin = "default"};

    if (coto_value_parse(opt, coto_options[opt].fallback, coto_options[opt].name, &value, err)) {
        coto_value_fini(&value);
        return coto_err_wrap(err, "default value");
    }
    coto_value_fini(&policy->v[opt]);
    policy->v[opt] = value;
    return 0;
}

int coto_policy_init(struct coto_policy *policy, struct coto_err *err)
{
    struct coto_policy fresh = {0};

    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        if (set_default(&fresh, (enum coto_opt)i, err)) {
            coto_policy_fini(&fresh);
            return -1;
        }
    }
    *policy = fresh;
    return 0;
}

void coto_policy_fini(struct coto_policy *policy)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        coto_value_fini(&policy->v[i]);
}

static int copy_list(const struct coto_strv *from, struct coto_strv *to)
{
    for (size_t i = 0; i < from->count; i++)
        if (coto_strv_add(to, from->items[i]))
            return -1;
    return 0;
}

int coto_policy_copy(const struct coto_policy *from, struct coto_policy *ret_policy,
                     struct coto_err *err)
{
    struct coto_policy fresh = {0};

    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        struct coto_value *to = &fresh.v[i];
        *to = from->v[i];
        to->str = to->str ? strdup(to->str) : NULL;
        to->list = (struct coto_strv){0};
        if (!to->str != !from->v[i].str || copy_list(&from->v[i].list, &to->list)) {
            coto_policy_fini(&fresh);
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "policy");
        }
    }
    *ret_policy = fresh;
    return 0;
}

/* ---- setting ---- */

static void add_source_remedy(enum coto_source source, const char *origin, struct coto_err *err)
{
    if (!err || err->remedy[0] || err->kind != COTO_ERR_POLICY)
        return;
    if (source == COTO_SOURCE_ENV)
        coto_err_remedy(err, "correct %s or unset it", origin);
    else if (source == COTO_SOURCE_FILE)
        coto_err_remedy(err, "correct the policy file; 'coto policy check' reads it again");
    else if (source == COTO_SOURCE_FLAG)
        coto_err_remedy(err, "'coto help run' lists all options with what they take");
}

/* Flags and variables name the option themselves; files and profiles do not. */
static void name_culprit(enum coto_opt opt, enum coto_source source, const char *origin,
                         char *ret_who, size_t size)
{
    if (source == COTO_SOURCE_FILE || source == COTO_SOURCE_PROFILE)
        snprintf(ret_who, size, "%s: %s", origin, coto_options[opt].name);
    else
        snprintf(ret_who, size, "%s", origin);
}

int coto_policy_set(struct coto_policy *policy, enum coto_opt opt, const char *text,
                    enum coto_source source, const char *origin, struct coto_err *err)
{
    struct coto_value *old = &policy->v[opt];
    struct coto_value value = {.source = source};
    char who[160];

    name_culprit(opt, source, origin, who, sizeof who);
    snprintf(value.origin, sizeof value.origin, "%s", origin);
    if (old->source == source && copy_list(&old->list, &value.list)) {
        coto_value_fini(&value);
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "%s", who);
    }
    if (coto_value_parse(opt, text, who, &value, err)) {
        coto_value_fini(&value);
        add_source_remedy(source, origin, err);
        return -1;
    }
    /* A weaker source never wins, whatever the order of the calls; but what it
     * says has been checked, so a mistake does not hide behind a flag. */
    if (source < old->source) {
        coto_value_fini(&value);
        return 0;
    }
    coto_value_fini(old);
    *old = value;
    return 0;
}

static int refuse_key(const char *key, const char *origin, struct coto_err *err)
{
    struct coto_nearest best = {0};

    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (coto_opt_is_policy((enum coto_opt)i))
            coto_nearest_offer(&best, key, coto_options[i].name);
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%.60s' is not a policy option", origin, key);
    if (best.name)
        return coto_err_remedy(err, "did you mean '%s'?", best.name);
    return coto_err_remedy(err, "'coto policy explain' lists all options");
}

int coto_policy_set_key(struct coto_policy *policy, const char *key, const char *text,
                        enum coto_source source, const char *origin, struct coto_err *err)
{
    int opt = coto_opt_find(key, strlen(key));

    if (opt < 0)
        return refuse_key(key, origin, err);
    if (!coto_opt_is_policy((enum coto_opt)opt)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%s' is a flag, not a policy option", origin,
                     coto_options[opt].name);
        return coto_err_remedy(err, "give --%s on the command line", coto_options[opt].name);
    }
    return coto_policy_set(policy, (enum coto_opt)opt, text, source, origin, err);
}

/* ---- profiles ---- */

static const struct coto_profile *find_profile(const char *name)
{
    for (unsigned i = 0; i < coto_profile_count; i++)
        if (strcmp(coto_profiles[i].name, name) == 0)
            return &coto_profiles[i];
    return NULL;
}

int coto_policy_apply_profile(struct coto_policy *policy, const char *name, struct coto_err *err)
{
    const struct coto_profile *profile = find_profile(name);
    char origin[64];

    if (!profile)
        return coto_rule_refuse(coto_rule_find(COTO_OPT_PROFILE), "profile", name, err);
    /* A policy has one profile: what another one set goes back to the default. */
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (policy->v[i].source == COTO_SOURCE_PROFILE &&
            set_default(policy, (enum coto_opt)i, err))
            return -1;
    snprintf(origin, sizeof origin, "profile %s", name);
    for (const char *const *s = profile->settings; *s; s += 2)
        if (coto_policy_set_key(policy, s[0], s[1], COTO_SOURCE_PROFILE, origin, err))
            return -1;
    if (coto_str_eq(coto_policy_str(policy, COTO_OPT_PROFILE), name))
        return 0;
    policy->v[COTO_OPT_PROFILE].source = COTO_SOURCE_PROFILE;
    return coto_policy_set(policy, COTO_OPT_PROFILE, name, COTO_SOURCE_PROFILE, origin, err);
}

/* ---- text and hash ---- */

static void add_scalar(const struct coto_policy *policy, enum coto_opt opt, struct coto_buf *out)
{
    int64_t num = policy->v[opt].num;

    switch (coto_options[opt].type) {
    case COTO_TYPE_BOOL:
        coto_buf_adds(out, num ? "true" : "false");
        break;
    case COTO_TYPE_ENUM:
        coto_buf_adds(out, coto_opt_choice_name(opt, num));
        break;
    case COTO_TYPE_SIZE:
        coto_units_add_size(out, num);
        break;
    case COTO_TYPE_DURATION:
        coto_units_add_duration(out, num);
        break;
    case COTO_TYPE_CPUS:
        coto_units_add_cpus(out, num);
        break;
    case COTO_TYPE_INT:
        if (num == COTO_UNIT_NONE)
            coto_buf_adds(out, "none");
        else
            coto_buf_addf(out, "%" PRId64, num);
        break;
    default:
        coto_buf_adds(out, coto_policy_str(policy, opt));
    }
}

static bool is_list(enum coto_opt opt)
{
    return coto_options[opt].type == COTO_TYPE_LIST || coto_options[opt].type == COTO_TYPE_MAP;
}

void coto_policy_allowed(const struct coto_policy *most, enum coto_opt opt, struct coto_buf *out)
{
    coto_value_allowed_to(opt, coto_policy_num(most, opt), out);
}

void coto_policy_value_text(const struct coto_policy *policy, enum coto_opt opt,
                            struct coto_buf *out)
{
    const struct coto_strv *list = coto_policy_list(policy, opt);

    if (!is_list(opt)) {
        add_scalar(policy, opt, out);
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            coto_buf_addc(out, ',');
        coto_buf_adds(out, list->items[i]);
    }
}

static size_t plain_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at >= 0x20 && *at != '\\' && *at != 0x7f)
        at++;
    return (size_t)(at - (const unsigned char *)text);
}

/* One line per value or list item, so that no value can pass for another. */
static void add_line(const char *key, const char *value, struct coto_buf *out)
{
    coto_buf_adds(out, key);
    coto_buf_add(out, ": ", *value ? 2 : 1);
    while (*value) {
        size_t plain = plain_length(value);
        coto_buf_add(out, value, plain);
        value += plain;
        if (*value)
            coto_buf_addf(out, "\\x%02x", (unsigned char)*value++);
    }
    coto_buf_addc(out, '\n');
}

void coto_policy_text(const struct coto_policy *policy, struct coto_buf *out)
{
    coto_auto_buf text = {0};

    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        const struct coto_opt_row *row = &coto_options[i];
        const struct coto_strv *list = &policy->v[i].list;
        if (!coto_opt_is_policy((enum coto_opt)i))
            continue;
        for (size_t n = 0; n < list->count; n++)
            add_line(row->name, list->items[n], out);
        if (list->count > 0)
            continue;
        coto_buf_clear(&text);
        coto_policy_value_text(policy, (enum coto_opt)i, &text);
        add_line(row->name, coto_buf_str(&text), out);
    }
}

void coto_policy_hash(const struct coto_policy *policy, char ret_hex[COTO_SHA256_HEX])
{
    coto_auto_buf text = {0};

    coto_policy_text(policy, &text);
    coto_sha256_of(coto_buf_str(&text), text.len, ret_hex);
}
