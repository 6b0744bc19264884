/* Limits of a native sandbox: its cgroup, and its identity. */
#include "drivers/native/native.h"

#include "base/units.h"
#include "base/weak.h"
#include "drivers/cgroup_walls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct coto_cgroup_host found;
static struct coto_cgroup_applied can = {.memory_bytes = -1, .swap_bytes = -1, .pids = -1}; /* what this host has once given */

/* A launcher finds out before its first sandbox what groups here can hold: later nothing but want of something keeps them from it, and
 * a sandbox without is no answer to that. Twice, since it may want for something now. */
void native_cgroup_learn(void)
{
    const struct coto_cgroup_limits some = {.memory_bytes = 64 << 20,
                                            .cpus_milli = COTO_UNIT_NONE,
                                            .pids = 64,
                                            .iops = COTO_UNIT_NONE};
    struct coto_cgroup_applied applied;
    struct coto_cgroup group;
    char name[sizeof((struct native *)0)->group_name];

    snprintf(name, sizeof name, "coto-%d-learning", (int)getpid());
    for (int tries = 0; tries < 2 && (can.memory_bytes < 0 || can.pids < 0); tries++) {
        coto_cgroup_find(&found);
        if (!found.version || found.must_leave)
            continue;
        coto_cgroup_remove_named(&found, name); /* of one that was killed and had our number */
        if (coto_cgroup_make(&found, name, &some, &group, &applied, NULL))
            continue;
        coto_cgroup_remove(&group);
        can.memory_bytes = applied.memory_bytes >= 0 ? applied.memory_bytes : can.memory_bytes;
        can.swap_bytes = applied.swap_bytes >= 0 ? applied.swap_bytes : can.swap_bytes;
        can.pids = applied.pids >= 0 ? applied.pids : can.pids;
    }
    if (found.version && !found.must_leave)
        coto_cgroup_keep_parents(&found);
}

static int want_of(const struct native *n, const char *limit, const char *why, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_LIMIT, 0, "%s: cannot be had now as before: %.150s", limit, why[0] ? why : n->applied.why);
    return coto_err_remedy(err, "try again; where it stays so, `coto doctor` tells what the host lacks");
}

bool native_cgroup_has_all(const struct native *n)
{
    const struct coto_cgroup_limits *l = &n->limits;

    return (l->memory_bytes == COTO_UNIT_NONE || n->applied.memory_bytes >= 0) && (l->pids == COTO_UNIT_NONE || n->applied.pids >= 0) &&
           (l->memory_bytes == COTO_UNIT_NONE || l->swap_bytes == COTO_UNIT_NONE || n->applied.swap_bytes >= 0 || can.swap_bytes < 0);
}

/* why: there is no group at all. */
static int check_learned(const struct native *n, const char *why, struct coto_err *err)
{
    const struct coto_cgroup_limits *l = &n->limits;

    if (l->memory_bytes != COTO_UNIT_NONE && n->applied.memory_bytes < 0 && can.memory_bytes >= 0)
        return want_of(n, "memory", why, err);
    if (l->memory_bytes != COTO_UNIT_NONE && l->swap_bytes != COTO_UNIT_NONE && n->applied.swap_bytes < 0 && can.swap_bytes >= 0)
        return want_of(n, "swap", why, err);
    if (l->pids != COTO_UNIT_NONE && n->applied.pids < 0 && can.pids >= 0)
        return want_of(n, "pids", why, err);
    return 0;
}

void native_cgroup_find(struct native *n)
{
    /* A launcher stays where it is. */
    if (!native_serves || !found.version || found.must_leave) {
        coto_cgroup_find(&found);
        if (native_serves)
            coto_cgroup_keep_parents(&found);
    }
    n->cgroup_host = found;
    coto_cgroup_walls_ask(n->plan, &n->limits);
    /* In v2 every group counts; in v1 it takes one more, which costs a short run a twentieth. */
    n->limits.account_cpu = n->limits.account_cpu || found.version == 2;
    snprintf(n->group_name, sizeof n->group_name, "coto-%d-%.8s", (int)getpid(), n->plan->id);
}

static void guard_action(const void *arg)
{
    const struct native *n = arg;

    coto_cgroup_remove_named(&n->cgroup_host, n->group_name);
}

/* The guard first: from the moment the directory exists somebody removes it. */
int native_cgroup_make(struct native *n, struct coto_err *err)
{
    if (!coto_up("cgroup"))
        n->cgroup_host.version = 0;
    if (n->cgroup_host.version == 0)
        return 0;
    if (!native_serves && coto_guard_start(&n->guard, guard_action, n, err))
        return -1;
    n->cgroup_host.with_me = n->guard.pid;
    struct coto_err why = {0};
    if (!native_group_take(n) && coto_cgroup_make(&n->cgroup_host, n->group_name, &n->limits, &n->group, &n->applied, &why)) {
        n->applied = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
        if (check_learned(n, why.text, err))
            return -1;
        /* Visible, but not ours to use: as good as none, and said so. */
        snprintf(n->cgroup_host.why, sizeof n->cgroup_host.why, "%.199s", why.text);
        n->cgroup_host.version = 0;
        coto_guard_stop(&n->guard);
        return 0;
    }
    n->has_group = true;
    n->base.counts_cpu = n->limits.account_cpu && !native_serves;
    return check_learned(n, "", err);
}

static struct coto_cgroup_walls walls_of(struct native *n)
{
    return (struct coto_cgroup_walls){&n->base, n->plan, &n->cgroup_host,
                                      n->has_group ? &n->group : NULL, &n->applied};
}

void native_limits_say(struct native *n)
{
    const struct coto_cgroup_walls walls = walls_of(n);

    coto_cgroup_walls_say(&walls);
    if (coto_up("cgroup"))
        coto_cgroup_walls_fall_back(&walls);
}

int native_limits_check(struct native *n, struct coto_err *err)
{
    const struct coto_cgroup_walls walls = walls_of(n);

    return coto_cgroup_walls_check(&walls, err);
}

void native_identity_say(struct native *n)
{
    struct coto_wall_state *unique = &n->base.walls[COTO_WALL_UNIQUE_UID];
    char value[32];

    snprintf(value, sizeof value, "%u", (unsigned)n->map.host_uid);
    coto_wall_say(unique, n->map.kind != COTO_MAP_SINGLE && !n->map.is_shared,
        n->map.kind == COTO_MAP_RANGE ? "uid range" : n->map.kind == COTO_MAP_SUBUID ? "subuid" : "",
        value);
    if (n->map.is_shared)
        snprintf(unique->note, sizeof unique->note, "%.150s", n->map.why);
    else if (!unique->up)
        snprintf(unique->note, sizeof unique->note, "the caller's own uid is mapped: %.100s",
                 n->map.why[0] ? n->map.why : "--idmap single");
}
