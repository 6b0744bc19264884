/* The native driver: namespaces, mounts, cgroups, capabilities, and coto-init.
 *
 * Theory of operation.
 *
 *   coto (supervisor)      the caller's uid, all its fds; holds our ends of the
 *    |                     program's stdio pipes, the stream, a pidfd of init
 *    +- coto-guard         only with a cgroup: see drivers/guard.h
 *    +- coto-setup         cloned into new user, pid, mount, ipc and uts
 *       = coto-init        namespaces; adds net and cgroup ones itself; builds the
 *          |               root, drops everything, executes coto-init (PID 1)
 *          +- program      uid of the sandbox, no capabilities, seccomp, Landlock
 *
 * Parent and child work side by side: while the child clones host directories, and
 * a thread of it makes the network namespace (the slowest single step), the parent
 * writes the id maps, says so (NATIVE_GO_IDS), makes the cgroup and sends
 * descriptors to join it with (NATIVE_GO_CGROUP), which the child waits for last. On
 * cgroup v2 it is born in its group. No user code exists before all of that is done.
 *
 * A kill -9 of the supervisor ends everything: init sees the stream end and gets
 * the parent-death signal; with it dies the pid namespace, and with that the
 * mounts; the guard removes the cgroup.
 */
#include "drivers/native/native.h"

#include "base/fd.h"
#include "base/units.h"
#include "drivers/initbin.h"
#include "kernel/landlock.h"
#include "kernel/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct coto_driver coto_driver_native;

static void say(struct coto_wall_state *wall, bool up, const char *mechanism, const char *value)
{
    wall->wanted = true;
    wall->up = up;
    snprintf(wall->mechanism, sizeof wall->mechanism, "%s", mechanism);
    snprintf(wall->value, sizeof wall->value, "%s", value);
}

/* ---- limits ---- */

static bool host_has_swap(void)
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
    say(state, applied >= 0, applied >= 0 ? mechanism : "", applied >= 0 ? value : "");
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
        say(pids, true, "rlimit nproc, own user namespace", "");
        pids->note[0] = '\0';
    }
    if (memory->wanted && !memory->up) {
        char why[160];
        n->base.rlimit_data = n->plan->memory_bytes;
        memcpy(why, memory->note, sizeof why);
        snprintf(memory->note, sizeof memory->note, "per process only (rlimit data): %.110s", why);
    }
    if (swap->wanted && !swap->up && n->plan->swap_bytes == 0 && !host_has_swap()) {
        say(swap, true, "host has no swap", "0");
        swap->note[0] = '\0';
    }
}

