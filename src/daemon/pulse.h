/* Whether the launcher still answers. One that hangs would be there for ever: nobody dies, and
 * nobody is served. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct coto_pulse {
    int64_t due_us; /* when it is asked next; 0: at once */
    unsigned missed;
    bool is_asked;
    bool is_told; /* that it does not answer */
};

/* Counted in turns, not by the clock: after a suspended machine goes on, both begin where they were. One that waits for
 * the kernel (a disk that is gone for a while) could not answer, nor would it die any sooner: that turn begins anew. True, once: it
 * has missed so many that it will not answer. */
bool coto_pulse_take(struct coto_pulse *pulse, pid_t launcher, int launch_fd, int64_t now_us);
