/* coto run --server: the same command on a service. */
#pragma once

#include "base/err.h"
#include "lib/job.h"

#include <stdbool.h>

/* Writes the request and becomes coto-remote, which sends it; comes back only with an error. What
 * a service cannot do (paths of this host) is refused by name. */
int coto_cli_run_remote(const struct coto_job *job, bool stdin_is_code, struct coto_err *err);
