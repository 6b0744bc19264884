/* Starting coto-init in new namespaces, and telling it what to build.
 *
 * The child runs beside us in our memory until it executes coto-init, so nothing is
 * copied and nothing of ours is left in it. It keeps the capabilities the set-up needs across
 * that execve as ambient ones; they count in its own user namespace only.
 */
#include "drivers/native/native.h"

#include "base/fd.h"
#include "base/weak.h"
#include "drivers/initbin.h"
#include "kernel/mount.h"
#include "kernel/sched.h"
#include "kernel/seccomp.h"
#include "wire/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Several limits answer with the same error: the one that is zero is named. */
static int explain_limit(int saved, struct coto_err *err)
{
    static const struct {
        const char *kind;
        enum coto_wall wall;
    } rows[] = {{"user", COTO_WALL_USERNS}, {"pid", COTO_WALL_PIDNS}, {"mnt", COTO_WALL_MOUNTNS},
                {"ipc", COTO_WALL_IPCNS}, {"uts", COTO_WALL_UTSNS}};
    size_t found = 0;

    for (size_t i = 1; i < sizeof rows / sizeof rows[0] && !found; i++) {
        char path[64];
        char text[24];
        snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", rows[i].kind);
        if (coto_file_read_at(AT_FDCWD, path, text, sizeof text) > 0 && strcmp(text, "0") == 0)
            found = i;
    }
    coto_err_set(err, COTO_ERR_WALL, saved, "%s: cannot be created", coto_walls[rows[found].wall].name);
    return coto_err_remedy(err, "raise the limit: sysctl user.max_%s_namespaces=16384",
                           rows[found].kind);
}

static int explain_clone(int saved, struct coto_err *err)
{
    if (saved == ENOSPC || saved == EUSERS)
        return explain_limit(saved, err);
    coto_err_set(err, COTO_ERR_WALL, saved, "user_namespace: cannot be created");
    if (saved == EPERM || saved == EACCES)
        return coto_err_remedy(
            err, "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
                 "kernel.apparmor_restrict_unprivileged_userns=0, in Docker a seccomp profile that "
                 "allows them; or run coto as root");
    if (saved == EINVAL)
        return coto_err_remedy(err, "use a kernel of at least Linux 5.12 with user namespaces");
    return coto_err_remedy(err, "see `coto doctor`");
}

#define DESCRIPTORS 32 /* of this process and of init, with some to spare */

/* What a launcher gives to every child is opened once. */
static int kept_null(void)
{
    static int fd = -1;

    if (fd < 0)
        fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    return fd;
}

static int kept_init(struct coto_err *err)
{
    static int fd = -1;

    if (fd < 0)
        fd = coto_initbin_open(err);
    return fd;
}

static int make_stream(struct native *n, struct native_launch *launch, struct coto_err *err)
{
    int sv[2];
    int size = 1 << 20;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "stream to the sandbox");
    n->base.stream_fd = sv[0];
    launch->fds[3] = sv[1];
    setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    /* Tests only: stdio as frames, as at levels that have one byte stream and no
     * pipes; coto-init's own stdio is then nothing. */
    if (n->plan && n->plan->parked) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
            return coto_err_set(err, COTO_ERR_LIMIT, errno, "channel to a parked process");
        n->base.parked_fd = sv[0];
        launch->fds[4] = sv[1];
        launch->fds[5] = n->used_fd < 0 ? -1 : fcntl(n->used_fd, F_DUPFD_CLOEXEC, 3);
        if (n->used_fd >= 0 && launch->fds[5] < 0) /* nobody would hear of its sockets */
            return coto_err_set(err, COTO_ERR_LIMIT, errno, "channel to a parked process");
    }
    bool frames = getenv("COTO_TEST_FRAMES") != NULL || !coto_up("stdio");
    for (int i = 0; i < 3; i++) {
        int p[2];
        if (native_serves) {
            launch->fds[i] = kept_null();
            continue;
        }
        if (frames) {
            launch->fds[i] = coto_up("stdio") ? open("/dev/null", O_RDWR | O_CLOEXEC)
                                              : fcntl(i, F_DUPFD_CLOEXEC, 3);
            continue;
        }
        if (pipe2(p, O_CLOEXEC))
            return coto_err_set(err, COTO_ERR_LIMIT, errno, "pipes to the sandbox");
        n->base.stdio_fd[i] = i == 0 ? p[1] : p[0];
        launch->fds[i] = i == 0 ? p[0] : p[1];
    }
    return 0;
}

