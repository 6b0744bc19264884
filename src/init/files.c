/* Files in and out. All of it happens inside the sandbox's own namespaces and
 * below a directory handle, never through a link: whatever the program left
 * behind, no name can lead to a byte of the host. */
#include "init/init.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define COLLECT_DEPTH 32
#define HOLES_MAX (64u << 20)
#define REMOVE_US 10000000 /* a program may go on making what is removed */

/* Relative paths are below the workspace handle, absolute ones below "/". */
static int base_of(const struct init *init, const char **path)
{
    if (**path != '/')
        return init->work_fd >= 0 ? init->work_fd : init->root_fd;
    while (**path == '/')
        ++*path;
    return init->root_fd;
}

static int write_fields(int fd, const struct coto_frame *frame)
{
    struct coto_field field = {0};

    while (coto_field_next(frame, &field) == 1)
        if (field.tag == COTO_TAG_DATA && coto_fd_write_all(fd, field.data, field.len))
            return -1;
    return 0;
}

/* None is followed, wherever it leads. */
static int is_link(const char *what, const char *path, int saved, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "%s: '%s' is a link, or behind one", what, path);
    err->sys_errno = saved;
    return coto_err_remedy(err, "links are not followed: name what it points to");
}

static int put_failed(const char *path, int saved, struct coto_err *err)
{
    static const char what[] = "copy into sandbox";

    if (saved == ELOOP || saved == EXDEV)
        return is_link(what, path, saved, err);
    coto_err_set(err, COTO_ERR_INPUT, saved, "%s: '%s'", what, path);
    if (saved == ENOSPC)
        return coto_err_remedy(err, "raise --disk (or --inodes), or --tmp-size for /tmp");
    if (saved == EISDIR || saved == ENOTDIR || saved == ENXIO)
        return coto_err_remedy(err, "something else has that name, or is where a directory must be: take another name, or remove it");
    return coto_err_remedy(err, "copy to the workspace or /tmp; use --mount for other places");
}

int init_put(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_PATH);
    const char *path = text;
    mode_t mode = (mode_t)coto_field_num(frame, COTO_TAG_MODE) & 0777;

    coto_own_close(&init->put_fd);
    if (!text || !*text)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "put: no path");
    int base = base_of(init, &path);
    if (coto_path_make_parents(base, path, 0755))
        return put_failed(text, errno, err);
    coto_auto_fd fd =
        coto_path_open_beneath(base, path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0600);
    if (fd < 0 || write_fields(fd, frame) || fchmod(fd, mode))
        return put_failed(text, errno, err);
    if (coto_field_num(frame, COTO_TAG_MORE)) {
        init->put_fd = coto_take_fd(&fd);
        snprintf(init->put_path, sizeof init->put_path, "%s", text);
    }
    return 0;
}

int init_put_more(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    if (init->put_fd < 0)
        return 0; /* its PUT failed and was reported */
    if (write_fields(init->put_fd, frame)) {
        int saved = errno;
        coto_own_close(&init->put_fd);
        return put_failed(init->put_path, saved, err);
    }
    if (!coto_field_num(frame, COTO_TAG_MORE))
        coto_own_close(&init->put_fd);
    return 0;
}

int init_mkdir(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_PATH);
    const char *path = text;
    mode_t mode = (mode_t)coto_field_num(frame, COTO_TAG_MODE) & 0777;

    if (!text || !*text)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "mkdir: no path");
    int base = base_of(init, &path);
    if (coto_path_make_parents(base, path, 0755))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "make directory in sandbox: '%s'", text);
    /* Parents exist and hold no link, so only the last name is left. */
    coto_auto_free char *copy = strdup(path);
    char *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        *slash = '\0';
    coto_auto_fd parent =
        coto_path_open_beneath(base, slash ? copy : ".", O_PATH | O_DIRECTORY, 0);
    if (parent < 0 || (mkdirat(parent, slash ? slash + 1 : path, mode) && errno != EEXIST))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "make directory in sandbox: '%s'", text);
    return 0;
}

int init_symlink(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_PATH);
    coto_auto_free char *to = coto_field_text(frame, COTO_TAG_DATA);
    const char *path = text;

    if (!text || !*text || !to)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "symlink: no path");
    int base = base_of(init, &path);
    coto_auto_free char *copy = strdup(path);
    char *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        *slash = '\0';
    if (coto_path_make_parents(base, path, 0755))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "make link in sandbox: '%s'", text);
    coto_auto_fd parent =
        coto_path_open_beneath(base, slash ? copy : ".", O_PATH | O_DIRECTORY, 0);
    if (parent < 0 || symlinkat(to, parent, slash ? slash + 1 : path))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "make link in sandbox: '%s'", text);
    return 0;
}

