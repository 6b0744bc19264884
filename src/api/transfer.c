/* Files into a caller's sandbox, one or many; and what all transfers share. */
#include "api/transfer.h"

#include "api/flow.h"
#include "base/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define UPLOAD_MAX ((uint64_t)16 * 1024 * COTO_MB) /* the sandbox's disk ends it before */

/* ---- around every transfer ---- */

/* Its envelope would be stored with the file. */
static int refuse_form(const struct api_call *call, struct coto_err *err)
{
    const char *type = coto_http_header(call->request, "Content-Type");

    if (call->endpoint->how != COTO_HOW_UPLOAD || !type || strncasecmp(type, "multipart/", 10) != 0)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "Content-Type: the body has to be the file's bytes, not a form");
    return coto_err_remedy(err, "send the bytes as they are, as curl -T FILE does");
}

const char *api_transfer_path(const struct api_job *job)
{
    const char *target = coto_buf_str(&job->code);
    size_t n = strlen(job->sandbox->plan.workdir);

    if (strncmp(target, job->sandbox->plan.workdir, n) == 0)
        return target[n] == '/' ? target + n + 1 : target[n] ? target : ".";
    return target;
}

static bool is_workspace(const char *workdir, const char *path)
{
    size_t n = strlen(workdir);

    if (strncmp(path, workdir, n) == 0 && (!path[n] || strcmp(path + n, "/") == 0))
        return true;
    return !*path || strcmp(path, ".") == 0 || strcmp(path, "./") == 0;
}

static int refuse_path(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "path: given twice, too long, or not a name (%%00, %%zz)");
    return coto_err_remedy(err, "give it once, with %%XX for what an address cannot have, and at most 4000 bytes");
}

static int take_path(struct api_call *call, bool needed, struct coto_buf *ret_target,
                     struct coto_err *err)
{
    const struct api_sandbox *s = api_sandbox_find(call->api, call->id);
    char path[4096];
    int given = coto_http_query_get(call->request, "path", path, sizeof path);

    if (given < 0)
        return refuse_path(err);
    if (given == 0 && needed) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "path: is missing");
        return coto_err_remedy(err, "name it in the address: ?path=data/input.csv");
    }
    /* A directory's own name is the workspace; what is written or removed has to have one. */
    if (given == 0 || (!needed && is_workspace(s->plan.workdir, path))) {
        coto_buf_adds(ret_target, s->plan.workdir);
        return 0;
    }
    if (!needed && (strcmp(path, "/tmp") == 0 || strcmp(path, "/tmp/") == 0)) {
        coto_buf_adds(ret_target, "/tmp");
        return 0;
    }
    return api_path(s->plan.workdir, path, ret_target, err);
}

static void transferred(struct api_job *job)
{
    api_tenant_count_transfer(job, -1);
    api_sandbox_release(job);
    if (!job->status && job->err.kind == COTO_ERR_NOTFOUND) {
        job->status = 404;
        snprintf(job->field, sizeof job->field, "path");
        coto_err_remedy(&job->err, "GET files with the path of a directory lists what is in it");
    }
    if (!job->status && job->err.sys_errno == ENOSPC)
        job->status = 413;
    if (job->err.kind == COTO_ERR_INPUT && !job->status)
        snprintf(job->field, sizeof job->field, "path");
    if (job->err.sys_errno == EBUSY)
        coto_err_remedy(&job->err, "something in the sandbox goes on writing there: end it, or try again");
}