/* ---- in the child: system calls only, no memory of its own ---- */

static int keep_capabilities(void)
{
    static const int needed[] = {CAP_CHOWN,  CAP_FOWNER,  CAP_SETGID,   CAP_SETUID,
                                 CAP_SETPCAP, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RESOURCE};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data))
        return errno;
    data[0].inheritable = data[0].permitted;
    data[1].inheritable = data[1].permitted;
    if (syscall(SYS_capset, &header, data))
        return errno;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, needed[i], 0, 0))
            return errno;
    return 0;
}

/* An ERROR frame by hand: no memory may be allocated here. */
static int tell_failure(int stream_fd, int error)
{
    unsigned char frame[256];
    char text[128];

    snprintf(text, sizeof text, "start coto-init: %s", strerror(error));
    size_t len = coto_frame_small_error(frame, sizeof frame, error, text);

    return write(stream_fd, frame, len) < 0 ? 71 : 70;
}

static int lift(int fd, int above)
{
    return fd >= above ? fd : fcntl(fd, F_DUPFD_CLOEXEC, above);
}

/* A copy of what is below launch->first, and only that, instead of the launcher's own. */
static int take_descriptors(struct native_launch *launch)
{
    if (!launch->first)
        return 0;
    if (syscall(SYS_close_range, launch->first, ~0u, 2u /* UNSHARE */) && unshare(CLONE_FILES))
        return errno;
    atomic_store(&launch->is_apart, true);
    return 0;
}

static int exec_init(void *arg)
{
    char *const envp[] = {coto_weak_env(), NULL}; /* empty in the product */
    struct native_launch *launch = arg;
    int count = launch->fds[4] < 0 ? 4 : launch->fds[5] < 0 ? 5 : 6;
    char *const argv[] = {"coto-init", "--in=3", "--out=3", "--setup", (char *)launch->root,
                          count < 5 ? NULL : launch->is_late ? "--late=4" : "--parked=4", count == 6 ? "--used=5" : NULL, NULL};
    int from[6] = {-1, -1, -1, -1, -1, -1};
    sigset_t none;

    int failure = take_descriptors(launch);
    if (failure)
        return tell_failure(launch->fds[3], failure);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    failure = launch->is_root ? 0 : keep_capabilities(); /* root keeps its own */
    /* Lifted out of the way where one could be overwritten. */
    int init_fd = lift(launch->init_fd, count);
    for (int i = 0; i < count; i++)
        from[i] = lift(launch->fds[i], count);
    failure = init_fd < 0 ? EMFILE : failure;
    for (int i = 0; i < count && !failure; i++)
        failure = from[i] < 0 || dup2(from[i], i) < 0 ? EMFILE : 0;
    if (!failure && coto_up("fds") && syscall(SYS_close_range, count, ~0u, 4u /* CLOEXEC */))
        failure = errno;
    if (!failure) {
        syscall(SYS_execveat, init_fd, "", argv, envp, AT_EMPTY_PATH);
        failure = errno;
    }
    return tell_failure(from[3] < 0 ? launch->fds[3] : from[3], failure);
}

/* ---- in the supervisor ---- */

/* What a user namespace uses of inotify instances, pending signals and the like is
 * also counted against whoever made it. So it is made as the sandbox's own uid: a
 * program that uses all it may harms nobody else. Raw calls, because these are for this
 * thread only. Not for a child that is born into a cgroup: that uid may not do that. */
static bool lend_uid(const struct native *n, int cgroup_fd, gid_t *ret_gid)
{
    *ret_gid = getegid();
    if (!n->lend_uid || cgroup_fd >= 0 || getuid() != 0 || geteuid() != 0)
        return false;
    if (syscall(SYS_setresgid, n->map.host_gid, n->map.host_gid, -1))
        return false;
    if (syscall(SYS_setresuid, n->map.host_uid, n->map.host_uid, -1)) {
        syscall(SYS_setresgid, *ret_gid, *ret_gid, -1);
        return false;
    }
    return true;
}

