/* The environment as a source of policy.
 *
 * COTO_<OPTION> exists for every row of schema/options.h. The variables of
 * requirement R1.2 are older names that callers already set; COTO_ ones win over
 * them. Only the DOCKER_ names listed here are ours: DOCKER_HOST and the like
 * belong to Docker and are left alone.
 */
#include "base/own.h"
#include "base/units.h"
#include "policy/nearest.h"
#include "policy/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 64

static int refuse(const char *name, const char *text, const char *what, const char *allowed,
                  struct coto_err *err)
{
    coto_value_refuse(name, text, what, allowed, err);
    return coto_err_remedy(err, "correct %s or unset it", name);
}

/* Value of a variable in envp, or NULL. */
static const char *find_var(char *const *envp, const char *name)
{
    size_t len = strlen(name);

    for (; *envp; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

/* ---- the variables of R1.2 ---- */

struct env_context {
    struct coto_policy *policy;
    char *const *envp;
};

static int apply_type(const struct env_context *ctx, const char *name, const char *text,
                      struct coto_err *err)
{
    if (strcmp(text, "local") == 0)
        return coto_policy_set(ctx->policy, COTO_OPT_ISOLATION, "process", COTO_SOURCE_ENV, name,
                               err);
    if (strcmp(text, "docker") == 0)
        return coto_policy_set(ctx->policy, COTO_OPT_ISOLATION, text, COTO_SOURCE_ENV, name, err);
    if (strcmp(text, "e2b") != 0)
        return refuse(name, text, "is not a sandbox type", "local, docker, e2b", err);
    if (ctx->policy->v[COTO_OPT_ISOLATION].source > COTO_SOURCE_ENV ||
        find_var(ctx->envp, "COTO_ISOLATION"))
        return 0; /* somebody with a stronger word has chosen the level */
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "%s=%s: not available at this level yet", name,
                 text);
    return coto_err_remedy(err, "unset %s, or set it to local for the kernel's own walls", name);
}

static int parse_whole(const char *name, const char *text, int64_t max, int64_t *ret_value,
                       struct coto_err *err)
{
    char allowed[64];
    int64_t v;

    snprintf(allowed, sizeof allowed, "1 to %" PRId64 ", for example 30", max);
    if (coto_units_parse_int(text, &v))
        return refuse(name, text, "is not a whole number", allowed, err);
    if (v < 1 || v > max)
        return refuse(name, text, "is out of range", allowed, err);
    *ret_value = v;
    return 0;
}

static int apply_timeout(const struct env_context *ctx, const char *name, const char *text,
                         struct coto_err *err)
{
    char value[32];
    int64_t seconds = 0;

    if (parse_whole(name, text, 86400, &seconds, err))
        return -1;
    snprintf(value, sizeof value, "%" PRId64 "s", seconds);
    return coto_policy_set(ctx->policy, COTO_OPT_TIMEOUT, value, COTO_SOURCE_ENV, name, err);
}

static int apply_output(const struct env_context *ctx, const char *name, const char *text,
                        struct coto_err *err)
{
    char value[32];
    int64_t kilobytes = 0;

    if (parse_whole(name, text, 1048576, &kilobytes, err))
        return -1;
    snprintf(value, sizeof value, "%" PRId64 "k", kilobytes);
    return coto_policy_set(ctx->policy, COTO_OPT_OUTPUT_LIMIT, value, COTO_SOURCE_ENV, name, err);
}

/* The docker level's variables are checked, so that a mistake is told on every
 * level, and change nothing at the others (coto_policy_apply_docker_env). */
static int check_image(const struct env_context *ctx, const char *name, const char *text,
                       struct coto_err *err)
{
    const struct coto_rule *rule = coto_rule_find(COTO_OPT_IMAGE);

    (void)ctx;
    if (rule->accepts(text, NULL))
        return 0;
    return refuse(name, text, rule->what, rule->allowed, err);
}

static int check_network(const struct env_context *ctx, const char *name, const char *text,
                         struct coto_err *err)
{
    (void)ctx;
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return refuse(name, text, "is neither true nor false", "true, false", err);
    return 0;
}

static int check_cpus(const struct env_context *ctx, const char *name, const char *text,
                      struct coto_err *err)
{
    int64_t v;

    (void)ctx;
    if (coto_units_parse_cpus(text, &v))
        return refuse(name, text, "is not a number of CPUs", "0.01 to 1024, for example 0.5", err);
    if (v < 10 || v > 1024000)
        return refuse(name, text, "is out of range", "0.01 to 1024, for example 0.5", err);
    return 0;
}

static int check_memory(const struct env_context *ctx, const char *name, const char *text,
                        struct coto_err *err)
{
    int64_t v;

    (void)ctx;
    if (coto_units_parse_size(text, &v))
        return refuse(name, text, "is not a size", "4m to 1024t, for example 256m", err);
    if (v < 4 * COTO_MB || v > 1024 * COTO_TB)
        return refuse(name, text, "is out of range", "4m to 1024t, for example 256m", err);
    return 0;
}

static const struct {
    const char *name;
    int (*apply)(const struct env_context *ctx, const char *name, const char *text,
                 struct coto_err *err);
} older_names[] = {
    {"SANDBOX_TYPE", apply_type},
    {"SANDBOX_TIMEOUT_SEC", apply_timeout},
    {"SANDBOX_MAX_OUTPUT_KB", apply_output},
    {"DOCKER_IMAGE", check_image},
    {"DOCKER_NETWORK_ENABLED", check_network},
    {"DOCKER_CPU_LIMIT", check_cpus},
    {"DOCKER_MEMORY_LIMIT", check_memory},
};

/* A container has no network yet; what was asked for is not ignored. */
static int apply_network(struct coto_policy *policy, const char *name, const char *text,
                         struct coto_err *err)
{
    (void)policy;
    if (strcmp(text, "false") == 0)
        return 0;
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "%s=true: a sandbox has no network", name);
    return coto_err_remedy(err, "unset %s, or set it to false", name);
}