void api_transfer_begin(struct api_call *call, bool needs_path,
                        void (*run)(struct api_job *job, int channel_fd))
{
    struct coto_err err = {0};
    coto_auto_buf target = {0};

    if (refuse_form(call, &err)) {
        api_reply_error(call->request, 400, &err, "");
        return;
    }
    if (take_path(call, needs_path, &target, &err)) {
        api_reply_error(call->request, 400, &err, "path");
        return;
    }
    struct api_job *job = api_tenant_check_transfers(call) ? NULL : api_sandbox_job(call);
    if (!job)
        return;
    api_tenant_count_transfer(job, 1);
    job->run = run;
    job->done = transferred;
    job->code = target;
    target = (struct coto_buf){0};
    if (api_flow_new(job, false)) {
        job->done(job);
        api_reply_job(job);
        api_job_free(job);
        return;
    }
    if (call->endpoint->how == COTO_HOW_UPLOAD)
        api_flow_receive(job, UPLOAD_MAX);
    api_submit(job);
}

struct coto_workfiles api_transfer_open(struct api_job *job, int channel_fd)
{
    struct api_sandbox *s = job->sandbox;

    coto_launch_use(s->box, channel_fd, &s->plan);
    return (struct coto_workfiles){.sandbox = s->box, .cancel_fd = job->cancel_fd};
}

void api_transfer_close(struct api_job *job, struct coto_workfiles *files)
{
    job->lost = files->lost;
    coto_workfiles_fini(files);
}

/* ---- one file in ---- */

static int put_pieces(struct api_job *job, struct coto_workfiles *files, const char *path)
{
    coto_auto_buf piece = {0};
    bool first = true;
    int got;

    while ((got = api_flow_take(job, &piece)) > 0) {
        if (files->put_err.kind)
            return 0; /* settling tells */
        if (first ? coto_workfiles_put(files, path, 0644, piece.data, piece.len, true, &job->err)
                  : coto_workfiles_put_more(files, piece.data, piece.len, true, &job->err))
            return -1;
        first = false;
    }
    if (first ? coto_workfiles_put(files, path, 0644, "", 0, false, &job->err)
              : coto_workfiles_put_more(files, "", 0, false, &job->err))
        return -1;
    return got == 0 ? 0 : coto_err_set(&job->err, COTO_ERR_INPUT, 0, "the upload broke off");
}

/* Half a file must not be taken for a whole one. But only what was written is removed: when
 * the name could not be opened, something else has it. */
static int settle_file(struct api_job *job, struct coto_workfiles *files, const char *path,
                       int64_t *ret_bytes)
{
    struct coto_err err = {0};
    int cut = job->err.kind;
    int failed = files->lost ? -1 : coto_workfiles_settle(files, path, ret_bytes, &err);
    bool is_full = failed && (err.sys_errno == ENOSPC || err.sys_errno == EFBIG);

    if (failed && !cut)
        job->err = err;
    if (!files->lost && (is_full || (cut && !failed)))
        coto_workfiles_remove(files, path, &err);
    return failed || cut ? -1 : 0;
}

static void put_file(struct api_job *job, int channel_fd)
{
    struct coto_workfiles files = api_transfer_open(job, channel_fd);
    struct coto_json json = {.out = &job->reply};
    int64_t bytes;

    put_pieces(job, &files, api_transfer_path(job));
    if (settle_file(job, &files, api_transfer_path(job), &bytes) == 0) {
        coto_json_begin(&json, NULL, '{');
        coto_json_str(&json, "path", coto_buf_str(&job->code));
        coto_json_int(&json, "bytes", bytes);
        coto_json_end(&json, '}');
        coto_buf_addc(&job->reply, '\n');
    }
    api_transfer_close(job, &files);
}

void coto_api_put_file(struct api_call *call)
{
    api_transfer_begin(call, true, put_file);
}

/* ---- an archive in ---- */

struct unpack {
    struct api_job *job;
    struct coto_workfiles *files;
    int64_t left; /* of the present file */
    int64_t file_count, directory_count;
};

/* The member's name below the directory it is unpacked in. */
static int member_path(const struct unpack *u, const char *name, struct coto_buf *ret_path,
                       struct coto_err *err)
{
    coto_auto_buf checked = {0};
    const char *below = api_transfer_path(u->job);

