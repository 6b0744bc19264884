/* coto doctor's view: which walls this host gives this caller. Namespaces are
 * tried for real, in a child that ends at once; everything else is looked up. */
#include "drivers/native/native.h"
#include "drivers/apparmor_probe.h"
#include "drivers/cgroup_walls.h"

#include "base/fd.h"
#include "base/own.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void set(struct coto_probe *p, enum coto_wall wall, bool up, const char *mechanism)
{
    p->walls[wall].up = up;
    snprintf(p->walls[wall].mechanism, sizeof p->walls[wall].mechanism, "%s", up ? mechanism : "");
}

static void explain(struct coto_probe *p, enum coto_wall wall, const char *note, const char *remedy)
{
    snprintf(p->walls[wall].note, sizeof p->walls[wall].note, "%s", note);
    snprintf(p->remedy[wall], sizeof p->remedy[wall], "%s", remedy);
}

/* Errno of entering a namespace on top of a new user namespace; 0: works. */
static int try_namespaces(uint64_t flags)
{
    int pidfd = -1;
    int status = 0;
    pid_t pid = coto_ns_clone(flags, -1, &pidfd);

    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return errno;
    close(pidfd);
    waitpid(pid, &status, 0);
    return 0;
}

static void probe_namespaces(struct coto_probe *p)
{
    static const struct {
        enum coto_wall wall;
        uint64_t flag;
        const char *kind;
    } rows[] = {
        {COTO_WALL_USERNS, 0, "user"},           {COTO_WALL_PIDNS, CLONE_NEWPID, "pid"},
        {COTO_WALL_MOUNTNS, CLONE_NEWNS, "mnt"}, {COTO_WALL_NETNS, CLONE_NEWNET, "net"},
        {COTO_WALL_IPCNS, CLONE_NEWIPC, "ipc"},  {COTO_WALL_UTSNS, CLONE_NEWUTS, "uts"},
        {COTO_WALL_CGROUPNS, CLONE_NEWCGROUP, "cgroup"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int why = try_namespaces(CLONE_NEWUSER | rows[i].flag);
        set(p, rows[i].wall, why == 0, "namespace");
        char limit[64];
        snprintf(limit, sizeof limit, "sysctl user.max_%s_namespaces=16384",
                 p->walls[COTO_WALL_USERNS].up ? rows[i].kind : "user");
        if (why)
            explain(p, rows[i].wall, strerror(why),
                    why == ENOSPC || why == EUSERS
                        ? limit
                        : "sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
                          "kernel.apparmor_restrict_unprivileged_userns=0; or run as root");
    }
}

/* Tries the file system steps that need a recent kernel or an unmasked /proc. */
static int try_root(void)
{
    int status = 0;
    int pidfd = -1;
    pid_t pid = coto_ns_clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, -1, &pidfd);

    if (pid == 0) {
        int proc = coto_mount_new("proc", NULL, COTO_ATTR_NOSUID, NULL);
        if (proc < 0)
            _exit(errno == ENOSYS ? 1 : 2);
        _exit(coto_mount_set(proc, COTO_ATTR_RDONLY, false, NULL) ? 1 : 0);
    }
    if (pid < 0)
        return 3;
    close(pidfd);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static void probe_root(struct coto_probe *p)
{
    int why = try_root();

    set(p, COTO_WALL_ROOT_RO, why == 0, "read-only mount");
    if (why == 1)
        explain(p, COTO_WALL_ROOT_RO, "the kernel lacks mount_setattr", "use Linux 5.12 or later");
    else if (why == 2)
        explain(p, COTO_WALL_ROOT_RO, "a private /proc cannot be mounted here",
                "inside a container start it with an unmasked /proc: docker run --security-opt "
                "systempaths=unconfined; with Compose as in deploy/compose/README.md");
    else if (why)
        explain(p, COTO_WALL_ROOT_RO, "needs the user and mount namespaces", "see user_namespace");
    set(p, COTO_WALL_DISK, why == 0, "tmpfs size");
    set(p, COTO_WALL_INODES, why == 0, "tmpfs nr_inodes");
}

static void probe_inner(struct coto_probe *p)
{
    int abi = coto_landlock_abi();
    char text[32];

    snprintf(text, sizeof text, "ruleset, ABI %d", abi);
    set(p, COTO_WALL_LANDLOCK, abi > 0, text);
    if (abi <= 0)
        explain(p, COTO_WALL_LANDLOCK, "absent from the kernel or its lsm= list",
                "boot with lsm=landlock,... (Linux 5.13 or later, CONFIG_SECURITY_LANDLOCK)");
    bool filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
    set(p, COTO_WALL_SECCOMP, filter, "filter");
    if (!filter)
        explain(p, COTO_WALL_SECCOMP, "no CONFIG_SECCOMP_FILTER", "use a kernel that has it");
    set(p, COTO_WALL_NNP, true, "prctl");
    set(p, COTO_WALL_CAPS, true, "all five sets");
    set(p, COTO_WALL_FDS, true, "close_range");
    set(p, COTO_WALL_TIMEOUT, true, "supervisor, monotonic clock");
    set(p, COTO_WALL_OUTPUT, true, "supervisor");
    set(p, COTO_WALL_NOFILE, true, "rlimit nofile");
    set(p, COTO_WALL_FSIZE, true, "rlimit fsize");
}

static void probe_identity(struct coto_probe *p)
{
    struct coto_idmap map;

    if (coto_idmap_choose(COTO_IDMAP_AUTO, &map, NULL))
        return;
    set(p, COTO_WALL_UID, p->walls[COTO_WALL_USERNS].up, "user namespace map");
    if (!p->walls[COTO_WALL_UID].up)
        explain(p, COTO_WALL_UID, "needs the user namespace", "see user_namespace");
    bool unique = map.kind != COTO_MAP_SINGLE && !map.is_shared;
    set(p, COTO_WALL_UNIQUE_UID, unique, map.kind == COTO_MAP_RANGE ? "uid range" : "subuid");
    if (!unique)
        explain(p, COTO_WALL_UNIQUE_UID, map.why,
                "run as root, or install uidmap and add ranges: usermod --add-subuids "
                "100000-165535 --add-subgids 100000-165535 USER");
}

static void probe_cgroup(struct coto_probe *p)
{
    static const struct {
        enum coto_wall wall;
        enum coto_cgroup_ctl ctl;
    } rows[] = {{COTO_WALL_MEMORY, COTO_CG_MEMORY}, {COTO_WALL_SWAP, COTO_CG_MEMORY},
                {COTO_WALL_CPU, COTO_CG_CPU},       {COTO_WALL_PIDS, COTO_CG_PIDS},
                {COTO_WALL_IOPS, COTO_CG_IO},       {COTO_WALL_CPU_TIME, COTO_CG_CPUACCT}};
    struct coto_cgroup_host host;
    char text[32];

    coto_cgroup_find(&host);
    snprintf(text, sizeof text, "cgroup v%d", host.version);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool up = host.version > 0 && host.has[rows[i].ctl];
        set(p, rows[i].wall, up, text);
        if (!up)
            explain(p, rows[i].wall, host.why[0] ? host.why : "controller not available",
                    "run as root, or in a delegated group: systemd-run --user --scope -p "
                    "Delegate=yes coto run ...");
    }
    if (!p->walls[COTO_WALL_SWAP].up && !coto_host_has_swap()) {
        set(p, COTO_WALL_SWAP, true, "host has no swap");
        explain(p, COTO_WALL_SWAP, "", "");
    }
    if (!p->walls[COTO_WALL_PIDS].up && p->walls[COTO_WALL_USERNS].up) {
        set(p, COTO_WALL_PIDS, true, "rlimit nproc, own user namespace");
        explain(p, COTO_WALL_PIDS, "", "");
    }
}

int native_probe(struct coto_probe *ret_probe, struct coto_err *err)
{
    (void)err;
    *ret_probe = (struct coto_probe){0};
    probe_namespaces(ret_probe);
    probe_root(ret_probe);
    probe_inner(ret_probe);
    coto_apparmor_probe(ret_probe);
    probe_identity(ret_probe);
    probe_cgroup(ret_probe);
    return 0;
}
