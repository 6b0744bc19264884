#include "kernel/sched.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OTHER = 0, FIFO = 1, RR = 2, DEADLINE = 6, RESET_ON_FORK = 0x40000000 };

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
