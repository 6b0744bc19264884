/* The command line → policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "policy/helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORDS 32

static char *no_env[] = {NULL};
static char **use_env = no_env;
static struct coto_policy policy;
static struct coto_args rest;
static struct coto_err err;
static char *words[MAX_WORDS];
static bool is_open;

static void close_policy(void)
{
    if (is_open)
        coto_policy_fini(&policy);
    is_open = false;
}

static int teardown(void **state)
{
    (void)state;
    close_policy();
    use_env = no_env;
    return 0;
}

static void split(const char *line)
{
    static char text[1024];
    int n = 0;

    snprintf(text, sizeof text, "run %s", line);
    for (char *word = strtok(text, " "); word && n < MAX_WORDS - 1; word = strtok(NULL, " "))
        words[n++] = word;
    words[n] = NULL;
}

static int parse_with(const struct coto_args_spec *spec, const char *line)
{
    close_policy();
    split(line);
    memset(&err, 0, sizeof err);
    int failed = coto_args_policy_with(spec, words, use_env, &policy, &rest, &err);
    is_open = !failed;
    return failed;
}

static void assert_parses(const char *line)
{
    if (parse_with(NULL, line))
        fail_msg("%s: %s", line, err.text);
}

static void assert_refused(const char *line, int kind, const char *text)
{
    if (parse_with(NULL, line) == 0)
        fail_msg("%s: accepted", line);
    assert_int_equal(err.kind, kind);
    if (!strstr(err.text, text))
        fail_msg("%s: '%s' does not hold '%s'", line, err.text, text);
}

static void flags(void **state)
{
    (void)state;
    assert_parses("--memory 64m --pids=7 --noexec --json --env A=1 --env=B=2=3 --cap-add "
                  "chown,setuid --cap-add setgid x.py --memory 1");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_MEMORY), 64 << 20);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_PIDS), 7);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_NOEXEC), 1);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_JSON), 1);
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_ENV)->count, 2);
    assert_string_equal(coto_policy_list(&policy, COTO_OPT_ENV)->items[1], "B=2=3");
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_CAP_ADD)->count, 3);
    assert_string_equal(policy.v[COTO_OPT_PIDS].origin, "--pids");
    /* The program's own arguments are not ours. */
    assert_int_equal(rest.count, 3);
    assert_string_equal(rest.rest[0], "x.py");
    assert_string_equal(rest.rest[1], "--memory");
    assert_null(rest.rest[3]);
    assert_false(rest.after_dashes);
}

static void booleans(void **state)
{
    char *envp[] = {"COTO_NOEXEC=true", "COTO_QUIET=true", NULL};

    (void)state;
    use_env = envp;
    assert_parses("");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_NOEXEC), 1);
    assert_parses("--no-noexec --quiet=false");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_NOEXEC), 0);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_QUIET), 0);
    use_env = no_env;
    assert_refused("--no-noexec=true", COTO_ERR_USAGE, "--no-noexec: takes no value");
    assert_refused("--json=1", COTO_ERR_POLICY, "--json: '1'");
    assert_refused("--no-memory", COTO_ERR_USAGE, "--no-memory: no such flag");
}

static void short_flags(void **state)
{
    (void)state;
    assert_parses("-q -v -c print(1) a b");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_QUIET), 1);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_VERBOSE), 1);
    assert_string_equal(coto_policy_str(&policy, COTO_OPT_CODE), "print(1)");
    assert_int_equal(rest.count, 2);
    assert_parses("-cx=1");
    assert_string_equal(coto_policy_str(&policy, COTO_OPT_CODE), "x=1");
    assert_refused("-qv", COTO_ERR_USAGE, "-qv: no such flag");
    assert_refused("-x", COTO_ERR_USAGE, "-x: no such flag");
}

