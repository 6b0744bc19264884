/* Limits by cgroup, for the drivers that have one on the host: what a plan asks for, and what
 * the kernel says is in force, as walls. */
#pragma once

#include "drivers/driver.h"
#include "kernel/cgroup.h"

/* gVisor counts no processes for us, and takes many tasks of the host's for one inside: 78 for
 * an idle shell, 381 for twenty processes more, 861 for forty (ptrace). So the host is held
 * to this many, and the wall is said to be missing. */
#define COTO_GUEST_TASKS(pids) (256 + 24 * (pids))

struct coto_cgroup_walls {
    struct coto_sandbox *sandbox; /* its walls are written */
    const struct coto_plan *plan;
    const struct coto_cgroup_host *host;
    const struct coto_cgroup *group; /* NULL: none */
    const struct coto_cgroup_applied *applied;
};

/* A wall's state, as read back. */
void coto_wall_say(struct coto_wall_state *wall, bool up, const char *mechanism, const char *value);

/* The plan's limits; pids has one more, for init. */
void coto_cgroup_walls_ask(const struct coto_plan *plan, struct coto_cgroup_limits *ret_limits);
void coto_cgroup_walls_say(const struct coto_cgroup_walls *walls);
/* Where no cgroup holds them, what the kernel offers per process. */
void coto_cgroup_walls_fall_back(const struct coto_cgroup_walls *walls);
/* An error for the first limit that the plan needs and that is not up. */
int coto_cgroup_walls_check(const struct coto_cgroup_walls *walls, struct coto_err *err);
/* The group's account without init. */
void coto_cgroup_walls_usage(struct coto_cgroup *group, struct coto_usage *ret_usage);
bool coto_host_has_swap(void);