static int check_needed(const struct native *n, struct coto_err *err)
{
    static const enum coto_wall limits[] = {COTO_WALL_UNIQUE_UID, COTO_WALL_MEMORY, COTO_WALL_SWAP,
                                            COTO_WALL_CPU,        COTO_WALL_PIDS,   COTO_WALL_IOPS,
                                            COTO_WALL_LANDLOCK,   COTO_WALL_CPU_TIME};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
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

static void find_cgroup(struct native *n)
{
    const struct coto_plan *plan = n->plan;
    struct stat st;

    coto_cgroup_find(&n->cgroup_host);
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
static int make_cgroup(struct native *n, struct coto_err *err)
{
    if (n->cgroup_host.version == 0)
        return 0;
    if (coto_guard_start(&n->guard, guard_action, n, err))
        return -1;
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

static void say_limits(struct native *n)
{
    const struct coto_cgroup_applied *a = &n->applied;

    say_limit(n, COTO_WALL_MEMORY, a->memory_bytes, a->memory_file);
    say_limit(n, COTO_WALL_SWAP, a->swap_bytes, a->swap_file);
    if (n->plan->cpus_milli != COTO_UNIT_NONE && n->plan->cpus_milli >= cpus_here() * 1000) {
        char value[32];
        snprintf(value, sizeof value, "%" PRId64, cpus_here() * 1000);
        say(&n->base.walls[COTO_WALL_CPU], true, "no more CPUs here (affinity)", value);
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
        say(cpu, n->base.cpu_time_by_usage, "supervisor, cgroup accounting", value);
        if (!cpu->up)
            snprintf(cpu->note, sizeof cpu->note, "per process only (rlimit cpu): no cgroup");
    }
    fall_back(n);
}

static void say_identity(struct native *n)
{
    struct coto_wall_state *unique = &n->base.walls[COTO_WALL_UNIQUE_UID];
    char value[32];

    snprintf(value, sizeof value, "%u", (unsigned)n->map.host_uid);
    say(unique, n->map.kind != COTO_MAP_SINGLE,
        n->map.kind == COTO_MAP_RANGE ? "uid range" : n->map.kind == COTO_MAP_SUBUID ? "subuid" : "",
        value);
    if (!unique->up)
        snprintf(unique->note, sizeof unique->note, "the caller's own uid is mapped: %.100s",
                 n->map.why[0] ? n->map.why : "--idmap single");
}

/* ---- creating ---- */

static int make_stream(struct native *n, struct native_child *child, struct coto_err *err)
{
    int sv[2];
    int size = 1 << 20;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "stream to the sandbox");
    n->base.stream_fd = sv[0];
    child->stream_fd = sv[1];
    setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    /* Tests only: stdio as frames, as at levels that have one byte stream and no
     * pipes; coto-init's own stdio is then nothing. */
    bool frames = getenv("COTO_TEST_FRAMES") != NULL;
    for (int i = 0; i < 3; i++) {
        int p[2];
        if (frames)
            child->stdio_fd[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        else if (pipe2(p, O_CLOEXEC))
            return coto_err_set(err, COTO_ERR_LIMIT, errno, "pipes to the sandbox");
        if (frames)
            continue;
        n->base.stdio_fd[i] = i == 0 ? p[1] : p[0];
        child->stdio_fd[i] = i == 0 ? p[0] : p[1];
    }
    return 0;
}

/* A parent with CAP_SYS_ADMIN takes the clones from the plan's own descriptors,
 * so no name is resolved again; otherwise the child re-opens and compares. */
static void clone_mounts(const struct coto_plan *plan, struct native_child *child)
{
    child->rootfs_fd = -1;
    if (plan->mount_count == 0)
        return;
    int *fds = calloc(plan->mount_count, sizeof *fds);
    for (size_t i = 0; fds && i < plan->mount_count; i++) {
        fds[i] = coto_mount_clone(plan->mounts[i].fd, "", true, NULL);
        if (fds[i] < 0) {
            while (i > 0)
                close(fds[--i]);
            free(fds);
            return;
        }
    }
    child->mount_fds = fds;
}

static int explain_clone(int saved, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_WALL, saved, "user_namespace: cannot be created");
    if (saved == ENOSPC || saved == EUSERS)
        return coto_err_remedy(err, "raise the limit: sysctl user.max_user_namespaces=16384");
    if (saved == EPERM || saved == EACCES)
        return coto_err_remedy(
            err, "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
                 "kernel.apparmor_restrict_unprivileged_userns=0, in Docker a seccomp profile that "
                 "allows them; or run coto as root");
    if (saved == EINVAL)
        return coto_err_remedy(err, "use a kernel of at least Linux 5.12 with user namespaces");
    return coto_err_remedy(err, "see `coto doctor`");
}

static int clone_child(struct native *n, struct native_child *child, struct coto_err *err)
{
    uint64_t flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;

    /* v2: born in its group. v1: joins it later, and nothing is made or looked
     * up here that could be done while the child is at work. */
    bool is_v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    if (is_v2) {
        find_cgroup(n);
        if (make_cgroup(n, err))
            return -1;
    }
    n->pid = coto_ns_clone(flags, n->has_group ? coto_cgroup_clone_fd(&n->group) : -1, &n->pidfd);
    if (n->pid == 0)
        native_child_main(child);
    if (n->pid < 0) {
        n->pid = 0;
        return explain_clone(errno, err);
    }
    if (coto_idmap_choose(n->plan->idmap, &n->map, err) ||
        coto_idmap_write(&n->map, n->pid, n->plan->uid, n->plan->gid, err))
        return -1;
    char go = n->map.kind == COTO_MAP_SINGLE ? NATIVE_GO_IDS : NATIVE_GO_IDS_AND_GROUPS;
    if (coto_fd_write_all(n->base.stream_fd, &go, 1))
        return coto_err_set(err, COTO_ERR_INTERNAL, errno, "start the sandbox");
    if (!is_v2) {
        find_cgroup(n);
        if (make_cgroup(n, err))
            return -1;
    }
    say_identity(n);
    say_limits(n);
    return check_needed(n, err);
}

static void close_child_side(struct native_child *child, const struct coto_plan *plan)
{
    coto_own_close(&child->stream_fd);
    coto_own_close(&child->init_fd);
    for (int i = 0; i < 3; i++)
        coto_own_close(&child->stdio_fd[i]);
    for (size_t i = 0; child->mount_fds && i < plan->mount_count; i++)
        close(child->mount_fds[i]);
    free(child->mount_fds);
    child->mount_fds = NULL;
}

/* The child's uid has no right to a cgroup; it writes through our descriptors. */
static int send_cgroup(struct native *n, struct coto_err *err)
{
    int fds[COTO_CG_COUNT];
    int count = n->has_group ? coto_cgroup_open_join(&n->group, fds) : 0;
    int failed = count < 0 || coto_fd_send(n->base.stream_fd, NATIVE_GO_CGROUP, fds, count);
    int saved = errno;

    for (int i = 0; i < count; i++)
        close(fds[i]);
    return failed ? coto_err_set(err, COTO_ERR_SYSTEM, saved, "join the cgroup") : 0;
}

static int create_parts(struct native *n, struct native_child *child, struct coto_err *err)
{
    n->base.landlock_abi = (uint64_t)coto_landlock_abi();
    n->base.apply_landlock = n->base.landlock_abi > 0;
    n->base.apply_seccomp = true;
    if (!n->base.apply_landlock) {
        struct coto_wall_state *wall = &n->base.walls[COTO_WALL_LANDLOCK];
        wall->wanted = true;
        snprintf(wall->note, sizeof wall->note,
                 "this kernel has no Landlock, or it is not in its lsm= list");
    }
    child->init_fd = coto_initbin_open(err);
    if (child->init_fd < 0)
        return -1;
    clone_mounts(n->plan, child);
    if (make_stream(n, child, err) || clone_child(n, child, err))
        return -1;
    if (send_cgroup(n, err))
        return -1;
    n->base.alive_fd = n->pidfd;
    coto_fd_set_nonblock(n->base.stream_fd, 1);
    return 0;
}

static void native_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);

static int native_create(const struct coto_plan *plan, bool verbose,
                         struct coto_sandbox **ret_sandbox, struct coto_err *err)
{
    struct native *n = calloc(1, sizeof *n);
    struct native_child child = {.plan = plan,
                                 .stream_fd = -1,
                                 .stdio_fd = {-1, -1, -1},
                                 .init_fd = -1,
                                 .rootfs_fd = -1,
                                 .verbose = verbose};

    if (!n)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "create sandbox");
    n->base = (struct coto_sandbox){.driver = &coto_driver_native,
                                    .stream_fd = -1,
                                    .alive_fd = -1,
                                    .stdio_fd = {-1, -1, -1},
                                    .work_dir = plan->workdir};
    n->plan = plan;
    n->pidfd = -1;
    for (int i = 0; i < COTO_CG_COUNT; i++)
        n->group.dir_fd[i] = n->group.parent_fd[i] = -1;
    n->applied = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
    int failed = create_parts(n, &child, err);
    close_child_side(&child, plan);
    if (failed) {
        native_destroy(&n->base, NULL);
        return -1;
    }
    *ret_sandbox = &n->base;
    return 0;
}

