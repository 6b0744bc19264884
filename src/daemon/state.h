/* Where the service keeps what must outlive it. */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* given (may be NULL), else `serve` in systemd's STATE_DIRECTORY, else /var/lib/coto/serve for root (beside its
 * images, in a directory that stays root's) and $XDG_STATE_HOME/coto or ~/.local/state/coto for
 * others. */
int coto_state_dir(const char *given, char *to, size_t size, struct coto_err *err);
/* Whether the front, who is that user, will reach it once it is there. */
int coto_state_check(const char *dir, unsigned uid, unsigned gid, struct coto_err *err);
