/* Which walls are up, read from the kernel on the host before any user code runs.
 *
 * With runc and crun the container's first process is coto-init, and its /proc files tell
 * everything. With gVisor they tell about the process that is the guest's kernel: what
 * confines it is the wall around the guest; what the guest's own kernel keeps is said by
 * coto-init inside and marked so.
 */
#include "drivers/oci/oci.h"

#include "base/fd.h"
#include "base/units.h"
#include "base/weak.h"
#include "drivers/cgroup_walls.h"
#include "kernel/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const enum coto_wall ns_wall[COTO_NS_COUNT] = {
    COTO_WALL_USERNS, COTO_WALL_PIDNS, COTO_WALL_MOUNTNS,  COTO_WALL_NETNS,
    COTO_WALL_IPCNS,  COTO_WALL_UTSNS, COTO_WALL_CGROUPNS,
};

/* ---- limits ---- */

/* Made before the runtime starts, which finds it and uses it; so its account outlives it. */
void oci_group_make(struct oci *oci)
{
    struct coto_cgroup_limits wide;
    struct coto_err why = {0};

    coto_cgroup_walls_ask(oci->plan, &oci->limits);
    oci->limits.account_cpu = true;
    if (oci->chosen.runtime->own_kernel && oci->limits.pids != COTO_UNIT_NONE)
        oci->limits.pids = COTO_GUEST_TASKS(oci->limits.pids);
    if (geteuid() != 0) {
        snprintf(oci->cgroup_host.why, sizeof oci->cgroup_host.why,
                 "a runtime without root has no cgroup");
        return;
    }
    coto_cgroup_find(&oci->cgroup_host);
    if (!oci->cgroup_host.version)
        return;
    /* A controller of its own for each limit, but no limit yet: the runtime is inside first. */
    wide = oci->limits;
    wide.memory_bytes = wide.swap_bytes = wide.pids = COTO_UNIT_NONE;
    if (coto_cgroup_make(&oci->cgroup_host, oci->name, &wide, &oci->group, &oci->applied, &why)) {
        snprintf(oci->cgroup_host.why, sizeof oci->cgroup_host.why, "%.199s", why.text);
        oci->cgroup_host.version = 0;
        return;
    }
    oci->has_group = true;
}

static bool is_in_group(const struct oci *oci)
{
    char path[64];
    char text[4096];

    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)oci->init_pid);
    return coto_file_read_at(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, oci->name);
}

/* On v1 a limit below what is in use is refused until the kernel has found pages to drop: a
 * runtime has read its own program, which counts. */
static int lower_memory(struct oci *oci, struct coto_err *err)
{
    int memory = oci->group.dir_fd[COTO_CG_MEMORY];

    for (int tries = 0; tries < 100; tries++) {
        coto_cgroup_limit(&oci->group, &oci->limits, &oci->applied);
        if (oci->limits.memory_bytes == COTO_UNIT_NONE || oci->applied.memory_bytes >= 0 || memory < 0)
            return 0;
        coto_file_write_at(memory, "memory.force_empty", "0");
        usleep(10000);
    }
    coto_err_set(err, COTO_ERR_WALL, 0, "memory: %s takes more than that before any program runs",
                 oci->chosen.runtime->name);
    return coto_err_remedy(err, "raise --memory; gVisor's kernel alone needs about 32m");
}

static int set_limits(struct oci *oci, struct coto_err *err)
{
    const struct coto_cgroup_walls walls = {&oci->base, oci->plan, &oci->cgroup_host,
                                            oci->has_group ? &oci->group : NULL, &oci->applied};
    struct coto_wall_state *pids = &oci->base.walls[COTO_WALL_PIDS];

    if (oci->has_group && !is_in_group(oci))
        return coto_err_set(err, COTO_ERR_WALL, 0, "%s did not put the container into its cgroup",
                            oci->chosen.runtime->name);
    if (oci->has_group && lower_memory(oci, err))
        return -1;
    coto_cgroup_walls_say(&walls);
    if (!oci->chosen.runtime->own_kernel)
        coto_cgroup_walls_fall_back(&walls);
    else if (pids->up) {
        pids->up = false;
        snprintf(pids->note, sizeof pids->note,
                 "gVisor counts no processes; with its kernel it is held to %" PRId64 " tasks of the host",
                 oci->applied.pids);
    }
    return coto_cgroup_walls_check(&walls, err);
}

/* ---- /proc of the first process ---- */

struct status {
    char text[4096];
};

static uint64_t status_num(const struct status *status, const char *key, int base)
{
    const char *p = strstr(status->text, key);

    return p ? strtoull(p + strlen(key), NULL, base) : UINT64_MAX;
}

