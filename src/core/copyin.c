/* Files into the sandbox, before any program runs. The host reads through the
 * plan's descriptors; coto-init writes, inside. */
#include "core/session.h"

#include "base/fd.h"
#include "base/weak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH 64

/* Paths below the workspace are sent relative: init has a writable handle there. */
static void add_path(struct coto_session *s, const char *target)
{
    size_t n = strlen(s->plan->workdir);

    if (strncmp(target, s->plan->workdir, n) == 0 && target[n] == '/')
        target += n + 1;
    coto_frame_add_text(&s->out, COTO_TAG_PATH, target);
}

int coto_put_bytes(struct coto_session *s, const struct coto_plan_file *file)
{
    size_t done = 0;

    do {
        size_t n = file->len - done < COTO_FRAME_CHUNK ? file->len - done : COTO_FRAME_CHUNK;
        size_t at = coto_frame_begin(&s->out, done ? COTO_FRAME_PUT_DATA : COTO_FRAME_PUT, coto_session_proc(s));
        if (!done) {
            add_path(s, file->target);
            coto_frame_add_num(&s->out, COTO_TAG_MODE, file->mode);
        }
        coto_frame_add(&s->out, COTO_TAG_DATA, file->data + done, n);
        done += n;
        coto_frame_add_num(&s->out, COTO_TAG_MORE, done < file->len);
        coto_frame_end(&s->out, at);
        if (coto_session_wait_room(s))
            return -1;
    } while (done < file->len);
    return 0;
}

static int put_fd(struct coto_session *s, int fd, const char *target, unsigned mode)
{
    char *chunk = coto_session_chunk(s);
    bool first = true;
    ssize_t n;

    if (!chunk)
        return -1;
    do {
        do
            n = read(fd, chunk, COTO_FRAME_CHUNK);
        while (n < 0 && errno == EINTR);
        if (n < 0) {
            coto_err_set(&s->err, COTO_ERR_INPUT, errno, "--copy: read for '%s'", target);
            return coto_session_fail(s, &s->err);
        }
        size_t at = coto_frame_begin(&s->out, first ? COTO_FRAME_PUT : COTO_FRAME_PUT_DATA, coto_session_proc(s));
        if (first) {
            add_path(s, target);
            /* Its owner can always read and replace it; set-id bits never come along. */
            coto_frame_add_num(&s->out, COTO_TAG_MODE, (mode & 0755) | 0600);
        }
        coto_frame_add(&s->out, COTO_TAG_DATA, chunk, (size_t)n);
        coto_frame_add_num(&s->out, COTO_TAG_MORE, n > 0);
        coto_frame_end(&s->out, at);
        first = false;
        if (coto_session_wait_room(s))
            return -1;
    } while (n > 0);
    return 0;
}

static int cannot_copy(struct coto_session *s, const char *name, int error)
{
    coto_err_set(&s->err, COTO_ERR_INPUT, error, "--copy: '%s'", name);
    return coto_session_fail(s, &s->err);
}

static int put_link(struct coto_session *s, int dirfd, const char *name, const char *target)
{
    char to[4096];
    ssize_t n = readlinkat(dirfd, name, to, sizeof to);

    if (n < 0 && errno != ENOENT)
        return cannot_copy(s, name, errno);
    if (n < 0 || (size_t)n == sizeof to)
        return 0; /* vanished meanwhile, or not a link one could follow */
    size_t at = coto_frame_begin(&s->out, COTO_FRAME_SYMLINK, coto_session_proc(s));
    add_path(s, target);
    coto_frame_add(&s->out, COTO_TAG_DATA, to, (size_t)n);
    coto_frame_end(&s->out, at);
    return coto_session_wait_room(s);
}

static int put_dir(struct coto_session *s, int fd, const char *target, int depth);

static int put_entry(struct coto_session *s, int dirfd, const char *name, const char *target,
                     int depth)
{
    int follow = coto_up("lstat") ? AT_SYMLINK_NOFOLLOW : 0;
    struct stat st;

    if (fstatat(dirfd, name, &st, follow)) /* or vanished while we looked */
        return errno == ENOENT ? 0 : cannot_copy(s, name, errno);
    if (S_ISLNK(st.st_mode))
        return put_link(s, dirfd, name, target); /* copied as a link: it points inside */
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0; /* FIFOs, sockets, devices stay outside */
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (S_ISDIR(st.st_mode) ? O_DIRECTORY : 0);
    coto_auto_fd fd = coto_path_open_beneath(dirfd, name, flags, 0);
    if (fd < 0)
        return cannot_copy(s, name, errno);
    return S_ISDIR(st.st_mode) ? put_dir(s, fd, target, depth + 1)
                               : put_fd(s, fd, target, st.st_mode);
}

static int put_dir(struct coto_session *s, int fd, const char *target, int depth)
{
    coto_auto_fd copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry = NULL;
    int failed = 0;

    if (!dir || depth > MAX_DEPTH) {
        if (dir)
            closedir(dir);
        return cannot_copy(s, target, depth > MAX_DEPTH ? ELOOP : errno);
    }
    coto_take_fd(&copy);
    size_t at = coto_frame_begin(&s->out, COTO_FRAME_MKDIR, coto_session_proc(s));
    add_path(s, target);
    coto_frame_add_num(&s->out, COTO_TAG_MODE, 0755);
    coto_frame_end(&s->out, at);
    while (!failed && (errno = 0, entry = readdir(dir))) {
        coto_auto_buf path = {0};
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        coto_buf_addf(&path, "%s/%s", target, entry->d_name);
        failed = put_entry(s, fd, entry->d_name, coto_buf_str(&path), depth);
    }
    if (!failed && errno)
        failed = cannot_copy(s, target, errno);
    closedir(dir);
    return failed;
}

int coto_copyin(struct coto_session *s)
{
    const struct coto_plan *plan = s->plan;

    for (size_t i = 0; i < plan->copy_count; i++) {
        const struct coto_plan_path *copy = &plan->copies[i];
        int failed = S_ISDIR(copy->mode) ? put_dir(s, copy->fd, copy->target, 0)
                                         : put_fd(s, copy->fd, copy->target, copy->mode);
        if (failed)
            return -1;
    }
    for (size_t i = 0; i < plan->file_count; i++)
        if (coto_put_bytes(s, &plan->files[i]))
            return -1;
    return 0;
}
