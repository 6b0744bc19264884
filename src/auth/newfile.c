#include "auth/newfile.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int coto_newfile_check(const char *name, struct coto_err *err)
{
    size_t n = strspn(name, COTO_NEWFILE_LETTERS "._-");

    if (n > 0 && n <= 64 && !name[n] && name[0] != '.' && name[0] != '-')
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "'%.80s' is not a name", name);
    return coto_err_remedy(err, "1 to 64 letters, digits, '.', '_', '-'");
}

static int make_one(const char *path, unsigned mode, struct coto_err *err)
{
    if (mkdir(path, mode) == 0 || errno == EEXIST)
        return 0;
    coto_err_set(err, COTO_ERR_OUTPUT, errno, "directory '%s'", path);
    const char *home = getenv("HOME");
    return coto_err_remedy(err, "name a directory that this user may make, such as one below %s", home && *home ? home : "its home");
}

/* "keys/" and "keys/." are keys, and not what is above something private. */
static void strip_end(char *path)
{
    for (size_t n = strlen(path); n > 1; path[--n] = '\0')
        if (path[n - 1] != '/' && !(path[n - 1] == '.' && path[n - 2] == '/'))
            return;
}

int coto_newfile_make_dir(const char *dir, struct coto_err *err)
{
    char path[4096];
    size_t len = strlen(dir);

    if (len == 0 || len >= sizeof path)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "directory '%.80s': not a path", dir);
    memcpy(path, dir, len + 1);
    strip_end(path);
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (make_one(path, 0755, err))
            return -1;
        *slash = '/';
    }
    return make_one(path, 0700, err);
}

static int fill_file(int fd, unsigned mode, const struct coto_buf *text)
{
    if (text->failed) {
        errno = ENOMEM;
        return -1;
    }
    return fchmod(fd, mode) || coto_fd_write_all(fd, coto_buf_str(text), text->len) || fsync(fd);
}

int coto_newfile_write(int dirfd, const char *name, unsigned mode, const struct coto_buf *text,
                       struct coto_err *err)
{
    /* Nobody else can open it before it has its mode. */
    coto_auto_fd fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 && errno == EEXIST) {
        coto_err_set(err, COTO_ERR_OUTPUT, 0, "'%s' exists already", name);
        return coto_err_remedy(err, "nothing is overwritten: choose another name, or move it away");
    }
    if (fd < 0)
        return coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s' cannot be made", name);
    if (fill_file(fd, mode, text) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s' cannot be written", name);
    unlinkat(dirfd, name, 0);
    return -1;
}

int coto_newfile_replace(int dirfd, const char *name, unsigned mode, const struct coto_buf *text,
                         struct coto_err *err)
{
    char fresh[128];

    snprintf(fresh, sizeof fresh, "%.100s.new", name);
    unlinkat(dirfd, fresh, 0); /* of one that was interrupted */
    if (coto_newfile_write(dirfd, fresh, mode, text, err))
        return -1;
    if (renameat(dirfd, fresh, dirfd, name) == 0)
        return fsync(dirfd) ? coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s'", name) : 0;
    coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s' cannot be replaced", name);
    unlinkat(dirfd, fresh, 0);
    return -1;
}