static void ends_of_flags(void **state)
{
    (void)state;
    assert_parses("");
    assert_int_equal(rest.count, 0);
    assert_null(rest.rest[0]);
    assert_parses("-- ls -l --json");
    assert_true(rest.after_dashes);
    assert_int_equal(rest.count, 3);
    assert_string_equal(rest.rest[0], "ls");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_JSON), 0);
    assert_parses("- x");
    assert_false(rest.after_dashes);
    assert_string_equal(rest.rest[0], "-");
    assert_parses("a -- b");
    assert_false(rest.after_dashes); /* it is the program's */
    assert_int_equal(rest.count, 3);
    assert_parses("--");
    assert_true(rest.after_dashes);
    assert_int_equal(rest.count, 0);
}

static void help(void **state)
{
    (void)state;
    assert_parses("--help");
    assert_true(rest.help);
    assert_parses("-h");
    assert_true(rest.help);
    assert_parses("x -h");
    assert_false(rest.help);
    /* Help is given whatever the environment holds. */
    char *envp[] = {"COTO_NONSENSE=1", NULL};
    use_env = envp;
    assert_parses("--help");
    assert_true(rest.help);
    assert_refused("x", COTO_ERR_USAGE, "COTO_NONSENSE");
}

static void refusals(void **state)
{
    (void)state;
    assert_refused("--memroy 1g", COTO_ERR_USAGE, "--memroy: no such flag");
    assert_string_equal(err.remedy, "did you mean --memory?");
    assert_refused("--memroy=1g", COTO_ERR_USAGE, "--memroy: no such flag");
    assert_refused("--memory", COTO_ERR_USAGE, "--memory: needs a value");
    assert_refused("--memory 3x", COTO_ERR_POLICY,
                   "--memory: '3x' is not a size; allowed: 4m to none, for example 256m");
    assert_refused("--profile nope", COTO_ERR_POLICY, "'nope' is not a profile");
    assert_refused("--=x", COTO_ERR_USAGE, "no such flag");
    assert_refused("--help=x", COTO_ERR_USAGE, "no such flag");
}

static void a_failure_leaves_outputs_alone(void **state)
{
    struct coto_policy untouched;
    struct coto_args also;

    (void)state;
    memset(&untouched, 0x5a, sizeof untouched);
    memset(&also, 0x5a, sizeof also);
    split("--pids 5 --memory x");
    assert_int_equal(coto_args_policy(4, words, no_env, &untouched, &also, &err), -1);
    for (size_t i = 0; i < sizeof untouched; i++)
        assert_int_equal(((unsigned char *)&untouched)[i], 0x5a);
    for (size_t i = 0; i < sizeof also; i++)
        assert_int_equal(((unsigned char *)&also)[i], 0x5a);
}

static void precedence(void **state)
{
    char path[] = "/tmp/coto-test-args-XXXXXX";
    static const char text[] = "memory: 40m\ncpus: 0.4\n";
    char line[128], *envp[] = {"COTO_MEMORY=30m", "COTO_CPUS=0.3", "COTO_DISK=3m", NULL};
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    use_env = envp;
    /* The profile is named last and is still the weakest. */
    snprintf(line, sizeof line, "--memory 50m --policy %s --profile enis", path);
    assert_parses(line);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_MEMORY), 50 << 20);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_CPUS), 400);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_DISK), 3 << 20);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_TMP_SIZE), 256 << 20);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_NOFILE), 1024);
    assert_int_equal(policy.v[COTO_OPT_MEMORY].source, COTO_SOURCE_FLAG);
    assert_int_equal(policy.v[COTO_OPT_CPUS].source, COTO_SOURCE_FILE);
    assert_int_equal(policy.v[COTO_OPT_DISK].source, COTO_SOURCE_ENV);
    assert_int_equal(policy.v[COTO_OPT_TMP_SIZE].source, COTO_SOURCE_PROFILE);
    assert_int_equal(policy.v[COTO_OPT_NOFILE].source, COTO_SOURCE_DEFAULT);
    unlink(path);
}

