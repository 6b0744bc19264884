/* coto test: a submission and its tests, run together in a sandbox; one row per
 * test case (R1.5). The tests are copied over the submission, so that a file of
 * the same name in the submission never takes a test's place. */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/testdirs.h"
#include "cli/verb.h"

#include "base/fd.h"
#include "base/units.h"
#include "drivers/driver.h"
#include "lib/job.h"
#include "report/escape.h"
#include "report/json.h"
#include "report/testcases.h"
#include "report/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_SHOWN ((size_t)8192)
#define SILENT_FILES 1000

struct test {
    struct coto_job job;
    struct coto_args args;
    struct coto_testdirs dirs;
    const char *runner_name;
    const char *junit_file;
    int junit_fd;
    const struct coto_runner *runner;
    struct coto_cases cases;
    bool passed;
    bool json;
    int signal_fd;
};

/* ---- preparing ---- */

static int check_operands(const struct test *test, struct coto_err *err)
{
    static const enum coto_opt not_here[] = {COTO_OPT_CODE, COTO_OPT_LANG};

    if (test->args.count < 1 || test->args.count > 2) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "test: %s",
                     test->args.count ? "too many folders" : "which submission?");
        return coto_err_remedy(err, "coto test SUBMISSION_DIR [TESTS_DIR]");
    }
    for (size_t i = 0; i < sizeof not_here / sizeof not_here[0]; i++) {
        if (test->job.policy.v[not_here[i]].source != COTO_SOURCE_FLAG)
            continue;
        coto_err_set(err, COTO_ERR_USAGE, 0, "--%s: coto test runs a folder, not code",
                     coto_options[not_here[i]].name);
        return coto_err_remedy(err, "coto test SUBMISSION_DIR [TESTS_DIR]");
    }
    return 0;
}

/* Here it would run where it was not meant to. Without a service the other flags mean nothing; as
 * variables they may be there for `coto run`. */
static int check_service(const struct coto_policy *policy, struct coto_err *err)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        const struct coto_value *value = &policy->v[i];
        if (coto_verb_has_section("test", coto_options[i].section) ||
            !*coto_policy_str(policy, (enum coto_opt)i) ||
            (i != COTO_OPT_SERVER && value->source != COTO_SOURCE_FLAG))
            continue;
        coto_err_set(err, COTO_ERR_USAGE, 0, "%s: coto test runs on this host only", value->origin);
        return value->source == COTO_SOURCE_FLAG
                   ? coto_err_remedy(err, "leave it out; a service runs code: coto run --server URL")
                   : coto_err_remedy(err, "unset %s, or give --server ''", value->origin);
    }
    return 0;
}

static int choose_runner(struct test *test, struct coto_err *err)
{
    coto_auto_buf names = {0};

    if (!test->runner_name)
        return coto_testdirs_detect(&test->dirs, coto_policy_str(&test->job.policy, COTO_OPT_ROOTFS),
                                    &test->runner, err);
    test->runner = coto_runner_find(test->runner_name);
    if (test->runner)
        return 0;
    for (size_t i = 0; i < coto_runner_count; i++)
        coto_buf_addf(&names, "%s%s", i ? ", " : "", coto_runners[i].name);
    coto_err_set(err, COTO_ERR_USAGE, 0, "--runner: '%s' is not a known runner",
                 test->runner_name);
    return coto_err_remedy(err, "choose among: %s", coto_buf_str(&names));
}

/* Both folders go before what --copy named: first the submission, then the
 * tests over it. */
static int add_copies(struct test *test, struct coto_err *err)
{
    struct coto_strv *list = &test->job.policy.v[COTO_OPT_COPY].list;
    const char *const folders[] = {test->dirs.submission, test->dirs.tests};
    struct coto_strv all = {0};
    bool failed = false;

    for (size_t i = 0; i < 2 && folders[i]; i++) {
        coto_auto_buf item = {0};
        coto_buf_addf(&item, "%s:.", folders[i]);
        failed = failed || item.failed || coto_strv_add(&all, coto_buf_str(&item));
    }
    for (size_t i = 0; i < list->count; i++)
        failed = failed || coto_strv_add(&all, list->items[i]);
    if (failed) {
        coto_strv_fini(&all);
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "test");
    }
    coto_strv_fini(list);
    *list = all;
    return 0;
}

