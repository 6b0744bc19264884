/* A native sandbox, built by its own PID 1: an ordered array of named steps.
 *
 * The process was cloned into new user, pid, mount, ipc and uts namespaces and has
 * executed coto-init: nothing of the supervisor's memory is here. It has the
 * capabilities it needs in its own user namespace (as ambient ones) and none
 * outside. Order matters: clones of host directories are taken before the uid
 * changes (they need the caller's permissions); the cgroup namespace comes after
 * the cgroup was joined; privilege goes last.
 */
#include "init/setup.h"
#include "init/aside.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"
#include "kernel/caps.h"
#include "kernel/mount.h"
#include "kernel/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct setup {
    int stream_fd;
    bool has_network; /* it was born in one that is not the host's */
    struct coto_setup what;
    struct init_root root;
    int labels_fd; /* see step_labels */
    struct coto_ns_set ns, host_ns;
    struct coto_setup_limits limits;
    struct init_aside aside; /* with a stack, so last */
};

static int step_aside(struct setup *s, struct coto_err *err)
{
    return init_aside_start(&s->aside, err);
}

static int step_network(struct setup *s, struct coto_err *err)
{
    coto_auto_fd fd = -1;

    if (init_aside_network(&s->aside, &fd, err))
        return -1;
    if (fd >= 0 && setns(fd, CLONE_NEWNET))
        return coto_err_set(err, COTO_ERR_WALL, errno, "net_namespace: join");
    return 0;
}

/* ---- what the supervisor says ---- */

static int went_away(struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_INTERNAL, 0, "the supervisor went away");
}

#define CAPS_A_PLAN_MAY_ASK                                                                        \
    ((uint64_t)1 << CAP_CHOWN | (uint64_t)1 << CAP_FOWNER | (uint64_t)1 << CAP_SETGID |             \
     (uint64_t)1 << CAP_SETUID)

/* While there is nothing to do but wait: a plan can ask for four capabilities at
 * most, so all others leave the bounding set now. */
static int step_bounding(struct setup *s, struct coto_err *err)
{
    (void)s;
    (void)err;
    for (unsigned bit = 0; bit < 64 && coto_up("capabilities"); bit++)
        if (!(CAPS_A_PLAN_MAY_ASK >> bit & 1) && prctl(PR_CAPBSET_DROP, bit, 0, 0, 0))
            break; /* past the last one; every program's start reads the set back */
    return 0;
}

static int step_read_setup(struct setup *s, struct coto_err *err)
{
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    char go = 0;
    int got;
    int count = coto_fd_receive(s->stream_fd, &go, s->root.mount_fds, COTO_SETUP_MOUNTS);

    if (count < 0 || go != COTO_GO_SETUP)
        return went_away(err);
    /* Byte-exact: what follows the frame is for a later step. */
    char *head = coto_buf_reserve(&reader.buf, COTO_FRAME_HEADER);
    if (!head || coto_fd_read_exact(s->stream_fd, head, COTO_FRAME_HEADER))
        return went_away(err);
    size_t len = (unsigned char)head[0] | (size_t)(unsigned char)head[1] << 8 |
                 (size_t)(unsigned char)head[2] << 16;
    char *body = len <= COTO_FRAME_MAX ? coto_buf_reserve(&reader.buf, COTO_FRAME_HEADER + len) : NULL;
    if (!body || coto_fd_read_exact(s->stream_fd, body + COTO_FRAME_HEADER, len))
        return went_away(err);
    reader.buf.len = COTO_FRAME_HEADER + len;
    got = coto_frame_next(&reader, &frame, err);
    int failed = got == 1 ? coto_setup_decode(&frame, &s->what, err) : went_away(err);
    coto_frame_reader_fini(&reader);
    if (!failed && s->what.mounts_given && (unsigned)count != s->what.mount_count)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "mounts and descriptors do not match");
    return failed;
}

