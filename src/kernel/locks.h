/* File locks of a group of processes: memory of the kernel's that no cgroup counts. One descriptor
 * can hold thousands, each on a byte of its own, of 200 bytes each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct coto_lockwatch {
    int64_t next_us;
    int64_t low_kb; /* the least that the host's caches had since the last search */
};

/* Whether the group of that directory (its file `tasks` lists them) holds more locks than any
 * honest program has. For whoever asks often: searches only after the host's own caches have
 * grown by more than those locks take, and where the host can count its locks, when it has as many. */
bool coto_locks_are_many(struct coto_lockwatch *watch, int group_fd, const char *tasks);
