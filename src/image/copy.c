/* A directory of the host into a tree: no link is followed, no other file system entered
 * (a /proc that is mounted there stays outside), no device opened. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

struct pair {
    int from, to;
    const char *path; /* for messages */
    int depth;
};

static int cannot_read(const struct pair *at, const char *name, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, errno, "import: '%.200s/%.100s'", at->path, name);
    return coto_err_remedy(
        err, "nothing was imported; check that you may read all of it, and that there is room");
}

static int copy_bytes(int from, int to, int64_t size)
{
    while (size > 0) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)size, 0);
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
            n = sendfile(to, from, NULL, (size_t)size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            return 0; /* it became shorter: what is listed is what came */
        size -= n;
    }
    return 0;
}

static int copy_file(struct image_unpack *u, const struct pair *at, const char *name,
                     const struct stat *st, struct coto_err *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};

    if (st->st_size > u->limits.bytes)
        return coto_err_set(err, COTO_ERR_INPUT, 0,
                            "import: larger than the limit, see --max-size");
    coto_auto_fd from = openat(at->from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat now;
    if (from < 0 || fstat(from, &now) || !S_ISREG(now.st_mode))
        return cannot_read(at, name, err);
    coto_auto_fd to =
        openat(at->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0 || copy_bytes(from, to, st->st_size) || fchmod(to, image_file_mode(st->st_mode)) ||
        futimens(to, times))
        return cannot_read(at, name, err);
    u->limits.bytes -= st->st_size;
    u->counts.set_id += (st->st_mode & 06000) != 0;
    return 0;
}

static int copy_link(const struct pair *at, const char *name, struct coto_err *err)
{
    char target[4096];
    ssize_t n = readlinkat(at->from, name, target, sizeof target - 1);

    if (n < 0)
        return cannot_read(at, name, err);
    target[n] = '\0';
    return symlinkat(target, at->to, name) ? cannot_read(at, name, err) : 0;
}

static int copy_dir(struct image_unpack *u, const struct pair *at, struct coto_err *err);

static int enter(struct image_unpack *u, const struct pair *at, const char *name,
                 const struct stat *st, struct coto_err *err)
{
    coto_auto_buf path = {0};
    struct stat above, below;

    if (at->depth >= IMAGE_DEPTH_MAX)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "import: '%.200s' is over 256 directories deep",
                            at->path);
    coto_auto_fd from = coto_path_open_beneath(at->from, name, O_RDONLY | O_DIRECTORY, 0);
    if (from < 0 || fstat(at->from, &above) || fstat(from, &below) || mkdirat(at->to, name, 0700))
        return cannot_read(at, name, err);
    coto_auto_fd to = coto_path_open_beneath(at->to, name, O_RDONLY | O_DIRECTORY, 0);
    if (to < 0)
        return cannot_read(at, name, err);
    coto_buf_addf(&path, "%s/%s", at->path, name);
    struct pair inner = {from, to, coto_buf_str(&path), at->depth + 1};
    if (above.st_dev == below.st_dev && copy_dir(u, &inner, err))
        return -1;
    return fchmod(to, image_dir_mode(st->st_mode)) ? cannot_read(at, name, err) : 0;
}

static int copy_entry(struct image_unpack *u, const struct pair *at, const char *name,
                      struct coto_err *err)
{
    struct stat st;

    if (fstatat(at->from, name, &st, AT_SYMLINK_NOFOLLOW))
        return cannot_read(at, name, err);
    if (--u->limits.files < 0)
        return coto_err_set(err, COTO_ERR_INPUT, 0,
                            "import: more entries than the limit, see --max-files");
    if (S_ISREG(st.st_mode))
        return copy_file(u, at, name, &st, err);
    if (S_ISDIR(st.st_mode))
        return enter(u, at, name, &st, err);
    if (S_ISLNK(st.st_mode))
        return copy_link(at, name, err);
    u->counts.skipped++;
    return 0;
}

static int copy_dir(struct image_unpack *u, const struct pair *at, struct coto_err *err)
{
    coto_auto_strv names = {0};

    if (image_dir_names(at->from, &names))
        return cannot_read(at, ".", err);
    for (size_t i = 0; i < names.count; i++)
        if (copy_entry(u, at, names.items[i], err))
            return -1;
    return 0;
}

int image_copy_tree(struct image_unpack *u, int from, struct coto_err *err)
{
    const struct pair top = {from, u->root, "", 0};

    return copy_dir(u, &top, err);
}
