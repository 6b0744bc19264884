#include "drivers/guard.h"

#include "base/sanitize.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define SHARED_MEMORY (COTO_ASAN ? 0 : CLONE_VM)

static int guard_main(void *arg)
{
    struct coto_guard *guard = arg;
    sigset_t wake;

    /* All signals wait, so that Ctrl-C for the supervisor's group is not ours. While
     * it lives nothing here may touch memory it uses: system calls only. */
    sigfillset(&wake);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &wake, NULL, 8);
    syscall(SYS_prctl, PR_SET_NAME, "coto-guard", 0, 0, 0);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    /* The look at the parent closes the gap before the death signal was set. */
    while (syscall(SYS_getppid) == guard->parent)
        syscall(SYS_rt_sigtimedwait, &wake, NULL, NULL, 8);
    setsid();
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
    guard->pid = clone(guard_main, guard->stack + sizeof guard->stack,
                       SHARED_MEMORY | CLONE_FILES | CLONE_FS | SIGCHLD, guard);
    if (guard->pid > 0)
        return 0;
    guard->pid = 0;
    return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the guard");
}

/* One that was killed and not yet reaped. */
static pid_t dying;

void coto_guard_stop(struct coto_guard *guard)
{
    if (guard->pid <= 0)
        return;
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