/* ---- reading back ---- */

static const enum coto_wall ns_wall[COTO_NS_COUNT] = {
    COTO_WALL_USERNS, COTO_WALL_PIDNS, COTO_WALL_MOUNTNS,  COTO_WALL_NETNS,
    COTO_WALL_IPCNS,  COTO_WALL_UTSNS, COTO_WALL_CGROUPNS,
};

static void inspect_uid(struct native *n)
{
    char path[64];
    char text[4096];
    char value[96];
    struct coto_wall_state *wall = &n->base.walls[COTO_WALL_UID];

    snprintf(path, sizeof path, "/proc/%d/status", (int)n->pid);
    ssize_t len = coto_file_read_at(AT_FDCWD, path, text, sizeof text);
    const char *line = len > 0 ? strstr(text, "\nUid:") : NULL;
    unsigned real = 0;
    unsigned effective = 0;
    unsigned saved = 0;
    unsigned fs = 0;
    bool ok = line && sscanf(line, "\nUid: %u %u %u %u", &real, &effective, &saved, &fs) == 4;
    snprintf(value, sizeof value, "%u inside, %u on the host", (unsigned)n->plan->uid, real);
    say(wall, ok && real != 0 && real == effective && real == saved && real == fs,
        "user namespace map", value);
    if (!wall->up)
        snprintf(wall->note, sizeof wall->note,
                 ok && real == 0 ? "coto itself runs as uid 0 of a namespace that maps one id only"
                                 : "the kernel did not tell");
}

