/* The public library; include/coto.h is its contract. */
#include "coto.h"

#include "base/own.h"
#include "drivers/driver.h"
#include "lib/job.h"
#include "report/json.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef COTO_VERSION
#define COTO_VERSION "unknown"
#endif

enum what { RUN_NOTHING, RUN_FILE, RUN_CODE, RUN_COMMAND };

struct coto_request {
    struct coto_policy checker; /* values are tried on it as they come, nothing else */
    struct coto_strv settings;  /* key, value, key, value, ... */
    char *profile;              /* NULL: default */
    char *policy_file;          /* NULL: none */
    bool use_environment;
    enum what what;
    char *file;
    char *language;
    struct coto_buf text;
    struct coto_strv command;
    struct coto_strv arguments;
    int in_fd, out_fd, err_fd, cancel_fd;
    bool capture;
};

struct coto_outcome {
    struct coto_job job;
};

const char *coto_version(void)
{
    return COTO_VERSION;
}

/* ---- errors ---- */

static int hand_out(struct coto_error *err, const struct coto_err *inner)
{
    const struct coto_err_info *info = coto_err_info(inner->kind);

    if (err) {
        *err = (struct coto_error){.kind = info->word, .exit_code = info->exit_code};
        snprintf(err->message, sizeof err->message, "%s", inner->text);
        snprintf(err->remedy, sizeof err->remedy, "%s", inner->remedy);
    }
    return -1;
}

static int refuse(struct coto_error *err, int kind, const char *text, const char *remedy)
{
    struct coto_err inner = {0};

    coto_err_set(&inner, kind, kind == COTO_ERR_LIMIT ? ENOMEM : 0, "%s", text);
    coto_err_remedy(&inner, "%s", remedy);
    return hand_out(err, &inner);
}

static int no_memory(struct coto_error *err)
{
    return refuse(err, COTO_ERR_LIMIT, "request", "free some memory");
}

/* ---- the request ---- */

coto_request *coto_request_new(void)
{
    coto_request *request = calloc(1, sizeof *request);
    struct coto_err err;

    if (!request || coto_policy_init(&request->checker, &err)) {
        free(request);
        return NULL;
    }
    request->in_fd = request->out_fd = request->err_fd = request->cancel_fd = -1;
    request->capture = true;
    return request;
}

void coto_request_free(coto_request *request)
{
    if (!request)
        return;
    coto_policy_fini(&request->checker);
    coto_strv_fini(&request->settings);
    coto_strv_fini(&request->command);
    coto_strv_fini(&request->arguments);
    coto_buf_fini(&request->text);
    free(request->profile);
    free(request->policy_file);
    free(request->file);
    free(request->language);
    free(request);
}

int coto_request_set(coto_request *request, const char *key, const char *value,
                     struct coto_error *err)
{
    struct coto_err inner = {0};

    if (coto_policy_set_key(&request->checker, key, value, COTO_SOURCE_FLAG, key, &inner))
        return hand_out(err, &inner);
    if (coto_strv_add(&request->settings, key))
        return no_memory(err);
    if (coto_strv_add(&request->settings, value)) {
        free(request->settings.items[--request->settings.count]);
        request->settings.items[request->settings.count] = NULL;
        return no_memory(err);
    }
    return 0;
}

/* Replaces *slot by a copy of text (NULL: by nothing). */
static int replace(char **slot, const char *text, struct coto_error *err)
{
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        return no_memory(err);
    free(*slot);
    *slot = copy;
    return 0;
}

static int replace_list(struct coto_strv *list, const char *const *items, struct coto_error *err)
{
    struct coto_strv copy = {0};

    for (; items && *items; items++) {
        if (coto_strv_add(&copy, *items)) {
            coto_strv_fini(&copy);
            return no_memory(err);
        }
    }
    coto_strv_fini(list);
    *list = copy;
    return 0;
}

int coto_request_profile(coto_request *request, const char *name, struct coto_error *err)
{
    struct coto_policy policy;
    struct coto_err inner = {0};

    if (coto_policy_init(&policy, &inner))
        return hand_out(err, &inner);
    int failed = coto_policy_apply_profile(&policy, name, &inner);
    coto_policy_fini(&policy);
    return failed ? hand_out(err, &inner) : replace(&request->profile, name, err);
}