int coto_policy_apply_docker_env(struct coto_policy *policy, char *const *envp,
                                 struct coto_err *err)
{
    static const struct {
        const char *name;
        const char *ours; /* wins over it */
        enum coto_opt opt;
    } rows[] = {
        {"DOCKER_IMAGE", "COTO_IMAGE", COTO_OPT_IMAGE},
        {"DOCKER_CPU_LIMIT", "COTO_CPUS", COTO_OPT_CPUS},
        {"DOCKER_MEMORY_LIMIT", "COTO_MEMORY", COTO_OPT_MEMORY},
        {"DOCKER_NETWORK_ENABLED", "COTO_NETWORK", COTO_OPT_NETWORK},
    };

    if (coto_policy_num(policy, COTO_OPT_ISOLATION) != COTO_ISOLATION_DOCKER)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = find_var(envp, rows[i].name);
        if (!text || find_var(envp, rows[i].ours))
            continue;
        if (rows[i].opt == COTO_OPT_NETWORK
                ? apply_network(policy, rows[i].name, text, err)
                : coto_policy_set(policy, rows[i].opt, text, COTO_SOURCE_ENV, rows[i].name, err))
            return -1;
    }
    return 0;
}

/* ---- COTO_<OPTION> ---- */

/* "OUTPUT_LIMIT" → COTO_OPT_OUTPUT_LIMIT, or -1. */
static int find_option(const char *name, size_t len)
{
    char key[NAME_MAX_LEN];

    if (len >= sizeof key)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (islower((unsigned char)name[i]) || name[i] == '-')
            return -1; /* COTO_memory is not COTO_MEMORY */
        key[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    }
    return coto_opt_find(key, len);
}

static int refuse_name(const char *name, struct coto_err *err)
{
    char names[COTO_OPT_COUNT][NAME_MAX_LEN];
    struct coto_nearest best = {0};

    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        size_t n = 0;
        for (const char *p = coto_options[i].name; *p && n + 1 < NAME_MAX_LEN; p++)
            names[i][n++] = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
        names[i][n] = '\0';
        coto_nearest_offer(&best, name + strlen("COTO_"), names[i]);
    }
    coto_err_set(err, COTO_ERR_USAGE, 0, "%.80s: no such option", name);
    if (best.name)
        return coto_err_remedy(err, "did you mean COTO_%s? Else unset it", best.name);
    return coto_err_remedy(err, "unset it; 'coto policy explain' lists all options");
}

/* A variable holds a whole list: "A=1,B=2". The first set from the environment
 * replaces, so the list is emptied first for the case that it is empty. */
static int set_list(struct coto_policy *policy, enum coto_opt opt, const char *name,
                    const char *text, struct coto_err *err)
{
    if (!*text)
        return coto_policy_set(policy, opt, "", COTO_SOURCE_ENV, name, err);
    for (;;) {
        size_t n = strcspn(text, ",");
        char *item = strndup(text, n);
        if (!item)
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "%s", name);
        int failed = coto_policy_set(policy, opt, item, COTO_SOURCE_ENV, name, err);
        free(item);
        if (failed || !text[n])
            return failed;
        text += n + 1;
    }
}

static int apply_option(struct coto_policy *policy, const char *variable, struct coto_err *err)
{
    const char *equals = strchr(variable, '=');
    size_t len = equals ? (size_t)(equals - variable) : strlen(variable);
    coto_auto_free char *name = strndup(variable, len);

    if (!name)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "environment");
    int opt = find_option(name + strlen("COTO_"), len - strlen("COTO_"));
    if (opt < 0)
        return refuse_name(name, err);
    const char *text = equals ? equals + 1 : "";
    if (coto_options[opt].type == COTO_TYPE_LIST || coto_options[opt].type == COTO_TYPE_MAP)
        return set_list(policy, (enum coto_opt)opt, name, text, err);
    return coto_policy_set(policy, (enum coto_opt)opt, text, COTO_SOURCE_ENV, name, err);
}

/* Names for coto-init's and the test suite's own use. */
static bool is_reserved(const char *variable)
{
    return coto_str_has_prefix(variable, "COTO_INIT") ||
           coto_str_has_prefix(variable, "COTO_TEST");
}

int coto_policy_apply_env(struct coto_policy *policy, char *const *envp, struct coto_err *err)
{
    struct env_context ctx = {policy, envp};

    for (size_t i = 0; i < sizeof older_names / sizeof older_names[0]; i++) {
        const char *text = find_var(envp, older_names[i].name);
        if (text && older_names[i].apply(&ctx, older_names[i].name, text, err))
            return -1;
    }
    for (char *const *e = envp; *e; e++)
        if (coto_str_has_prefix(*e, "COTO_") && !is_reserved(*e) && apply_option(policy, *e, err))
            return -1;
    if (policy->v[COTO_OPT_PROFILE].source == COTO_SOURCE_ENV)
        return coto_policy_apply_profile(policy, coto_policy_str(policy, COTO_OPT_PROFILE), err);
    return 0;
}
