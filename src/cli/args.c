#include "cli/args.h"

#include "policy/nearest.h"

#include <stdio.h>
#include <string.h>

/* One argument taken apart. */
struct flag {
    int opt;                            /* row of the option table, or -1 */
    const struct coto_args_flag *extra; /* the verb's own flag, or NULL */
    const char *value;                  /* what stood behind '=' (or -c), or NULL */
    bool negated;                       /* --no-name */
    bool is_help;
    char label[80]; /* "--memory", for messages */
};

static const struct coto_args_flag *find_extra(const struct coto_args_spec *spec, const char *name,
                                               size_t len)
{
    const struct coto_args_flag *extra = spec ? spec->flags : NULL;

    for (; extra && extra->name; extra++)
        if (strlen(extra->name) == len && strncmp(extra->name, name, len) == 0)
            return extra;
    return NULL;
}

static bool is_bool(int opt)
{
    return coto_options[opt].type == COTO_TYPE_BOOL;
}

static bool find_long(const struct coto_args_spec *spec, const char *arg, struct flag *ret_flag)
{
    const char *name = arg + 2;
    size_t len = strcspn(name, "=");
    int opt = coto_opt_find(name, len);

    snprintf(ret_flag->label, sizeof ret_flag->label, "--%.*s", (int)(len > 70 ? 70 : len), name);
    ret_flag->value = name[len] ? name + len + 1 : NULL;
    ret_flag->is_help = len == 4 && strncmp(name, "help", 4) == 0 && !name[4];
    ret_flag->extra = find_extra(spec, name, len);
    if (ret_flag->is_help || ret_flag->extra)
        return true;
    if (opt < 0 && len > 3 && strncmp(name, "no-", 3) == 0) {
        opt = coto_opt_find(name + 3, len - 3);
        ret_flag->negated = true;
        if (opt >= 0 && !is_bool(opt))
            opt = -1;
    }
    ret_flag->opt = opt;
    return opt >= 0;
}

static bool find_short(const char *arg, struct flag *ret_flag)
{
    snprintf(ret_flag->label, sizeof ret_flag->label, "-%c", arg[1]);
    if (arg[1] == 'c') {
        ret_flag->opt = COTO_OPT_CODE;
        ret_flag->value = arg[2] ? arg + 2 : NULL;
        return true;
    }
    if (arg[2])
        return false; /* no clusters: -qv could be a misspelt long flag */
    ret_flag->is_help = arg[1] == 'h';
    if (arg[1] == 'q')
        ret_flag->opt = COTO_OPT_QUIET;
    if (arg[1] == 'v')
        ret_flag->opt = COTO_OPT_VERBOSE;
    return ret_flag->is_help || ret_flag->opt >= 0;
}

static bool find_flag(const struct coto_args_spec *spec, const char *arg, struct flag *ret_flag)
{
    *ret_flag = (struct flag){.opt = -1};
    return arg[1] == '-' ? find_long(spec, arg, ret_flag) : find_short(arg, ret_flag);
}

static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1];
}

static bool takes_value(const struct flag *flag)
{
    if (flag->extra)
        return flag->extra->metavar != NULL;
    return flag->opt >= 0 && !is_bool(flag->opt);
}

static int refuse_unknown(const struct coto_args_spec *spec, const char *arg, struct coto_err *err)
{
    struct coto_nearest best = {0};
    char word[64];

    snprintf(word, sizeof word, "%.*s", (int)strcspn(arg, "="), arg);
    const char *name = word + strspn(word, "-");
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        coto_nearest_offer(&best, name, coto_options[i].name);
    for (const struct coto_args_flag *f = spec ? spec->flags : NULL; f && f->name; f++)
        coto_nearest_offer(&best, name, f->name);
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: no such flag", word);
    if (best.name)
        return coto_err_remedy(err, "did you mean --%s?", best.name);
    return coto_err_remedy(err, "--help lists all flags; put -- before a command that begins "
                                "with a dash");
}

static int set_bool(struct coto_policy *policy, const struct flag *flag, struct coto_err *err)
{
    const char *text = flag->value ? flag->value : "true";

    if (flag->negated && flag->value)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "%s: takes no value", flag->label);
    if (flag->negated)
        text = "false";
    return coto_policy_set(policy, (enum coto_opt)flag->opt, text, COTO_SOURCE_FLAG, flag->label,
                           err);
}