static int step_identity(struct setup *s, struct coto_err *err)
{
    char go = 0;

    if (coto_fd_read_exact(s->stream_fd, &go, 1))
        return went_away(err);
    /* From here on /proc/self is not ours. */
    if (s->root.kind == COTO_ROOT_OWN && init_aside_own_proc(&s->aside, err))
        return -1;
    /* Without the C library, which would first stop threads it does not know of. */
    if (go == COTO_GO_IDS_AND_GROUPS && syscall(SYS_setgroups, 0, NULL))
        return coto_err_set(err, COTO_ERR_WALL, errno, "uid: drop groups");
    if (syscall(SYS_setresgid, s->what.gid, s->what.gid, s->what.gid) ||
        syscall(SYS_setresuid, s->what.uid, s->what.uid, s->what.uid))
        return coto_err_set(err, COTO_ERR_WALL, errno, "uid: become %u", s->what.uid);
    /* The change of uid cleared the parent-death signal. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}

static int step_cgroup(struct setup *s, struct coto_err *err)
{
    int fds[8];
    char go = 0;
    int count = coto_fd_receive(s->stream_fd, &go, fds, 8);

    if (count < 0 || go != COTO_GO_CGROUP ||
        coto_fd_read_exact(s->stream_fd, &s->host_ns, sizeof s->host_ns) ||
        coto_fd_read_exact(s->stream_fd, &s->limits, sizeof s->limits))
        return went_away(err);
    for (int i = 0; i < count; i++) {
        coto_auto_fd fd = fds[i];
        if (write(fd, "0", 1) != 1) /* "0": the writer itself (kernel/cgroup.h) */
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "join the cgroup");
    }
    return 0;
}

static int step_cgroup_namespace(struct setup *s, struct coto_err *err)
{
    (void)s;
    if (coto_up("cgroup_namespace") && unshare(CLONE_NEWCGROUP))
        return coto_err_set(err, COTO_ERR_WALL, errno, "cgroup_namespace");
    return 0;
}

/* ---- file system, names, privilege ---- */

#define ROOT_STEP(name)                                                                            \
    static int step_##name(struct setup *s, struct coto_err *err)                                  \
    {                                                                                              \
        return init_root_##name(&s->root, err);                                                    \
    }
ROOT_STEP(clone_host)
ROOT_STEP(make)
ROOT_STEP(proc)
ROOT_STEP(etc)
ROOT_STEP(seal)
ROOT_STEP(dev)
ROOT_STEP(work)
ROOT_STEP(mounts)

/* The sandbox's own /proc is read-only. This one is attached nowhere; only a child of ours
 * that is about to execve writes to it, and only to its own attr file. */
static int step_labels(struct setup *s, struct coto_err *err)
{
    s->labels_fd = -1;
    if (!s->what.apparmor || !coto_up("apparmor"))
        return 0;
    s->labels_fd = coto_mount_new("proc", NULL, COTO_ATTR_NOSUID | COTO_ATTR_NOEXEC, err);
    return s->labels_fd < 0 ? -1 : 0;
}

static int step_enter(struct setup *s, struct coto_err *err)
{
    if (init_root_enter(&s->root, err))
        return -1;
    init_aside_old_root(&s->aside);
    return 0;
}

static int step_join(struct setup *s, struct coto_err *err)
{
    return init_aside_join(&s->aside, err);
}

static int step_names(struct setup *s, struct coto_err *err)
{
    if (!coto_up("uts_namespace"))
        return 0;
    if (sethostname(s->what.hostname, strlen(s->what.hostname)))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set host name");
    if (setdomainname("(none)", 6))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set domain name");
    return 0;
}

/* The last look before privilege goes: not one namespace may be the host's. */
static int step_check_namespaces(struct setup *s, struct coto_err *err)
{
    errno = 0;
    coto_ns_read(&s->ns);
    int why = errno;
    for (int i = 0; i < COTO_NS_COUNT && !coto_weakened(); i++)
        if (s->ns.inode[i] == 0 && why)
            return coto_err_set(err, COTO_ERR_SYSTEM, why, "look at the namespaces");
        else if (s->ns.inode[i] == 0 || s->host_ns.inode[i] == 0 ||
                 s->ns.inode[i] == s->host_ns.inode[i])
            return coto_err_set(err, COTO_ERR_WALL, 0, "%s namespace is not separate from the host's",
                                coto_ns_name[i]);
    return 0;
}

