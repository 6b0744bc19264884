/* Known escapes from container runtimes, and the versions that have them mended. A runtime that lacks
 * the fix of one is refused unless the policy names it (allow-runtime). */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

#define COTO_FLOOR_LACKS 128

/* Which known escapes a version of runc, crun, runsc or kata-runtime has: their names, separated by
 * blanks. Debian's package version when is_debian, else upstream's. No version has them all. */
void coto_floor_lacks(const char *runtime, const char *version, bool is_debian,
                      char ret_lacks[COTO_FLOOR_LACKS]);
/* Debian's order of versions: below, at or above 0. */
int coto_floor_compare(const char *a, const char *b);

/* Whether a list of NAME[@VERSION] has it. */
bool coto_floor_is_named(const struct coto_strv *allowed, const char *name, const char *version);
/* The error for one that is not named; judged: by what the version was told. Returns -1. */
int coto_floor_refuse(const char *name, const char *version, const char *judged, const char *lacks,
                      struct coto_err *err);
