/* Control groups: one sandbox, one group, on cgroup v2, v1 and hybrid hosts.
 *
 * On v2 a group is one directory; on v1 one directory per controller, all with
 * the same name. Where it is made: as root on v2 at the top of the hierarchy
 * (as container engines do); on v1 below the caller's own group, so that the
 * caller's limits hold for the sandbox too; without root only where the
 * caller's own group was delegated to it. When nothing can be had, version is 0
 * and `why` says so; that is no error here, the caller decides.
 *
 * Every limit is read back after it was written.
 */
#pragma once

#include "base/err.h"
#include "kernel/locks.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum coto_cgroup_ctl {
    COTO_CG_MEMORY,
    COTO_CG_PIDS,
    COTO_CG_CPU,
    COTO_CG_CPUACCT,
    COTO_CG_IO,
    COTO_CG_COUNT,
};

/* Where groups can be made on this host, for this caller. */
struct coto_cgroup_host {
    int version;                       /* 0 none, 1, 2 */
    char parent[COTO_CG_COUNT][256];   /* directory to make ours in; v2: all equal; "" absent */
    bool has[COTO_CG_COUNT];
    bool must_leave; /* v2 delegated: we must move ourselves out of parent first */
    pid_t with_me;   /* and this child of ours, 0 none */
    int parent_fd[COTO_CG_COUNT]; /* of parent, where a caller that makes many keeps them; 0: none */
    char why[200];   /* version 0, or a missing controller: the reason */
};

struct coto_cgroup_limits {
    int64_t memory_bytes, swap_bytes, cpus_milli, pids, iops; /* COTO_UNIT_NONE: none */
    dev_t disk; /* device that iops is about */
    bool account_cpu; /* CPU time of the tree is to be readable while it runs */
};

/* What the kernel says is in force; -1: not set here. */
struct coto_cgroup_applied {
    int64_t memory_bytes, swap_bytes, cpus_milli, pids, iops;
    char memory_file[40], swap_file[40], cpu_file[40], pids_file[40], io_file[40];
    char why[200]; /* of what could not be set */
};

struct coto_cgroup {
    int version;
    char name[64];
    int dir_fd[COTO_CG_COUNT]; /* -1 not made; v2: only [COTO_CG_MEMORY] */
    int parent_fd[COTO_CG_COUNT];
    bool parents_lent; /* they are the caller's */
    bool is_resting[COTO_CG_COUNT]; /* made, but dir_fd is closed */
    bool moved_self;
    char leaf[64];
    struct coto_lockwatch locks;
};

struct coto_cgroup_stat {
    int64_t memory_peak_bytes, oom_kills, cpu_user_us, cpu_system_us, pids_peak, pids_refused;
    bool sockets_over; /* v1: buffers of TCP are twice what they may be */
};

void coto_cgroup_find(struct coto_cgroup_host *ret_host);

/* v1: opens all parents there are, for as long as the process lives. */
void coto_cgroup_keep_parents(struct coto_cgroup_host *host);

/* Makes the group `name` and sets the limits. On failure nothing is left. */
int coto_cgroup_make(const struct coto_cgroup_host *host, const char *name,
                     const struct coto_cgroup_limits *limits, struct coto_cgroup *ret_group,
                     struct coto_cgroup_applied *ret_applied, struct coto_err *err);
/* Sets the limits of a group that exists, again. */
void coto_cgroup_limit(const struct coto_cgroup *group, const struct coto_cgroup_limits *limits,
                       struct coto_cgroup_applied *ret_applied);
/* v1: of a group that has limits of memory and processes what the kernel says of them now. */
void coto_cgroup_read_limits(const struct coto_cgroup *group, struct coto_cgroup_applied *applied);
/* v1: of a group whose processes are all dead: peaks begin anew. -1: some are left, or more than that is still
 * charged to it. */
int coto_cgroup_reset(const struct coto_cgroup *group, int64_t charged_max);
/* v1: descriptors of the group's `tasks` files, at most COTO_CG_COUNT; the thread
 * that shall join writes "0" to each. It must be the joining thread itself: moving another process takes a lock that waits for an RCU grace
 * period (5 to 15 ms measured), joining alone does not (10 us). Count, or -1 with
 * errno. On v2, 0: a process is born inside instead (coto_cgroup_clone_fd). */
int coto_cgroup_open_join(const struct coto_cgroup *group, int ret_fds[COTO_CG_COUNT]);
/* v2: descriptor for CLONE_INTO_CGROUP, else -1. */
int coto_cgroup_clone_fd(const struct coto_cgroup *group);
/* Fields the host cannot tell are -1. */
void coto_cgroup_stat(const struct coto_cgroup *group, struct coto_cgroup_stat *ret_stat);
/* Lifts the CPU quota, so that a killed tree dies at full speed. */
void coto_cgroup_unthrottle(const struct coto_cgroup *group);
/* Kills what is inside (v2 cgroup.kill; v1 by reading cgroup.procs). */
void coto_cgroup_kill(const struct coto_cgroup *group);
/* What the kernel has remembered for it, such as names that were looked for in vain, would stay when
 * nobody is charged for it any more: where it is much it goes now. Takes seconds for as much as a
 * group can have: not for whoever has others waiting. */
void coto_cgroup_forget(const struct coto_cgroup *group);
/* Removes the directories, retrying while the last process leaves. 0 or -1. */
int coto_cgroup_remove(struct coto_cgroup *group);
/* The same by name only, for whoever did not make it (see the guard). */
void coto_cgroup_remove_named(const struct coto_cgroup_host *host, const char *name);
/* Closes what can be opened again, and opens that again: -1 when some of it could not be, and rests on. */
void coto_cgroup_rest(struct coto_cgroup *group);
int coto_cgroup_wake(struct coto_cgroup *group);
/* Closes descriptors only. */
void coto_cgroup_close(struct coto_cgroup *group);
/* Removes empty groups that supervisors and guards killed together left behind:
 * names "coto-<pid>-...", no such pid, older than ten seconds. */
void coto_cgroup_sweep(const struct coto_cgroup_host *host);
