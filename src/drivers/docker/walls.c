/* Which walls are up. coto-docker has compared the engine's inspect with the spec, flag by flag,
 * before anything ran; where this host shows the container's first process, its kernel is asked
 * instead, which is the better witness. What coto-init itself sees comes with STARTED. */
#include "drivers/docker/docker.h"

#include "base/fd.h"
#include "base/units.h"
#include "drivers/cgroup_walls.h"
#include "kernel/apparmor.h"
#include "kernel/cgroup_of.h"
#include "kernel/ns.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSPECT "docker inspect"

static void say(struct docker *d, enum coto_wall id, bool up, const char *mechanism,
                const char *value)
{
    coto_wall_say(&d->base.walls[id], up, mechanism, value);
}

static void deny(struct docker *d, enum coto_wall id, const char *why)
{
    snprintf(d->base.walls[id].note, sizeof d->base.walls[id].note, "%s", why);
}

/* ---- namespaces ---- */

static const struct {
    enum coto_wall wall;
    enum coto_ns ns;
    const char *shown; /* what inspect has confirmed; NULL: it cannot */
} spaces[] = {
    {COTO_WALL_USERNS, COTO_NS_USER, NULL},
    {COTO_WALL_PIDNS, COTO_NS_PID, "PidMode private"},
    {COTO_WALL_MOUNTNS, COTO_NS_MNT, "image"},
    {COTO_WALL_NETNS, COTO_NS_NET, "NetworkMode none"},
    {COTO_WALL_IPCNS, COTO_NS_IPC, "IpcMode private"},
    {COTO_WALL_UTSNS, COTO_NS_UTS, "UTSMode private"},
    {COTO_WALL_CGROUPNS, COTO_NS_CGROUP, "CgroupnsMode private"},
};

static uint64_t namespace_of(pid_t pid, enum coto_ns ns)
{
    char path[64], text[64];

    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, coto_ns_name[ns]);
    ssize_t n = pid > 0 ? readlink(path, text, sizeof text - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    const char *bracket = strchr(text, '[');
    return bracket ? strtoull(bracket + 1, NULL, 10) : 0;
}

static void say_namespaces(struct docker *d)
{
    struct coto_ns_set own;

    coto_ns_read(&own);
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        uint64_t inode = namespace_of(d->pid, spaces[i].ns);
        char value[48];
        snprintf(value, sizeof value, "%s:[%" PRIu64 "]", coto_ns_name[spaces[i].ns], inode);
        if (inode && inode != own.inode[spaces[i].ns])
            say(d, spaces[i].wall, true, "namespace", value);
        else if (spaces[i].shown && (!inode || !d->is_host_process))
            say(d, spaces[i].wall, true, INSPECT, spaces[i].shown);
        else
            deny(d, spaces[i].wall, inode ? "it is the host's own" : "it cannot be seen from here");
    }
    if (!d->base.walls[COTO_WALL_USERNS].up)
        deny(d, COTO_WALL_USERNS, "the engine runs without userns-remap");
}

/* ---- identity ---- */

