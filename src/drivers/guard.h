/* The guard: a process that outlives a supervisor killed with SIGKILL just long
 * enough to remove what the kernel does not clean up by itself (a cgroup, a
 * temporary directory).
 *
 * It is a process of its own but shares the supervisor's memory and descriptors, so
 * that it costs next to nothing to start and to end, and sleeps until the kernel
 * tells it that its parent has died. Then it closes everything and runs the action.
 * In an ordinary run the supervisor cleans up itself and then ends the guard.
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

/* Stays at one address from start to stop. */
struct coto_guard {
    pid_t pid; /* 0: none */
    pid_t parent;
    void (*action)(const void *arg);
    const void *arg;
    int wait_fd;  /* see coto_guard_close_after */
    int close_fd; /* whoever swaps it for -1 closes it */
    _Alignas(16) char stack[32 * 1024];
};

/* The action runs in the guard, with every descriptor closed, if the supervisor
 * dies; arg must stay where it is. */
int coto_guard_start(struct coto_guard *guard, void (*action)(const void *arg), const void *arg,
                     struct coto_err *err);
/* Lets the guard, while the supervisor goes on, wait until wait_fd is readable and then close
 * *close_fd, which is its own from now on: for descriptors that are slow to close. Does
 * nothing without a guard, or with one that does not share our descriptors' memory. */
void coto_guard_close_after(struct coto_guard *guard, int wait_fd, int *close_fd);
/* Ends it without running the action; may be called twice. It never runs an
 * instruction again, but is reaped only by the next stop or by coto_guard_reap, so
 * that nobody waits for its exit. */
void coto_guard_stop(struct coto_guard *guard);
void coto_guard_reap(void);
