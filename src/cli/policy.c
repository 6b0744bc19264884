/* coto policy explain: each value and who set it.
 * coto policy check: whether a policy file is right. */
#include "policy/policy.h"

#include "base/json.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/verb.h"

#include <string.h>

static bool is_shown(int opt)
{
    return coto_opt_is_policy((enum coto_opt)opt) || opt == COTO_OPT_PROFILE ||
           opt == COTO_OPT_POLICY;
}

static void add_row(const struct coto_policy *policy, enum coto_opt opt, struct coto_strv *cells,
                    struct coto_buf *out)
{
    coto_auto_buf text = {0};
    coto_auto_buf value = {0};
    coto_auto_buf origin = {0};

    coto_policy_value_text(policy, opt, &text);
    coto_cli_add_visible(&value, text.len ? coto_buf_str(&text) : "-");
    coto_cli_add_visible(&origin, policy->v[opt].origin);
    if (coto_strv_add(cells, coto_options[opt].name) ||
        coto_strv_add(cells, coto_buf_str(&value)) || coto_strv_add(cells, coto_buf_str(&origin)))
        out->failed = true;
}

static int print_table(const struct coto_policy *policy)
{
    coto_auto_buf out = {0};
    coto_auto_strv cells = {0};

    if (coto_strv_add(&cells, "KEY") || coto_strv_add(&cells, "VALUE") ||
        coto_strv_add(&cells, "SET BY"))
        out.failed = true;
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (is_shown(i))
            add_row(policy, (enum coto_opt)i, &cells, &out);
    coto_cli_add_table(&out, &cells, 3);
    return coto_cli_print(&out);
}

static void add_json_value(const struct coto_policy *policy, enum coto_opt opt,
                           struct coto_json *json)
{
    static const char *const sources[] = {"default", "profile", "environment", "file", "flag"};
    const struct coto_value *value = &policy->v[opt];
    enum coto_opt_type type = coto_options[opt].type;
    coto_auto_buf text = {0};

    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "key", coto_options[opt].name);
    if (type == COTO_TYPE_LIST || type == COTO_TYPE_MAP) {
        coto_json_begin(json, "value", '[');
        for (size_t i = 0; i < value->list.count; i++)
            coto_json_str(json, NULL, value->list.items[i]);
        coto_json_end(json, ']');
    } else {
        coto_policy_value_text(policy, opt, &text);
        coto_json_str(json, "value", coto_buf_str(&text));
    }
    coto_json_str(json, "source", sources[value->source]);
    coto_json_str(json, "set_by", value->origin);
    coto_json_end(json, '}');
}

/* The policy, its hash, and what a run of it would be refused for. */
static int print_json(const struct coto_policy *policy, const struct coto_err *refusal)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = true};
    char hash[COTO_SHA256_HEX];

    coto_policy_hash(policy, hash);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "policy_hash", hash);
    coto_json_begin(&json, "options", '[');
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (is_shown(i))
            add_json_value(policy, (enum coto_opt)i, &json);
    coto_json_end(&json, ']');
    if (refusal) {
        coto_json_begin(&json, "error", '{');
        coto_json_str(&json, "code", coto_err_info(refusal->kind)->word);
        coto_json_str(&json, "message", refusal->text);
        coto_json_str(&json, "remedy", refusal->remedy[0] ? refusal->remedy : NULL);
        coto_json_end(&json, '}');
    }
    coto_json_end(&json, '}');
    return coto_cli_print(&out);
}

static int print_policy(const struct coto_policy *policy, bool json)
{
    struct coto_err refusal = {0};
    bool is_refused = coto_policy_check(policy, &refusal) != 0;
    int status = json ? print_json(policy, is_refused ? &refusal : NULL) : print_table(policy);

    if (status || !is_refused)
        return status;
    return json ? coto_err_info(refusal.kind)->exit_code : coto_cli_fail(&refusal);
}

static int explain(int argc, char **argv, char **envp)
{
    bool json = coto_args_want_json(NULL, argv, envp);
    struct coto_policy policy;
    struct coto_args rest;
    struct coto_err err = {0};
    int status;

    if (coto_args_policy(argc, argv, envp, &policy, &rest, &err))
        return coto_cli_fail_as(json, &err);
    if (rest.help) {
        status = coto_cli_help_verb("policy", NULL);
    } else if (rest.count > 0) {
        coto_err_set(&err, COTO_ERR_USAGE, 0, "policy explain: '%.60s' is not a flag",
                     rest.rest[0]);
        coto_err_remedy(&err, "coto policy explain [OPTIONS], the options as for coto run");
        status = coto_cli_fail_as(json, &err);
    } else {
        status = print_policy(&policy, coto_policy_num(&policy, COTO_OPT_JSON));
    }
    coto_policy_fini(&policy);
    return status;
}

static int print_good(const struct coto_policy *policy, const char *path, bool as_json)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = true};
    char hash[COTO_SHA256_HEX];

    coto_policy_hash(policy, hash);
    if (as_json) {
        coto_json_begin(&json, NULL, '{');
        coto_json_str(&json, "file", path);
        coto_json_bool(&json, "ok", true);
        coto_json_str(&json, "policy_hash", hash);
        coto_json_end(&json, '}');
    } else {
        coto_cli_add_visible(&out, path);
        coto_buf_addf(&out, ": ok, policy hash %s\n", hash);
    }
    return coto_cli_print(&out);
}

/* The file alone on top of the defaults: neither environment nor flags, so the
 * answer is the same for everybody. */
static int check_file(const char *path, bool json)
{
    struct coto_policy policy;
    struct coto_err err = {0};
    int status;

    if (coto_policy_init(&policy, &err))
        return coto_cli_fail_as(json, &err);
    if (coto_policy_apply_file(&policy, path, &err) || coto_policy_check(&policy, &err))
        status = coto_cli_fail_as(json, &err);
    else
        status = print_good(&policy, path, json);
    coto_policy_fini(&policy);
    return status;
}

static int check(int argc, char **argv, char **envp)
{
    static const struct coto_args_spec spec = {.flags_anywhere = true};
    bool json = coto_args_want_json(&spec, argv, envp);
    const char *path = NULL;
    struct coto_err err = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return coto_cli_help_verb("policy", NULL);
        if (strcmp(argv[i], "--json") == 0)
            continue;
        if (path || argv[i][0] == '-') {
            coto_err_set(&err, COTO_ERR_USAGE, 0, "policy check: '%.60s' is one too many", argv[i]);
            coto_err_remedy(&err, "coto policy check FILE [--json]");
            return coto_cli_fail_as(json, &err);
        }
        path = argv[i];
    }
    if (path)
        return check_file(path, json);
    coto_err_set(&err, COTO_ERR_USAGE, 0, "policy check: which file?");
    coto_err_remedy(&err, "coto policy check FILE [--json]");
    return coto_cli_fail_as(json, &err);
}

int coto_cli_policy(int argc, char **argv, char **envp)
{
    struct coto_err err = {0};

    if (argc > 1 && strcmp(argv[1], "explain") == 0)
        return explain(argc - 1, argv + 1, envp);
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check(argc - 1, argv + 1, envp);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return coto_cli_help_verb("policy", NULL);
    coto_err_set(&err, COTO_ERR_USAGE, 0, "policy: %s%.60s%s", argc > 1 ? "'" : "what to do",
                 argc > 1 ? argv[1] : "?", argc > 1 ? "' is not known here" : "");
    coto_err_remedy(&err, "coto policy explain [OPTIONS], or coto policy check FILE");
    return coto_cli_fail(&err);
}
