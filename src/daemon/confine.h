/* The front behind coto's own walls: it reads what strangers send, so it is treated like the
 * programs it has run. Called once the sockets are open and the launcher is started, before any
 * thread exists. */
#pragma once

#include "base/err.h"

struct coto_confined {
    unsigned uid, gid;
    int landlock_abi;      /* 0: this kernel has none */
    char filter_hash[65];  /* of the seccomp filter */
};

/* Dies with its parent from now on. Gives up root for uid and gid (when it is root), every capability, the right to write anywhere
 * but below the writable trees (NULL-terminated), and every system call that a sandboxed program
 * may not make. *ret_confined is what the kernel confirms. */
int coto_confine(unsigned uid, unsigned gid, const char *const *writable,
                 struct coto_confined *ret_confined, struct coto_err *err);
