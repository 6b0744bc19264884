/* Capabilities, by raw system calls (async-signal-safe). */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coto_caps {
    uint64_t effective, permitted, inheritable, bounding, ambient;
};

/* "chown" of CAP_CHOWN; NULL past the last known. */
const char *coto_caps_name(int bit);

/* Reduces all five sets to `keep` (and the bounding set too): with keep 0 every
 * set ends empty. Kept ones become ambient so that they survive execve of a
 * non-root uid. Needs CAP_SETPCAP for the bounding set. */
int coto_caps_limit(uint64_t keep, struct coto_err *err);
/* The same without the bounding set, for whoever reduces that in another way. */
int coto_caps_keep(uint64_t keep, struct coto_err *err);
/* For a process that goes on as it is: permitted and effective to `keep`, the bounding set as far as it may
 * (CAP_SETPCAP), nothing inheritable or ambient. The process must have no other thread. */
int coto_caps_shed(uint64_t keep, struct coto_err *err);
/* All five sets of the calling thread, as the kernel tells them. */
int coto_caps_read(struct coto_caps *ret_caps, struct coto_err *err);

/* Whether the bounding set is empty. It is read bit by bit, which costs in a guest whose calls are slow, and
 * but for a new user namespace it never grows, for children neither: what was seen once holds. */
bool coto_caps_is_bounded(void);
/* coto_caps_read after that was true. */
int coto_caps_read_bounded(struct coto_caps *ret_caps, struct coto_err *err);
