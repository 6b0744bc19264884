/* The native driver: namespaces, mounts, cgroups, capabilities, and coto-init.
 *
 * Theory of operation.
 *
 *   coto (supervisor)      the caller's uid, all its fds; holds our ends of the
 *    |                     program's stdio pipes, the stream, a pidfd of init
 *    +- coto-guard         only with a cgroup: see drivers/guard.h
 *    +- coto-init          PID 1; cloned into new user, pid, mount, ipc and uts
 *          |               namespaces, builds the rest around itself (init/setup.c),
 *          |               drops everything
 *          +- program      uid of the sandbox, no capabilities, seccomp, Landlock
 *
 * Supervisor and init work side by side. Init is started before there is a plan
 * (prepare) and makes the network namespace, the slowest single step, while the
 * supervisor reads its command line; then it gets the plan and builds the file system
 * while the supervisor writes the id maps and makes the cgroup, which init joins last.
 * On cgroup v2 it is born in its group. No user code exists before all of that is
 * done.
 *
 * A kill -9 of the supervisor ends everything: init sees the stream end and gets
 * the parent-death signal; with it dies the pid namespace, and with that the
 * mounts; the guard removes the cgroup.
 */
#include "drivers/native/native.h"
#include "drivers/cgroup_walls.h"
#include "drivers/initbin.h"

#include "base/fd.h"
#include "base/weak.h"
#include "base/units.h"
#include "kernel/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
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

/* ---- creating ---- */

static void native_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);

/* Started ahead of any plan by native_prepare. */
static struct native *prepared;

/* Used again: giving memory back to the kernel now would interrupt every CPU that our dying
 * guard has run on, and getting some anew means a page fault for each of its pages. */
static struct native *by[4];

static void put_by(struct native *n)
{
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
        if (!by[i]) {
            by[i] = n;
            return;
        }
    free(n);
}

static struct native *take_by(void)
{
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
        if (by[i]) {
            struct native *n = by[i];
            by[i] = NULL;
            memset(n, 0, sizeof *n);
            return n;
        }
    return calloc(1, sizeof(struct native));
}

struct native *native_new(void)
{
    struct native *n = take_by();

    if (!n)
        return NULL;
    n->base = (struct coto_sandbox){.driver = &coto_driver_native,
                                    .stream_fd = -1,
                                    .alive_fd = -1,
                                    .parked_fd = -1,
                                    .stdio_fd = {-1, -1, -1}};
    n->pidfd = n->mounts_fd = n->shared_fd = n->net_fd = n->used_fd = -1;
    for (int i = 0; i < COTO_CG_COUNT; i++)
        n->group.dir_fd[i] = n->group.parent_fd[i] = -1;
    n->applied = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
    return n;
}

static bool is_cgroup_v2(void)
{
    static int is = -1; /* nobody mounts another one while we run */

    for (int tries = 0; is < 0 && tries < 3; tries++) {
        int failed = access("/sys/fs/cgroup/cgroup.controllers", F_OK);
        if (!failed || errno == ENOENT)
            is = !failed;
    }
    return is > 0;
}

static void choose_lender(struct native *n)
{
    n->lend_uid = coto_idmap_choose(COTO_IDMAP_AUTO, &n->map, NULL) == 0 &&
                  n->map.kind == COTO_MAP_RANGE;
}

/* Not on cgroup v2: there init is born in its group, which needs the plan. */
static void native_prepare(void)
{
    if (prepared || is_cgroup_v2())
        return;
    prepared = native_new();
    if (prepared)
        choose_lender(prepared);
    if (prepared && native_launch(prepared, -1, NULL)) {
        native_destroy(&prepared->base, NULL); /* create tries again and can say why */
        prepared = NULL;
    }
}

static void native_discard(void)
{
    if (prepared)
        native_destroy(&prepared->base, NULL);
    prepared = NULL;
    native_groups_drop();
}

