#include "base/fd.h"

#include "base/clock.h"
#include "base/weak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSING_MS 1000

int coto_fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

void coto_fd_write_closing(int fd, const void *data, size_t len)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    coto_auto_fd own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct pollfd to = {.fd = own, .events = POLLOUT};
    if (own < 0 || poll(&to, 1, CLOSING_MS) > 0)
        (void)!write(own < 0 ? fd : own, data, len);
}

int coto_fd_read_exact(int fd, void *data, size_t len)
{
    char *p = data;

    while (len > 0) {
        ssize_t n = read(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EPIPE;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int coto_fd_read_all(int fd, size_t max, struct coto_buf *buf)
{
    size_t total = 0;

    for (;;) {
        char *to = coto_buf_reserve(buf, 65536);
        if (!to) {
            errno = ENOMEM;
            return -1;
        }
        ssize_t n = read(fd, to, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            *to = '\0';
            return 0;
        }
        buf->len += (size_t)n;
        total += (size_t)n;
        if (total > max) {
            errno = EFBIG;
            return -1;
        }
    }
}

ssize_t coto_file_read_at(int dirfd, const char *name, char *text, size_t size)
{
    coto_auto_fd fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -1;
    while (len < size - 1) {
        ssize_t n = read(fd, text + len, size - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    while (len > 0 && text[len - 1] == '\n')
        len--;
    text[len] = '\0';
    return (ssize_t)len;
}

ssize_t coto_file_read_words_at(int dirfd, const char *name, char *text, size_t size)
{
    ssize_t len = coto_file_read_at(dirfd, name, text, size);

    if (len != (ssize_t)size - 1)
        return len;
    while (len > 0 && text[len - 1] != ' ' && text[len - 1] != '\n')
        len--;
    text[len] = '\0';
    return len;
}

char coto_proc_stat(long pid, int field, int count, int64_t *ret_numbers)
{
    char path[48], text[1024];

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (coto_file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    /* The name may hold blanks and brackets: fields are counted from the last one. */
    char *p = strrchr(text, ')');
    char state = p && p[1] == ' ' ? p[2] : '\0';
    for (int at = 2; p && at < field; at++)
        p = strchr(p + 1, ' ');
    for (int i = 0; p && i < count; i++)
        ret_numbers[i] = strtoll(p + 1, &p, 10);
    return p ? state : '\0';
}

int coto_file_write_at(int dirfd, const char *name, const char *text)
{
    coto_auto_fd fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -1 : coto_fd_write_value(fd, text);
}

int coto_path_open_as(const char *path, int flags, uid_t owner)
{
    int fd = open(path, flags | O_CLOEXEC);

    if (fd >= 0 || errno != EACCES || geteuid() != 0)
        return fd;
    syscall(SYS_setfsuid, owner); /* libc's own would be for all threads */
    fd = open(path, flags | O_CLOEXEC);
    int saved = errno;
    syscall(SYS_setfsuid, 0);
    errno = saved;
    return fd;
}

int coto_fd_write_value(int fd, const char *text)
{
    size_t len = strlen(text);

    /* Kernel files take a value in one write or not at all. */
    ssize_t n = write(fd, text, len);
    if (n >= 0 && (size_t)n != len)
        errno = EIO;
    return n >= 0 && (size_t)n == len ? 0 : -1;
}

int coto_fd_set_nonblock(int fd, int on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -1;
    return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

#define SEND_MAX 64
_Static_assert(CMSG_SPACE(SEND_MAX * sizeof(int)) == CMSG_LEN(SEND_MAX * sizeof(int)),
               "space for an odd number has room for one more");

static int send_byte(int socket, char byte, const int *fds, int count, int flags)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(SEND_MAX * sizeof(int))] = {0};
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (count < 0 || count > SEND_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (count > 0) {
        msg.msg_control = control;
        msg.msg_controllen = (socklen_t)CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = (socklen_t)CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
    }
    do
        n = sendmsg(socket, &msg, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n == 1 ? 0 : -1;
}

int coto_fd_send(int socket, char byte, const int *fds, int count)
{
    return send_byte(socket, byte, fds, count, 0);
}

int coto_fd_send_now(int socket, char byte, const int *fds, int count)
{
    return send_byte(socket, byte, fds, count, MSG_DONTWAIT);
}

void coto_fd_drop(int fd)
{
    const struct linger none = {0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none); /* of what is no socket: nothing */
    close(fd);
}

ssize_t coto_fd_receive_with(int socket, void *data, size_t len, int *fds, int max, int *ret_count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(SEND_MAX * sizeof(int))];
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;

    do
        n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *ret_count = 0;
    struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return n;
    int got[SEND_MAX];
    int count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(got, CMSG_DATA(head), (size_t)count * sizeof(int));
    for (; count > max; count--)
        coto_fd_drop(got[count - 1]);
    memcpy(fds, got, (size_t)count * sizeof(int));
    *ret_count = count;
    return n;
}

int coto_fd_receive(int socket, char *ret_byte, int *fds, int max)
{
    int count;
    ssize_t n = coto_fd_receive_with(socket, ret_byte, 1, fds, max, &count);

    if (n == 0)
        errno = EPIPE;
    return n == 1 ? count : -1;
}

/* Kernel ABI, spelled here because the C library's headers may be older. */
struct coto_open_how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};
#define COTO_RESOLVE_NO_MAGICLINKS 0x02
#define COTO_RESOLVE_NO_SYMLINKS 0x04
#define COTO_RESOLVE_BENEATH 0x08
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* One name, never through a link; a link itself only where openat2 would give it. */
static int open_name(int dirfd, const char *name, int flags, unsigned mode)
{
    struct stat st;

    if (strcmp(name, "..") == 0) {
        errno = EXDEV;
        return -1;
    }
    coto_auto_fd fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0 && flags & O_PATH && !(flags & O_NOFOLLOW) && fstat(fd, &st) == 0 &&
        S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        return -1;
    }
    return coto_take_fd(&fd);
}

/* The same name by name, for gVisor, whose kernel has no openat2. */
static int open_by_names(int dirfd, const char *path, int flags, unsigned mode)
{
    coto_auto_fd at = -1; /* below dirfd */
    char name[256];

    if (*path == '/' || !*path)
        errno = *path ? EXDEV : ENOENT;
    while (*path && *path != '/') {
        size_t len = strcspn(path, "/");
        if (len >= sizeof name) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, path, len);
        name[len] = '\0';
        path += len;
        bool is_last = !path[strspn(path, "/")];
        int more = *path ? O_DIRECTORY : 0; /* "dir/" must be one */
        path += strspn(path, "/");
        int next = open_name(at < 0 ? dirfd : at, name,
                             is_last ? flags | more : O_PATH | O_DIRECTORY, is_last ? mode : 0);
        if (is_last || next < 0)
            return next;
        coto_own_close(&at);
        at = next;
    }
    return -1;
}

int coto_path_open_beneath(int dirfd, const char *path, int flags, unsigned mode)
{
    struct coto_open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .mode = mode,
        .resolve =
            COTO_RESOLVE_BENEATH | COTO_RESOLVE_NO_SYMLINKS | COTO_RESOLVE_NO_MAGICLINKS,
    };
    if (!coto_up("beneath"))
        return openat(dirfd, path, (flags & ~O_NOFOLLOW) | O_CLOEXEC, mode);
    int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
    return fd < 0 && errno == ENOSYS ? open_by_names(dirfd, path, flags, mode) : fd;
}

int coto_path_make_parents(int dirfd, const char *path, unsigned mode)
{
    coto_auto_fd at = -1; /* below dirfd */

    while (*path == '/')
        path++;
    for (;;) {
        const char *slash = strchr(path, '/');
        char name[256];
        if (!slash)
            return 0;
        size_t len = (size_t)(slash - path);
        if (len >= sizeof name) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, path, len);
        name[len] = '\0';
        path = slash + 1;
        if (len == 0)
            continue;
        if (mkdirat(at < 0 ? dirfd : at, name, mode) && errno != EEXIST)
            return -1;
        int next = coto_path_open_beneath(at < 0 ? dirfd : at, name, O_PATH | O_DIRECTORY, 0);
        if (next < 0)
            return -1;
        coto_own_close(&at);
        at = next;
    }
}

/* fchmod refuses a handle on a name; of a link this is the link itself, which has no mode. */
static int chmod_handle(int fd, unsigned mode)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fchmodat(AT_FDCWD, path, mode, 0);
}

