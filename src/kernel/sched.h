/* The scheduling class of a process. */
#pragma once

#include "base/err.h"

#include <sys/types.h>

/* Leaves a real-time class that the caller was started in: no limit of CPU time holds for it, and
 * nobody else gets the processor while it runs. Lower classes stay. */
int coto_sched_leave_real_time(struct coto_err *err);

/* Who holds limits, coto (0: the caller) and a sandbox's init, has to be heard among any number of processes
 * that only burn time: from Linux 6.12 on its turns are short, and so come soon. Elsewhere, or of a process that
 * is not the caller's, nothing changes. Not inherited. */
void coto_sched_be_prompt(pid_t pid);
