/* The guard: a process that outlives a supervisor killed with SIGKILL just long
 * enough to remove what the kernel does not clean up by itself (a cgroup, a
 * temporary directory).
 *
 * It holds nothing but the read end of a pipe whose write end only the supervisor
 * has. End of file means the supervisor is gone: the action is run. In an ordinary
 * run the supervisor cleans up itself and then ends the guard.
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

struct coto_guard {
    pid_t pid;
    int fd;
};
#define COTO_GUARD_NONE ((struct coto_guard){.pid = 0, .fd = -1})

/* The action runs in the guard, with every descriptor but the pipe closed except
 * keep_fd (-1: none), which it finds at number 3. */
int coto_guard_start(struct coto_guard *guard, void (*action)(const void *arg), const void *arg,
                     int keep_fd, struct coto_err *err);
/* Ends it without running the action; may be called twice. */
void coto_guard_stop(struct coto_guard *guard);
/* Lets the action run now, and waits until the guard is gone. In between the
 * supervisor may do the same work side by side. */
void coto_guard_release(struct coto_guard *guard);
void coto_guard_wait(struct coto_guard *guard);
