/* The directory: private, ours, and used by one daemon. */
#include "records/records.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parents that are missing are made too: as private, unless another uid has to get through. */
static int make_parent(const char *path, bool is_open)
{
    if (mkdir(path, 0700))
        return errno == EEXIST ? 0 : -1;
    return is_open ? chmod(path, 0755) : 0;
}

static int make(const char *dir, bool is_open)
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (make_parent(path, is_open))
            return -1;
        *p = '/';
    }
    return mkdir(path, 0700) && errno != EEXIST ? -1 : 0;
}

/* A directory that is not private already is not ours to change: it may be /tmp. */
static int check_owner(const char *dir, int fd, unsigned uid, unsigned gid, struct coto_err *err)
{
    struct stat st;
    unsigned me = geteuid();

    if (fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "state directory '%s'", dir);
    if ((st.st_mode & 077) || (st.st_uid != me && st.st_uid != uid)) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                     "state directory '%s': not private to uid %u", dir, me == 0 ? uid : me);
        return coto_err_remedy(err, "chown and chmod 700 it (and what is in it), or use --state-dir DIR");
    }
    /* In its files nothing is changed: root would follow links that the other uid can make. */
    if (me == 0 && st.st_uid != uid && fchown(fd, uid, gid))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "give state directory '%s' to uid %u", dir, uid);
    return 0;
}

static int refuse_claimed(const char *dir, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_LIMIT, 0, "state directory '%s' is in use by another coto serve", dir);
    return coto_err_remedy(err, "end that one, or use --state-dir DIR with another directory");
}

/* Held for a moment: a service that starts just then would be refused. */
int coto_records_check_claim(const char *dir, unsigned uid, struct coto_err *err)
{
    coto_auto_fd fd = coto_path_open_as(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, uid);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK ? refuse_claimed(dir, err) : 0;
}

int coto_records_claim(const char *dir, unsigned uid, unsigned gid, int *ret_fd,
                       struct coto_err *err)
{
    if (make(dir, uid != geteuid())) {
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "make state directory '%s'", dir);
        return coto_err_remedy(err, "use --state-dir DIR with a directory that can be written");
    }
    coto_auto_fd fd = coto_path_open_as(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, uid);
    if (fd < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "open state directory '%s'", dir);
    if (check_owner(dir, fd, uid, gid, err))
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "lock state directory '%s'", dir);
        return refuse_claimed(dir, err);
    }
    *ret_fd = coto_take_fd(&fd);
    return 0;
}
