/* Sandboxes made by another process, the launcher, which holds the privilege that this
 * one does not have. Blocking; a channel belongs to one thread at a time. */
#pragma once

#include "drivers/driver.h"
#include "kernel/self.h"

#include <limits.h>
#include <stdint.h>

/* One more channel over an existing one. fd or -1. */
int coto_launch_channel(int control_fd, struct coto_err *err);

/* A sandbox of the plan, taken from the pool or new. The plan must outlive it. `waiting` is how
 * many of the caller's requests wait for one, or COTO_LAUNCH_AHEAD: none does, and the pool's hits
 * and misses do not count it. It is used through its driver's functions, each of which talks over
 * the channel given here or by coto_launch_use. */
#define COTO_LAUNCH_AHEAD UINT_MAX
int coto_launch_create(int channel_fd, const struct coto_plan *plan, unsigned waiting,
                       struct coto_sandbox **ret_sandbox, struct coto_err *err);
/* The same for a sandbox that outlives this process when that dies: the next one asks for it and
 * gets this text (at most COTO_LAUNCH_HOLD bytes) back. */
#define COTO_LAUNCH_HOLD (32u * 1024)
int coto_launch_create_held(int channel_fd, const struct coto_plan *plan, unsigned waiting,
                            const struct coto_buf *hold, struct coto_sandbox **ret_sandbox,
                            struct coto_err *err);
/* The first sandbox from `from` on that a process before this one held. `number` is 0 when there is none. */
struct coto_launch_held {
    uint64_t number;
    bool is_busy;    /* an execution still uses it: `sandbox` is NULL */
    struct coto_buf text;
    struct coto_sandbox *sandbox; /* call coto_launch_use before anything else */
};
int coto_launch_get_held(int channel_fd, uint64_t from, struct coto_launch_held *ret_held,
                         struct coto_err *err);
/* Whoever asks over this channel outlives the process that opened it, and uses this sandbox
 * (NULL: those it will create). */
int coto_launch_stay(int channel_fd, const struct coto_sandbox *sandbox, struct coto_err *err);
/* From now on the sandbox is used from the thread that owns this channel, with this plan. */
void coto_launch_use(struct coto_sandbox *sandbox, int channel_fd, const struct coto_plan *plan);
/* The launcher's number of it. */
uint64_t coto_launch_number(const struct coto_sandbox *sandbox);

/* The name of the driver that a sandbox of that isolation would have. */
const char *coto_launch_driver(int isolation);

/* Keeps sandboxes of a plan ready. It waits for nothing: there is no answer. Where two profiles make the same plan
 * the first one's `min` holds. */
struct coto_launch_keep {
    unsigned min;    /* of this plan, at least */
    unsigned max;    /* of all plans of its level together, at most: the last word counts */
    int64_t wait_ms; /* then another takes its place; of every plan */
};
int coto_launch_warm(int control_fd, const struct coto_plan *plan, const struct coto_launch_keep *keep,
                     struct coto_err *err);

/* Whether this host could make a sandbox of that level; the error says what is missing. */
int coto_launch_check(int channel_fd, const struct coto_plan *plan, struct coto_err *err);

/* Order of the numbers in STATUS_IS. */
struct coto_launch_status {
    uint64_t ready, starting, in_use, ending; /* sandboxes by state */
    uint64_t created, from_pool, cold, failed, destroyed, parked; /* since the start */
    uint64_t target;                          /* ready ones aimed at */
};
/* One kind of sandboxes that is kept ready, as it travels in STATUS_IS. */
#define COTO_LAUNCH_SHELVES 32
struct coto_launch_shelf {
    char profile[64]; /* that it was first asked for with */
    uint64_t is_parked, is_high; /* an interpreter waits in each; a container */
    uint64_t ready, target;
    uint64_t hits, misses; /* since the start */
};
struct coto_launch_pool {
    struct coto_launch_status status;
    struct coto_launch_shelf shelves[COTO_LAUNCH_SHELVES];
    unsigned shelf_count;
    struct coto_self self; /* the launcher's own walls */
};
/* `more_hits`: requests since the last time for which one had waited that was made with COTO_LAUNCH_AHEAD. */
int coto_launch_get_pool(int channel_fd, uint64_t more_hits, struct coto_launch_pool *ret_pool, struct coto_err *err);
int coto_launch_get_self(int channel_fd, struct coto_self *ret_self, struct coto_err *err);
