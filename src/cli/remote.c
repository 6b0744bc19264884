#include "cli/remote.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/remote_files.h"
#include "policy/helper.h"
#include "schema/bodies.h"
#include "schema/languages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)16 << 20) /* of the service's own limit */
#define BYTES_MAX ((size_t)11 << 20) /* as base64 */

static bool is_set(const struct coto_policy *policy, enum coto_opt opt)
{
    return policy->v[opt].source > COTO_SOURCE_PROFILE;
}

/* ---- what a service can be asked for ---- */

static bool is_limit(enum coto_opt opt)
{
    for (unsigned i = 0; i < coto_limit_count; i++)
        if (coto_limits[i].opt == opt)
            return true;
    return false;
}

/* What level high is, is the operator's word; that it is a container of some kind is certain. */
static const char *level_of(const struct coto_policy *policy)
{
    int64_t isolation = coto_policy_num(policy, COTO_OPT_ISOLATION);

    return isolation == COTO_ISOLATION_PROCESS ? "standard" : isolation == COTO_ISOLATION_CONTAINER ? "high" : NULL;
}

static int refuse(enum coto_opt opt, const struct coto_policy *policy, struct coto_err *err)
{
    coto_auto_buf value = {0};

    coto_policy_value_text(policy, opt, &value);
    if (opt == COTO_OPT_ISOLATION) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "--isolation %s: not possible with --server", coto_buf_str(&value));
        return coto_err_remedy(err, "a service has process (its level standard) and container (its level high, which its "
                                    "operator makes of a runtime or of an engine)");
    }
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "--%s: not possible with --server", coto_options[opt].name);
    return opt == COTO_OPT_RUNTIME || opt == COTO_OPT_IMAGE
               ? coto_err_remedy(err, "leave it out: what --isolation container is there is its operator's to say")
               : coto_err_remedy(err, "leave it out; docs/API.md tells what else a service can do");
}

/* What would be silently left out there is refused here. */
static bool can_travel(const struct coto_policy *policy, enum coto_opt opt)
{
    if (opt == COTO_OPT_DRY_RUN || opt == COTO_OPT_VERBOSE)
        return !coto_policy_num(policy, opt);
    if (opt == COTO_OPT_ISOLATION)
        return level_of(policy);
    return is_limit(opt) || opt == COTO_OPT_LANG || opt == COTO_OPT_ENV ||
           opt == COTO_OPT_TIMEOUT || opt == COTO_OPT_COPY || opt == COTO_OPT_ARTIFACTS || opt == COTO_OPT_COLD ||
           opt == COTO_OPT_REQUIRE ||
           !coto_opt_is_policy(opt);
}

static int check(const struct coto_policy *policy, struct coto_err *err)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (is_set(policy, (enum coto_opt)i) && !can_travel(policy, (enum coto_opt)i))
            return refuse((enum coto_opt)i, policy, err);
    return 0;
}

/* ---- the request ---- */

/* JSON has no place for them, and others would reach the program instead. */
static int refuse_bytes(const char *what, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "%s: not UTF-8 text", what);
    return coto_err_remedy(err, "a service takes text here; bytes can be uploaded as files");
}

static int add_text(struct coto_json *json, const char *key, const struct coto_buf *text,
                    struct coto_err *err)
{
    if (!coto_utf8_valid(coto_buf_str(text), text->len) ||
        memchr(coto_buf_str(text), 0, text->len))
        return refuse_bytes(key, err);
    coto_json_str(json, key, coto_buf_str(text));
    return 0;
}

static int refuse_read(const char *what, struct coto_err *err)
{
    if (errno != EFBIG)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "run: %s", what);
    coto_err_set(err, COTO_ERR_INPUT, 0, "run: %s: more than a request to a service can hold", what);
    return coto_err_remedy(err, "create a sandbox and upload it as a file: docs/API.md");
}

static int read_code(const struct coto_source_code *code, struct coto_buf *ret_text,
                     struct coto_err *err)
{
    if (code->is_command) {
        coto_buf_adds(ret_text, "exec \"$@\"");
        return 0;
    }
    if (!code->file) {
        coto_buf_add(ret_text, code->text, code->text_len);
        return 0;
    }
    coto_auto_fd fd = -1;
    if (coto_policy_open_input("run:", code->file, &fd, err))
        return -1;
    return coto_fd_read_all(fd, TEXT_MAX, ret_text) ? refuse_read(code->file, err) : 0;
}

