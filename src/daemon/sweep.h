/* Cgroups of a launcher that was killed: coto-PID-*. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Removes those that are empty. False when some may be removed later: processes in them are
 * still ending, or the launcher itself is. Nothing happens while another process has that
 * pid: it may be a coto of somebody else. */
bool coto_sweep(pid_t launcher);