/* Honours one flag; *next is moved past the value when it was an argument. */
static int apply_flag(struct flag *flag, char ***next, struct coto_policy *policy,
                      struct coto_err *err)
{
    if (takes_value(flag) && !flag->value) {
        if (!**next) {
            const char *metavar =
                flag->extra ? flag->extra->metavar : coto_options[flag->opt].metavar;
            coto_err_set(err, COTO_ERR_USAGE, 0, "%s: needs a value", flag->label);
            return coto_err_remedy(err, "%s %s", flag->label, metavar);
        }
        flag->value = *(*next)++;
    }
    if (flag->extra) {
        if (!takes_value(flag) && flag->value)
            return coto_err_set(err, COTO_ERR_USAGE, 0, "%s: takes no value", flag->label);
        *flag->extra->value = flag->value ? flag->value : "";
        return 0;
    }
    if (is_bool(flag->opt))
        return set_bool(policy, flag, err);
    return coto_policy_set(policy, (enum coto_opt)flag->opt, flag->value, COTO_SOURCE_FLAG,
                           flag->label, err);
}

static int count_args(char **argv)
{
    int n = 0;

    while (argv[n])
        n++;
    return n;
}

/* Flags only. With flags_anywhere operands are moved to the front of argv, which
 * is safe because no more are written than were read. */
static int parse_flags(const struct coto_args_spec *spec, char **argv, struct coto_policy *policy,
                       struct coto_args *rest, struct coto_err *err)
{
    bool anywhere = spec && spec->flags_anywhere;
    char **next = argv[0] ? argv + 1 : argv;
    char **first = next;
    char **operand = next;

    while (*next) {
        char *arg = *next;
        struct flag flag;
        if (!is_flag(arg)) {
            if (!anywhere)
                break;
            *operand++ = arg;
            next++;
            continue;
        }
        next++;
        if (strcmp(arg, "--") == 0) {
            rest->after_dashes = true;
            break;
        }
        if (!find_flag(spec, arg, &flag))
            return refuse_unknown(spec, arg, err);
        if (flag.is_help)
            rest->help = true;
        else if (apply_flag(&flag, &next, policy, err))
            return -1;
    }
    if (anywhere) {
        while (*next)
            *operand++ = *next++;
        *operand = NULL;
    }
    rest->rest = anywhere ? first : next;
    rest->count = count_args(rest->rest);
    return 0;
}

/* Everything but the flags. It comes after them, because they name the profile
 * and the file; a stronger source is never overwritten by a weaker one. */
static int apply_sources(struct coto_policy *policy, char **envp, struct coto_err *err)
{
    if (coto_policy_apply_profile(policy, coto_policy_str(policy, COTO_OPT_PROFILE), err))
        return -1;
    if (coto_policy_apply_env(policy, envp, err))
        return -1;
    const char *file = coto_policy_str(policy, COTO_OPT_POLICY);
    if (*file && coto_policy_apply_file(policy, file, err))
        return -1;
    return coto_policy_apply_docker_env(policy, envp, err);
}

int coto_args_policy_with(const struct coto_args_spec *spec, char **argv, char **envp,
                          struct coto_policy *ret_policy, struct coto_args *ret_rest,
                          struct coto_err *err)
{
    struct coto_policy policy;
    struct coto_args rest = {0};

    if (coto_policy_init(&policy, err))
        return -1;
    if (parse_flags(spec, argv, &policy, &rest, err) ||
        (!rest.help && apply_sources(&policy, envp, err))) {
        coto_policy_fini(&policy);
        return -1;
    }
    *ret_policy = policy;
    *ret_rest = rest;
    return 0;
}

int coto_args_policy(int argc, char **argv, char **envp, struct coto_policy *ret_policy,
                     struct coto_args *ret_rest, struct coto_err *err)
{
    (void)argc; /* argv ends with NULL */
    return coto_args_policy_with(NULL, argv, envp, ret_policy, ret_rest, err);
}

static bool env_wants_json(char *const *envp)
{
    for (; *envp; envp++)
        if (strcmp(*envp, "COTO_JSON=true") == 0)
            return true;
    return false;
}

bool coto_args_want_json(const struct coto_args_spec *spec, char *const *argv, char *const *envp)
{
    bool want = env_wants_json(envp);

    for (char *const *next = argv[0] ? argv + 1 : argv; *next; next++) {
        struct flag flag;
        if (!is_flag(*next)) {
            if (!spec || !spec->flags_anywhere)
                break;
            continue;
        }
        if (strcmp(*next, "--") == 0)
            break;
        if (!find_flag(spec, *next, &flag))
            continue;
        if (flag.opt == COTO_OPT_JSON)
            want = !flag.negated && (!flag.value || strcmp(flag.value, "false") != 0);
        if (takes_value(&flag) && !flag.value && next[1])
            next++;
    }
    return want;
}