    if (name[0] == '/') {
        coto_err_set(err, COTO_ERR_INPUT, 0, "archive: '%.200s' is an absolute name", name);
        return coto_err_remedy(err, "archive with relative names");
    }
    if (api_path("/", name, &checked, err))
        return coto_err_wrap(err, "archive: '%.200s'", name);
    if (strcmp(below, ".") != 0)
        coto_buf_addf(ret_path, "%s/", below);
    coto_buf_adds(ret_path, name);
    return ret_path->failed ? coto_err_set(err, COTO_ERR_LIMIT, 0, "no memory") : 0;
}

static int unpack_file(void *arg, const char *name, bool executable, int64_t bytes,
                       struct coto_err *err)
{
    struct unpack *u = arg;
    coto_auto_buf path = {0};

    if (member_path(u, name, &path, err))
        return -1;
    u->left = bytes;
    u->file_count++;
    return coto_workfiles_put(u->files, path.data, executable ? 0755 : 0644, "", 0, bytes > 0, err);
}

static int unpack_data(void *arg, const void *data, size_t len, struct coto_err *err)
{
    struct unpack *u = arg;

    u->left -= (int64_t)len;
    return coto_workfiles_put_more(u->files, data, len, u->left > 0, err);
}

static int unpack_directory(void *arg, const char *name, struct coto_err *err)
{
    struct unpack *u = arg;
    coto_auto_buf path = {0};

    u->directory_count++;
    return member_path(u, name, &path, err) || coto_workfiles_mkdir(u->files, path.data, err) ? -1
                                                                                              : 0;
}

static int unpack_pieces(struct api_job *job, struct coto_workfiles *files,
                         struct coto_tar_reader *tar)
{
    coto_auto_buf piece = {0};
    int got;

    while ((got = api_flow_take(job, &piece)) > 0) {
        if (files->put_err.kind)
            return 0;
        if (coto_tar_feed(tar, piece.data, piece.len, &job->err))
            return -1;
    }
    if (got < 0)
        return coto_err_set(&job->err, COTO_ERR_INPUT, 0, "the upload broke off");
    return coto_tar_end(tar, &job->err);
}

static void put_archive(struct api_job *job, int channel_fd)
{
    struct coto_workfiles files = api_transfer_open(job, channel_fd);
    struct unpack u = {.job = job, .files = &files};
    struct coto_tar_sink sink = {.file = unpack_file,
                                 .data = unpack_data,
                                 .directory = unpack_directory,
                                 .arg = &u,
                                 .max_bytes = job->sandbox->plan.disk_bytes,
                                 .max_members = API_TRANSFER_FILES};
    struct coto_tar_reader tar;
    struct coto_json json = {.out = &job->reply};
    struct coto_err later = {0};

    coto_tar_reader_init(&tar, &sink);
    int failed = unpack_pieces(job, &files, &tar);
    /* Also after a refusal: init must be done with what it was sent. */
    if (!files.lost && coto_workfiles_settle(&files, ".", NULL, failed ? &later : &job->err) == 0 &&
        !failed) {
        coto_json_begin(&json, NULL, '{');
        coto_json_int(&json, "files", u.file_count);
        coto_json_int(&json, "directories", u.directory_count);
        coto_json_int(&json, "bytes", tar.bytes);
        coto_json_end(&json, '}');
        coto_buf_addc(&job->reply, '\n');
    }
    if (failed && !files.lost && job->err.sys_errno == ENOSPC)
        coto_err_remedy(&job->err, "send less, or raise --disk");
    if (job->err.kind == COTO_ERR_INPUT && job->err.sys_errno != ENOSPC)
        job->status = 400; /* of a member, which its text names, and not of the path */
    coto_tar_reader_fini(&tar);
    api_transfer_close(job, &files);
}

void coto_api_put_archive(struct api_call *call)
{
    api_transfer_begin(call, false, put_archive);
}
