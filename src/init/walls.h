/* The inner walls: raised by a process around itself, just before user code. Used between
 * fork and execve by coto-init, and by a parked interpreter that executes nothing. */
#pragma once

#include "init/spec.h"
#include "kernel/apparmor.h"
#include "kernel/caps.h"

#include <sys/types.h>

/* What the child reads back just before execve, or what failed. */
struct init_report {
    struct coto_err err; /* kind 0: the facts below are valid */
    uint64_t uid, gid, groups, nnp, seccomp, landlock, root_ro, fds_closed;
    uint64_t nofile, fsize, cpu, nproc, data, disk_bytes, disk_inodes;
    uint64_t apparmor_errno;
    char apparmor[COTO_APPARMOR_LABEL]; /* the label, from execve on or already */
    struct coto_caps caps;
    int listener; /* of a filter that watches, or -1 */
};

/* In the order that init.h names. On failure report->err is not set, *err is. */
int init_walls_raise(const struct init_spec *spec, struct init_report *report, struct coto_err *err);
/* The STARTED frame of it. */
void init_walls_add_started(struct coto_buf *out, unsigned proc, pid_t pid,
                            const struct init_report *report);
