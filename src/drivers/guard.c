#include "drivers/guard.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static _Noreturn void guard_main(void (*action)(const void *), const void *arg, int pipe_fd,
                                 int keep_fd)
{
    sigset_t all;
    char byte;

    /* Not in the terminal's group: Ctrl-C is for the supervisor. */
    setsid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "coto-guard");
    /* The caller's pipes must not stay open because of us. */
    int lifted = fcntl(pipe_fd, F_DUPFD, 16);
    if (keep_fd >= 0)
        dup2(keep_fd, 3);
    dup2(lifted, 0);
    syscall(SYS_close_range, keep_fd >= 0 ? 4u : 1u, ~0u, 0u);
    if (keep_fd >= 0)
        syscall(SYS_close_range, 1u, 2u, 0u);
    ssize_t n;
    do
        n = read(0, &byte, 1);
    while (n < 0 && errno == EINTR);
    action(arg);
    _exit(0);
}

int coto_guard_start(struct coto_guard *guard, void (*action)(const void *arg), const void *arg,
                     int keep_fd, struct coto_err *err)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the guard");
    guard->pid = fork();
    if (guard->pid == 0)
        guard_main(action, arg, fds[0], keep_fd);
    int saved = errno;
    close(fds[0]);
    guard->fd = fds[1];
    if (guard->pid < 0) {
        guard->pid = 0;
        coto_own_close(&guard->fd);
        return coto_err_set(err, COTO_ERR_LIMIT, saved, "start the guard");
    }
    return 0;
}

void coto_guard_stop(struct coto_guard *guard)
{
    if (guard->pid > 0)
        kill(guard->pid, SIGKILL);
    coto_guard_wait(guard);
}

void coto_guard_release(struct coto_guard *guard)
{
    coto_own_close(&guard->fd);
}

void coto_guard_wait(struct coto_guard *guard)
{
    if (guard->pid > 0)
        while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    guard->pid = 0;
    coto_own_close(&guard->fd);
}
