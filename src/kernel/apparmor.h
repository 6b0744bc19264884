/* AppArmor: a profile that a process gets, with its next execve or at once, and cannot leave.
 *
 * Profiles are loaded by the host's administrator (deploy/apparmor); coto only asks for one
 * by name. Naming one needs no privilege.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define COTO_APPARMOR_LABEL 96

/* Whether this kernel runs AppArmor at all. */
bool coto_apparmor_is_on(void);

/* Whether the calling process is under a profile that refuses things. With no_new_privs the kernel then lets it, and
 * all that it starts, change to no other; of one that is unconfined it still takes every change. */
bool coto_apparmor_is_confined(void);
/* The same of a label that was read. */
bool coto_apparmor_confines(const char *label);

/* Asks for the profile at the calling thread's next execve. proc_fd is a /proc of its own
 * pid namespace that can be written to. On success *ret_label is what the kernel answers:
 * "NAME (enforce)". -1 with errno: ENOENT when no such profile is loaded, EOPNOTSUPP or
 * EINVAL when there is no AppArmor, EACCES or EPERM when we are confined ourselves. */
int coto_apparmor_on_exec(int proc_fd, const char *profile, char ret_label[COTO_APPARMOR_LABEL]);

/* The same without an execve: on success the calling thread, which has to be the only one, is
 * under the profile, and *ret_label is what the kernel says of it in the caller's own /proc. After a
 * failure it may be as well, when only that could not be read. */
int coto_apparmor_now(int proc_fd, const char *profile, char ret_label[COTO_APPARMOR_LABEL]);

/* "is not loaded", for a sentence that begins with the profile; 0: it was not enforced. */
const char *coto_apparmor_why(int error);

/* Whether a label read back says that the kernel refuses, not only notes. */
bool coto_apparmor_is_enforced(const char *label);
