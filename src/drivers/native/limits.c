/* Limits of a native sandbox: its cgroup, what the kernel says is in force, and what
 * takes its place where there is none. */
#include "drivers/native/native.h"

#include "base/fd.h"
#include "base/weak.h"
#include "base/units.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void native_say(struct coto_wall_state *wall, bool up, const char *mechanism, const char *value)
{
    wall->wanted = true;
    wall->up = up;
    snprintf(wall->mechanism, sizeof wall->mechanism, "%s", mechanism);
    snprintf(wall->value, sizeof wall->value, "%s", value);
}

bool native_host_has_swap(void)
{
    char text[256];

    return coto_file_read_at(AT_FDCWD, "/proc/swaps", text, sizeof text) > 0 && strchr(text, '\n');
}

static void say_limit(struct native *n, enum coto_wall wall, int64_t applied, const char *file)
{
    struct coto_wall_state *state = &n->base.walls[wall];
    char value[32];
    char mechanism[48];

    if (!(n->plan->want >> wall & 1))
        return;
    snprintf(value, sizeof value, "%" PRId64, applied);
    snprintf(mechanism, sizeof mechanism, "cgroup v%d %.30s", n->cgroup_host.version, file);
    native_say(state, applied >= 0, applied >= 0 ? mechanism : "", applied >= 0 ? value : "");
    if (applied < 0)
        snprintf(state->note, sizeof state->note, "%.150s",
                 n->cgroup_host.why[0] ? n->cgroup_host.why
                 : n->applied.why[0]   ? n->applied.why
                                       : "this cgroup controller is not available");
}

/* Where no cgroup can hold a limit, what the kernel offers per process. */
static void fall_back(struct native *n)
{
    struct coto_wall_state *pids = &n->base.walls[COTO_WALL_PIDS];
    struct coto_wall_state *memory = &n->base.walls[COTO_WALL_MEMORY];
    struct coto_wall_state *swap = &n->base.walls[COTO_WALL_SWAP];

    if (pids->wanted && !pids->up) {
        /* Counted per user namespace since Linux 5.14: the sandbox's own tasks. */
        n->base.rlimit_nproc = n->plan->pids + 1;
        native_say(pids, true, "rlimit nproc, own user namespace", "");
        pids->note[0] = '\0';
    }
    if (memory->wanted && !memory->up) {
        char why[160];
        n->base.rlimit_data = n->plan->memory_bytes;
        memcpy(why, memory->note, sizeof why);
        snprintf(memory->note, sizeof memory->note, "per process only (rlimit data): %.110s", why);
    }
    if (swap->wanted && !swap->up && n->plan->swap_bytes == 0 && !native_host_has_swap()) {
        native_say(swap, true, "host has no swap", "0");
        swap->note[0] = '\0';
    }
}

int native_limits_check(const struct native *n, struct coto_err *err)
{
    static const enum coto_wall limits[] = {COTO_WALL_UNIQUE_UID, COTO_WALL_MEMORY, COTO_WALL_SWAP,
                                            COTO_WALL_CPU,        COTO_WALL_PIDS,   COTO_WALL_IOPS,
                                            COTO_WALL_LANDLOCK,   COTO_WALL_CPU_TIME};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0] && !coto_weakened(); i++) {
        const struct coto_wall_state *wall = &n->base.walls[limits[i]];
        if (!wall->wanted || wall->up || !(n->plan->need >> limits[i] & 1))
            continue;
        coto_err_set(err, COTO_ERR_WALL, 0, "required wall '%s' cannot be had: %s",
                     coto_walls[limits[i]].name, wall->note);
        return coto_err_remedy(err, "see `coto doctor`; or drop it from --require, or name it in "
                                    "--allow-missing");
    }
    return 0;
}

static int64_t cpus_here(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof cpus, &cpus) ? INT64_MAX / 1000 : CPU_COUNT(&cpus);
}