int coto_request_policy_file(coto_request *request, const char *path, struct coto_error *err)
{
    return replace(&request->policy_file, path, err);
}

void coto_request_use_environment(coto_request *request, bool on)
{
    request->use_environment = on;
}

int coto_request_file(coto_request *request, const char *path, struct coto_error *err)
{
    if (replace(&request->file, path, err))
        return -1;
    request->what = RUN_FILE;
    return 0;
}

int coto_request_code(coto_request *request, const char *language, const char *text, size_t len,
                      struct coto_error *err)
{
    struct coto_buf copy = {0};

    coto_buf_add(&copy, text, len);
    if (copy.failed || replace(&request->language, language, err)) {
        coto_buf_fini(&copy);
        return no_memory(err);
    }
    coto_buf_fini(&request->text);
    request->text = copy;
    request->what = RUN_CODE;
    return 0;
}

int coto_request_command(coto_request *request, const char *const *argv, struct coto_error *err)
{
    if (!argv || !argv[0] || !argv[0][0])
        return refuse(err, COTO_ERR_USAGE, "command: it is empty", "name a program");
    if (replace_list(&request->command, argv, err))
        return -1;
    request->what = RUN_COMMAND;
    return 0;
}

int coto_request_arguments(coto_request *request, const char *const *argv, struct coto_error *err)
{
    return replace_list(&request->arguments, argv, err);
}

void coto_request_stdin(coto_request *request, int fd)
{
    request->in_fd = fd;
}

void coto_request_stdout(coto_request *request, int fd)
{
    request->out_fd = fd;
}

void coto_request_stderr(coto_request *request, int fd)
{
    request->err_fd = fd;
}

void coto_request_capture(coto_request *request, bool on)
{
    request->capture = on;
}

void coto_request_cancel(coto_request *request, int fd)
{
    request->cancel_fd = fd;
}

/* ---- running ---- */

/* Strong sources first: a weaker one never overwrites them (policy/policy.h). */
static int fill_policy(const coto_request *request, struct coto_policy *policy,
                       struct coto_err *err)
{
    const struct coto_strv *set = &request->settings;
    static char *no_environment[] = {NULL};

    if (coto_policy_init(policy, err))
        return -1;
    for (size_t i = 0; i + 1 < set->count; i += 2)
        if (coto_policy_set_key(policy, set->items[i], set->items[i + 1], COTO_SOURCE_FLAG,
                                set->items[i], err))
            return -1;
    if (request->what == RUN_CODE && request->language &&
        coto_policy_set(policy, COTO_OPT_LANG, request->language, COTO_SOURCE_FLAG, "lang", err))
        return -1;
    if (request->profile && coto_policy_set(policy, COTO_OPT_PROFILE, request->profile,
                                            COTO_SOURCE_FLAG, "profile", err))
        return -1;
    char *const *envp = request->use_environment ? environ : no_environment;
    if (coto_policy_apply_profile(policy, coto_policy_str(policy, COTO_OPT_PROFILE), err) ||
        coto_policy_apply_env(policy, envp, err))
        return -1;
    const char *file = request->policy_file ? request->policy_file
                                            : coto_policy_str(policy, COTO_OPT_POLICY);
    if (*file && coto_policy_apply_file(policy, file, err))
        return -1;
    return coto_policy_apply_docker_env(policy, envp, err);
}

static int fill_code(const coto_request *request, struct coto_source_code *code,
                     struct coto_err *err)
{
    static const char *const nothing[] = {NULL};
    const struct coto_strv *argv = request->what == RUN_COMMAND ? &request->command
                                                                : &request->arguments;

    *code = (struct coto_source_code){
        .file = request->what == RUN_FILE ? request->file : NULL,
        .text = request->what == RUN_CODE ? coto_buf_str(&request->text) : NULL,
        .text_len = request->what == RUN_CODE ? request->text.len : 0,
        .argv = argv->count ? (const char *const *)argv->items : nothing,
        .is_command = request->what == RUN_COMMAND,
    };
    if (request->what != RUN_NOTHING)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "run: nothing to run");
    return coto_err_remedy(err, "call coto_request_file, coto_request_code or coto_request_command");
}

