/* Whether a file says what its owner wrote: of those that decide who is let in. */
#pragma once

#include "base/err.h"

/* Refuses a file that somebody else than root and this user could have written or put there: it is theirs, others may
 * write to it, or to its directory (where that is not sticky). Where a link leads to it, both ends. `what` names it in
 * the error. One that is not there is fine: whoever reads it says so. */
int coto_trust_file(const char *what, const char *path, struct coto_err *err);
