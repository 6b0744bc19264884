/* Between clone and execve of coto-init: an ordered array of named steps.
 *
 * The process is PID 1 of its pid namespace, has all capabilities in its own
 * user namespace and none outside. Order matters: clones of host directories
 * are taken before the uid changes (they need the caller's permissions); the
 * cgroup namespace comes after the cgroup was joined;
 * privilege goes last but one.
 */
#include "drivers/native/native.h"

#include "base/clock.h"
#include "base/fd.h"
#include "kernel/caps.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

struct net {
    _Alignas(16) char stack[16384];
    int fd; /* of the new namespace */
    int error;
    pid_t tid; /* 0 once the thread is gone */
    struct coto_err err;
};

struct setup {
    struct native_child *child;
    struct native_root root;
    struct net net;
};

/* When memory is out the kernel shall take the sandbox, not its neighbours; init
 * is the smallest process in it. Now, because /proc/self is ours only until the
 * uid changes. */
static int step_oom(struct setup *s, struct coto_err *err)
{
    (void)s;
    if (coto_file_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000"))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set oom_score_adj");
    return 0;
}

/* The network namespace takes a third of the whole set-up, all of it in the
 * kernel and none of it in the way of mounts: a second thread makes it while this
 * one goes on, and this one joins it at the end. The thread shares everything,
 * calls nothing but system calls and ends before privilege is dropped. */
static int net_thread(void *arg)
{
    struct net *net = arg;

    if (syscall(SYS_unshare, CLONE_NEWNET))
        net->error = errno;
    else if (coto_ns_loopback_up(&net->err))
        net->error = net->err.sys_errno;
    else
        net->fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/ns/net",
                               O_RDONLY | O_CLOEXEC, 0);
    if (net->fd < 0 && !net->error)
        net->error = errno;
    return 0;
}

/* The scheduler would queue the thread behind us on this CPU; the supervisor, on
 * another one, is done sooner than we are. */
static void send_elsewhere(pid_t tid)
{
    cpu_set_t cpus;
    unsigned here;

    if (syscall(SYS_getcpu, &here, NULL, NULL) || here >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof cpus, &cpus) || CPU_COUNT(&cpus) < 2)
        return;
    CPU_CLR(here, &cpus);
    sched_setaffinity(tid, sizeof cpus, &cpus);
}

static int step_network(struct setup *s, struct coto_err *err)
{
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;

    s->net.fd = -1;
    s->net.tid = 1;
    pid_t tid = clone(net_thread, s->net.stack + sizeof s->net.stack, flags, &s->net, NULL, NULL,
                      &s->net.tid);
    if (tid < 0)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the network thread");
    send_elsewhere(tid);
    return 0;
}

static int step_join_network(struct setup *s, struct coto_err *err)
{
    pid_t tid;

    /* The kernel clears tid and wakes us when the thread has ended. */
    while ((tid = __atomic_load_n(&s->net.tid, __ATOMIC_ACQUIRE)) != 0)
        syscall(SYS_futex, &s->net.tid, 0 /* FUTEX_WAIT */, tid, NULL, NULL, 0);
    if (s->net.error)
        return coto_err_set(err, COTO_ERR_WALL, s->net.error, "net_namespace");
    if (setns(s->net.fd, CLONE_NEWNET))
        return coto_err_set(err, COTO_ERR_WALL, errno, "net_namespace: join");
    coto_own_close(&s->net.fd);
    return 0;
}

static int step_clone_host(struct setup *s, struct coto_err *err)
{
    return native_root_clone_host(&s->root, err);
}

static int step_identity(struct setup *s, struct coto_err *err)
{
    const struct coto_plan *plan = s->child->plan;
    char go = 0;

    if (coto_fd_read_exact(s->child->stream_fd, &go, 1))
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "the supervisor went away");
    if (go == NATIVE_GO_IDS_AND_GROUPS && setgroups(0, NULL))
        return coto_err_set(err, COTO_ERR_WALL, errno, "uid: drop groups");
    if (setresgid(plan->gid, plan->gid, plan->gid) || setresuid(plan->uid, plan->uid, plan->uid))
        return coto_err_set(err, COTO_ERR_WALL, errno, "uid: become %u", (unsigned)plan->uid);
    /* The change of uid cleared the parent-death signal. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}

static int step_cgroup(struct setup *s, struct coto_err *err)
{
    int fds[COTO_CG_COUNT];
    char go = 0;
    int count = coto_fd_receive(s->child->stream_fd, &go, fds, COTO_CG_COUNT);

    if (count < 0 || go != NATIVE_GO_CGROUP)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "the supervisor went away");
    if (coto_cgroup_join(fds, count))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "join the cgroup");
    return 0; /* the descriptors close on execve */
}