static int read_status(const struct oci *oci, struct status *ret_status, struct coto_err *err)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/status", (int)oci->init_pid);
    if (coto_file_read_at(AT_FDCWD, path, ret_status->text, sizeof ret_status->text) <= 0)
        return coto_err_set(err, COTO_ERR_WALL, errno, "read back the walls of %s", oci->name);
    return 0;
}

static int not_up(const struct oci *oci, enum coto_wall wall, struct coto_err *err)
{
    const struct coto_wall_state *state = &oci->base.walls[wall];

    coto_err_set(err, COTO_ERR_WALL, 0, "%s: wall '%s' is not up%s%s", oci->chosen.runtime->name,
                 coto_walls[wall].name, state->note[0] ? ": " : "", state->note);
    return coto_err_remedy(err, "see `coto doctor`; or name it in --allow-missing");
}

static void say_namespaces(struct oci *oci)
{
    bool guest = oci->chosen.runtime->own_kernel;

    for (int i = 0; i < COTO_NS_COUNT; i++) {
        char path[64];
        char own[64];
        char theirs[64] = "";
        char mine[64] = "";
        struct coto_wall_state *wall = &oci->base.walls[ns_wall[i]];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)oci->init_pid, coto_ns_name[i]);
        snprintf(own, sizeof own, "/proc/self/ns/%s", coto_ns_name[i]);
        bool read = readlink(path, theirs, sizeof theirs - 1) > 0 &&
                    readlink(own, mine, sizeof mine - 1) > 0;
        bool apart = read && strcmp(theirs, mine) != 0;
        if (guest && !apart)
            coto_wall_say(wall, true, "guest kernel", "");
        else
            coto_wall_say(wall, apart, guest ? "guest kernel, in a namespace" : "namespace", theirs);
    }
}

static void say_uid(struct oci *oci, const struct status *status)
{
    struct coto_wall_state *wall = &oci->base.walls[COTO_WALL_UID];
    struct coto_wall_state *unique = &oci->base.walls[COTO_WALL_UNIQUE_UID];
    uint64_t host = status_num(status, "\nUid:", 10);
    bool guest = oci->chosen.runtime->own_kernel;
    char value[96];

    snprintf(value, sizeof value, "%u inside, %" PRIu64 " on the host", (unsigned)oci->plan->uid, host);
    coto_wall_say(wall, host != 0 && (guest || host == oci->map.host_uid),
                  guest ? "guest kernel" : "user namespace map", value);
    snprintf(value, sizeof value, "%" PRIu64, host);
    coto_wall_say(unique, !guest && wall->up && !oci->map.is_shared, guest ? "" : "uid range", value);
    if (oci->map.is_shared)
        snprintf(unique->note, sizeof unique->note, "%.150s", oci->map.why);
    else if (guest)
        snprintf(unique->note, sizeof unique->note, "every gVisor kernel here runs as uid %" PRIu64, host);
}

/* What coto-init says about programs must already hold for itself. */
static int check_process(const struct oci *oci, const struct status *status, struct coto_err *err)
{
    static const char *const sets[] = {"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};
    const struct coto_plan *plan = oci->plan;

    if (status_num(status, "\nSeccomp:", 10) != 2)
        return not_up(oci, COTO_WALL_SECCOMP, err);
    if (oci->chosen.runtime->own_kernel)
        return 0; /* the rest is inside */
    if (status_num(status, "\nNoNewPrivs:", 10) != 1)
        return not_up(oci, COTO_WALL_NNP, err);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (status_num(status, sets[i], 16) & ~plan->caps)
            return not_up(oci, COTO_WALL_CAPS, err);
    if (status_num(status, "\nUid:", 10) != oci->map.host_uid ||
        status_num(status, "\nGid:", 10) != oci->map.host_gid)
        return not_up(oci, COTO_WALL_UID, err);
    return 0;
}

int oci_walls_read(struct oci *oci, struct coto_err *err)
{
    struct status status;

    if (read_status(oci, &status, err))
        return -1;
    say_namespaces(oci);
    say_uid(oci, &status);
    for (int i = 0; i < COTO_NS_COUNT && !coto_weakened(); i++)
        if (!oci->base.walls[ns_wall[i]].up && (oci->plan->need >> ns_wall[i] & 1))
            return not_up(oci, ns_wall[i], err);
    if (!oci->base.walls[COTO_WALL_UID].up && (oci->plan->need & COTO_WALL_BIT(UID)))
        return not_up(oci, COTO_WALL_UID, err);
    if (check_process(oci, &status, err))
        return -1;
    if (oci_views_check(oci, err))
        return -1;
    return set_limits(oci, err);
}
