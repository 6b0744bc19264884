/* Artifacts as they arrive from coto-init. Names and bytes are the program's: a
 * name is refused unless it stays below the directory, and a file is created
 * anew, never opened. */
#include "core/session.h"

#include "base/fd.h"
#include "base/outfile.h"
#include "schema/media.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* By a directory of an earlier run, or a file where this one needs a directory. */
static bool is_taken(int error)
{
    return error == EEXIST || error == EISDIR || error == ENOTDIR;
}

void coto_artifact_begin(struct coto_session *s, const struct coto_frame *frame)
{
    char *name = coto_field_text(frame, COTO_TAG_PATH);

    coto_artifact_end(s);
    s->name_bytes += name ? (int64_t)strlen(name) : 0;
    if (s->io->artifacts_max > 0 && s->name_bytes > s->io->artifacts_max) {
        free(name); /* in a reply names are as much as contents are */
        s->result->artifacts_skipped++;
        return;
    }
    if (!name || !coto_outfile_is_safe(name, strlen(name))) {
        free(name);
        s->result->artifacts_skipped++;
        return;
    }
    s->file = (struct coto_artifact){.name = name, .type = coto_media_type(name)};
    s->file_open = true;
    s->file.is_kept = s->io->artifacts_max > 0;
    coto_sha256_init(&s->file_sha);
    if (s->io->artifacts_fd < 0)
        return;
    s->file_fd = coto_outfile_create(s->io->artifacts_fd, name);
    if (s->file_fd < 0 && is_taken(errno)) {
        s->file_open = false;
        free(s->file.name);
        s->result->artifacts_skipped++;
    } else if (s->file_fd < 0) {
        coto_err_set(&s->err, COTO_ERR_OUTPUT, errno, "--artifacts: create '%s'", name);
        coto_err_remedy(&s->err, "use an empty directory that you may write to");
        coto_session_fail(s, &s->err);
    }
}

/* Files that do not fit are named without their bytes. */
static void keep(struct coto_session *s, const void *data, size_t len)
{
    int64_t total = (int64_t)len + s->kept_bytes;

    if (s->file.is_kept && total <= s->io->artifacts_max)
        coto_buf_add(&s->file.content, data, len);
    if (!s->file.is_kept || total > s->io->artifacts_max || s->file.content.failed) {
        s->kept_bytes -= (int64_t)s->file.content.len;
        coto_buf_fini(&s->file.content);
        s->file.is_kept = false;
        return;
    }
    s->kept_bytes = total;
}

void coto_artifact_data(struct coto_session *s, const struct coto_frame *frame)
{
    struct coto_field field = {0};

    if (!s->file_open || coto_field_next(frame, &field) != 1 || field.tag != COTO_TAG_DATA)
        return;
    s->file.bytes += (int64_t)field.len;
    s->came_bytes += (int64_t)field.len;
    coto_sha256_add(&s->file_sha, field.data, field.len);
    keep(s, field.data, field.len);
    if (s->file_fd >= 0 && coto_fd_write_all(s->file_fd, field.data, field.len)) {
        coto_err_set(&s->err, COTO_ERR_OUTPUT, errno, "--artifacts: write '%s'", s->file.name);
        coto_session_fail(s, &s->err);
    }
}

/* The stream ended: what was on its way is not whole, and what would have followed is
 * not known. */
void coto_artifact_stop(struct coto_session *s)
{
    if (s->file_open) {
        s->file_open = false;
        if (s->file_fd >= 0)
            coto_outfile_remove(s->io->artifacts_fd, s->file.name);
        coto_own_close(&s->file_fd);
        coto_buf_fini(&s->file.content);
        free(s->file.name);
    }
    if (s->collecting && !s->collected)
        s->result->artifacts_skipped++;
}

void coto_artifact_end(struct coto_session *s)
{
    struct coto_result *r = s->result;

    coto_own_close(&s->file_fd);
    if (!s->file_open)
        return;
    s->file_open = false;
    coto_sha256_hex(&s->file_sha, s->file.sha256);
    struct coto_artifact *list = realloc(r->artifacts, (r->artifact_count + 1) * sizeof *list);
    if (!list) {
        coto_buf_fini(&s->file.content);
        free(s->file.name);
        r->artifacts_skipped++;
        return;
    }
    r->artifacts = list;
    list[r->artifact_count++] = s->file;
}
