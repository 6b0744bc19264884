/* Artifacts as they arrive from coto-init. Names and bytes are the program's: a
 * name is refused unless it stays below the directory, and a file is created
 * anew, never opened. */
#include "core/session.h"

#include "base/fd.h"
#include "schema/media.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static bool name_is_safe(const char *name, size_t len)
{
    if (len == 0 || len > 4000 || name[0] == '/' || memchr(name, 0, len))
        return false;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t n = strcspn(p, "/");
        if (n == 0 || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        if (!p[n])
            break;
    }
    return true;
}

static void remove_file(int dir, const char *name)
{
    coto_auto_free char *copy = strdup(name);
    char *slash = copy ? strrchr(copy, '/') : NULL;

    if (slash)
        *slash = '\0';
    coto_auto_fd parent =
        copy ? coto_path_open_beneath(dir, slash ? copy : ".", O_PATH | O_DIRECTORY, 0) : -1;
    if (parent >= 0)
        unlinkat(parent, slash ? slash + 1 : name, 0);
}

static int create_file(struct coto_session *s, const char *name)
{
    int dir = s->io->artifacts_fd;

    if (coto_path_make_parents(dir, name, 0755))
        return -1;
    int fd = coto_path_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EEXIST) {
        /* Of an earlier run: replaced, as the caller asked for this directory. */
        remove_file(dir, name);
        fd = coto_path_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    }
    return fd;
}

void coto_artifact_begin(struct coto_session *s, const struct coto_frame *frame)
{
    char *name = coto_field_text(frame, COTO_TAG_PATH);

    coto_artifact_end(s);
    if (!name || !name_is_safe(name, strlen(name))) {
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
    s->file_fd = create_file(s, name);
    if (s->file_fd < 0) {
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
            remove_file(s->io->artifacts_fd, s->file.name);
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
