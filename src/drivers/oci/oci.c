/* The oci driver: a bundle, run by runc, crun or runsc with no daemon.
 *
 * Theory of operation.
 *
 *   coto (supervisor)      the caller's uid; holds the stream and the runtime's stderr
 *    |
 *    +- coto-guard         see drivers/guard.h: removes what a killed supervisor leaves
 *    +- runc run ...       the runtime, in a session of its own; dies with the supervisor
 *         +- coto-init     PID 1 of the container, uid of the sandbox, no capability, behind the
 *              |           runtime's seccomp filter; its stdin and stdout are the stream
 *              +- program  and behind Landlock and the exact filter of its tier
 *
 * With runsc the process below the runtime is gVisor's kernel, and coto-init and the
 * program are processes of that kernel only; files come through a second process, the
 * gofer.
 *
 * The cgroup is ours: made before the runtime starts, which finds it under the name in
 * config.json and uses it. Limits are set when coto-init is up, because a runtime is larger
 * than a small limit. Nothing of a sandbox is outside its throw-away directory and that
 * group (clean.c).
 */
#include "drivers/oci/oci.h"

#include "base/clock.h"
#include "base/fd.h"
#include "drivers/cgroup_walls.h"
#include "kernel/landlock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MS 5000
#define INSPECT_US 300000
#define SWEEP_US 20000000

extern const struct coto_driver coto_driver_oci;

static void oci_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);

/* ---- creating ---- */

static struct oci *new_sandbox(const struct coto_plan *plan)
{
    struct oci *oci = calloc(1, sizeof *oci);
    char base[128];

    if (!oci)
        return NULL;
    oci->base = (struct coto_sandbox){.driver = &coto_driver_oci,
                                      .stream_fd = -1,
                                      .alive_fd = -1,
                                      .parked_fd = -1,
                                      .stdio_fd = {-1, -1, -1},
                                      .work_dir = plan->workdir,
                                      .apply_seccomp = true};
    oci->plan = plan;
    oci->pidfd = oci->message_fd = -1;
    oci->last = (struct coto_usage)COTO_USAGE_NONE;
    for (int i = 0; i < COTO_CG_COUNT; i++)
        oci->group.dir_fd[i] = oci->group.parent_fd[i] = -1;
    oci->applied = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
    oci_dir_base(base);
    snprintf(oci->name, sizeof oci->name, OCI_NAME_PREFIX "%d-%.8s", (int)getpid(), plan->id);
    snprintf(oci->dir, sizeof oci->dir, "%s/" OCI_DIR_PREFIX "%d-%.8s", base, (int)getpid(), plan->id);
    return oci;
}

/* runc and crun want a uid 0 in their user namespace, even when nobody has it. */
static int choose_ids(struct oci *oci, struct coto_err *err)
{
    oci->has_userns = !oci->chosen.runtime->own_kernel;
    if (!oci->has_userns)
        return 0;
    if (coto_idmap_choose(oci->plan->idmap, &oci->map, err) ||
        coto_idmap_choose(oci->plan->idmap, &oci->map0, err))
        return -1;
    if (oci->map.kind == COTO_MAP_SUBUID) {
        oci->map0.host_uid = geteuid();
        oci->map0.host_gid = getegid();
    }
    if (oci->map.kind != COTO_MAP_SINGLE)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0, "%s needs two ids to map: %s", oci->chosen.runtime->name,
                 oci->map.why[0] ? oci->map.why : "--idmap single gives one");
    return coto_err_remedy(err, "install uidmap and add a range: usermod --add-subuids 100000-165535 "
                                "--add-subgids 100000-165535 USER; or use --runtime runsc, or root");
}

static int check_plan(const struct oci *oci, struct coto_err *err)
{
    const struct coto_plan *plan = oci->plan;

    if (oci->chosen.runtime->kind == OCI_KATA) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "kata-runtime %s runs no bundle by itself",
                     oci->chosen.version);
        return coto_err_remedy(err, "use it through the engine: --isolation docker --runtime kata");
    }
    if (oci->chosen.runtime->own_kernel && plan->writable_output_only) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                     "workspace-writable output: Landlock does that, and gVisor's kernel has none");
        return coto_err_remedy(err, "use --runtime runc, or --workspace-writable all");
    }
    return 0;
}

static void guard_action(const void *arg)
{
    const struct oci *oci = arg;

    if (oci->pid > 0)
        kill(oci->pid, SIGKILL);
    oci_clean(oci->dir, oci->name);
}

static void say_landlock(struct oci *oci)
{
    struct coto_wall_state *wall = &oci->base.walls[COTO_WALL_LANDLOCK];

    if (oci->chosen.runtime->own_kernel)
        oci->base.guest_kernel = oci->chosen.runtime->name;
    else
        oci->base.landlock_abi = (uint64_t)coto_landlock_abi();
    oci->base.apply_landlock = oci->base.landlock_abi > 0;
    if (oci->base.apply_landlock)
        return;
    wall->wanted = true;
    snprintf(wall->note, sizeof wall->note, "%s",
             oci->base.guest_kernel ? "gVisor's kernel has no Landlock; files come through a process apart"
                                    : "this kernel has no Landlock, or it is not in its lsm= list");
}

