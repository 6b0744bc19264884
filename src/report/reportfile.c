#include "report/reportfile.h"

#include "base/fd.h"
#include "base/sha256.h"
#include "report/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPORT_SCHEMA 1

int coto_report_parse_include(const struct coto_strv *words, unsigned *ret_include,
                              struct coto_err *err)
{
    static const char *const names[] = {"code", "prompt", "output", "env"};
    unsigned include = 0;

    for (size_t i = 0; i < words->count; i++) {
        size_t n = 0;
        while (n < 4 && !coto_str_eq(words->items[i], names[n]))
            n++;
        if (n == 4) {
            coto_err_set(err, COTO_ERR_POLICY, 0, "report-include: '%s' is not known",
                         words->items[i]);
            return coto_err_remedy(err, "use code, prompt, output or env");
        }
        include |= 1u << n;
    }
    *ret_include = include;
    return 0;
}

static void add_hash(struct coto_json *json, const char *key, const char *given, const char *data,
                     size_t len)
{
    char hex[COTO_SHA256_HEX];

    if (given && given[0]) {
        coto_json_str(json, key, given);
    } else if (data) {
        coto_sha256_of(data, len, hex);
        coto_json_str(json, key, hex);
    } else {
        coto_json_null(json, key);
    }
}

static void add_summary(struct coto_json *json, const struct coto_result *result)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < result->artifact_count; i++)
        bytes += result->artifacts[i].bytes;
    coto_json_int(json, "stdout_bytes_seen", result->out.seen);
    coto_json_int(json, "stderr_bytes_seen", result->err.seen);
    coto_json_bool(json, "output_truncated", result->out.truncated || result->err.truncated);
    coto_json_int(json, "artifact_count", (int64_t)result->artifact_count);
    coto_json_int(json, "artifact_bytes", bytes);
}

/* Everything here was asked for by name. */
static void add_included(struct coto_json *json, const struct coto_result *result,
                         const struct coto_plan *plan, const struct coto_report_extra *extra)
{
    if ((extra->include & COTO_REPORT_PROMPT) && extra->prompt)
        coto_json_bytes(json, "prompt", extra->prompt, extra->prompt_len);
    if ((extra->include & COTO_REPORT_CODE) && extra->code)
        coto_json_bytes(json, "code", extra->code, extra->code_len);
    if (extra->include & COTO_REPORT_OUTPUT) {
        coto_json_bytes(json, "stdout", coto_buf_str(&result->out.data), result->out.data.len);
        coto_json_bytes(json, "stderr", coto_buf_str(&result->err.data), result->err.data.len);
    }
    if ((extra->include & COTO_REPORT_ENV) && plan) {
        coto_json_begin(json, "env", '[');
        for (size_t i = 0; i < plan->env.count; i++)
            coto_json_str(json, NULL, plan->env.items[i]);
        coto_json_end(json, ']');
    }
}

static void build(const struct coto_result *result, const struct coto_plan *plan,
                  const struct coto_report_extra *extra, struct coto_buf *out)
{
    struct coto_json json = {.out = out, .pretty = true};

    coto_json_begin(&json, NULL, '{');
    coto_json_int(&json, "report_version", REPORT_SCHEMA);
    coto_json_str(&json, "execution_id", result->id);
    coto_json_str(&json, "started_at", result->started_at);
    add_hash(&json, "prompt_sha256", extra->prompt_hash, extra->prompt, extra->prompt_len);
    add_hash(&json, "code_sha256", result->code_hash, extra->code, extra->code_len);
    coto_report_json_outcome(result, &json);
    add_summary(&json, result);
    coto_json_str(&json, "driver", result->driver);
    coto_json_str(&json, "language", plan && plan->language ? plan->language->name : NULL);
    coto_json_str(&json, "profile", result->profile);
    coto_json_str(&json, "policy_hash", result->policy_hash);
    coto_report_json_walls(result->walls, &json);
    add_included(&json, result, plan, extra);
    coto_json_end(&json, '}');
}

/* mkdir -p, private. Links in the path are the operator's own and followed. */
static int make_dirs(const char *dir)
{
    coto_auto_free char *path = strdup(dir);

    if (!path)
        return -1;
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(path, 0700) && errno != EEXIST)
            return -1;
        *p = '/';
    }
    return mkdir(path, 0700) && errno != EEXIST ? -1 : 0;
}

int coto_report_open(const char *dir, int *ret_fd, struct coto_err *err)
{
    coto_auto_fd fd = -1;

    if (make_dirs(dir) == 0)
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOTDIR) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--report: '%s'", dir);
        return coto_err_remedy(err, "name a directory: a file, or a link that somebody may have put there, is not taken for one");
    }
    if (fd < 0 || faccessat(fd, ".", W_OK | X_OK, 0)) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--report: '%s'", dir);
        return coto_err_remedy(err, "name a directory you may write to");
    }
    *ret_fd = coto_take_fd(&fd);
    return 0;
}

/* "2026-11-15T08:30:21.123Z" and the id make 20261115T083021.123Z-<id>.json: sorts
 * by time, and needs no quoting in a shell. */
static void make_name(const struct coto_result *result, char *name, size_t size)
{
    char started[COTO_TIME_TEXT];
    size_t n = 0;

    for (const char *p = result->started_at; *p && n < sizeof started - 1; p++)
        if (*p != '-' && *p != ':')
            started[n++] = *p;
    started[n] = '\0';
    snprintf(name, size, "%s-%s.json", started, result->id);
}

static int write_new(int dirfd, const char *name, const struct coto_buf *text)
{
    coto_auto_fd fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -1;
    /* A report is evidence: it must not be an empty file after a power cut. */
    return coto_fd_write_all(fd, text->data, text->len) || fdatasync(fd) ? -1 : 0;
}

int coto_report_write(int dirfd, const struct coto_result *result, const struct coto_plan *plan,
                      const struct coto_report_extra *extra, struct coto_err *err)
{
    const struct coto_report_extra none = {0};
    coto_auto_buf text = {0};
    char name[COTO_TIME_TEXT + COTO_ID_TEXT + 8];
    char temporary[sizeof name + 8];

    build(result, plan, extra ? extra : &none, &text);
    if (text.failed)
        return coto_err_set(err, COTO_ERR_OUTPUT, ENOMEM, "report of %s", result->id);
    make_name(result, name, sizeof name);
    snprintf(temporary, sizeof temporary, ".%s.new", name);
    if (write_new(dirfd, temporary, &text) || renameat(dirfd, temporary, dirfd, name)) {
        int saved = errno;
        if (saved != EEXIST)
            unlinkat(dirfd, temporary, 0);
        return coto_err_set(err, COTO_ERR_OUTPUT, saved, "report '%s'", name);
    }
    return 0;
}
