#include "drivers/guard.h"

#include "base/own.h"
#include "base/rawcall.h"
#include "base/sanitize.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define SHARED_MEMORY (COTO_ASAN ? 0 : CLONE_VM)

static int take_close_fd(struct coto_guard *guard)
{
    return __atomic_exchange_n(&guard->close_fd, -1, __ATOMIC_ACQ_REL);
}

static void close_after(struct coto_guard *guard)
{
    struct pollfd pfd = {.fd = guard->wait_fd, .events = POLLIN};

    if (__atomic_load_n(&guard->close_fd, __ATOMIC_ACQUIRE) < 0)
        return;
    coto_raw_call(SYS_poll, (long)(intptr_t)&pfd, 1, 1000, 0);
    int fd = take_close_fd(guard);
    if (fd >= 0)
        coto_raw_call(SYS_close, fd, 0, 0, 0);
}

static int guard_main(void *arg)
{
    struct coto_guard *guard = arg;
    sigset_t wake;

    /* All signals wait, so that Ctrl-C for the supervisor's group is not ours. While
     * it lives nothing here may touch memory it uses: system calls only. */
    sigfillset(&wake);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &wake, NULL, 8);
    syscall(SYS_prctl, PR_SET_NAME, "coto-guard", 0, 0, 0);
    /* Should the death signal be refused, the guard looks by itself now and then. */
    const struct timespec now_and_then = {0, 100 * 1000 * 1000};
    int told = syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0) == 0;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    /* The look at the parent closes the gap before the death signal was set. */
    while (coto_raw_call(SYS_getppid, 0, 0, 0, 0) == guard->parent) {
        coto_raw_call(SYS_rt_sigtimedwait, (long)(intptr_t)&wake, 0,
                      told ? 0 : (long)(intptr_t)&now_and_then, 8);
        close_after(guard);
    }
    syscall(SYS_close_range, 0u, ~0u, 0u);
    guard->action(guard->arg);
    _exit(0);
}

int coto_guard_start(struct coto_guard *guard, void (*action)(const void *arg), const void *arg,
                     struct coto_err *err)
{
    guard->parent = getpid();
    guard->action = action;
    guard->arg = arg;
    guard->wait_fd = guard->close_fd = -1;
    guard->pid = clone(guard_main, guard->stack + sizeof guard->stack,
                       SHARED_MEMORY | CLONE_FILES | CLONE_FS | SIGCHLD, guard);
    if (guard->pid > 0) {
        setpgid(guard->pid, guard->pid); /* who kills the supervisor's whole group, as timeout(1) does, kills another */
        return 0;
    }
    guard->pid = 0;
    return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the guard");
}

void coto_guard_close_after(struct coto_guard *guard, int wait_fd, int *close_fd)
{
    if (guard->pid <= 0 || *close_fd < 0 || !SHARED_MEMORY)
        return;
    guard->wait_fd = wait_fd;
    __atomic_store_n(&guard->close_fd, *close_fd, __ATOMIC_RELEASE);
    *close_fd = -1;
    kill(guard->pid, SIGUSR1);
}

/* One that was killed and not yet reaped. */
static pid_t dying;

void coto_guard_stop(struct coto_guard *guard)
{
    if (guard->pid <= 0)
        return;
    int fd = take_close_fd(guard);
    coto_own_close(&fd);
    kill(guard->pid, SIGKILL);
    coto_guard_reap();
    dying = guard->pid;
    guard->pid = 0;
}

void coto_guard_reap(void)
{
    if (dying > 0)
        while (waitpid(dying, NULL, 0) < 0 && errno == EINTR)
            ;
    dying = 0;
}