static int make_plan(struct test *test, struct coto_err *err)
{
    coto_auto_buf script = {0};

    coto_buf_adds(&script, coto_runner_prelude);
    coto_buf_adds(&script, test->runner->script);
    if (script.failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "test");
    const char *argv[] = {"sh", "-c", coto_buf_str(&script), "coto-test", NULL};
    test->job.code = (struct coto_source_code){.argv = argv, .is_command = true};
    int failed = add_copies(test, err) || coto_job_plan(&test->job, err);
    test->job.code.argv = NULL; /* the plan has its own copy */
    if (failed)
        return -1;
    if (coto_plan_has_tool(&test->job.plan, test->runner->tool))
        return 0;
    coto_err_set(err, COTO_ERR_TOOL, 0, "%s: '%s' is not in the sandbox", test->runner->name,
                 test->runner->tool);
    return coto_err_remedy(err, "install it: apt install %s", test->runner->package);
}

static int prepare(struct test *test, struct coto_err *err)
{
    if (check_operands(test, err) || check_service(&test->job.policy, err))
        return -1;
    const char *tests = test->args.count > 1 ? test->args.rest[1] : NULL;
    if (coto_testdirs_open(test->args.rest[0], tests, &test->dirs, err) ||
        coto_testdirs_check(&test->dirs, err) || choose_runner(test, err))
        return -1;
    return make_plan(test, err);
}

/* ---- running ---- */

/* A path inside, as it is called in the folders outside. */
static const char *outside_path(const struct test *test, const char *path)
{
    const char *const tops[] = {test->job.plan.workdir, COTO_RUNNER_COPY};

    for (size_t i = 0; i < 2; i++)
        if (coto_str_has_prefix(path, tops[i]) && path[strlen(tops[i])] == '/')
            return path + strlen(tops[i]) + 1;
    return path;
}

/* A file of node's that says it is made of tests and ran none has been ended
 * from within, by the code under test. */
static void check_silent_files(struct test *test)
{
    size_t files = 0;

    for (size_t i = 0; i < test->cases.count; i++) {
        struct coto_case *item = &test->cases.items[i];
        if (!item->is_file || !item->passed)
            continue;
        /* Past so many nobody looks any more: then it is taken to be so. */
        if (files++ < SILENT_FILES &&
            !coto_testdirs_file_holds(&test->dirs, outside_path(test, item->name), "node:test"))
            continue;
        item->passed = item->skipped = false;
        coto_buf_adds(&item->message, "it ended without running any of its tests");
    }
}

static int execute(struct test *test, struct coto_err *err)
{
    struct coto_io io = {
        .in_fd = -1,
        .out_fd = -1,
        .err_fd = -1,
        .capture = true,
        .cancel_fd = test->signal_fd,
        .progress = coto_policy_num(&test->job.policy, COTO_OPT_VERBOSE) ? coto_cli_show_step : NULL,
    };

    int failed = coto_job_run(&test->job, &io, err);
    coto_driver_discard();
    if (failed)
        return -1;
    const struct coto_result *result = &test->job.result;
    bool ended_itself =
        result->verdict == COTO_VERDICT_OK || result->verdict == COTO_VERDICT_NONZERO;
    int exit_code = ended_itself ? result->exit_code : -1;
    coto_cases_parse(test->runner, &result->out.data, exit_code, &test->cases);
    check_silent_files(test);
    test->passed = coto_cases_passed(&test->cases, exit_code) && !result->out.truncated;
    return 0;
}

/* ---- telling ---- */