static int step_cgroup_namespace(struct setup *s, struct coto_err *err)
{
    (void)s;
    if (unshare(CLONE_NEWCGROUP))
        return coto_err_set(err, COTO_ERR_WALL, errno, "cgroup_namespace");
    return 0;
}

static int step_root(struct setup *s, struct coto_err *err)
{
    return native_root_make(&s->root, err);
}

static int step_proc(struct setup *s, struct coto_err *err)
{
    return native_root_proc(&s->root, err);
}

static int step_dev(struct setup *s, struct coto_err *err)
{
    return native_root_dev(&s->root, err);
}

static int step_work(struct setup *s, struct coto_err *err)
{
    return native_root_work(&s->root, err);
}

static int step_etc(struct setup *s, struct coto_err *err)
{
    return native_root_etc(&s->root, err);
}

static int step_mounts(struct setup *s, struct coto_err *err)
{
    return native_root_mounts(&s->root, err);
}

static int step_enter(struct setup *s, struct coto_err *err)
{
    return native_root_enter(&s->root, err);
}

static int step_names(struct setup *s, struct coto_err *err)
{
    const char *name = s->child->plan->hostname;

    if (sethostname(name, strlen(name)))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set host name");
    if (setdomainname("(none)", 6))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set domain name");
    return 0;
}

static int step_privilege(struct setup *s, struct coto_err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return coto_err_set(err, COTO_ERR_WALL, errno, "no_new_privs");
    return coto_caps_limit(s->child->plan->caps, err);
}

/* Moves the descriptors init is born with to their fixed numbers. All of them
 * are first lifted out of the way, so that none is overwritten. */
static int step_descriptors(struct setup *s, struct coto_err *err)
{
    struct native_child *c = s->child;
    int from[] = {c->stdio_fd[0], c->stdio_fd[1], c->stdio_fd[2], c->stream_fd, s->root.work_fd};
    int count = (int)(sizeof from / sizeof from[0]);

    c->init_fd = fcntl(c->init_fd, F_DUPFD_CLOEXEC, 32);
    for (int i = 0; i < count; i++)
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 32);
    for (int i = 0; i < count; i++)
        if (from[i] < 0 || c->init_fd < 0 || dup2(from[i], i) < 0)
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "arrange descriptors");
    c->stream_fd = NATIVE_FD_STREAM;
    if (syscall(SYS_close_range, (unsigned)NATIVE_FD_FREE, ~0u, 4u /* CLOEXEC */))
        return coto_err_set(err, COTO_ERR_WALL, errno, "close inherited descriptors");
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct setup *, struct coto_err *);
} steps[] = {
    {"first in line when memory is out", step_oom},
    {"start making the network namespace", step_network},
    {"clone host directories", step_clone_host},
    {"wait for the id maps, become the sandbox's uid", step_identity},
    {"root file system", step_root},
    {"/proc", step_proc},
    {"/dev", step_dev},
    {"workspace and /tmp", step_work},
    {"/etc", step_etc},
    {"policy's mounts", step_mounts},
    {"join the network namespace", step_join_network},
    {"pivot_root", step_enter},
    {"host name", step_names},
    {"join the cgroup", step_cgroup},
    {"cgroup namespace", step_cgroup_namespace},
    {"drop privilege", step_privilege},
    {"arrange descriptors", step_descriptors},
};

static void report_step(int fd, const char *name, int64_t us)
{
    coto_auto_buf buf = {0};
    size_t at = coto_frame_begin(&buf, COTO_FRAME_STEP, 0);

    coto_frame_add_text(&buf, COTO_TAG_TEXT, name);
    coto_frame_add_num(&buf, COTO_TAG_SIZE, (uint64_t)us);
    coto_frame_end(&buf, at);
    coto_fd_write_all(fd, buf.data, buf.len);
}

static _Noreturn void give_up(int fd, const struct coto_err *err)
{
    coto_auto_buf buf = {0};

    coto_frame_add_error(&buf, 0, err);
    coto_fd_write_all(fd, buf.data, buf.len);
    _exit(70);
}

_Noreturn void native_child_main(struct native_child *child)
{
    static struct setup s;
    char *argv[] = {"coto-init", "--in=3", "--out=3", "--work=4", NULL};
    char *envp[] = {NULL};
    struct coto_err err = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "coto-setup");
    s.child = child;
    s.root.child = child;
    s.root.fd = s.root.work_fd = -1;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int64_t before = child->verbose ? coto_clock_us() : 0;
        if (steps[i].run(&s, &err))
            give_up(child->stream_fd, &err);
        if (child->verbose)
            report_step(child->stream_fd, steps[i].name, coto_clock_us() - before);
    }
    syscall(SYS_execveat, child->init_fd, "", argv, envp, AT_EMPTY_PATH);
    coto_err_set(&err, COTO_ERR_SYSTEM, errno, "start coto-init");
    give_up(child->stream_fd, &err);
}
