#include "kernel/sched.h"

#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OTHER = 0, FIFO = 1, RR = 2, DEADLINE = 6, RESET_ON_FORK = 0x40000000 };
#define FLAG_RESET_ON_FORK 1 /* of sched_setattr */
#define TURN_NS 100000        /* the shortest there is */

/* By hand: musl's own functions for it always fail. */
int coto_sched_leave_real_time(struct coto_err *err)
{
    const int priority = 0; /* struct sched_param */
    long policy = syscall(SYS_sched_getscheduler, 0) & ~(long)RESET_ON_FORK;

    if ((policy == FIFO || policy == RR || policy == DEADLINE) &&
        syscall(SYS_sched_setscheduler, 0, OTHER, &priority))
        return coto_err_set(err, COTO_ERR_WALL, errno, "cpus: leave the real-time class of the caller");
    return 0;
}

void coto_sched_be_prompt(pid_t pid)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof attr, .flags = FLAG_RESET_ON_FORK, .runtime = TURN_NS};

    errno = 0;
    attr.nice = getpriority(PRIO_PROCESS, (id_t)pid);
    if (errno == 0 && syscall(SYS_sched_getscheduler, pid) == OTHER)
        syscall(SYS_sched_setattr, pid, &attr, 0);
}