static void add_json_case(struct coto_json *json, const struct coto_case *item)
{
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "name", item->name);
    coto_json_str(json, "suite", item->suite);
    coto_json_bool(json, "passed", item->passed);
    coto_json_bool(json, "skipped", item->skipped);
    if (item->duration_us < 0)
        coto_json_null(json, "duration_ms");
    else
        coto_json_ms(json, "duration_ms", item->duration_us);
    if (item->message.len > 0)
        coto_json_strn(json, "message", item->message.data, item->message.len);
    else
        coto_json_null(json, "message");
    coto_json_end(json, '}');
}

static int print_json(const struct test *test)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = isatty(1)};
    const struct coto_result *result = &test->job.result;

    coto_json_begin(&json, NULL, '{');
    coto_json_int(&json, "schema_version", COTO_RESULT_SCHEMA);
    coto_json_str(&json, "execution_id", result->id);
    coto_json_str(&json, "runner", test->runner->name);
    coto_json_bool(&json, "passed", test->passed);
    coto_report_json_outcome(result, &json);
    coto_json_begin(&json, "cases", '[');
    for (size_t i = 0; i < test->cases.count; i++)
        add_json_case(&json, &test->cases.items[i]);
    coto_json_end(&json, ']');
    coto_json_bytes(&json, "output", coto_buf_str(&result->out.data), result->out.data.len);
    coto_json_int(&json, "output_bytes_seen", result->out.seen);
    coto_json_bool(&json, "output_truncated", result->out.truncated);
    coto_json_str(&json, "started_at", result->started_at);
    coto_json_str(&json, "profile", result->profile);
    coto_json_str(&json, "policy_hash", result->policy_hash);
    coto_report_json_walls(result->walls, &json);
    coto_json_end(&json, '}');
    if (!json.pretty)
        coto_buf_addc(&out, '\n');
    return coto_cli_print(&out);
}

static void add_escaped(struct coto_buf *out, const char *data, size_t len)
{
    struct coto_escape escape = {0};

    coto_escape_add(&escape, data, len, out);
    coto_escape_end(&escape, out);
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        coto_buf_addc(out, '\n');
}

static void add_row(struct coto_strv *cells, const struct coto_case *item, bool with_suite)
{
    coto_auto_buf time = {0}, name = {0};

    if (item->duration_us == 0)
        coto_buf_adds(&time, "0 ms"); /* runners round; microseconds would claim too much */
    else if (item->duration_us > 0)
        coto_units_add_time_rounded(&time, item->duration_us);
    if (with_suite && item->suite) {
        coto_cli_add_visible(&name, item->suite);
        coto_buf_addc(&name, ' ');
    }
    coto_cli_add_visible(&name, item->name);
    coto_strv_add(cells, item->skipped ? "skip" : item->passed ? "pass" : "FAIL");
    coto_strv_add(cells, coto_buf_str(&time));
    coto_strv_add(cells, coto_buf_str(&name));
}

static void add_table(const struct test *test, struct coto_buf *out)
{
    const struct coto_cases *cases = &test->cases;
    coto_auto_strv cells = {0};
    bool with_suite = false;

    for (size_t i = 1; i < cases->count; i++)
        with_suite = with_suite || (cases->items[i].suite && cases->items[0].suite &&
                                    strcmp(cases->items[i].suite, cases->items[0].suite) != 0);
    coto_strv_add(&cells, "RESULT");
    coto_strv_add(&cells, "TIME");
    coto_strv_add(&cells, "CASE");
    for (size_t i = 0; i < cases->count; i++)
        add_row(&cells, &cases->items[i], with_suite);
    if (cases->count > 0)
        coto_cli_add_table(out, &cells, 3);
    for (size_t i = 0; i < cases->count; i++) {
        const struct coto_case *item = &cases->items[i];
        if (item->passed || item->message.len == 0)
            continue;
        coto_buf_adds(out, "\n--- ");
        coto_cli_add_visible(out, item->name);
        coto_buf_addc(out, '\n');
        add_escaped(out, item->message.data, item->message.len);
    }
}

