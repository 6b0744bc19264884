/* Limits that every program has, whatever its policy: core/exec.c asks for them, and init/floor.c wants to see them. What they
 * count is the host user's, who may be the caller; those that are not here are 0 (nice, rtprio, msgqueue). */
#pragma once

#define COTO_RLIMIT_MEMLOCK 65536
#define COTO_RLIMIT_SIGPENDING 1024 /* queued signals and timers count for the caller too: not all of its own */
