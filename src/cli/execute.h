/* What the verbs that run something share: the caller's signals, its descriptors,
 * and what is said about a run. */
#pragma once

#include "core/result.h"
#include "policy/plan.h"

/* A caller may have closed 0, 1 or 2: no file of ours may land there. */
void coto_cli_fill_stdio(void);
/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless they are ignored, make the returned
 * descriptor readable instead of ending coto, and a closed pipe is a failed write. */
int coto_cli_catch_signals(struct coto_err *err);
/* The status of a run that such a signal ended; else `otherwise`. */
int coto_cli_signal_status(int signal_fd, const struct coto_result *result, int otherwise);

/* --verbose: one line per step; the progress function of struct coto_io. */
void coto_cli_show_step(void *arg, const char *step, int64_t us);
/* --dry-run: the plan as JSON on stdout. 0, or the exit status of a failed write. */
int coto_cli_print_plan(const struct coto_plan *plan);
