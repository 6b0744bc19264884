#include "init/aside.h"

#include "base/rawcall.h"
#include "base/weak.h"
#include "kernel/mount.h"
#include "kernel/ns.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>

enum { STAGE_OWN_PROC = 1, STAGE_NETWORK, STAGE_OLD_ROOT };
enum { WAIT = 0, WAKE = 1 }; /* of a futex */

/* ---- in the thread ---- */

/* Four characters: the kernel passes over blanks at the end of a number. */
static int write_file(int dir, const char *path, const char *text)
{
    long fd = coto_raw_call(SYS_openat, dir, (long)(intptr_t)path, O_WRONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return (int)-fd;
    long n = coto_raw_call(SYS_write, fd, (long)(intptr_t)text, 4, 0);
    coto_raw_call(SYS_close, fd, 0, 0, 0);
    return n < 0 ? (int)-n : 0;
}

static void wait_for(uint32_t *word, uint32_t stage)
{
    uint32_t now;

    while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < stage)
        coto_raw_call(SYS_futex, (long)(intptr_t)word, WAIT, now, 0);
}

static void reach(uint32_t *word, uint32_t stage)
{
    __atomic_store_n(word, stage, __ATOMIC_RELEASE);
    coto_raw_call(SYS_futex, (long)(intptr_t)word, WAKE, INT_MAX, 0);
}

/* When memory is out the kernel shall take the sandbox, not its neighbours; init
 * is the smallest process in it. */
static int own_proc(void)
{
    return write_file(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
}

/* Inotify instances count for whoever made the user namespace too, and few are allowed:
 * a sandbox that takes them all leaves none to the host's root. Connections that nobody accepts
 * are counted for nobody, nor are those that were closed, for a minute, which take no descriptor
 * either: fewer of both. Where /proc/sys is not writable the host's own limits have to do. */
void init_aside_limits(int proc, bool has_network)
{
    write_file(proc, "sys/user/max_inotify_instances", "8   ");
    write_file(proc, "sys/user/max_inotify_watches", "8192");
    if (has_network)
        return;
    write_file(proc, "sys/net/core/somaxconn", "64  ");
    write_file(proc, "sys/net/ipv4/tcp_max_tw_buckets", "8192");
}

static void limits_of_own(void)
{
    long proc = coto_raw_call(SYS_openat, AT_FDCWD, (long)(intptr_t)"/proc", O_PATH | O_CLOEXEC, 0);

    init_aside_limits((int)proc, false);
    coto_raw_call(SYS_close, proc, 0, 0, 0);
}

static int run(void *arg)
{
    struct init_aside *aside = arg;

    aside->error_stage = STAGE_OWN_PROC;
    aside->error = own_proc();
    reach(&aside->done, STAGE_OWN_PROC);
    if (!aside->error) {
        aside->error_stage = STAGE_NETWORK;
        aside->error = coto_up("net_namespace") ? coto_ns_make_net(&aside->net_fd) : 0;
        if (!aside->error)
            limits_of_own();
    }
    reach(&aside->done, STAGE_NETWORK);
    if (!aside->error) {
        wait_for(&aside->asked, STAGE_OLD_ROOT);
        aside->error_stage = STAGE_OLD_ROOT;
        aside->error = coto_mount_drop_old();
    }
    return 0;
}

/* ---- in the first thread ---- */

int init_aside_start(struct init_aside *aside, struct coto_err *err)
{
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;

    aside->net_fd = -1;
    aside->tid = 1;
    if (clone(run, aside->stack + sizeof aside->stack, flags, aside, NULL, NULL, &aside->tid) < 0)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start a second thread");
    return 0;
}

static int judge(const struct init_aside *aside, int stage, struct coto_err *err)
{
    static const char *const names[] = {"", "set oom_score_adj", "net_namespace", "detach the old root"};

    if (!aside->error || aside->error_stage > stage)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, aside->error, "%s", names[aside->error_stage]);
    if (aside->error == ENOSPC && aside->error_stage == STAGE_NETWORK)
        coto_err_remedy(err, "raise the limit: sysctl user.max_net_namespaces=16384");
    return -1;
}

int init_aside_own_proc(struct init_aside *aside, struct coto_err *err)
{
    wait_for(&aside->done, STAGE_OWN_PROC);
    return judge(aside, STAGE_OWN_PROC, err);
}

int init_aside_network(struct init_aside *aside, int *ret_fd, struct coto_err *err)
{
    wait_for(&aside->done, STAGE_NETWORK);
    if (judge(aside, STAGE_NETWORK, err))
        return -1;
    *ret_fd = aside->net_fd;
    return 0;
}

void init_aside_old_root(struct init_aside *aside)
{
    reach(&aside->asked, STAGE_OLD_ROOT);
}

int init_aside_join(struct init_aside *aside, struct coto_err *err)
{
    pid_t tid;

    while ((tid = __atomic_load_n(&aside->tid, __ATOMIC_ACQUIRE)) != 0)
        coto_raw_call(SYS_futex, (long)(intptr_t)&aside->tid, WAIT, tid, 0);
    return judge(aside, STAGE_OLD_ROOT, err);
}