/* Without it nothing that follows would be done as who it should. What was begun ends with us. */
static void take_uid_back(gid_t gid)
{
    for (int i = 0; i < 2; i++)
        if (!syscall(SYS_setresuid, 0, 0, 0) && !syscall(SYS_setresgid, gid, gid, gid))
            return;
    dprintf(2, "coto: become root again: %s\n", strerror(errno));
    _exit(71);
}

/* Whether others have to be served meanwhile. Of a launcher that is not dumpable a child is not either until it has executed init, and
 * an ordinary user could not write its id maps. */
static bool is_in_a_hurry(void)
{
    return native_serves && (geteuid() == 0 || prctl(PR_GET_DUMPABLE) == 1);
}

static int spawn(struct native *n, int cgroup_fd, const struct coto_ns_child *child,
                 struct coto_err *err)
{
    uint64_t flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
    /* It was put on our processor: it starts sooner when we wait until it has executed init. One
     * that has others to serve does not wait. */
    flags |= is_in_a_hurry() ? 0 : CLONE_VFORK;
    flags |= n->launch->first ? CLONE_FILES : 0;
    flags &= coto_up("pid_namespace") ? ~0ull : ~(uint64_t)CLONE_NEWPID;
    flags &= coto_up("ipc_namespace") ? ~0ull : ~(uint64_t)CLONE_NEWIPC;
    flags &= coto_up("uts_namespace") ? ~0ull : ~(uint64_t)CLONE_NEWUTS;
    if (n->root == COTO_ROOT_FOR_OTHERS)
        flags = CLONE_NEWNS | CLONE_NEWPID;
    if (!native_net_enter(n))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "enter the network namespace");
    if (!native_shared_enter(n)) {
        native_net_leave(n);
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "enter the shared root");
    }
    gid_t gid;
    bool lent = lend_uid(n, cgroup_fd, &gid);
    pid_t pid = coto_ns_spawn(flags, cgroup_fd, child, &n->pidfd);
    int saved = errno;

    if (lent)
        take_uid_back(gid);
    if (pid < 0 && lent) { /* user namespaces may be root's alone here */
        pid = coto_ns_spawn(flags, cgroup_fd, child, &n->pidfd);
        saved = errno;
    }
    native_shared_leave(n);
    native_net_leave(n);
    if (pid < 0)
        return explain_clone(saved, err);
    n->pid = pid;
    if (!native_serves) /* which has time for it: an execution there may end a second late */
        coto_sched_be_prompt(pid);
    return 0;
}

/* Before anything half works: later on a lack of them looks like something else. */
static int check_descriptors(struct coto_err *err)
{
    struct rlimit limit;

    if (native_serves || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= DESCRIPTORS)
        return 0;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    if (limit.rlim_cur == DESCRIPTORS && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_LIMIT, EMFILE, "make a sandbox");
    return coto_err_remedy(err, "it takes %d open files: ulimit -n 64", DESCRIPTORS);
}

/* What every child gets is opened while there are few other descriptors. */
void native_launch_serve(void)
{
    native_slots_reserve(kept_null(), kept_init(NULL));
}

static int prepare(struct native *n, struct coto_err *err)
{
    struct native_launch *launch = n->launch;

    for (int i = 0; i < 6; i++)
        launch->fds[i] = -1;
    snprintf(launch->root, sizeof launch->root, "--root=%d", (int)n->root);
    launch->is_root = n->root == COTO_ROOT_FOR_OTHERS;
    launch->is_late = n->plan && n->plan->parked_late;
    launch->init_fd = native_serves ? kept_init(err) : coto_initbin_open(err);
    if (launch->init_fd < 0 || make_stream(n, launch, err))
        return -1;
    if (launch->first && native_slot_put(launch))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "descriptors of a sandbox");
    return 0;
}

