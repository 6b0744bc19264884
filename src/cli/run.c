/* coto run: one program, one sandbox, one result. */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/verb.h"

#include "base/fd.h"
#include "base/units.h"
#include "core/run.h"
#include "report/escape.h"
#include "report/json.h"
#include "report/reportfile.h"
#include "report/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_MAX ((size_t)64 << 20)
#define JSON_KEEP (10 * COTO_MB)

struct run {
    struct coto_policy policy;
    struct coto_args args;
    struct coto_source_code code;
    struct coto_buf text; /* code from stdin */
    struct coto_buf prompt;
    struct coto_plan plan;
    struct coto_result result;
    struct coto_escape escape[2];
    int signal_fd;
    bool stdin_is_code;
    bool json;
};

static bool flag(const struct run *run, enum coto_opt opt)
{
    return coto_policy_num(&run->policy, opt) != 0;
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
    if (coto_fd_read_all(0, CODE_MAX, &run->text))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "run: read the code from stdin");
    run->code.text = coto_buf_str(&run->text);
    run->code.text_len = run->text.len;
    run->stdin_is_code = true;
    return 0;
}

static int find_code(struct run *run, struct coto_err *err)
{
    const char *code = coto_policy_str(&run->policy, COTO_OPT_CODE);
    bool has_code = run->policy.v[COTO_OPT_CODE].source != COTO_SOURCE_DEFAULT;
    char **rest = run->args.rest;

    if (has_code) {
        run->code.text = code;
        run->code.text_len = strlen(code);
        run->code.argv = (const char *const *)rest;
        return 0;
    }
    if (run->args.count == 0)
        return no_program(err);
    if (run->args.after_dashes) {
        run->code.argv = (const char *const *)rest;
        run->code.is_command = true;
        return 0;
    }
    run->code.argv = (const char *const *)rest + 1;
    if (strcmp(rest[0], "-") == 0)
        return read_stdin_code(run, err);
    run->code.file = rest[0];
    return 0;
}

static int read_prompt(struct run *run, struct coto_err *err)
{
    const char *path = coto_policy_str(&run->policy, COTO_OPT_PROMPT_FILE);
    coto_auto_fd fd = -1;

    if (!*path)
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || coto_fd_read_all(fd, CODE_MAX, &run->prompt))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "--prompt-file: '%s'", path);
    return 0;
}

/* ---- running ---- */

static void show_step(void *arg, const char *step, int64_t us)
{
    (void)arg;
    dprintf(2, "coto: %8.3f ms  %s\n", (double)us / 1000, step);
}

static void neutralise(void *arg, int which, const char *data, size_t len, struct coto_buf *out)
{
    struct run *run = arg;

    coto_escape_add(&run->escape[which - 1], data, len, out);
}

static int catch_signals(void)
{
    sigset_t mask;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGQUIT);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A caller may have closed 0, 1 or 2: no file of ours may land there. */
static void fill_stdio(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

static int open_artifacts(struct run *run, struct coto_err *err)
{
    const char *dir = coto_policy_str(&run->policy, COTO_OPT_ARTIFACTS);

    if (!*dir)
        return -1;
    if (mkdir(dir, 0755) && errno != EEXIST) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--artifacts: make '%s'", dir);
        return -2;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--artifacts: '%s'", dir);
        return -2;
    }
    return fd;
}

static int execute(struct run *run, struct coto_err *err)
{
    bool raw = flag(run, COTO_OPT_RAW);
    unsigned include = 0;
    coto_auto_fd artifacts = open_artifacts(run, err);

    if (artifacts == -2 ||
        coto_report_parse_include(coto_policy_list(&run->policy, COTO_OPT_REPORT_INCLUDE), &include,
                                  err))
        return -1;
    run->plan.want_artifacts = run->json || artifacts >= 0;
    struct coto_io io = {
        .in_fd = run->stdin_is_code ? -1 : 0,
        .out_fd = run->json ? -1 : 1,
        .err_fd = run->json ? -1 : 2,
        .capture = run->json || (include & COTO_REPORT_OUTPUT),
        .capture_max = JSON_KEEP,
        .filter = neutralise,
        .filter_arg = run,
        .filter_out = !raw && !run->json && isatty(1),
        .filter_err = !raw && !run->json && isatty(2),
        .artifacts_fd = artifacts,
        .cancel_fd = run->signal_fd,
        .progress = flag(run, COTO_OPT_VERBOSE) ? show_step : NULL,
    };
    return coto_core_run(&run->plan, &io, &run->result, err);
}