/* The runner's own words, when no case says what went wrong (or all are wanted). */
static void add_output(const struct test *test, struct coto_buf *out)
{
    const struct coto_buf *output = &test->job.result.out.data;
    const struct coto_cases *cases = &test->cases;
    bool all = coto_policy_num(&test->job.policy, COTO_OPT_VERBOSE) != 0;
    bool silent = cases->count == 0;

    for (size_t i = 0; i < cases->count; i++)
        silent = silent || (!cases->items[i].passed &&
                            (strcmp(cases->items[i].name, test->runner->name) == 0 ||
                             strcmp(cases->items[i].name, "make test") == 0));
    if (!all && !silent)
        return;
    size_t from = !all && output->len > OUTPUT_SHOWN ? output->len - OUTPUT_SHOWN : 0;
    if (from > 0)
        coto_buf_adds(out, "[...]\n");
    add_escaped(out, coto_buf_str(output) + from, output->len - from);
    coto_buf_addc(out, '\n');
}

static void add_closing(const struct test *test, struct coto_buf *out)
{
    const struct coto_result *result = &test->job.result;
    size_t failed = coto_cases_count_failed(&test->cases);
    size_t skipped = coto_cases_count_skipped(&test->cases);
    coto_auto_buf reason = {0};

    coto_buf_adds(out, test->cases.count ? "\n" : "");
    if (result->verdict != COTO_VERDICT_OK && result->verdict != COTO_VERDICT_NONZERO) {
        coto_report_text_reason(result, &test->job.plan, &reason);
        coto_buf_addf(out, "%s: %s\n", coto_verdict_word(result->verdict), coto_buf_str(&reason));
    }
    if (result->out.truncated)
        coto_buf_adds(out, "the output was cut, so the cases may be incomplete; "
                           "see --output-limit\n");
    if (test->cases.count == 0)
        coto_buf_addf(out, "no test case was found in what %s printed\n", test->runner->name);
    coto_buf_addf(out, "%zu passed, %zu failed", test->cases.count - failed - skipped, failed);
    if (skipped)
        coto_buf_addf(out, ", %zu skipped", skipped);
    coto_buf_addc(out, '\n');
}

static int print_table(const struct test *test)
{
    coto_auto_buf out = {0};

    add_output(test, &out);
    add_table(test, &out);
    if (!coto_policy_num(&test->job.policy, COTO_OPT_QUIET))
        add_closing(test, &out);
    return coto_cli_print(&out);
}

static int fail_junit(const struct test *test, int error, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_OUTPUT, error, "--junit: '%s'", test->junit_file);
    if (error == EFBIG)
        return -1;
    if (error == ELOOP)
        return coto_err_remedy(err, "name the file itself: a link may have been put there");
    return coto_err_remedy(err, "name a file in a directory that exists and can be written to");
}

/* Not every file can be cut: it may be a pipe. */
static int cut_junit(const struct test *test)
{
    return ftruncate(test->junit_fd, 0) && errno != EINVAL ? -1 : 0;
}

/* Before the run: afterwards a program may have put a link there (RI-04). A submission may
 * bring one, or a FIFO to wait for; links of /dev (stdout) are the host's. */
static int open_junit(struct test *test, struct coto_err *err)
{
    if (!test->junit_file)
        return 0;
    const char *file = test->junit_file;
    bool is_own = coto_str_has_prefix(file, "/dev/") || coto_str_has_prefix(file, "/proc/self/fd/");
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (is_own ? 0 : O_NOFOLLOW);
    test->junit_fd = open(file, flags, 0644);
    if (test->junit_fd < 0 || coto_fd_set_nonblock(test->junit_fd, 0))
        return fail_junit(test, errno, err);
    /* Whatever happens now, the cases of a run before this one are not taken for its own. */
    return cut_junit(test) ? fail_junit(test, errno, err) : 0;
}