static void say_landlock(struct native *n)
{
    struct coto_wall_state *wall = &n->base.walls[COTO_WALL_LANDLOCK];

    n->base.landlock_abi = (uint64_t)coto_landlock_abi();
    n->base.apply_landlock = n->base.landlock_abi > 0;
    n->base.apply_seccomp = true;
    if (n->base.apply_landlock)
        return;
    wall->wanted = true;
    snprintf(wall->note, sizeof wall->note,
             "this kernel has no Landlock, or it is not in its lsm= list");
}

static int create_parts(struct native *n, bool verbose, struct coto_err *err)
{
    if (n->pid == 0) {
        if (is_cgroup_v2()) {
            native_cgroup_find(n);
            if (native_cgroup_make(n, err))
                return -1;
        }
        /* Init must open a root file system where root keeps it. */
        if (!n->plan->rootfs.source)
            choose_lender(n);
        native_shared_find(n);
        native_net_find(n);
        int into = n->has_group ? coto_cgroup_clone_fd(&n->group) : -1;
        if (native_launch(n, into, err))
            return -1;
        n->is_born_in_group = into >= 0;
    }
    say_landlock(n);
    if (native_send_setup(n, verbose, err) || native_send_ids(n, err))
        return -1;
    if (!n->group_name[0]) {
        native_cgroup_find(n);
        if (native_cgroup_make(n, err))
            return -1;
    }
    native_identity_say(n);
    native_limits_say(n);
    if (native_limits_check(n, err) || native_send_cgroup(n, err))
        return -1;
    n->base.alive_fd = n->pidfd;
    coto_fd_set_nonblock(n->base.stream_fd, 1);
    return 0;
}

/* When talking to init failed because it had ended, its own words say why. */
static bool take_last_words(const struct native *n, struct coto_err *err)
{
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    size_t room;
    char *to = n->base.stream_fd < 0 ? NULL : coto_frame_reader_space(&reader, &room);
    ssize_t len = to ? recv(n->base.stream_fd, to, room, MSG_DONTWAIT) : -1;

    if (len > 0)
        reader.buf.len += (size_t)len;
    bool is_told = false;
    while (len > 0 && coto_frame_next(&reader, &frame, NULL) == 1)
        if (frame.type == COTO_FRAME_ERROR) {
            coto_field_error(&frame, err);
            is_told = true;
        }
    coto_frame_reader_fini(&reader);
    return is_told;
}

/* Then so is everybody in its pid namespace. */
static bool is_init_dead(const struct native *n)
{
    struct pollfd pfd = {n->pidfd, POLLIN, 0};

    return n->pidfd >= 0 && poll(&pfd, 1, 0) == 1 && pfd.revents & POLLIN;
}

/* It has no memory left, and is not dead yet: its namespaces end first. */
static bool is_init_dying(const struct native *n)
{
    int64_t flags;

    return n->pid > 0 && coto_proc_stat(n->pid, 9, 1, &flags) && flags & 0x4; /* PF_EXITING */
}

static int native_create(const struct coto_plan *plan, bool verbose,
                         struct coto_sandbox **ret_sandbox, struct coto_err *err)
{
    if (plan->rootfs.source || plan->idmap != COTO_IDMAP_AUTO)
        native_discard(); /* it was made for the ordinary case */
    struct native *n = prepared ? prepared : native_new();

    prepared = NULL;
    if (!n)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "create sandbox");
    n->plan = plan;
    n->base.work_dir = plan->workdir;
    if (create_parts(n, verbose, err)) {
        if (!take_last_words(n, err) && (is_init_dead(n) || is_init_dying(n)))
            coto_initbin_died(err); /* what failed was about a process that is gone */
        native_destroy(&n->base, NULL);
        return -1;
    }
    *ret_sandbox = &n->base;
    return 0;
}

/* ---- many for others ---- */

bool native_serves;

static void native_serve(void)
{
    native_serves = true;
    native_cgroup_learn();
    native_launch_serve();
}

static void native_look(void)
{
    native_slots_look();
    native_nets_look();
}

static void native_sweep(void)
{
    struct coto_cgroup_host host = {0};

    coto_cgroup_find(&host);
    if (host.version)
        coto_cgroup_sweep(&host);
}

