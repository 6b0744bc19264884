/* Landlock: the second wall around files, TCP ports, abstract sockets and
 * signals. Raw system calls and our own constants, because C library headers
 * stop at an older ABI than kernels speak. Async-signal-safe: used between
 * fork and execve inside coto-init. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* ABI version of this kernel, 0 when Landlock is absent or off. */
int coto_landlock_abi(void);

/* Restricts the calling thread: everything below "/" may be read and executed,
 * only the trees in writable (NULL-terminated) may be written, created in or
 * removed from; with noexec nothing in them may be executed. TCP bind and
 * connect stay possible (the network namespace is the wall there); abstract
 * UNIX sockets and signals are scoped where the ABI can. Needs no_new_privs.
 * *ret_abi: the ABI that was applied. */
int coto_landlock_apply(int abi_max, const char *const *writable, bool noexec, int *ret_abi,
                        struct coto_err *err);