/* Why it did not pass, when no case says so; else NULL. */
static const char *untold_failure(const struct test *test)
{
    const struct coto_cases *cases = &test->cases;

    if (test->passed || coto_cases_count_failed(cases) > 0)
        return NULL;
    if (test->job.result.out.truncated)
        return "the output was cut, so the cases may be incomplete";
    if (cases->count == 0)
        return "no test case was found in what the runner printed";
    return cases->count == coto_cases_count_skipped(cases) ? "every test case was skipped"
                                                           : "the runner itself failed";
}

static int write_junit(const struct test *test, struct coto_err *err)
{
    coto_auto_buf xml = {0}, name = {0};

    if (!test->junit_file)
        return 0;
    coto_buf_addf(&name, "coto test (%s)", test->runner->name);
    struct coto_junit junit = {
        .name = coto_buf_str(&name),
        .started_at = test->job.result.started_at,
        .duration_us = test->job.result.duration_us,
        .cases = &test->cases,
        .output = &test->job.result.out.data,
        .error = untold_failure(test),
    };
    coto_junit_xml(&junit, &xml);
    if (!xml.failed && cut_junit(test) == 0 &&
        coto_fd_write_all(test->junit_fd, coto_buf_str(&xml), xml.len) == 0)
        return 0;
    int error = xml.failed ? ENOMEM : errno;
    (void)cut_junit(test); /* of a pipe what was written has been read */
    return fail_junit(test, error, err);
}

/* Time and memory keep their own statuses, and so does the caller's signal. */
static int exit_status(const struct test *test)
{
    const struct coto_result *result = &test->job.result;

    if (result->verdict == COTO_VERDICT_TIMEOUT || result->verdict == COTO_VERDICT_OOM)
        return result->exit_status;
    return coto_cli_signal_status(test->signal_fd, result, test->passed ? 0 : 1);
}

static int run_planned(struct test *test)
{
    struct coto_err err = {0};

    test->signal_fd = coto_cli_catch_signals(&err);
    if (test->signal_fd < 0 || open_junit(test, &err) || execute(test, &err))
        return coto_cli_fail_as(test->json, &err);
    int status = exit_status(test);
    test->job.result.exit_status = status; /* what the result says is what we end with */
    int failed = test->json ? print_json(test) : print_table(test);
    if (failed)
        status = failed;
    if (write_junit(test, &err) || coto_job_write_report(&test->job, &err))
        status = coto_cli_fail(&err);
    return status;
}

int coto_cli_test(int argc, char **argv, char **envp)
{
    static struct test test = {.dirs = {.submission_fd = -1, .tests_fd = -1}, .junit_fd = -1};
    const struct coto_args_flag flags[] = {
#define X(field, name, metavar, help) {name, metavar, help, &test.field},
        COTO_TEST_FLAGS(X)
#undef X
        {NULL, NULL, NULL, NULL},
    };
    const struct coto_args_spec spec = {.flags = flags, .flags_anywhere = true};
    struct coto_err err = {0};
    int status;

    (void)argc;
    coto_cli_fill_stdio();
    test.json = coto_args_want_json(&spec, argv, envp);
    if (coto_args_policy_with(&spec, argv, envp, &test.job.policy, &test.args, &err))
        return coto_cli_fail_as(test.json, &err);
    test.json = coto_policy_num(&test.job.policy, COTO_OPT_JSON) != 0;
    if (test.args.help)
        status = coto_cli_help_verb("test", flags);
    else if (prepare(&test, &err))
        status = coto_cli_fail_as(test.json, &err);
    else if (coto_policy_num(&test.job.policy, COTO_OPT_DRY_RUN))
        status = coto_cli_print_plan(&test.job.plan);
    else
        status = run_planned(&test);
    coto_own_close(&test.junit_fd);
    coto_cases_fini(&test.cases);
    coto_job_fini(&test.job);
    coto_testdirs_close(&test.dirs);
    return status;
}
