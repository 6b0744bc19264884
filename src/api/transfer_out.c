/* Files out of a caller's sandbox: one, a directory's names, an archive, artifacts; and their
 * removal. */
#include "api/transfer.h"

#include "api/flow.h"
#include "base/sha256.h"
#include "base/tar.h"
#include "schema/media.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAMES_MAX 10000
#define NAMES_BYTES (10 * COTO_MB) /* of artifacts */

/* ---- one file or directory out ---- */

struct show {
    struct api_job *job;
    struct coto_json json;
    int64_t max;
    bool is_directory;
};

static const char *type_word(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

static int show_entry(struct show *show, const char *name, mode_t mode, int64_t bytes)
{
    struct coto_json *json = &show->json;
    char octal[8];

    snprintf(octal, sizeof octal, "%04o", mode & 0777);
    coto_json_begin(json, NULL, '{');
    coto_json_bytes(json, "name", name, strlen(name));
    coto_json_str(json, "type", type_word(mode));
    coto_json_int(json, "bytes", S_ISREG(mode) ? bytes : 0);
    coto_json_str(json, "mode", octal);
    coto_json_end(json, '}');
    return 0;
}

static int show_begin(void *arg, const char *name, mode_t mode, int64_t bytes)
{
    struct show *show = arg;
    struct api_job *job = show->job;

    if (show->is_directory)
        return show_entry(show, name, mode, bytes);
    if (S_ISDIR(mode)) {
        show->is_directory = true;
        show->json.out = &job->reply;
        coto_json_begin(&show->json, NULL, '{');
        coto_json_str(&show->json, "path", coto_buf_str(&job->code));
        coto_json_begin(&show->json, "entries", '[');
        return 0;
    }
    if (bytes > show->max)
        return coto_err_set(&job->err, COTO_ERR_INPUT, 0,
                            "the file says it is larger than the disk");
    api_flow_begin(job, "application/octet-stream", bytes);
    return 0;
}

static int show_data(void *arg, const void *data, size_t len)
{
    const struct show *show = arg;

    return api_flow_send(show->job, data, len);
}

static void get_file(struct api_job *job, int channel_fd)
{
    struct coto_workfiles files = api_transfer_open(job, channel_fd);
    struct show show = {.job = job, .max = job->sandbox->plan.disk_bytes};
    struct coto_workfiles_take take = {.begin = show_begin, .data = show_data, .arg = &show};
    struct coto_err err = {0};

    if (coto_workfiles_get(&files, api_transfer_path(job), show.max, NAMES_MAX, &take, &err) &&
        !job->err.kind)
        job->err = err;
    if (show.is_directory) {
        coto_json_end(&show.json, ']');
        coto_json_bool(&show.json, "truncated", take.skipped > 0);
        coto_json_end(&show.json, '}');
        coto_buf_addc(&job->reply, '\n');
    }
    api_flow_wait(job);
    api_transfer_close(job, &files);
}

void coto_api_get_file(struct api_call *call)
{
    api_transfer_begin(call, false, get_file);
}

/* ---- an archive out ---- */

struct pack {
    struct api_job *job;
    int64_t bytes, left; /* of the present file */
};

/* A file that shrank would shift all that follows: better a broken archive than a wrong one. */
static int pack_end(struct pack *pack)
{
    coto_auto_buf pad = {0};

    if (pack->left > 0)
        return coto_err_set(&pack->job->err, COTO_ERR_INPUT, 0, "a file changed while it was read");
    coto_tar_pad(&pad, pack->bytes);
    pack->bytes = 0;
    return pad.len ? api_flow_send(pack->job, pad.data, pad.len) : 0;
}

static int pack_begin(void *arg, const char *name, mode_t mode, int64_t bytes)
{
    struct pack *pack = arg;
    coto_auto_buf head = {0};

    if (pack_end(pack))
        return -1;
    coto_tar_add_file(&head, name, mode & 0100 ? 0755 : 0644, bytes);
    pack->bytes = pack->left = bytes;
    return api_flow_send(pack->job, head.data, head.len);
}

static int pack_data(void *arg, const void *data, size_t len)
{
    struct pack *pack = arg;

    pack->left -= (int64_t)len;
    return api_flow_send(pack->job, data, len);
}

/* There must be such a directory; what follows cannot be answered with a status any more. */
static int find_directory(void *arg, const char *name, mode_t mode, int64_t bytes)
{
    (void)name;
    (void)bytes;
    *(mode_t *)arg = mode;
    return 0;
}

static void refuse_file(struct api_job *job)
{
    coto_err_set(&job->err, COTO_ERR_INPUT, 0, "'%s' is a file, not a directory", coto_buf_str(&job->code));
    coto_err_remedy(&job->err, "GET files has a single one");
}

static void get_archive(struct api_job *job, int channel_fd)
{
    struct coto_workfiles files = api_transfer_open(job, channel_fd);
    struct pack pack = {.job = job};
    struct coto_workfiles_take take = {.begin = pack_begin, .data = pack_data, .arg = &pack};
    mode_t mode = 0;
    struct coto_workfiles_take look = {.begin = find_directory, .arg = &mode};
    struct coto_err err = {0};
    coto_auto_buf end = {0};

    if (coto_workfiles_get(&files, api_transfer_path(job), 0, 0, &look, &job->err) == 0 &&
        !S_ISDIR(mode))
        refuse_file(job);
    if (!job->err.kind) {
        api_flow_begin(job, "application/x-tar", -1);
        if (coto_workfiles_collect(&files, api_transfer_path(job), job->sandbox->plan.disk_bytes,
                                   API_TRANSFER_FILES, &take, &err) &&
            !job->err.kind)
            job->err = err;
        coto_tar_add_end(&end);
        if (!job->err.kind && pack_end(&pack) == 0)
            api_flow_send(job, end.data, end.len);
        api_flow_wait(job);
    }
    api_transfer_close(job, &files);
}

void coto_api_get_archive(struct api_call *call)
{
    api_transfer_begin(call, false, get_archive);
}

/* ---- remove ---- */

static void remove_file(struct api_job *job, int channel_fd)
{
    struct coto_workfiles files = api_transfer_open(job, channel_fd);
    struct coto_json json = {.out = &job->reply};

    if (coto_workfiles_remove(&files, api_transfer_path(job), &job->err) == 0) {
        coto_json_begin(&json, NULL, '{');
        coto_json_str(&json, "path", coto_buf_str(&job->code));
        coto_json_bool(&json, "removed", true);
        coto_json_end(&json, '}');
        coto_buf_addc(&job->reply, '\n');
    }
    api_transfer_close(job, &files);
}

void coto_api_remove_file(struct api_call *call)
{
    api_transfer_begin(call, true, remove_file);
}

/* ---- artifacts ---- */

struct artifacts {
    struct coto_json json;
    struct coto_sha256 sha;
    char *name;
    int64_t bytes, names, skipped;
};

static void write_artifact(struct artifacts *a)
{
    char sha[COTO_SHA256_HEX];

    if (!a->name)
        return;
    coto_sha256_hex(&a->sha, sha);
    coto_json_begin(&a->json, NULL, '{');
    coto_json_bytes(&a->json, "name", a->name, strlen(a->name));
    coto_json_int(&a->json, "bytes", a->bytes);
    coto_json_str(&a->json, "type", coto_media_type(a->name));
    coto_json_str(&a->json, "sha256", sha);
    coto_json_end(&a->json, '}');
    free(a->name);
    a->name = NULL;
}

static int artifact_begin(void *arg, const char *name, mode_t mode, int64_t bytes)
{
    struct artifacts *a = arg;

    (void)mode;
    (void)bytes;
    write_artifact(a);
    coto_sha256_init(&a->sha);
    a->bytes = 0;
    a->names += (int64_t)strlen(name);
    if (a->names > NAMES_BYTES) {
        a->skipped++;
        return 0;
    }
    a->name = strdup(name);
    return a->name ? 0 : -1;
}

static int artifact_data(void *arg, const void *data, size_t len)
{
    struct artifacts *a = arg;

    coto_sha256_add(&a->sha, data, len);
    a->bytes += (int64_t)len;
    return 0;
}

static void list_artifacts(struct api_job *job, int channel_fd)
{
    struct coto_workfiles files = api_transfer_open(job, channel_fd);
    struct artifacts a = {.json = {.out = &job->reply}};
    struct coto_workfiles_take take = {.begin = artifact_begin, .data = artifact_data, .arg = &a};

    coto_json_begin(&a.json, NULL, '{');
    coto_json_begin(&a.json, "artifacts", '[');
    coto_workfiles_collect(&files, "output", job->sandbox->plan.disk_bytes, API_TRANSFER_FILES,
                           &take, &job->err);
    write_artifact(&a);
    coto_json_end(&a.json, ']');
    coto_json_int(&a.json, "artifacts_skipped", take.skipped + a.skipped);
    coto_json_end(&a.json, '}');
    coto_buf_addc(&job->reply, '\n');
    api_transfer_close(job, &files);
}

void coto_api_artifacts(struct api_call *call)
{
    api_transfer_begin(call, false, list_artifacts);
}