/* A pipe of ours that landed on 0, 1 or 2 would be taken for the program's. */
static int check_stdio(struct coto_err *err)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        coto_err_set(err, COTO_ERR_USAGE, 0, "run: descriptor %d is closed", fd);
        return coto_err_remedy(err, "open /dev/null there");
    }
    return 0;
}

/* The caller's SIGPIPE handling must neither see ours nor be changed. */
struct quiet {
    sigset_t before;
    bool was_pending;
};

static void hold_sigpipe(struct quiet *quiet)
{
    sigset_t pipe;
    sigset_t pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    quiet->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &quiet->before);
}

static void release_sigpipe(const struct quiet *quiet)
{
    const struct timespec now = {0};
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!quiet->was_pending)
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

static int run_job(const coto_request *request, struct coto_job *job, struct coto_err *err)
{
    struct coto_io io = {
        .in_fd = request->in_fd,
        .out_fd = request->out_fd,
        .err_fd = request->err_fd,
        .capture = request->capture,
        .artifacts_fd = -1,
        .cancel_fd = request->cancel_fd,
    };

    if (check_stdio(err) || fill_policy(request, &job->policy, err) ||
        fill_code(request, &job->code, err) || coto_job_plan(job, err))
        return -1;
    job->plan.want_artifacts = true; /* the result object lists them */
    int failed = coto_job_run(job, &io, err);
    coto_driver_discard(); /* no process of ours may be left in the caller's */
    if (failed)
        return -1;
    job->code = (struct coto_source_code){0}; /* the request may be gone from here on */
    return coto_job_write_report(job, err);
}

int coto_run(const coto_request *request, coto_result **ret_result, struct coto_error *err)
{
    static atomic_flag running = ATOMIC_FLAG_INIT;
    struct coto_err inner = {0};
    struct quiet quiet;

    if (atomic_flag_test_and_set(&running)) {
        coto_err_set(&inner, COTO_ERR_LIMIT, 0, "run: another run is under way in this process");
        coto_err_remedy(&inner, "run one after the other, or in processes of their own");
        return hand_out(err, &inner);
    }
    coto_result *result = calloc(1, sizeof *result);
    int failed = -1;
    hold_sigpipe(&quiet);
    if (result)
        failed = run_job(request, &result->job, &inner);
    else
        coto_err_set(&inner, COTO_ERR_LIMIT, ENOMEM, "run");
    release_sigpipe(&quiet);
    atomic_flag_clear(&running);
    if (failed) {
        coto_result_free(result);
        return hand_out(err, &inner);
    }
    *ret_result = result;
    return 0;
}

/* ---- the result ---- */

const char *coto_result_verdict(const coto_result *result)
{
    return coto_verdict_word(result->job.result.verdict);
}

int coto_result_exit_code(const coto_result *result)
{
    return result->job.result.exit_code;
}

int coto_result_signal(const coto_result *result)
{
    return result->job.result.signal;
}

int coto_result_exit_status(const coto_result *result)
{
    return result->job.result.exit_status;
}

static const char *stream_text(const struct coto_stream_result *stream, size_t *ret_len)
{
    if (ret_len)
        *ret_len = stream->data.len;
    return coto_buf_str(&stream->data);
}

const char *coto_result_stdout(const coto_result *result, size_t *ret_len)
{
    return stream_text(&result->job.result.out, ret_len);
}

const char *coto_result_stderr(const coto_result *result, size_t *ret_len)
{
    return stream_text(&result->job.result.err, ret_len);
}

char *coto_result_json(const coto_result *result)
{
    struct coto_buf text = {0};
    struct coto_json json = {.out = &text};

    coto_report_json(&result->job.result, &result->job.plan, &json);
    if (text.failed) {
        coto_buf_fini(&text);
        return NULL;
    }
    return text.data;
}

void coto_result_free(coto_result *result)
{
    if (!result)
        return;
    coto_job_fini(&result->job);
    free(result);
}