/* ---- telling ---- */

static int print_json(const struct run *run)
{
    coto_auto_buf buf = {0};
    struct coto_json json = {.out = &buf, .pretty = isatty(1)};

    coto_report_json(&run->result, &run->plan, &json);
    if (!json.pretty)
        coto_buf_addc(&buf, '\n');
    return coto_cli_print(&buf);
}

static void print_closing(const struct run *run)
{
    coto_auto_buf buf = {0};

    if (run->json || flag(run, COTO_OPT_QUIET) || !isatty(2))
        return;
    coto_report_text(&run->result, &run->plan, true, &buf);
    (void)!write(2, buf.data, buf.len);
}

static int write_report(struct run *run, struct coto_err *err)
{
    const char *dir = coto_policy_str(&run->policy, COTO_OPT_REPORT);
    const char *hash = coto_policy_str(&run->policy, COTO_OPT_PROMPT_HASH);
    const struct coto_plan_file *code = run->plan.file_count ? &run->plan.files[0] : NULL;
    struct coto_report_extra extra = {
        .prompt_hash = *hash ? hash : NULL,
        .prompt = run->prompt.data,
        .prompt_len = run->prompt.len,
        .code = code ? code->data : NULL,
        .code_len = code ? code->len : 0,
    };

    if (!*dir)
        return 0;
    if (coto_report_parse_include(coto_policy_list(&run->policy, COTO_OPT_REPORT_INCLUDE),
                                  &extra.include, err))
        return -1;
    return coto_report_write(dir, &run->result, &run->plan, &extra, err);
}

static int print_plan(const struct run *run)
{
    coto_auto_buf buf = {0};
    struct coto_json json = {.out = &buf, .pretty = true};

    coto_plan_json(&run->plan, &json);
    return coto_cli_print(&buf);
}

static int signal_status(const struct run *run)
{
    struct signalfd_siginfo info;

    if (run->result.verdict == COTO_VERDICT_KILLED &&
        read(run->signal_fd, &info, sizeof info) == sizeof info)
        return 128 + (int)info.ssi_signo;
    return run->result.exit_status;
}

static int run_planned(struct run *run)
{
    struct coto_err err = {0};

    run->signal_fd = catch_signals();
    if (execute(run, &err))
        return coto_cli_fail_as(run->json, &err);
    int status = signal_status(run);
    if (run->json) {
        int failed = print_json(run);
        status = failed ? failed : status;
    }
    print_closing(run);
    if (write_report(run, &err)) {
        coto_cli_fail(&err);
        status = coto_err_info(err.kind)->exit_code;
    }
    coto_result_fini(&run->result);
    return status;
}

int coto_cli_run(int argc, char **argv, char **envp)
{
    static struct run run;
    struct coto_err err = {0};
    int status;

    fill_stdio();
    run.json = coto_args_want_json(NULL, argv, envp);
    if (coto_args_policy(argc, argv, envp, &run.policy, &run.args, &err))
        return coto_cli_fail_as(run.json, &err);
    run.json = flag(&run, COTO_OPT_JSON);
    if (run.args.help)
        status = coto_cli_help_verb("run", NULL);
    else if (coto_policy_check(&run.policy, &err) || find_code(&run, &err) ||
             read_prompt(&run, &err) || coto_plan_make(&run.policy, &run.code, &run.plan, &err))
        status = coto_cli_fail_as(run.json, &err);
    else if (flag(&run, COTO_OPT_DRY_RUN))
        status = print_plan(&run);
    else
        status = run_planned(&run);
    coto_plan_fini(&run.plan);
    coto_policy_fini(&run.policy);
    coto_buf_fini(&run.text);
    coto_buf_fini(&run.prompt);
    return status;
}
