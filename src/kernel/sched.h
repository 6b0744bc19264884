/* The scheduling class of a process. */
#pragma once

#include "base/err.h"

/* Leaves a real-time class that the caller was started in: no limit of CPU time holds for it, and
 * nobody else gets the processor while it runs. Lower classes stay. */
int coto_sched_leave_real_time(struct coto_err *err);
