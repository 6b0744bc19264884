/* The front behind coto's own walls: it reads what strangers send, so it is treated like the
 * programs it has run. coto-callback, which reads what others answer, is the
 * other that lives so. Called once the sockets are open and the launcher is started, before any
 * thread exists. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct coto_confine_ask {
    unsigned uid, gid; /* who to become, when it is root */
    const char *const *writable, *const *readable; /* trees, NULL-terminated; what may be written may be read */
    bool is_alone; /* needs neither the network, but for sockets that it is given, nor other programs */
};

struct coto_confined {
    unsigned uid, gid;
    int landlock_abi;      /* 0: this kernel has none */
    bool has_own_network;  /* a network namespace with nothing in it */
    char filter_hash[65];  /* of the seccomp filter */
};

/* Dies with its parent from now on. Gives up root, every capability, the right to write or read anywhere
 * but below those trees, to execute anything, and every system call that a sandboxed program
 * may not make; alone, all calls but the few that the front makes, and TCP. *ret_confined is what the kernel confirms. */
int coto_confine(const struct coto_confine_ask *ask, struct coto_confined *ret_confined, struct coto_err *err);
