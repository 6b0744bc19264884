/* Cgroups of a launcher that was killed: coto-PID-*. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Removes those that are empty. True when none is left. Nothing happens while a process has that
 * pid: it may be a coto of somebody else. */
bool coto_sweep(pid_t launcher);