/* ---- artifacts ---- */

struct collect {
    struct init *init;
    uint64_t bytes_left, count_left;
    uint64_t holes_left; /* bytes that cost the program nothing, and whoever reads and hashes them as much as others */
    uint64_t count, skipped;
    struct coto_buf path;
};

static void send_data(struct collect *c, int fd, uint64_t size)
{
    static COTO_LARGE char chunk[COTO_FRAME_CHUNK];
    struct coto_buf *out = &c->init->out;

    while (size > 0 && !c->init->bye) {
        ssize_t n = read(fd, chunk, size < sizeof chunk ? (size_t)size : sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            c->skipped++; /* the rest of it; the result says that something is missing */
        if (n <= 0)
            break; /* shrank meanwhile: FILE_END tells the real length by what came */
        size_t at = coto_frame_begin(out, COTO_FRAME_FILE_DATA, 0);
        coto_frame_add(out, COTO_TAG_DATA, chunk, (size_t)n);
        coto_frame_end(out, at);
        init_send(c->init);
        size -= (uint64_t)n;
    }
}

static void send_name(struct init *init, const char *path, size_t len, const struct stat *st)
{
    struct coto_buf *out = &init->out;
    size_t at = coto_frame_begin(out, COTO_FRAME_FILE, 0);

    coto_frame_add(out, COTO_TAG_PATH, path, len);
    coto_frame_add_num(out, COTO_TAG_SIZE, (uint64_t)st->st_size);
    coto_frame_add_num(out, COTO_TAG_MODE, st->st_mode & (S_IFMT | 0777));
    coto_frame_end(out, at);
    init_send(init);
}

static void send_empty(struct init *init, enum coto_frame_type type)
{
    coto_frame_end(&init->out, coto_frame_begin(&init->out, type, 0));
    init_send(init);
}

static void send_collected(struct init *init, unsigned proc, const struct collect *c)
{
    size_t at = coto_frame_begin(&init->out, COTO_FRAME_COLLECTED, proc);

    coto_frame_add_num(&init->out, COTO_TAG_COUNT, c->count);
    coto_frame_add_num(&init->out, COTO_TAG_SKIPPED, c->skipped);
    coto_frame_end(&init->out, at);
    init_send(init);
}

/* Elsewhere a file may be smaller than it is by being compressed. */
static bool is_memory(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static void collect_file(struct collect *c, int dirfd, const char *name, const struct stat *st)
{
    if ((uint64_t)st->st_size > c->bytes_left || c->count_left == 0) {
        c->skipped++;
        return;
    }
    if (!(st->st_mode & 0400)) /* unreadable by its own owner: neutral mode, else skipped */
        (void)!coto_path_chmod(dirfd, name, 0600);
    coto_auto_fd fd = coto_path_open_beneath(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    struct stat now;
    if (fd < 0 || fstat(fd, &now) || !S_ISREG(now.st_mode)) {
        c->skipped++;
        return;
    }
    uint64_t there = (uint64_t)now.st_blocks * 512, size = (uint64_t)st->st_size;
    uint64_t holes = is_memory(fd) && size > there ? size - there : 0;
    if (holes > c->holes_left) {
        c->skipped++;
        return;
    }
    c->holes_left -= holes;
    c->bytes_left -= size;
    c->count_left--;
    c->count++;
    now.st_size = st->st_size; /* what it was counted as; it may have grown since */
    send_name(c->init, c->path.data, c->path.len, &now);
    send_data(c, fd, (uint64_t)st->st_size);
    send_empty(c->init, COTO_FRAME_FILE_END);
}

static void collect_dir(struct collect *c, int dirfd, int depth);

static void collect_entry(struct collect *c, int dirfd, const char *name, int depth)
{
    int follow = coto_up("lstat") ? AT_SYMLINK_NOFOLLOW : 0;
    size_t before = c->path.len;
    struct stat st;

    if (before)
        coto_buf_addc(&c->path, '/');
    coto_buf_adds(&c->path, name);
    if (c->path.failed || c->path.len > 4000 || fstatat(dirfd, name, &st, follow)) {
        c->skipped++;
    } else if (S_ISREG(st.st_mode)) {
        collect_file(c, dirfd, name, &st);
    } else if (S_ISDIR(st.st_mode) && depth < COLLECT_DEPTH) {
        if ((st.st_mode & 0700) != 0700)
            (void)!coto_path_chmod(dirfd, name, 0700); /* if not, it counts as skipped below */
        coto_auto_fd sub = coto_path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
        if (sub < 0)
            c->skipped++;
        else
            collect_dir(c, sub, depth + 1);
    } else {
        c->skipped++; /* link, FIFO, socket, device, or too deep */
    }
    c->path.len = before;
    if (c->path.data)
        c->path.data[before] = '\0';
}

static void collect_dir(struct collect *c, int dirfd, int depth)
{
    coto_auto_fd copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry = NULL;

    if (!dir) {
        c->skipped++;
        return;
    }
    coto_take_fd(&copy);
    while (!c->init->bye && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            collect_entry(c, dirfd, entry->d_name, depth);
    if (!entry && errno)
        c->skipped++; /* how many more there were is not known */
    closedir(dir);
}

int init_collect(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_PATH);
    const char *path = text;
    struct collect c = {.init = init,
                        .bytes_left = coto_field_num(frame, COTO_TAG_LIMIT_BYTES),
                        .holes_left = HOLES_MAX,
                        .count_left = coto_field_num(frame, COTO_TAG_LIMIT_COUNT)};

    if (!text)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "collect: no path");
    int base = base_of(init, &path);
    coto_auto_fd dir = coto_path_open_beneath(base, path, O_RDONLY | O_DIRECTORY, 0);
    if (dir >= 0)
        collect_dir(&c, dir, 0);
    else if (errno != ENOENT)
        c.skipped++; /* the program put something else in its place */
    coto_buf_fini(&c.path);
    send_collected(init, frame->proc, &c);
    return 0;
}

/* ---- one name ---- */

static int name_failed(const char *what, const char *path, int saved, struct coto_err *err)
{
    if (saved == ELOOP || saved == EXDEV)
        return is_link(what, path, saved, err);
    if (saved == ENXIO) { /* a socket */
        coto_err_set(err, COTO_ERR_INPUT, 0, "%s: '%s' is neither file nor directory", what, path);
        return coto_err_remedy(err, "only those can be fetched: have a program write what is in it to a file");
    }
    return coto_err_set(err, saved == ENOENT || saved == ENOTDIR ? COTO_ERR_NOTFOUND : COTO_ERR_INPUT, saved,
                        "%s: '%s'", what, path);
}

static void send_names(struct collect *c, int fd)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;
    struct stat st;

    while (dir && !c->init->bye && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (c->count == c->count_left || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
            c->skipped++;
            continue;
        }
        c->count++;
        send_name(c->init, entry->d_name, strlen(entry->d_name), &st);
    }
    if (dir)
        closedir(dir);
}

/* First the thing itself, named ".", then its bytes or its names. */
int init_get(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_PATH);
    const char *path = text;
    uint64_t most = coto_field_num(frame, COTO_TAG_LIMIT_BYTES);
    struct collect c = {.init = init, .count_left = coto_field_num(frame, COTO_TAG_LIMIT_COUNT)};
    struct stat st;

    if (!text)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "get: no path");
    int base = base_of(init, &path);
    coto_auto_fd fd =
        coto_path_open_beneath(base, *path ? path : ".", O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0 || fstat(fd, &st))
        return name_failed("read in sandbox", text, errno, err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return name_failed("read in sandbox", text, ENXIO, err);
    send_name(init, ".", 1, &st);
    if (S_ISREG(st.st_mode))
        send_data(&c, fd, (uint64_t)st.st_size <= most ? (uint64_t)st.st_size : 0);
    else
        send_names(&c, coto_take_fd(&fd));
    send_collected(init, frame->proc, &c);
    return 0;
}

int init_remove(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_PATH);
    const char *path = text;
    const struct collect none = {.init = init};

    if (!text || !*text)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "remove: no path");
    int base = base_of(init, &path);
    coto_auto_free char *copy = strdup(path);
    char *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        *slash = '\0';
    coto_auto_fd parent =
        coto_path_open_beneath(base, slash ? copy : ".", O_RDONLY | O_DIRECTORY, 0);
    if (parent < 0 || coto_path_remove_tree_until(parent, slash ? slash + 1 : path, coto_clock_us() + REMOVE_US))
        return name_failed("remove in sandbox", text, errno, err);
    send_collected(init, frame->proc, &none);
    return 0;
}