static long host_uid(pid_t pid)
{
    char path[48], text[4096];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (pid <= 0 || coto_file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    const char *line = strstr(text, "\nUid:");
    return line ? strtol(line + 5, NULL, 10) : -1;
}

static void say_identity(struct docker *d)
{
    char value[64];
    long uid = d->is_host_process ? host_uid(d->pid) : -1;

    if (uid >= 0)
        snprintf(value, sizeof value, "%u inside, %ld on the host", (unsigned)d->plan->uid, uid);
    else
        snprintf(value, sizeof value, "%u:%u", (unsigned)d->plan->uid, (unsigned)d->plan->gid);
    say(d, COTO_WALL_UID, uid != 0, uid >= 0 ? "/proc of the host" : INSPECT, value);
    deny(d, COTO_WALL_UNIQUE_UID, "the engine gives all containers of a policy the same uid");
}

static void say_apparmor(struct docker *d)
{
    char path[64], label[COTO_APPARMOR_LABEL];

    snprintf(path, sizeof path, "/proc/%d/attr/current", (int)d->pid);
    if (!d->is_host_process || !coto_apparmor_is_on() ||
        coto_file_read_at(AT_FDCWD, path, label, sizeof label) <= 0)
        deny(d, COTO_WALL_APPARMOR, "the container's label cannot be seen from here");
    else
        say(d, COTO_WALL_APPARMOR, coto_apparmor_is_enforced(label), "profile of the container",
            label);
}

/* ---- limits ---- */

static void say_limit(struct docker *d, enum coto_wall id, int64_t wanted, int64_t applied,
                      const char *file)
{
    char value[32], mechanism[48];

    if (!(d->plan->want >> id & 1))
        return;
    snprintf(value, sizeof value, "%" PRId64, d->has_group ? applied : wanted);
    snprintf(mechanism, sizeof mechanism, "cgroup v%d %.30s", d->group.version, file);
    say(d, id, !d->has_group || (applied >= 0 && applied <= wanted),
        d->has_group ? mechanism : INSPECT, value);
    if (!d->base.walls[id].up)
        deny(d, id, "the engine did not set it");
}

static void say_limits(struct docker *d)
{
    const struct coto_plan *plan = d->plan;
    struct coto_cgroup_applied l = {0};
    struct coto_wall_state *swap = &d->base.walls[COTO_WALL_SWAP];

    if (d->has_group)
        coto_cgroup_limits_of(&d->group, &l);
    say_limit(d, COTO_WALL_MEMORY, plan->memory_bytes, l.memory_bytes, l.memory_file);
    say_limit(d, COTO_WALL_SWAP, plan->swap_bytes, l.swap_bytes, l.swap_file);
    if (swap->wanted && d->has_no_swap_limit && plan->swap_bytes != COTO_UNIT_NONE) {
        swap->up = false;
        deny(d, COTO_WALL_SWAP, "the engine's kernel counts no swap");
    }
    say_limit(d, COTO_WALL_CPU, plan->cpus_milli, l.cpus_milli, l.cpu_file);
    say_limit(d, COTO_WALL_PIDS,
              d->is_host_process ? docker_pids_of_programs(plan) : docker_pids(plan), l.pids,
              l.pids_file);
    if (d->base.guest_kernel && d->plan->want & COTO_WALL_BIT(PIDS)) {
        char why[160];
        snprintf(why, sizeof why,
                 "the container's kernel is held to %" PRId64
                 " tasks of the host, not its programs",
                 l.pids);
        d->base.walls[COTO_WALL_PIDS].up = false;
        deny(d, COTO_WALL_PIDS, why);
    }
    if (swap->wanted && d->has_group && !swap->up && plan->swap_bytes == 0 &&
        !coto_host_has_swap()) {
        say(d, COTO_WALL_SWAP, true, "host has no swap", "0");
        swap->note[0] = '\0';
    }
    if (plan->want & COTO_WALL_BIT(CPU_TIME))
        say(d, COTO_WALL_CPU_TIME, d->has_group, d->has_group ? "supervisor, cgroup account" : "",
            "");
    if (plan->want & COTO_WALL_BIT(CPU_TIME) && !d->has_group)
        deny(d, COTO_WALL_CPU_TIME,
             "per process only (rlimit cpu): the container's cgroup is not visible");
    deny(d, COTO_WALL_IOPS,
         "what can be written is in memory; the image is read at the host's speed");
}

void docker_say_walls(struct docker *d)
{
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        d->base.walls[i].wanted = d->plan->want >> i & 1;
    say_namespaces(d);
    say_identity(d);
    say_limits(d);
    if (d->plan->want & COTO_WALL_BIT(APPARMOR))
        say_apparmor(d);
    if (!d->base.apply_landlock)
        deny(d, COTO_WALL_LANDLOCK,
             d->is_host_process ? "this kernel has no Landlock"
                                : "the container has a kernel of its own");
}

/* Those that only coto-init can tell about are looked at when the program has started. */
int docker_check_walls(const struct docker *d, struct coto_err *err)
{
    const coto_wallset later =
        COTO_WALL_BIT(CAPS) | COTO_WALL_BIT(NNP) | COTO_WALL_BIT(SECCOMP) | COTO_WALL_BIT(ROOT_RO) |
        COTO_WALL_BIT(FDS) | COTO_WALL_BIT(DISK) | COTO_WALL_BIT(INODES) | COTO_WALL_BIT(NOFILE) |
        COTO_WALL_BIT(FSIZE) | COTO_WALL_BIT(TIMEOUT) | COTO_WALL_BIT(OUTPUT) |
        (d->base.apply_landlock ? COTO_WALL_BIT(LANDLOCK) : 0);
    coto_wallset missing = d->plan->need & ~later;

    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        if (!(missing >> i & 1) || d->base.walls[i].up)
            continue;
        coto_err_set(err, COTO_ERR_WALL, 0, "docker: wall '%s' is not up: %s", coto_walls[i].name,
                     d->base.walls[i].note);
        return coto_err_remedy(err, "name it in --allow-missing, or use --isolation process");
    }
    return 0;
}