static void environment_names_the_profile(void **state)
{
    char *envp[] = {"COTO_PROFILE=gemini", NULL};

    (void)state;
    use_env = envp;
    assert_parses("x");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_PIDS), 50);
    assert_parses("--profile ia-libre x");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_PIDS), 64);
    assert_string_equal(coto_policy_str(&policy, COTO_OPT_PROFILE), "ia-libre");
    char *e2b[] = {"SANDBOX_TYPE=e2b", NULL};
    use_env = e2b;
    assert_refused("x", COTO_ERR_UNAVAILABLE, "SANDBOX_TYPE=e2b");
    assert_parses("--isolation process x"); /* a flag has the last word */
}

static void own_flags(void **state)
{
    const char *junit = NULL, *fast = NULL;
    const struct coto_args_flag list[] = {
        {"junit", "FILE", "write JUnit XML", &junit}, {"fast", NULL, "be quick", &fast}, {0}};
    const struct coto_args_spec spec = {.flags = list, .flags_anywhere = true};

    (void)state;
    assert_int_equal(parse_with(&spec, "sub --junit o.xml --pids 9 tests --fast -- --json"), 0);
    assert_string_equal(junit, "o.xml");
    assert_string_equal(fast, "");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_PIDS), 9);
    assert_int_equal(rest.count, 3);
    assert_string_equal(rest.rest[0], "sub");
    assert_string_equal(rest.rest[1], "tests");
    assert_string_equal(rest.rest[2], "--json");
    assert_null(rest.rest[3]);
    assert_int_equal(parse_with(&spec, "--fast=1"), -1);
    assert_int_equal(parse_with(&spec, "--junit"), -1);
    assert_int_equal(parse_with(&spec, "--juint o.xml"), -1);
    assert_string_equal(err.remedy, "did you mean --junit?");
}

static bool wants(const struct coto_args_spec *spec, const char *line, char **envp)
{
    split(line);
    return coto_args_want_json(spec, words, envp);
}

static void json_is_wanted(void **state)
{
    static const struct coto_args_spec anywhere = {.flags_anywhere = true};
    char *envp[] = {"COTO_JSON=true", NULL};

    (void)state;
    assert_true(wants(NULL, "--bad --json x", no_env));
    assert_true(wants(NULL, "--memory 3x --json", no_env));
    assert_false(wants(NULL, "x --json", no_env));
    assert_true(wants(&anywhere, "x --json", no_env));
    assert_false(wants(NULL, "-- --json", no_env));
    assert_false(wants(NULL, "-c --json", no_env)); /* that is the code */
    assert_true(wants(NULL, "x", envp));
    assert_false(wants(NULL, "--no-json x", envp));
    assert_false(wants(NULL, "--json=false x", envp));
}

static void visible_text(void **state)
{
    struct coto_buf out = {0};

    (void)state;
    coto_cli_add_visible(&out, "a\x1b[31m\n\xc2\x9b" "b\xff\xc3\xa9\xe2\x80\xae\xc3");
    assert_string_equal(coto_buf_str(&out), "a\\x1b[31m\\x0a\\u009bb\\xff\xc3\xa9\\u202e\\xc3");
    coto_buf_fini(&out);
}

static void help_names_every_option(void **state)
{
    struct coto_buf out = {0};

    (void)state;
    coto_cli_help_text("run", NULL, &out);
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        char flag[80];
        snprintf(flag, sizeof flag, "--%s", coto_options[i].name);
        if (!strstr(coto_buf_str(&out), flag))
            fail_msg("%s is missing", flag);
    }
    for (const char *line = coto_buf_str(&out); *line;) {
        size_t n = strcspn(line, "\n");
        assert_true(n <= 100);
        assert_true(n == 0 || line[n - 1] != ' ');
        line += n + (line[n] == '\n');
    }
    coto_buf_fini(&out);
}

#define T(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(flags), T(booleans), T(short_flags), T(ends_of_flags), T(help), T(refusals),
        T(a_failure_leaves_outputs_alone), T(precedence), T(environment_names_the_profile),
        T(own_flags), T(json_is_wanted), T(visible_text), T(help_names_every_option),
    };
    coto_helper_dir = getenv("COTO_TEST_BIN");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
