/* Finding the coto-init binary: beside the running program, in its tree, else where it was
 * installed. Used by every driver that starts it from this host. */
#pragma once

#include "base/err.h"

/* An O_CLOEXEC descriptor of it, or -1. */
int coto_initbin_open(struct coto_err *err);
/* The error for one that has died without a word before it was READY. -1. */
int coto_initbin_died(struct coto_err *err);