/* ---- reading back ---- */

static const enum coto_wall ns_wall[COTO_NS_COUNT] = {
    COTO_WALL_USERNS, COTO_WALL_PIDNS, COTO_WALL_MOUNTNS,  COTO_WALL_NETNS,
    COTO_WALL_IPCNS,  COTO_WALL_UTSNS, COTO_WALL_CGROUPNS,
};

static void say_uid(struct native *n)
{
    char value[96];
    struct coto_wall_state *wall = &n->base.walls[COTO_WALL_UID];

    snprintf(value, sizeof value, "%u inside, %u on the host", (unsigned)n->plan->uid,
             (unsigned)n->map.host_uid);
    coto_wall_say(wall, n->map.host_uid != 0, "user namespace map", value);
    if (!wall->up)
        snprintf(wall->note, sizeof wall->note,
                 "coto itself runs as uid 0 of a namespace that maps one id only");
}

/* Two dozen mounts take as long to end as all else together. The guard does that while
 * we remove the cgroup. */
static void hold_mounts(struct native *n)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)n->pid);
    n->mounts_fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

static int native_inspect(struct coto_sandbox *sandbox, const struct coto_frame *ready,
                          struct coto_err *err)
{
    struct native *n = (struct native *)sandbox;
    struct coto_field field = {0};
    int found = 0;

    native_slot_drop(n);
    while (found < COTO_NS_COUNT && coto_field_next(ready, &field) == 1) {
        if (field.tag != COTO_TAG_S_NAMESPACE)
            continue;
        uint64_t inode = coto_field_value(&field);
        char value[48];
        snprintf(value, sizeof value, "%s:[%" PRIu64 "]", coto_ns_name[found], inode);
        coto_wall_say(&n->base.walls[ns_wall[found]], inode && inode != n->own_ns.inode[found],
                   "namespace", value);
        found++;
    }
    say_uid(n);
    for (int i = 0; i < COTO_NS_COUNT; i++)
        if (!n->base.walls[ns_wall[i]].up && !coto_weakened())
            return coto_err_set(err, COTO_ERR_WALL, 0, "%s is not up", coto_walls[ns_wall[i]].name);
    if (!n->base.walls[COTO_WALL_UID].up && (n->plan->need & COTO_WALL_BIT(UID)) &&
        !coto_weakened()) {
        coto_err_set(err, COTO_ERR_WALL, 0, "uid: %s", n->base.walls[COTO_WALL_UID].note);
        return coto_err_remedy(err, "name it in --allow-missing, or map more ids around coto");
    }
    /* The program is starting and we have nothing to do: time to clean up after those that
     * were killed together with their guards. They are rare, and looking takes a tenth of a
     * millisecond: one run in sixteen does. */
    if (n->has_group && !native_serves && n->plan->id[0] == '0')
        coto_cgroup_sweep(&n->cgroup_host);
    if (n->guard.pid > 0)
        hold_mounts(n);
    return 0;
}

/* ---- using and ending ---- */

static void native_rest(struct coto_sandbox *sandbox)
{
    struct native *n = (struct native *)sandbox;

    if (n->has_group)
        coto_cgroup_rest(&n->group);
}

/* A launcher is asked twice, and asks itself once more (groups.c), when nobody is left to change it. */
static int native_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct native *n = (struct native *)sandbox;
    bool is_dead = native_serves && !n->has_final && is_init_dead(n);

    if (n->has_final) {
        *ret_usage = n->final;
        return 0;
    }
    *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    coto_cgroup_wake(&n->group);
    if (n->has_group)
        coto_cgroup_walls_usage(&n->group, ret_usage);
    if (is_dead) {
        n->final = *ret_usage;
        n->has_final = true;
    }
    return 0;
}

