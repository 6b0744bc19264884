/* A second thread for the slow parts of the set-up that stand in nobody's way: the
 * network namespace (a third of the whole, all of it in the kernel), limits of the user
 * namespace, and taking the old root away (it waits for every CPU). It shares everything
 * with the first thread except credentials, makes only raw system calls, and is gone
 * before the sandbox is said to be ready. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct init_aside {
    _Alignas(16) char stack[16384];
    pid_t tid;      /* cleared by the kernel when the thread has ended */
    uint32_t done;  /* stage it has reached */
    uint32_t asked; /* stage it may go on to */
    int net_fd;     /* of the new namespace */
    int error, error_stage;
};

int init_aside_start(struct init_aside *aside, struct coto_err *err);
/* Waits until the thread has done what must come before the uid changes. */
int init_aside_own_proc(struct init_aside *aside, struct coto_err *err);
/* Waits for the network namespace; its descriptor is the caller's. */
int init_aside_network(struct init_aside *aside, int *ret_fd, struct coto_err *err);
/* The root has been changed: the old one may be dropped. */
void init_aside_old_root(struct init_aside *aside);
/* Limits of the sandbox's own namespaces, by a procfs; also for those with no such thread. has_network: that one was
 * made for it, and has them. */
void init_aside_limits(int proc, bool has_network);
/* Waits until everything is done and the thread is gone. */
int init_aside_join(struct init_aside *aside, struct coto_err *err);
