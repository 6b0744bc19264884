/* coto run: one program, one sandbox, one result. */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/remote.h"
#include "cli/verb.h"
#include "drivers/driver.h"

#include "base/fd.h"
#include "lib/job.h"
#include "report/escape.h"
#include "report/json.h"
#include "report/text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct run {
    struct coto_job job;
    struct coto_args args;
    struct coto_buf text; /* code from stdin */
    struct coto_escape escape[2];
    int signal_fd;
    bool stdin_is_code;
    bool json;
};

static bool flag(const struct run *run, enum coto_opt opt)
{
    return coto_policy_num(&run->job.policy, opt) != 0;
}

/* ---- what to run ---- */

static int no_program(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "run: nothing to run");
    return coto_err_remedy(err, "coto run FILE, coto run -c CODE --lang LANGUAGE, coto run - or coto "
                                "run -- COMMAND; see coto run --help");
}

static int read_stdin_code(struct run *run, struct coto_err *err)
{
    if (coto_fd_read_all(0, COTO_JOB_TEXT_MAX, &run->text)) {
        if (errno != EFBIG)
            return coto_err_set(err, COTO_ERR_INPUT, errno, "run: read the code from stdin");
        coto_err_set(err, COTO_ERR_INPUT, 0, "run: stdin: code may be 64 MiB at most");
        return coto_err_remedy(err, "bring large data with --copy or --mount");
    }
    run->job.code.text = coto_buf_str(&run->text);
    run->job.code.text_len = run->text.len;
    run->stdin_is_code = true;
    return 0;
}

static int find_code(struct run *run, struct coto_err *err)
{
    const char *code = coto_policy_str(&run->job.policy, COTO_OPT_CODE);
    bool has_code = run->job.policy.v[COTO_OPT_CODE].source != COTO_SOURCE_DEFAULT;
    char **rest = run->args.rest;

    run->job.code.is_watched = !run->json && isatty(1);
    if (has_code) {
        run->job.code.text = code;
        run->job.code.text_len = strlen(code);
        run->job.code.argv = (const char *const *)rest;
        return 0;
    }
    if (run->args.count == 0)
        return no_program(err);
    if (run->args.after_dashes) {
        run->job.code.argv = (const char *const *)rest;
        run->job.code.is_command = true;
        return 0;
    }
    run->job.code.argv = (const char *const *)rest + 1;
    if (strcmp(rest[0], "-") == 0)
        return read_stdin_code(run, err);
    run->job.code.file = rest[0];
    return 0;
}

/* ---- running ---- */

static void neutralise(void *arg, int which, const char *data, size_t len, struct coto_buf *out)
{
    struct run *run = arg;

    coto_escape_add(&run->escape[which - 1], data, len, out);
}

static int execute(struct run *run, struct coto_err *err)
{
    bool raw = flag(run, COTO_OPT_RAW);
    struct coto_io io = {
        .in_fd = run->stdin_is_code ? -1 : 0,
        .out_fd = run->json ? -1 : 1,
        .err_fd = run->json ? -1 : 2,
        .capture = run->json,
        .filter = neutralise,
        .filter_arg = run,
        .filter_out = !raw && !run->json && isatty(1),
        .filter_err = !raw && !run->json && isatty(2),
        .cancel_fd = run->signal_fd,
        .progress = flag(run, COTO_OPT_VERBOSE) ? coto_cli_show_step : NULL,
    };

    run->job.plan.want_artifacts = run->json;
    return coto_job_run(&run->job, &io, err);
}

/* ---- telling ---- */

static int print_json(const struct run *run)
{
    coto_auto_buf buf = {0};
    struct coto_json json = {.out = &buf, .pretty = isatty(1)};

    coto_report_json(&run->job.result, &run->job.plan, &json);
    if (!json.pretty)
        coto_buf_addc(&buf, '\n');
    return coto_cli_print(&buf);
}

static void print_closing(const struct run *run)
{
    coto_auto_buf buf = {0};

    if (run->json || flag(run, COTO_OPT_QUIET) || !isatty(2))
        return;
    coto_report_text_closing(&run->job.result, &run->job.plan, isatty(1), &buf);
    coto_fd_write_closing(2, buf.data, buf.len);
}

/* Also where nobody looks on: who collects files must hear of those that are missing. */
static void tell_left_out(const struct run *run)
{
    coto_auto_buf buf = {0};

    if (run->json || !*coto_policy_str(&run->job.policy, COTO_OPT_ARTIFACTS))
        return;
    coto_report_text_left_out(run->job.result.artifacts_skipped, &buf);
    (void)coto_fd_write_all(2, coto_buf_str(&buf), buf.len);
}

static int run_planned(struct run *run)
{
    struct coto_err err = {0};

    run->signal_fd = coto_cli_catch_signals(&err);
    if (run->signal_fd < 0 || execute(run, &err))
        return coto_cli_fail_as(run->json, &err);
    struct coto_result *result = &run->job.result;
    int status = coto_cli_signal_status(run->signal_fd, result, result->exit_status);
    result->exit_status = status; /* what the result says is what we end with */
    if (run->json) {
        int failed = print_json(run);
        status = failed ? failed : status;
    }
    print_closing(run);
    tell_left_out(run);
    if (coto_job_write_report(&run->job, &err))
        status = coto_cli_fail(&err);
    return status;
}

static int run_prepared(int argc, char **argv, char **envp)
{
    static struct run run;
    struct coto_err err = {0};
    int status;

    run.json = coto_args_want_json(NULL, argv, envp);
    if (coto_args_policy(argc, argv, envp, &run.job.policy, &run.args, &err))
        return coto_cli_fail_as(run.json, &err);
    run.json = flag(&run, COTO_OPT_JSON);
    if (run.args.help)
        status = coto_cli_help_verb("run", NULL);
    else if (*coto_policy_str(&run.job.policy, COTO_OPT_SERVER))
        status = find_code(&run, &err) || coto_cli_run_remote(&run.job, run.stdin_is_code, &err)
                     ? coto_cli_fail_as(run.json, &err)
                     : 0;
    else if (find_code(&run, &err) || coto_job_plan(&run.job, &err))
        status = coto_cli_fail_as(run.json, &err);
    else if (flag(&run, COTO_OPT_DRY_RUN))
        status = coto_cli_print_plan(&run.job.plan);
    else
        status = run_planned(&run);
    return status; /* the process ends: the kernel frees faster than we do */
}

int coto_cli_run(int argc, char **argv, char **envp)
{
    coto_cli_fill_stdio();
    coto_driver_prepare();
    int status = run_prepared(argc, argv, envp);
    coto_driver_discard();
    return status;
}