static int native_open_join(struct coto_sandbox *sandbox, int ret_fds[8], bool *ret_born)
{
    struct native *n = (struct native *)sandbox;

    if (coto_cgroup_wake(&n->group))
        return -1; /* who joins some of its groups would be without the limits of the others */
    int born = n->has_group ? coto_cgroup_clone_fd(&n->group) : -1;
    *ret_born = born >= 0;
    if (*ret_born)
        ret_fds[0] = fcntl(born, F_DUPFD_CLOEXEC, 3);
    if (*ret_born)
        return ret_fds[0] < 0 ? -1 : 1;
    if (n->join_count == 0)
        return n->has_group ? coto_cgroup_open_join(&n->group, ret_fds) : 0;
    int count = n->join_count;
    memcpy(ret_fds, n->join_fds, (size_t)count * sizeof ret_fds[0]);
    n->join_count = 0;
    return count;
}

static void native_kill(struct coto_sandbox *sandbox)
{
    struct native *n = (struct native *)sandbox;

    if (native_serves && is_init_dead(n))
        return;
    coto_cgroup_wake(&n->group);
    /* Everyone in the group by name of the group, not only init, who would need CPU time
     * to pass it on; then the quota is lifted, for they need it to die. */
    if (n->has_group)
        coto_cgroup_kill(&n->group);
    if (n->pidfd >= 0)
        coto_pidfd_signal(n->pidfd, n->pid, SIGKILL);
    if (n->has_group)
        coto_cgroup_unthrottle(&n->group);
}

/* Without a cgroup the kernel's account of the reaped tree has to do. */
static void usage_of_children(const struct rusage *ru, struct coto_usage *usage)
{
    usage->of_reaped = usage->cpu_user_us < 0;
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
    bool is_reaped = false;

    if (!n)
        return;
    bool is_unborn = n->pid <= 0;
    coto_cgroup_wake(&n->group);
    if (n->pid > 0) {
        if (n->pidfd >= 0 && !(native_serves && is_init_dead(n)))
            coto_pidfd_signal(n->pidfd, n->pid, SIGKILL);
        coto_guard_close_after(&n->guard, n->pidfd, &n->mounts_fd);
        /* The account is read while init is dying: what it measures is dead. */
        if (ret_usage)
            native_usage(sandbox, ret_usage);
        /* Returns when the last process of the pid namespace is gone. */
        pid_t reaped;
        while ((reaped = wait4(n->pid, &status, 0, &ru)) < 0 && errno == EINTR)
            ;
        is_reaped = reaped == n->pid;
        n->pid = 0;
        native_slot_drop(n);
        if (ret_usage) {
            usage_of_children(&ru, ret_usage);
            ret_usage->init_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        }
    }
    if (n->cgroup_host.must_leave) { /* it sits in the leaf that is to go */
        coto_guard_stop(&n->guard);
        coto_guard_reap();
    }
    bool is_without_sockets = native_net_done(n, is_reaped || is_unborn);
    if (n->has_group) {
        if (!native_serves)
            coto_cgroup_forget(&n->group);
        if (!is_reaped || !native_group_keep(n, is_without_sockets))
            coto_cgroup_remove(&n->group);
        n->has_group = false;
    }
    coto_guard_stop(&n->guard); /* last: until now somebody would have cleaned up */
    coto_own_close(&n->pidfd);
    coto_own_close(&n->mounts_fd);
    coto_own_close(&n->base.stream_fd);
    coto_own_close(&n->base.parked_fd);
    for (int i = 0; i < 3; i++)
        coto_own_close(&n->base.stdio_fd[i]);
    while (n->join_count > 0)
        close(n->join_fds[--n->join_count]);
    put_by(n);
}

void native_free(struct native *n)
{
    native_destroy(&n->base, NULL);
}

const struct coto_driver coto_driver_native = {
    .name = "native",
    .isolation = COTO_ISOLATION_PROCESS,
    .doc = "the kernel's own namespaces, mounts, cgroups, seccomp, Landlock",
    .probe = native_probe,
    .prepare = native_prepare,
    .discard = native_discard,
    .serve = native_serve,
    .sweep = native_sweep,
    .create = native_create,
    .inspect = native_inspect,
    .open_join = native_open_join,
    .rest = native_rest,
    .look = native_look,
    .usage = native_usage,
    .kill = native_kill,
    .destroy = native_destroy,
};