/* As without a service: where nothing tells the language, it is not the service's to choose. */
static int add_language(struct coto_json *json, const struct coto_job *job,
                        const struct coto_buf *text, struct coto_err *err)
{
    const char *asked = coto_policy_str(&job->policy, COTO_OPT_LANG);
    const struct coto_language *found = NULL;
    int is_elf = 0;

    if (job->code.is_command)
        asked = "sh";
    if (!*asked)
        found = coto_language_detect(job->code.file, coto_buf_str(text), text->len, &is_elf);
    if (!*asked && !found)
        return coto_plan_refuse_language("", job->code.file, err);
    coto_json_str(json, "language", found ? found->name : asked);
    return 0;
}

static int add_args(struct coto_json *json, const char *const *argv, struct coto_err *err)
{
    coto_json_begin(json, "args", '[');
    for (; argv && *argv; argv++) {
        if (!coto_utf8_valid(*argv, strlen(*argv)))
            return refuse_bytes("an argument", err);
        coto_json_str(json, NULL, *argv);
    }
    coto_json_end(json, ']');
    return 0;
}

static int add_env(struct coto_json *json, const struct coto_strv *env, struct coto_err *err)
{
    coto_json_begin(json, "env", '{');
    for (size_t i = 0; i < env->count; i++) {
        const char *item = env->items[i];
        size_t n = strcspn(item, "=");
        coto_auto_buf name = {0};
        if (!coto_utf8_valid(item, strlen(item)))
            return refuse_bytes("--env", err);
        coto_buf_add(&name, item, n);
        coto_json_str(json, coto_buf_str(&name), item[n] ? item + n + 1 : "");
    }
    coto_json_end(json, '}');
    return 0;
}

/* In the options' own syntax, which the service reads too. */
static void add_limits(struct coto_json *json, const struct coto_policy *policy)
{
    coto_json_begin(json, "resource_limits", '{');
    for (unsigned i = 0; i < coto_limit_count; i++) {
        enum coto_opt opt = coto_limits[i].opt;
        int64_t num = coto_policy_num(policy, opt);
        coto_auto_buf text = {0};
        if (!is_set(policy, opt) || *coto_limits[i].unit || strcmp(coto_limits[i].name, "cpu") == 0)
            continue;
        if (coto_options[opt].type == COTO_TYPE_BOOL) {
            coto_json_bool(json, coto_limits[i].name, num != 0);
            continue;
        }
        if (coto_options[opt].type == COTO_TYPE_SIZE)
            coto_units_add_size(&text, num);
        else if (coto_options[opt].type == COTO_TYPE_DURATION)
            coto_units_add_duration(&text, num);
        else if (coto_options[opt].type == COTO_TYPE_CPUS)
            coto_units_add_cpus(&text, num);
        else
            coto_buf_addf(&text, "%lld", (long long)num);
        coto_json_str(json, coto_limits[i].name, coto_buf_str(&text));
    }
    coto_json_end(json, '}');
}

/* Bytes that are no text have a field of their own. */
static int add_stdin(struct coto_json *json, struct coto_err *err)
{
    coto_auto_buf text = {0};
    coto_auto_buf coded = {0};

    if (isatty(0))
        return 0;
    if (coto_fd_read_all(0, TEXT_MAX, &text))
        return refuse_read("read stdin", err);
    bool is_text = coto_utf8_valid(coto_buf_str(&text), text.len) && !memchr(coto_buf_str(&text), 0, text.len);
    if (!is_text && text.len > BYTES_MAX) {
        errno = EFBIG;
        return refuse_read("read stdin", err);
    }
    if (is_text && text.len)
        coto_json_str(json, "stdin", coto_buf_str(&text));
    else if (text.len)
        coto_base64_add(&coded, coto_buf_str(&text), text.len);
    if (coded.len)
        coto_json_str(json, "stdin_base64", coto_buf_str(&coded));
    json->out->failed |= coded.failed;
    return 0;
}

static void add_require(struct coto_json *json, const struct coto_policy *policy)
{
    const struct coto_strv *names = coto_policy_list(policy, COTO_OPT_REQUIRE);

    if (!is_set(policy, COTO_OPT_REQUIRE))
        return;
    coto_json_begin(json, "require", '[');
    for (size_t i = 0; i < names->count; i++)
        coto_json_str(json, NULL, names->items[i]);
    coto_json_end(json, ']');
}

