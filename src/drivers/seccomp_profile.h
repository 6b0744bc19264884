/* Our system-call table as the JSON profile that Docker and OCI runtimes take.
 *
 * It is the outer of two filters: the runtime puts it around coto-init and all it starts,
 * and coto-init puts the exact filter of the tier (kernel/seccomp.h) around the program.
 * So it allows, beside the tier, what coto-init itself calls (coto_seccomp_profile_init),
 * and where the language has no words for a rule it is looser, never stricter. Of two refusals
 * the kernel answers with the newer filter's errno, which is the inner one's.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

/* Calls of coto-init before the inner filter, allowed whatever the tier and the arguments;
 * ends with NULL. */
extern const char *const coto_seccomp_profile_init[];

/* Appends the object. tier is COTO_SECCOMP_*; with noexec memfd_create is denied too. */
int coto_seccomp_profile(int tier, bool noexec, struct coto_buf *out, struct coto_err *err);