static int step_privilege(struct setup *s, struct coto_err *err)
{
    if (coto_up("no_new_privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return coto_err_set(err, COTO_ERR_WALL, errno, "no_new_privs");
    if (!coto_up("capabilities"))
        return 0;
    for (unsigned bit = 0; bit < 64; bit++)
        if ((CAPS_A_PLAN_MAY_ASK & ~s->what.caps) >> bit & 1)
            prctl(PR_CAPBSET_DROP, bit, 0, 0, 0);
    return coto_caps_keep(s->what.caps, err);
}

/* ---- a root that sandboxes share (shared.c) ---- */

static int step_detach(struct setup *s, struct coto_err *err)
{
    (void)s;
    return init_shared_detach(err);
}

static int step_places(struct setup *s, struct coto_err *err)
{
    return init_root_places(&s->root, err);
}

static int step_leave(struct setup *s, struct coto_err *err)
{
    return init_root_enter(&s->root, err) || init_shared_leave(err) ? -1 : 0;
}

static int step_shared_enter(struct setup *s, struct coto_err *err)
{
    return init_shared_enter(&s->root, err);
}

static int step_shared_proc(struct setup *s, struct coto_err *err)
{
    if (!s->has_network && init_shared_network(err))
        return -1;
    return init_shared_proc(s->has_network, err);
}

static int step_terminals(struct setup *s, struct coto_err *err)
{
    return init_root_terminals(&s->what, err);
}

struct step {
    const char *name;
    int (*run)(struct setup *, struct coto_err *);
};

static const struct step for_others_steps[] = {
    {"let go of the host's mounts", step_detach},
    {"wait for the plan", step_read_setup},
    {"clone host directories", step_clone_host},
    {"root file system", step_make},
    {"/etc", step_etc},
    {"read-only so far", step_seal},
    {"/dev", step_dev},
    {"what sandboxes mount on", step_places},
    {"pivot_root", step_leave},
    {NULL, NULL},
};

static const struct step given_steps[] = {
    {"drop capabilities no plan can ask for", step_bounding},
    {"wait for the plan", step_read_setup},
    {"wait for the id maps, become the sandbox's uid", step_identity},
    {"the shared root", step_shared_enter},
    {"network namespace, /proc", step_shared_proc},
    {"a /proc for AppArmor", step_labels},
    {"/dev/pts", step_terminals},
    {"workspace and /tmp", step_work},
    {"host name", step_names},
    {"join the cgroup", step_cgroup},
    {"cgroup namespace", step_cgroup_namespace},
    {"compare namespaces with the host's", step_check_namespaces},
    {"drop privilege", step_privilege},
    {NULL, NULL},
};

static const struct step own_steps[] = {
    {"start a thread for the network namespace", step_aside},
    {"drop capabilities no plan can ask for", step_bounding},
    {"wait for the plan", step_read_setup},
    {"clone host directories", step_clone_host},
    {"wait for the id maps, become the sandbox's uid", step_identity},
    {"root file system", step_make},
    {"/proc", step_proc},
    {"a /proc for AppArmor", step_labels},
    {"/etc", step_etc},
    {"read-only so far", step_seal},
    {"/dev", step_dev},
    {"workspace and /tmp", step_work},
    {"policy's mounts", step_mounts},
    {"join the network namespace", step_network},
    {"pivot_root", step_enter},
    {"host name", step_names},
    {"join the cgroup", step_cgroup},
    {"cgroup namespace", step_cgroup_namespace},
    {"compare namespaces with the host's", step_check_namespaces},
    {"drop privilege", step_privilege},
    {"the old root is gone", step_join},
    {NULL, NULL},
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

static int run_steps(struct setup *s, const struct step *step, struct coto_err *err)
{
    int64_t before = coto_clock_us();

    for (; step->name; step++) {
        if (step->run(s, err))
            return -1;
        int64_t now = coto_clock_us();
        if (s->what.verbose)
            report_step(s->stream_fd, step->name, now - before);
        before = now;
    }
    return 0;
}

int init_setup(int stream_fd, enum coto_setup_root kind, bool has_network,
               struct init_built *ret_built, struct coto_err *err)
{
    static const struct step *const ways[] = {[COTO_ROOT_OWN] = own_steps,
                                              [COTO_ROOT_FOR_OTHERS] = for_others_steps,
                                              [COTO_ROOT_GIVEN] = given_steps};
    static struct setup s;

    s.stream_fd = stream_fd;
    s.root.setup = &s.what;
    s.root.kind = kind;
    s.has_network = has_network;
    s.root.fd = s.root.work_fd = s.labels_fd = -1;
    if (run_steps(&s, ways[kind], err))
        return -1;
    coto_own_close(&s.root.fd);
    *ret_built = (struct init_built){.work_fd = s.root.work_fd,
                                     .ns = s.ns,
                                     .ignored = s.what.ignored,
                                     .labels_fd = s.labels_fd};
    if (init_floor_take(&s.what, &ret_built->floor, err))
        return -1;
    ret_built->floor.limits = s.limits;
    coto_setup_fini(&s.what);
    return 0;
}