static int write_request(const struct coto_job *job, bool stdin_is_code, struct coto_buf *out,
                         struct coto_err *err)
{
    const struct coto_policy *policy = &job->policy;
    struct coto_json json = {.out = out};
    coto_auto_buf code = {0};

    if (read_code(&job->code, &code, err))
        return -1;
    coto_json_begin(&json, NULL, '{');
    if (add_text(&json, "code", &code, err) || add_language(&json, job, &code, err) ||
        add_args(&json, job->code.argv, err) ||
        (is_set(policy, COTO_OPT_ENV) && add_env(&json, &policy->v[COTO_OPT_ENV].list, err)))
        return -1;
    if (is_set(policy, COTO_OPT_TIMEOUT))
        coto_json_ms(&json, "timeout_seconds", coto_policy_num(policy, COTO_OPT_TIMEOUT));
    if (is_set(policy, COTO_OPT_PROFILE))
        coto_json_str(&json, "profile", coto_policy_str(policy, COTO_OPT_PROFILE));
    if (is_set(policy, COTO_OPT_ISOLATION))
        coto_json_str(&json, "isolation_level", level_of(policy));
    if (is_set(policy, COTO_OPT_COLD))
        coto_json_bool(&json, "cold", coto_policy_num(policy, COTO_OPT_COLD) != 0);
    add_limits(&json, policy);
    add_require(&json, policy);
    if (is_set(policy, COTO_OPT_COPY) && coto_cli_add_files(&json, policy, err))
        return -1;
    if (*coto_policy_str(policy, COTO_OPT_ARTIFACTS))
        coto_json_bool(&json, "artifacts", true);
    if (!stdin_is_code && add_stdin(&json, err))
        return -1;
    coto_json_end(&json, '}');
    return 0;
}

/* ---- sending ---- */

static int exec_remote(const struct coto_policy *policy, int request_fd, int artifacts_fd,
                       struct coto_err *err)
{
    char path[4096];
    char fd[16];
    char artifacts[16] = "";
    const char *text[5];
    static const enum coto_opt options[] = {COTO_OPT_SERVER, COTO_OPT_TOKEN_FILE,
                                            COTO_OPT_SERVER_CA, COTO_OPT_CLIENT_CERTIFICATE,
                                            COTO_OPT_CLIENT_KEY};

    for (int i = 0; i < 5; i++)
        text[i] = coto_policy_str(policy, options[i]);
    if (coto_helper_find("coto-remote", path, sizeof path)) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                     "--server: the program coto-remote is not installed");
        return coto_err_remedy(err, "install all of coto: make install");
    }
    snprintf(fd, sizeof fd, "%d", request_fd);
    if (artifacts_fd >= 0) {
        fcntl(artifacts_fd, F_SETFD, 0);
        snprintf(artifacts, sizeof artifacts, "%d", artifacts_fd);
    }
    char *argv[] = {"coto-remote",
                    fd,
                    coto_policy_num(policy, COTO_OPT_JSON) ? "json" : "",
                    coto_policy_num(policy, COTO_OPT_RAW) ? "raw" : "",
                    coto_policy_num(policy, COTO_OPT_QUIET) ? "quiet" : "",
                    (char *)text[0],
                    (char *)text[1],
                    (char *)text[2],
                    (char *)text[3],
                    (char *)text[4],
                    artifacts,
                    NULL};
    char *envp[] = {NULL};
    execve(path, argv, envp);
    return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s", path);
}

int coto_cli_run_remote(const struct coto_job *job, bool stdin_is_code, struct coto_err *err)
{
    coto_auto_buf request = {0};
    coto_auto_fd artifacts = -1;

    if (check(&job->policy, err) || write_request(job, stdin_is_code, &request, err))
        return -1;
    coto_auto_fd fd = memfd_create("coto-request", 0);
    if (fd < 0 || request.failed || coto_fd_write_all(fd, request.data, request.len) ||
        lseek(fd, 0, SEEK_SET) < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "run: write the request");
    if (coto_job_open_artifacts(job, &artifacts, err))
        return -1;
    return exec_remote(&job->policy, fd, artifacts, err);
}
