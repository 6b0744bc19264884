/* A runtime's command from start to end, with what it wrote; never longer than it may. */
#include "drivers/oci/oci.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static _Noreturn void run_child(char *const argv[], int out_fd)
{
    char *envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, 0);
    dup2(out_fd, 1);
    dup2(out_fd, 2);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    setsid(); /* Ctrl-C is for the supervisor */
    execve(argv[0], argv, envp);
    _exit(127);
}

/* Until the end of its output, what does not fit being dropped; false: time is up. */
static bool drain(int fd, int64_t until_us, struct oci_output *out)
{
    size_t len = 0;

    for (;;) {
        char rest[512];
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        int64_t left = (until_us - coto_clock_us()) / 1000;
        if (left <= 0 || poll(&pfd, 1, (int)left) == 0)
            return false;
        ssize_t n = read(fd, rest, sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return true;
        size_t keep = sizeof out->text - 1 - len;
        keep = (size_t)n < keep ? (size_t)n : keep;
        memcpy(out->text + len, rest, keep);
        len += keep;
        out->text[len] = '\0';
    }
}

int oci_command(char *const argv[], int timeout_ms, struct oci_output *ret_output)
{
    int p[2];
    int64_t until = coto_clock_us() + (int64_t)timeout_ms * 1000;

    ret_output->text[0] = '\0';
    ret_output->status = -1;
    if (pipe2(p, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_child(argv, p[1]);
    close(p[1]);
    if (pid > 0 && !drain(p[0], until, ret_output))
        kill(-pid, SIGKILL);
    close(p[0]);
    if (pid < 0)
        return -1;
    int status = -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0; /* somebody else reaped it */
    ret_output->status = status;
    return 0;
}
