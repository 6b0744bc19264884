/* Limits of a native sandbox: its cgroup, and its identity. */
#include "drivers/native/native.h"

#include "base/weak.h"
#include "drivers/cgroup_walls.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void native_cgroup_find(struct native *n)
{
    /* A launcher stays where it is. */
    static struct coto_cgroup_host found;
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
        /* Visible, but not ours to use: as good as none, and said so. */
        snprintf(n->cgroup_host.why, sizeof n->cgroup_host.why, "%.199s", why.text);
        n->cgroup_host.version = 0;
        coto_guard_stop(&n->guard);
        return 0;
    }
    n->has_group = true;
    n->base.counts_cpu = n->limits.account_cpu && !native_serves;
    return 0;
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