static int choose(struct oci *oci, struct coto_err *err)
{
    if (oci_choose(oci->plan, &oci->chosen, err) || check_plan(oci, err) || choose_ids(oci, err))
        return -1;
    return oci->chosen.runtime->kind == OCI_RUNSC && oci_platform(&oci->chosen, err) ? -1 : 0;
}

static int create_parts(struct oci *oci, struct coto_err *err)
{
    if (choose(oci, err))
        return -1;
    say_landlock(oci);
    oci_say_runtime(&oci->chosen, oci->base.runtime, sizeof oci->base.runtime);
    /* The guard first: from the moment something exists somebody removes it. */
    if (coto_guard_start(&oci->guard, guard_action, oci, err))
        return -1;
    oci_group_make(oci);
    /* Here and not in inspect: by then the program's frames are on their way to init. */
    return oci_bundle_make(oci, err) || oci_launch(oci, err) || oci_walls_read(oci, err) ? -1 : 0;
}

static int oci_create(const struct coto_plan *plan, bool verbose, struct coto_sandbox **ret_sandbox,
                      struct coto_err *err)
{
    struct oci *oci = new_sandbox(plan);

    (void)verbose; /* the runtime tells no steps */
    if (!oci)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "create container");
    if (create_parts(oci, err)) {
        oci_destroy(&oci->base, NULL);
        return -1;
    }
    *ret_sandbox = &oci->base;
    return 0;
}

static int oci_check(const struct coto_plan *plan, struct coto_err *err)
{
    struct oci *oci = new_sandbox(plan);
    int failed = oci ? choose(oci, err) : coto_err_set(err, COTO_ERR_LIMIT, errno, "check");

    free(oci);
    return failed;
}

static int oci_inspect(struct coto_sandbox *sandbox, const struct coto_frame *ready,
                       struct coto_err *err)
{
    (void)sandbox;
    (void)ready;
    (void)err;
    oci_sweep_dirs(coto_clock_us() + INSPECT_US); /* the program is starting and we have nothing to do */
    return 0;
}

static void oci_sweep(void)
{
    oci_sweep_dirs(coto_clock_us() + SWEEP_US);
}

/* ---- using and ending ---- */

static int oci_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct oci *oci = (struct oci *)sandbox;
    struct coto_usage now = COTO_USAGE_NONE;

    if (oci->has_group)
        coto_cgroup_walls_usage(&oci->group, &now);
    if (now.memory_peak_bytes < 0) /* a runtime that removes the group has done so */
        now = oci->last;
    oci->last = now;
    if (oci->chosen.runtime && oci->chosen.runtime->own_kernel) {
        now.is_starved = now.pids_refused > 0;
        now.pids_peak = -1; /* the guest's kernel is among them */
    }
    *ret_usage = now;
    return 0;
}

static void oci_kill(struct coto_sandbox *sandbox)
{
    struct oci *oci = (struct oci *)sandbox;

    if (oci->has_group)
        coto_cgroup_kill(&oci->group);
    if (oci->base.stream_fd >= 0)
        shutdown(oci->base.stream_fd, SHUT_WR); /* init ends everything */
    if (oci->has_group)
        coto_cgroup_unthrottle(&oci->group);
    else if (oci->pidfd >= 0 && oci->chosen.runtime->own_kernel)
        coto_pidfd_signal(oci->pidfd, oci->pid, SIGKILL); /* and its kernel with it */
}

static void wait_for_runtime(struct oci *oci)
{
    struct pollfd pfd = {.fd = oci->pidfd, .events = POLLIN};

    if (poll(&pfd, 1, END_MS) != 1)
        coto_pidfd_signal(oci->pidfd, oci->pid, SIGKILL);
    while (waitpid(oci->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    oci->pid = 0;
}

static void oci_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct oci *oci = (struct oci *)sandbox;
    struct coto_usage usage;

    if (!oci)
        return;
    oci_usage(sandbox, &usage);
    if (oci->pid > 0) {
        oci_kill(sandbox);
        wait_for_runtime(oci);
        oci_usage(sandbox, &usage);
    }
    if (ret_usage)
        *ret_usage = usage;
    if (oci->has_group)
        coto_cgroup_remove(&oci->group);
    if (oci->made_dir || oci->has_group)
        oci_clean(oci->dir, oci->name);
    coto_guard_stop(&oci->guard); /* last: until now somebody would have cleaned up */
    coto_own_close(&oci->pidfd);
    coto_own_close(&oci->message_fd);
    coto_own_close(&oci->base.stream_fd);
    oci_binds_fini(&oci->binds);
    free(oci);
}

const struct coto_driver coto_driver_oci = {
    .name = "oci",
    .isolation = COTO_ISOLATION_CONTAINER,
    .doc = "a container by runc, crun or runsc (gVisor), with no daemon",
    .probe = oci_probe,
    .check = oci_check,
    .check_runtime = oci_check_runtime,
    .sweep = oci_sweep,
    .create = oci_create,
    .inspect = oci_inspect,
    .usage = oci_usage,
    .kill = oci_kill,
    .destroy = oci_destroy,
};
