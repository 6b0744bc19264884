/* Linked into coto, coto-init and coto-launch of the coverage build, so that their counters reach
 * the host: a sandbox sees no build directory, runs as a uid of its own, and its PID 1 is
 * usually ended by SIGKILL. The host's root is opened before anything else; counters
 * are written through it whenever the program is about to wait.
 *
 * Whoever is killed amid a write leaves a file that nobody can add to any more. So libgcov gets a copy in
 * memory to add to, and what comes of it takes the place of the file at once. */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
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
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);

static int host_root = -1;
static struct {
    int fd; /* libgcov's copy */
    int lock;
    off_t size; /* of the file before */
    char path[4096];
} counters = {.fd = -1, .lock = -1};

__attribute__((constructor)) static void open_host_root(void)
{
    int fd = __real_open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        host_root = fcntl(fd, F_DUPFD_CLOEXEC, HOST_ROOT_FD);
        close(fd);
    }
}

/* The service closes what it does not know. */
static int root_fd(void)
{
    if (fcntl(host_root, F_GETFD) < 0)
        open_host_root();
    return host_root;
}

static bool copy(int from, int to)
{
    char data[16384];
    ssize_t n;

    while ((n = read(from, data, sizeof data)) > 0)
        if (write(to, data, (size_t)n) != n)
            return false;
    return n == 0;
}

static int open_beside(const char *suffix, int flags)
{
    char path[4200];

    snprintf(path, sizeof path, "%s%s", counters.path + 1, suffix);
    int fd = openat(root_fd(), path, flags | O_CLOEXEC, 0666);
    if (fd >= 0 && flags & O_CREAT)
        (void)!fchmod(fd, 0666); /* the next run may have another uid */
    return fd;
}

/* A holder may have been stopped: these counters are not worth waiting for long. */
static bool lock_counters(void)
{
    counters.lock = open_beside(".lock", O_RDWR | O_CREAT);
    for (int i = 0; counters.lock >= 0 && i < 100; i++) {
        if (flock(counters.lock, LOCK_EX | LOCK_NB) == 0)
            return true;
        usleep(10000);
    }
    return false;
}

static int open_counters(const char *path)
{
    snprintf(counters.path, sizeof counters.path, "%s", path);
    counters.size = 0;
    counters.fd = memfd_create("counters", MFD_CLOEXEC);
    if (counters.fd >= 0 && lock_counters()) {
        int old = open_beside("", O_RDONLY);
        if (old >= 0) {
            (void)!copy(old, counters.fd);
            counters.size = lseek(old, 0, SEEK_END);
            close(old);
            lseek(counters.fd, 0, SEEK_SET);
        }
    }
    return counters.fd;
}

/* Counters become no fewer: what is shorter was cut off, by a limit for files of the caller's. */
static void put_in_place(void)
{
    char from[4200];
    struct stat st;

    if (fstat(counters.fd, &st) || st.st_size < counters.size)
        return;
    int fd = open_beside(".new", O_WRONLY | O_CREAT | O_TRUNC);
    bool is_whole = fd >= 0 && lseek(counters.fd, 0, SEEK_SET) == 0 && copy(counters.fd, fd);

    if (fd >= 0)
        close(fd);
    snprintf(from, sizeof from, "%s.new", counters.path + 1);
    if (is_whole)
        (void)!renameat(host_root, from, host_root, counters.path + 1);
}

int __wrap_fclose(FILE *file)
{
    bool is_counters = counters.fd >= 0 && fileno(file) == counters.fd;

    if (is_counters && fflush(file) == 0 && !ferror(file) && flock(counters.lock, LOCK_EX | LOCK_NB) == 0)
        put_in_place();
    if (is_counters && counters.lock >= 0)
        close(counters.lock);
    if (is_counters)
        counters.fd = counters.lock = -1;
    return __real_fclose(file);
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
        return open_counters(path);
    return __real_open(path, flags, mode);
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
