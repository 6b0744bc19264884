/* Landlock: the second wall around files, TCP ports, abstract sockets and
 * signals. Raw system calls and our own constants, because C library headers
 * stop at an older ABI than kernels speak. Async-signal-safe: used between
 * fork and execve inside coto-init. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* ABI version of this kernel, 0 when Landlock is absent or off. */
int coto_landlock_abi(void);

struct coto_landlock_ask {
    int abi_max;
    const char *const *writable; /* trees; NULL-terminated */
    bool noexec;                 /* nothing in them may be executed */
    bool own_dev;                /* /dev holds only what was put there for the sandbox */
    const char *const *readable; /* NULL: all there is; else these trees and files beside the writable ones, as far
                                  * as they exist, and with noexec nothing at all may be executed */
    bool no_tcp;                 /* where the ABI can (4): no port may be bound or connected to */
};

/* Restricts the calling thread: everything below "/" may be read and executed (but see readable),
 * only the writable trees may be written, created in or removed from, and the usual
 * devices may be used. TCP bind and connect stay possible unless no_tcp says otherwise (the network
 * namespace is the wall there); abstract UNIX sockets and signals are scoped where the ABI can.
 * Needs no_new_privs. *ret_abi: the ABI that was applied. */
int coto_landlock_apply(const struct coto_landlock_ask *ask, int *ret_abi, struct coto_err *err);