void native_cgroup_find(struct native *n)
{
    const struct coto_plan *plan = n->plan;
    struct stat st;

    /* A launcher stays where it is. */
    static struct coto_cgroup_host found;
    if (!native_serves || !found.version || found.must_leave)
        coto_cgroup_find(&found);
    n->cgroup_host = found;
    n->limits = (struct coto_cgroup_limits){
        .memory_bytes = plan->memory_bytes,
        .swap_bytes = plan->swap_bytes,
        .cpus_milli = plan->cpus_milli,
        .pids = plan->pids == COTO_UNIT_NONE ? plan->pids : plan->pids + 1, /* and init */
        .iops = plan->iops,
        .account_cpu = plan->cpu_time_ms != COTO_UNIT_NONE,
    };
    /* As many CPUs as there are is no limit to set; the hardware holds it. */
    if (plan->cpus_milli != COTO_UNIT_NONE && plan->cpus_milli >= cpus_here() * 1000)
        n->limits.cpus_milli = COTO_UNIT_NONE;
    if (plan->iops != COTO_UNIT_NONE &&
        stat(plan->rootfs.source ? plan->rootfs.source : "/usr", &st) == 0)
        n->limits.disk = st.st_dev;
    snprintf(n->group_name, sizeof n->group_name, "coto-%d-%.8s", (int)getpid(), plan->id);
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
    if (coto_cgroup_make(&n->cgroup_host, n->group_name, &n->limits, &n->group, &n->applied, &why)) {
        /* Visible, but not ours to use: as good as none, and said so. */
        snprintf(n->cgroup_host.why, sizeof n->cgroup_host.why, "%.199s", why.text);
        n->cgroup_host.version = 0;
        coto_guard_stop(&n->guard);
        return 0;
    }
    n->has_group = true;
    return 0;
}

void native_limits_say(struct native *n)
{
    const struct coto_cgroup_applied *a = &n->applied;

    say_limit(n, COTO_WALL_MEMORY, a->memory_bytes, a->memory_file);
    say_limit(n, COTO_WALL_SWAP, a->swap_bytes, a->swap_file);
    if (n->plan->cpus_milli != COTO_UNIT_NONE && n->plan->cpus_milli >= cpus_here() * 1000) {
        char value[32];
        snprintf(value, sizeof value, "%" PRId64, cpus_here() * 1000);
        native_say(&n->base.walls[COTO_WALL_CPU], true, "no more CPUs here (affinity)", value);
    } else {
        say_limit(n, COTO_WALL_CPU, a->cpus_milli, a->cpu_file);
    }
    say_limit(n, COTO_WALL_PIDS, a->pids > 0 ? a->pids - 1 : a->pids, a->pids_file);
    say_limit(n, COTO_WALL_IOPS, a->iops, a->io_file);
    if (n->plan->want >> COTO_WALL_CPU_TIME & 1) {
        struct coto_wall_state *cpu = &n->base.walls[COTO_WALL_CPU_TIME];
        char value[32];
        struct coto_cgroup_stat stat = {.cpu_user_us = -1};
        if (n->has_group)
            coto_cgroup_stat(&n->group, &stat);
        n->base.cpu_time_by_usage = stat.cpu_user_us >= 0;
        snprintf(value, sizeof value, "%" PRId64 "ms", n->plan->cpu_time_ms);
        native_say(cpu, n->base.cpu_time_by_usage, "supervisor, cgroup accounting", value);
        if (!cpu->up)
            snprintf(cpu->note, sizeof cpu->note, "per process only (rlimit cpu): no cgroup");
    }
    if (coto_up("cgroup"))
        fall_back(n);
}

void native_identity_say(struct native *n)
{
    struct coto_wall_state *unique = &n->base.walls[COTO_WALL_UNIQUE_UID];
    char value[32];

    snprintf(value, sizeof value, "%u", (unsigned)n->map.host_uid);
    native_say(unique, n->map.kind != COTO_MAP_SINGLE,
        n->map.kind == COTO_MAP_RANGE ? "uid range" : n->map.kind == COTO_MAP_SUBUID ? "subuid" : "",
        value);
    if (!unique->up)
        snprintf(unique->note, sizeof unique->note, "the caller's own uid is mapped: %.100s",
                 n->map.why[0] ? n->map.why : "--idmap single");
}