int native_launch(struct native *n, int cgroup_fd, struct coto_err *err)
{
    if (check_descriptors(err))
        return -1;
    if (!native_slot_take(n))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "create sandbox");
    struct native_launch *launch = n->launch;
    const struct coto_ns_child child = {exec_init, launch, launch->stack, sizeof launch->stack};
    int fds[7] = {-1, -1, -1, -1, -1, -1, -1};
    int failed = prepare(n, err);

    memcpy(fds, launch->fds, sizeof launch->fds);
    fds[6] = launch->init_fd;
    if (native_serves)
        fds[0] = fds[1] = fds[2] = fds[6] = -1;
    if (!failed)
        failed = spawn(n, cgroup_fd, &child, err);
    /* The child has descriptors of its own; its copy of the numbers stays as it is. */
    for (int i = 0; i < 7 && !launch->first; i++)
        coto_own_close(&fds[i]);
    if (failed)
        native_slot_drop(n);
    return failed ? -1 : 0;
}

static void fill_path(const struct coto_plan_path *from, struct coto_setup_path *to)
{
    *to = (struct coto_setup_path){.source = from->source,
                                   .target = from->target,
                                   .dev = from->dev,
                                   .ino = from->ino,
                                   .mode = from->mode,
                                   .writable = from->writable};
}

/* Init inherits them, and a program must not. It is told, because it would have to ask the
 * kernel about each of them while everybody waits for it. */
static uint64_t ignored_signals(void)
{
    struct { /* the kernel's struct sigaction: C libraries hide signals 32 to 34 */
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } action;
    static uint64_t ignored;
    static bool known; /* a launcher does not change them */

    if (native_serves && known)
        return ignored;
    known = true;
    ignored = 0;
    for (int i = 1; i <= 64; i++)
        if (syscall(SYS_rt_sigaction, i, NULL, &action, 8) || action.handler == SIG_IGN)
            ignored |= (uint64_t)1 << (i - 1);
    return ignored;
}

static int fill_setup(const struct native *n, bool verbose, struct coto_setup *setup,
                      struct coto_err *err)
{
    const struct coto_plan *plan = n->plan;

    if (plan->mount_count > COTO_SETUP_MOUNTS || plan->tmpfs_count > COTO_SETUP_MOUNTS)
        return coto_err_set(err, COTO_ERR_POLICY, 0, "more than %d mounts", COTO_SETUP_MOUNTS);
    *setup = (struct coto_setup){.uid = plan->uid,
                                 .gid = plan->gid,
                                 .caps = plan->caps,
                                 .ignored = ignored_signals(),
                                 .user_name = plan->user_name,
                                 .hostname = plan->hostname,
                                 .workdir = plan->workdir,
                                 .disk_bytes = plan->disk_bytes,
                                 .tmp_bytes = plan->tmp_bytes,
                                 .inodes = plan->inodes,
                                 .ptys = plan->ptys,
                                 .noexec = plan->noexec,
                                 .writable_output_only = plan->writable_output_only,
                                 .apparmor = plan->want & COTO_WALL_BIT(APPARMOR),
                                 .verbose = verbose,
                                 .mount_count = (unsigned)plan->mount_count,
                                 .tmpfs_count = (unsigned)plan->tmpfs_count};
    if (plan->rootfs.source)
        fill_path(&plan->rootfs, &setup->rootfs);
    for (size_t i = 0; i < plan->mount_count; i++)
        fill_path(&plan->mounts[i], &setup->mounts[i]);
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        setup->tmpfs[i] = (struct coto_setup_tmpfs){plan->tmpfs[i].target, plan->tmpfs[i].size};
    return 0;
}

/* The programs of this sandbox are started by a process that we do not trust. */
static int set_floor(const struct native *n, struct coto_setup *setup, struct coto_err *err)
{
    static struct coto_seccomp_program program;
    static int tier = -1;
    static unsigned extras;
    unsigned wanted = coto_seccomp_extras(n->plan->noexec, coto_plan_writes_host(n->plan));

    if (tier != n->plan->seccomp_tier || extras != wanted) {
        tier = -1;
        if (coto_seccomp_build(n->plan->seccomp_tier, wanted, &program, err))
            return -1;
        tier = n->plan->seccomp_tier;
        extras = wanted;
    }
    setup->filter = (char *)program.code;
    setup->filter_len = program.len * sizeof program.code[0];
    setup->landlock_abi = n->base.landlock_abi;
    return 0;
}

/* A supervisor with CAP_SYS_ADMIN takes the clones from the plan's own descriptors,
 * so no name is resolved again; otherwise init re-opens and compares. Count. */
