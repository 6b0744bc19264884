/* Whose processor time is it?
 *
 * The kernel tells of children that were waited for, all of them together, and of one that keeps its
 * state from program to program only what it has used in its whole life. What a program has
 * used is the difference between two looks at the sum.
 */
#include "init/init.h"

#include "base/fd.h"

#include <sys/resource.h>
#include <time.h>

#define TICK_US 10000 /* of /proc, on every architecture */
#define UTIME 14

static int64_t us_of(struct timeval tv)
{
    return (int64_t)tv.tv_sec * 1000000 + tv.tv_usec;
}

/* Exact, without the children it has waited for. -1: this kernel does not tell. */
static int64_t clock_of(pid_t pid)
{
    struct timespec ts;
    clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | 2); /* as clock_getcpuclockid makes it */

    return clock_gettime(clock, &ts) ? -1 : (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static bool add_interpreter(struct init *init)
{
    int64_t ticks[4]; /* user, system, and both of children it has waited for */
    int64_t all = clock_of(init->parked_pid);

    if (all < 0 || !coto_proc_stat(init->parked_pid, UTIME, 4, ticks))
        return false;
    int64_t system = ticks[1] * TICK_US < all ? ticks[1] * TICK_US : all;
    init->spent = (struct init_cpu){all - system + ticks[2] * TICK_US, system + ticks[3] * TICK_US};
    return true;
}

static struct init_cpu sum(const struct init *init, const struct rusage *children)
{
    struct init_cpu cpu = {us_of(children->ru_utime), us_of(children->ru_stime)};

    if (init->parked_pid) {
        cpu.user_us += init->spent.user_us;
        cpu.system_us += init->spent.system_us;
    }
    return cpu;
}

void init_cpu_begin(struct init *init, struct init_cpu *ret_before)
{
    struct rusage children;

    if (init->parked_pid && !init->has_state) {
        int64_t own = clock_of(init->parked_pid); /* it has waited for nobody yet */
        init->spent = (struct init_cpu){own < 0 ? 0 : own, 0};
    }
    getrusage(RUSAGE_CHILDREN, &children);
    *ret_before = sum(init, &children);
}

void init_cpu_end(struct init *init, const struct init_cpu *before, struct init_cpu *ret_used,
                  int64_t *ret_maxrss)
{
    struct rusage children;

    getrusage(RUSAGE_CHILDREN, &children);
    bool is_known = init->parked_pid && add_interpreter(init);
    struct init_cpu now = sum(init, &children);
    *ret_used = (struct init_cpu){now.user_us - before->user_us, now.system_us - before->system_us};
    /* The kernel divides a sum by ticks, and may do so otherwise the next time. */
    if (ret_used->user_us < 0) {
        ret_used->system_us += ret_used->user_us;
        ret_used->user_us = 0;
    }
    if (ret_used->system_us < 0) {
        ret_used->user_us += ret_used->system_us;
        ret_used->system_us = 0;
    }
    /* Nothing at all would be: nobody knows (core/run.c). */
    ret_used->user_us = ret_used->user_us < is_known ? is_known : ret_used->user_us;
    *ret_maxrss = (int64_t)children.ru_maxrss * 1024;
}