int coto_path_chmod(int dirfd, const char *name, unsigned mode)
{
    coto_auto_fd fd = coto_path_open_beneath(dirfd, name, O_PATH | O_NOFOLLOW, 0);

    return fd < 0 ? -1 : chmod_handle(fd, mode);
}

struct removal {
    int top;
    unsigned serial; /* of the next name in top */
    int64_t until_us;
    int64_t patient_until_us; /* 0: nobody has changed anything about so far */
    bool more; /* another turn is needed */
};

#define PATIENCE_US 2000000 /* with somebody who does */

static bool is_late(const struct removal *r)
{
    return r->until_us != INT64_MAX && coto_clock_us() > r->until_us;
}

/* A directory that is removed becomes the remover's own, where that is root: its owner, or whoever has it
 * open, adds nothing to it any more. And its owner may write to it, whatever mode a program has left it with. */
static int take(int dirfd, const char *name)
{
    coto_auto_fd fd = coto_path_open_beneath(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);

    if (fd < 0)
        return -1;
    /* Refused to others than root, and where a user namespace does not have its owner's id. */
    (void)!fchownat(fd, "", 0, 0, AT_EMPTY_PATH);
    return chmod_handle(fd, 0700);
}

/* A directory that is a link, or something else, by now: it is looked at again. */
static bool is_changed(struct removal *r)
{
    if (errno != ENOTDIR && errno != ELOOP)
        return false;
    if (!r->patient_until_us)
        r->patient_until_us = coto_clock_us() + PATIENCE_US;
    bool is = coto_clock_us() < r->patient_until_us;
    r->more = r->more || is;
    return is;
}