static int native_inspect(struct coto_sandbox *sandbox, struct coto_err *err)
{
    struct native *n = (struct native *)sandbox;
    struct coto_ns_set own;
    struct coto_ns_set theirs;

    coto_ns_read(0, &own);
    coto_ns_read(n->pid, &theirs);
    for (int i = 0; i < COTO_NS_COUNT; i++) {
        struct coto_wall_state *wall = &n->base.walls[ns_wall[i]];
        char value[48];
        snprintf(value, sizeof value, "%s:[%" PRIu64 "]", coto_ns_name[i], theirs.inode[i]);
        say(wall, theirs.inode[i] && theirs.inode[i] != own.inode[i], "namespace", value);
        if (!wall->up)
            snprintf(wall->note, sizeof wall->note, "not separate from the host's");
    }
    inspect_uid(n);
    for (int i = 0; i < COTO_NS_COUNT; i++)
        if (!n->base.walls[ns_wall[i]].up && (n->plan->need >> ns_wall[i] & 1))
            return coto_err_set(err, COTO_ERR_WALL, 0, "%s is not up: %s",
                                coto_walls[ns_wall[i]].name, n->base.walls[ns_wall[i]].note);
    return 0;
}

/* ---- using and ending ---- */

static int native_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct native *n = (struct native *)sandbox;
    struct coto_cgroup_stat stat;

    *ret_usage = (struct coto_usage){-1, -1, -1, -1, 0, 0, 0};
    if (!n->has_group)
        return 0;
    coto_cgroup_stat(&n->group, &stat);
    ret_usage->cpu_user_us = stat.cpu_user_us;
    ret_usage->cpu_system_us = stat.cpu_system_us;
    ret_usage->memory_peak_bytes = stat.memory_peak_bytes;
    ret_usage->pids_peak = stat.pids_peak > 0 ? stat.pids_peak - 1 : stat.pids_peak; /* not init */
    ret_usage->oom_kills = stat.oom_kills > 0 ? stat.oom_kills : 0;
    ret_usage->pids_refused = stat.pids_refused > 0 ? stat.pids_refused : 0;
    return 0;
}

static void native_kill(struct coto_sandbox *sandbox)
{
    struct native *n = (struct native *)sandbox;

    if (n->has_group)
        coto_cgroup_unthrottle(&n->group);
    if (n->pidfd >= 0)
        coto_pidfd_signal(n->pidfd, SIGKILL);
}

/* Without a cgroup the kernel's account of the reaped tree has to do. */
static void usage_of_children(const struct rusage *ru, struct coto_usage *usage)
{
    if (usage->cpu_user_us < 0) {
        usage->cpu_user_us = (int64_t)ru->ru_utime.tv_sec * 1000000 + ru->ru_utime.tv_usec;
        usage->cpu_system_us = (int64_t)ru->ru_stime.tv_sec * 1000000 + ru->ru_stime.tv_usec;
    }
    if (usage->memory_peak_bytes < 0)
        usage->memory_peak_bytes = (int64_t)ru->ru_maxrss * 1024;
}

static void native_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct native *n = (struct native *)sandbox;
    struct rusage ru = {0};
    int status = 0;

    if (!n)
        return;
    if (n->pid > 0) {
        if (n->pidfd >= 0)
            coto_pidfd_signal(n->pidfd, SIGKILL);
        /* The account is read while init is dying: what it measures is dead. */
        if (ret_usage)
            native_usage(sandbox, ret_usage);
        /* Returns when the last process of the pid namespace is gone. */
        while (wait4(n->pid, &status, 0, &ru) < 0 && errno == EINTR)
            ;
        n->pid = 0;
        if (ret_usage) {
            usage_of_children(&ru, ret_usage);
            ret_usage->init_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        }
    }
    if (n->has_group) {
        coto_cgroup_remove(&n->group);
        n->has_group = false;
    }
    coto_guard_stop(&n->guard); /* last: until now somebody would have cleaned up */
    coto_own_close(&n->pidfd);
    coto_own_close(&n->base.stream_fd);
    for (int i = 0; i < 3; i++)
        coto_own_close(&n->base.stdio_fd[i]);
    free(n);
}

const struct coto_driver coto_driver_native = {
    .name = "native",
    .isolation = COTO_ISOLATION_PROCESS,
    .doc = "the kernel's own namespaces, mounts, cgroups, seccomp, Landlock",
    .probe = native_probe,
    .create = native_create,
    .inspect = native_inspect,
    .usage = native_usage,
    .kill = native_kill,
    .destroy = native_destroy,
};
