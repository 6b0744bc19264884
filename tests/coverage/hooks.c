/* Linked into coto and coto-init of the coverage build, so that their counters reach
 * the host: a sandbox sees no build directory, runs as a uid of its own, and its PID 1 is
 * usually ended by SIGKILL. The host's root is opened before anything else; counters
 * are written through it whenever the program is about to wait. */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOST_ROOT_FD 900

void __gcov_dump(void);
void __gcov_reset(void);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap___gcov_execve(const char *path, char *const argv[], char *const envp[]);
void __wrap_setbuf(FILE *file, char *buffer);

static int host_root = -1;
static char file_buffer[1 << 18];

__attribute__((constructor)) static void open_host_root(void)
{
    int fd = __real_open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        host_root = fcntl(fd, F_DUPFD_CLOEXEC, HOST_ROOT_FD);
        close(fd);
    }
}

static int open_counters(const char *path, int flags)
{
    int fd = openat(host_root, path + 1, flags, 0666);

    if (fd >= 0)
        (void)!fchmod(fd, 0666); /* the next run may have another uid */
    return fd;
}

int __wrap_open(const char *path, int flags, ...)
{
    size_t len = strlen(path);
    mode_t mode = 0;
    va_list args;

    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = (mode_t)va_arg(args, int);
        va_end(args);
    }
    if (len > 5 && path[0] == '/' && strcmp(path + len - 5, ".gcda") == 0)
        return open_counters(path, flags);
    return __real_open(path, flags, mode);
}

/* Whoever is killed amid hundreds of little writes leaves a file that nobody can add to any more: one
 * write for all. */
void __wrap_setbuf(FILE *file, char *buffer)
{
    (void)buffer;
    (void)!setvbuf(file, file_buffer, _IOFBF, sizeof file_buffer);
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (getpid() == 1 && timeout != 0) {
        __gcov_dump();
        __gcov_reset();
    }
    return __real_poll(fds, count, timeout);
}

/* The compiler puts a dump in front of every execve; behind its walls a process cannot
 * write, and its memory, with the counters, is its parent's. */
int __wrap___gcov_execve(const char *path, char *const argv[], char *const envp[])
{
    return (int)syscall(SYS_execve, path, argv, envp);
}