/* 1: it is a directory with something in it. */
static int remove_entry(struct removal *r, int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) == 0)
        return 0;
    bool is_no_file = errno == EISDIR || errno == ENOENT;
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) /* somebody else was faster */
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return 1;
    return is_no_file && is_changed(r) ? 0 : -1;
}

/* Moves a non-empty directory into `top` under a name nobody has taken. Moving
 * one changes its "..", which needs write permission on the directory itself. */
static int move_up(struct removal *r, int dirfd, const char *entry)
{
    char name[32];

    if (take(dirfd, entry))
        return -1;
    do {
        snprintf(name, sizeof name, ".coto-rm-%08x", r->serial++);
        if (renameat(dirfd, entry, r->top, name) == 0)
            return 0;
    } while (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR);
    return -1;
}

/* Empties one directory: files are unlinked; sub-directories that are not
 * empty are moved up into `top` under fresh names, so depth never grows. */
static int empty_dir(struct removal *r, int dirfd)
{
    coto_auto_fd copy = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int failed = 0;

    if (!dir)
        return -1;
    coto_take_fd(&copy);
    rewinddir(dir);
    while (!is_late(r) && (entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        int is_full = remove_entry(r, dirfd, entry->d_name);
        r->more = r->more || is_full > 0;
        if (is_full < 0 || (is_full && move_up(r, dirfd, entry->d_name) && errno != ENOENT && !is_changed(r)))
            failed = 1;
    }
    closedir(dir);
    return failed ? -1 : 0;
}

/* A directory in `top`, which may be gone meanwhile; of what was none before none has been made. */
static int sweep_one(struct removal *r, const char *name, bool was_dir)
{
    if (take(r->top, name) && errno != ENOENT)
        return was_dir && is_changed(r) ? 0 : -1;
    coto_auto_fd sub = coto_path_open_beneath(r->top, name, O_RDONLY | O_DIRECTORY, 0);
    if (sub < 0)
        return errno == ENOENT || (was_dir && is_changed(r)) ? 0 : -1;
    if (empty_dir(r, sub))
        return -1;
    if (unlinkat(r->top, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    r->more = true;
    return errno == ENOTEMPTY || errno == EEXIST || is_changed(r) ? 0 : -1; /* a mount stays, however often it is tried */
}

static int sweep(struct removal *r)
{
    coto_auto_fd copy = openat(r->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int failed = 0;

    if (!dir)
        return -1;
    coto_take_fd(&copy);
    while (!is_late(r) && (entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        int is_full = remove_entry(r, r->top, entry->d_name);
        bool is_file = is_full < 0 && errno == ENOTDIR;
        if (is_file || (is_full && sweep_one(r, entry->d_name, is_full > 0)))
            failed = 1;
    }
    closedir(dir);
    return failed ? -1 : 0;
}

int coto_path_remove_tree(int dirfd, const char *name)
{
    return coto_path_remove_tree_until(dirfd, name, INT64_MAX);
}

int coto_path_remove_tree_until(int dirfd, const char *name, int64_t until_us)
{
    if (unlinkat(dirfd, name, 0) == 0 || unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
        return 0;
    (void)!take(dirfd, name);
    coto_auto_fd top = coto_path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
    struct removal r = {.top = top, .until_us = until_us, .more = true};
    if (top < 0)
        return -1;
    while (r.more) {
        r.more = false;
        if (sweep(&r))
            return -1;
        if (is_late(&r))
            break;
    }
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (is_late(&r))
        errno = EBUSY;
    return -1;
}