static int clone_mounts(const struct coto_plan *plan, int fds[COTO_SETUP_MOUNTS])
{
    int count = 0;

    for (size_t i = 0; i < plan->mount_count; i++) {
        fds[count] = coto_mount_clone(plan->mounts[i].fd, "", true, NULL);
        if (fds[count] < 0) {
            while (count > 0)
                close(fds[--count]);
            return 0;
        }
        count++;
    }
    return count;
}

int native_send_setup(struct native *n, bool verbose, struct coto_err *err)
{
    static struct coto_setup setup;
    static struct coto_buf frame; /* kept: as large as several pages, each time anew */
    int fds[COTO_SETUP_MOUNTS];

    if (fill_setup(n, verbose, &setup, err) || (native_serves && set_floor(n, &setup, err)))
        return -1;
    int count = clone_mounts(n->plan, fds);
    setup.mounts_given = count > 0;
    coto_buf_clear(&frame);
    coto_setup_encode(&setup, &frame);
    int failed = frame.failed || coto_fd_send(n->base.stream_fd, COTO_GO_SETUP, fds, count) ||
                 coto_fd_write_all(n->base.stream_fd, frame.data, frame.len);
    int saved = errno;
    while (count > 0)
        close(fds[--count]);
    return failed ? coto_err_set(err, COTO_ERR_INTERNAL, saved, "tell coto-init the plan") : 0;
}

int native_send_ids(struct native *n, struct coto_err *err)
{
    bool chosen = n->lend_uid && n->plan->idmap == COTO_IDMAP_AUTO;

    if ((!chosen && coto_idmap_choose(n->plan->idmap, &n->map, err)) ||
        coto_idmap_write(&n->map, n->pid, n->plan->uid, n->plan->gid, err))
        return -1;
    /* The program's own pipes: else opening /dev/stdout or /dev/stderr is refused. */
    for (int i = 0; i < 3 && n->map.kind == COTO_MAP_RANGE; i++)
        if (n->base.stdio_fd[i] >= 0 &&
            fchown(n->base.stdio_fd[i], n->map.host_uid, n->map.host_gid))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "give the sandbox its pipes");
    char go = n->map.kind == COTO_MAP_SINGLE ? COTO_GO_IDS : COTO_GO_IDS_AND_GROUPS;
    if (coto_fd_write_all(n->base.stream_fd, &go, 1))
        return coto_err_set(err, COTO_ERR_INTERNAL, errno, "tell coto-init its ids");
    return 0;
}

static bool is_whole(const struct coto_ns_set *set)
{
    for (int i = 0; i < COTO_NS_COUNT; i++)
        if (!set->inode[i])
            return false;
    return true;
}

/* The child's uid has no right to a cgroup; it writes through our descriptors. */
int native_send_cgroup(struct native *n, struct coto_err *err)
{
    int fds[COTO_CG_COUNT] = {-1};
    static struct coto_ns_set own;
    if (!native_serves || !is_whole(&own))
        coto_ns_read(&own);
    if (!is_whole(&own))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "look at our own namespaces");
    n->own_ns = own;
    if (n->has_group && n->group.version == 2 && !n->is_born_in_group)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "coto-init is not in its cgroup");
    int count = n->has_group ? coto_cgroup_open_join(&n->group, fds) : 0;
    bool again = n->plan->parked && !n->plan->parked_late && count > 0; /* an interpreter will join it, too */
    struct coto_setup_limits limits = {(uint64_t)n->base.rlimit_nproc, (uint64_t)n->base.rlimit_data};
    char told[sizeof n->own_ns + sizeof limits];
    memcpy(told, &n->own_ns, sizeof n->own_ns);
    memcpy(told + sizeof n->own_ns, &limits, sizeof limits);
    int failed = count < 0 || coto_fd_send(n->base.stream_fd, COTO_GO_CGROUP, fds, count) ||
                 coto_fd_write_all(n->base.stream_fd, told, sizeof told);
    int saved = errno;

    for (int i = 0; i < count && !again; i++)
        close(fds[i]);
    for (int i = 0; i < count && again; i++)
        n->join_fds[n->join_count++] = fds[i];
    return failed ? coto_err_set(err, COTO_ERR_SYSTEM, saved, "join the cgroup") : 0;
}
