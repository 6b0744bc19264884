/* coto profiles: the built-in policies, and one of them with the reason of each
 * value. */
#include "base/json.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/verb.h"
#include "policy/policy.h"

#include <string.h>

static void add_cell(struct coto_strv *cells, const char *text, struct coto_buf *out)
{
    coto_auto_buf visible = {0};

    coto_cli_add_visible(&visible, text);
    if (visible.failed || coto_strv_add(cells, coto_buf_str(&visible)))
        out->failed = true;
}

static int list_profiles(bool as_json)
{
    coto_auto_buf out = {0};
    coto_auto_strv cells = {0};
    struct coto_json json = {.out = &out, .pretty = true};

    add_cell(&cells, "PROFILE", &out);
    add_cell(&cells, "SUMMARY", &out);
    coto_json_begin(&json, NULL, '{');
    coto_json_begin(&json, "profiles", '[');
    for (unsigned i = 0; i < coto_profile_count; i++) {
        add_cell(&cells, coto_profiles[i].name, &out);
        add_cell(&cells, coto_profiles[i].summary, &out);
        coto_json_begin(&json, NULL, '{');
        coto_json_str(&json, "name", coto_profiles[i].name);
        coto_json_str(&json, "summary", coto_profiles[i].summary);
        coto_json_end(&json, '}');
    }
    coto_json_end(&json, ']');
    coto_json_end(&json, '}');
    if (!as_json) {
        coto_buf_clear(&out);
        coto_cli_add_table(&out, &cells, 2);
    }
    return coto_cli_print(&out);
}

/* The comment beside an option in the profile's file; NULL when it sets none. */
static const char *find_note(const struct coto_profile *profile, const char *key)
{
    for (size_t i = 0; profile->settings[2 * i]; i++)
        if (strcmp(profile->settings[2 * i], key) == 0)
            return profile->notes[i];
    return NULL;
}

static const struct coto_profile *find_profile(const char *name)
{
    for (unsigned i = 0; i < coto_profile_count; i++)
        if (strcmp(coto_profiles[i].name, name) == 0)
            return &coto_profiles[i];
    return NULL;
}

static void add_value(const struct coto_profile *profile, const struct coto_policy *policy,
                      enum coto_opt opt, struct coto_strv *cells, struct coto_json *json)
{
    const char *key = coto_options[opt].name;
    const char *note = find_note(profile, key);
    coto_auto_buf text = {0};

    coto_policy_value_text(policy, opt, &text);
    add_cell(cells, key, json->out);
    add_cell(cells, text.len ? coto_buf_str(&text) : "-", json->out);
    add_cell(cells, note ? (*note ? note : "profile") : "default", json->out);
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "key", key);
    coto_json_str(json, "value", coto_buf_str(&text));
    coto_json_str(json, "set_by", note ? "profile" : "default");
    coto_json_str(json, "requirement", note && *note ? note : NULL);
    coto_json_end(json, '}');
}

static int print_profile(const struct coto_profile *profile, const struct coto_policy *policy,
                         bool as_json)
{
    coto_auto_buf out = {0};
    coto_auto_strv cells = {0};
    struct coto_json json = {.out = &out, .pretty = true};

    add_cell(&cells, "KEY", &out);
    add_cell(&cells, "VALUE", &out);
    add_cell(&cells, "WHY", &out);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "profile", profile->name);
    coto_json_str(&json, "summary", profile->summary);
    coto_json_begin(&json, "options", '[');
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (coto_opt_is_policy((enum coto_opt)i))
            add_value(profile, policy, (enum coto_opt)i, &cells, &json);
    coto_json_end(&json, ']');
    coto_json_end(&json, '}');
    if (!as_json) {
        coto_buf_clear(&out);
        coto_buf_addf(&out, "%s: %s\n\n", profile->name, profile->summary);
        coto_cli_add_table(&out, &cells, 3);
    }
    return coto_cli_print(&out);
}

static int show_profile(const char *name, bool json)
{
    struct coto_policy policy;
    struct coto_err err = {0};

    if (coto_policy_init(&policy, &err))
        return coto_cli_fail_as(json, &err);
    int status;
    if (coto_policy_apply_profile(&policy, name, &err)) {
        coto_err_remedy(&err, "'coto profiles' lists all of them");
        status = coto_cli_fail_as(json, &err);
    } else {
        status = print_profile(find_profile(name), &policy, json);
    }
    coto_policy_fini(&policy);
    return status;
}

int coto_cli_profiles(int argc, char **argv, char **envp)
{
    static const struct coto_args_spec spec = {.flags_anywhere = true};
    bool json = coto_args_want_json(&spec, argv, envp);
    const char *words[2] = {0};
    int count = 0;
    struct coto_err err = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return coto_cli_help_verb("profiles", NULL);
        if (strcmp(argv[i], "--json") == 0)
            continue;
        if (count < 2)
            words[count] = argv[i];
        count++;
    }
    if (count == 0 || (count == 1 && strcmp(words[0], "list") == 0))
        return list_profiles(json);
    if (count == 2 && strcmp(words[0], "show") == 0)
        return show_profile(words[1], json);
    if (count == 1 && strcmp(words[0], "show") == 0)
        coto_err_set(&err, COTO_ERR_USAGE, 0, "profiles show: which profile?");
    else if (count > 2)
        coto_err_set(&err, COTO_ERR_USAGE, 0, "profiles: too many arguments");
    else
        coto_err_set(&err, COTO_ERR_USAGE, 0, "profiles: '%.60s' is not known here", words[0]);
    coto_err_remedy(&err, "coto profiles [--json], or coto profiles show NAME [--json]");
    return coto_cli_fail_as(json, &err);
}
