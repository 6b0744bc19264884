/* Whether the launcher still answers. One that hangs would be there for ever: nobody dies, and
 * nobody is served. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct coto_pulse {
    int64_t due_us; /* when it is asked next; 0: at once */
    unsigned missed;
    bool is_asked;
};

/* Counted in turns, not by the clock: after a suspended machine goes on, both begin where they were. True: it has
 * missed so many that it will not answer. */
bool coto_pulse_take(struct coto_pulse *pulse, int launch_fd, int64_t now_us);
