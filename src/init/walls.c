#include "init/walls.h"

#include "base/fd.h"
#include "base/mountinfo.h"
#include "base/weak.h"
#include "kernel/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Ignored signals survive execve. By hand, because C libraries keep signals 32 to 34 for
 * themselves and refuse to touch them. */
static void reset_signals(uint64_t ignored)
{
    static const unsigned long all_default[4]; /* struct sigaction of the kernel */
    sigset_t none;

    for (int i = 1; i <= 64; i++)
        if (ignored >> (i - 1) & 1)
            syscall(SYS_rt_sigaction, i, all_default, NULL, 8);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int become_user(const struct init_spec *spec, struct coto_err *err)
{
    if (!spec->has_uid || (getuid() == spec->uid && getgid() == spec->gid))
        return 0;
    if (setgroups(0, NULL) && errno != EPERM)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "drop groups");
    if (setresgid((gid_t)spec->gid, (gid_t)spec->gid, (gid_t)spec->gid) ||
        setresuid((uid_t)spec->uid, (uid_t)spec->uid, (uid_t)spec->uid))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "become uid %u", (unsigned)spec->uid);
    return 0;
}

/* The kernel refuses to raise one that is lower already; that is no loss. */
static bool is_as_low(int resource, rlim_t most)
{
    struct rlimit now;

    return errno == EPERM && getrlimit((unsigned)resource, &now) == 0 && now.rlim_max <= most;
}

/* The one on descriptors comes last: to raise walls takes some, beside init's own. */
static int apply_limits(const struct init_spec *spec, bool is_last, struct coto_err *err)
{
    for (int i = 0; i < spec->rlimit_count && coto_up("rlimits"); i++)
        if ((spec->rlimits[i].resource == RLIMIT_NOFILE) == is_last &&
            setrlimit(spec->rlimits[i].resource, &spec->rlimits[i].limit) &&
            !is_as_low(spec->rlimits[i].resource, spec->rlimits[i].limit.rlim_max))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set resource limit %d",
                                spec->rlimits[i].resource);
    return 0;
}

/* gVisor's statvfs leaves that flag out; its mountinfo has it: "8 8 0:8 / / ro ...". */
static bool root_is_read_only(void)
{
    char text[512], *first = text;
    struct coto_mount root;
    struct statvfs fs;

    if (statvfs("/", &fs) == 0 && (fs.f_flag & ST_RDONLY))
        return true;
    if (coto_file_read_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text) <= 0)
        return false;
    return coto_mountinfo_next(&first, &root) && strcmp(root.point, "/") == 0 &&
           coto_mount_is_read_only(&root);
}

static void read_back(const struct init_spec *spec, struct init_report *report)
{
    struct statvfs fs;
    struct rlimit rl;

    report->uid = getuid();
    report->gid = getgid();
    int groups = getgroups(0, NULL);
    report->groups = groups < 0 ? 0 : (uint64_t)groups;
    report->nnp = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    report->root_ro = root_is_read_only();
    if (spec->full_paths.count && statvfs(spec->full_paths.items[0], &fs) == 0) {
        report->disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
        report->disk_inodes = fs.f_files;
    }
    report->nofile = getrlimit(RLIMIT_NOFILE, &rl) ? 0 : rl.rlim_max;
    report->fsize = getrlimit(RLIMIT_FSIZE, &rl) ? 0 : rl.rlim_max;
    report->cpu = getrlimit(RLIMIT_CPU, &rl) ? 0 : rl.rlim_max;
    report->nproc = getrlimit(RLIMIT_NPROC, &rl) ? 0 : rl.rlim_max;
    report->data = getrlimit(RLIMIT_DATA, &rl) ? 0 : rl.rlim_max;
}

static int install_filter(const struct init_spec *spec, struct init_report *report,
                          struct coto_err *err)
{
    struct sock_fprog prog = {.len = spec->filter_len, .filter = spec->filter};

    report->listener = -1;
    if (!spec->filter || !coto_up("seccomp"))
        return 0;
    if (spec->watching)
        report->listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, spec->watching);
    if (report->listener < 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
        return coto_err_set(err, COTO_ERR_WALL, errno, "seccomp: install the filter");
    /* A tier that forbids prctl answers with an error, which only a filter can. */
    int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    report->seccomp = mode == 2 || mode < 0 ? 2 : 0;
    return 0;
}

/* Where the driver has dropped them already, as natively, reading is enough. */
static int drop_capabilities(const struct init_spec *spec, struct init_report *report,
                             struct coto_err *err)
{
    struct coto_caps *c = &report->caps;

    if ((spec->is_bounded ? coto_caps_read_bounded : coto_caps_read)(c, err))
        return -1;
    if (((c->effective | c->permitted | c->inheritable | c->bounding | c->ambient) & ~spec->caps) == 0 ||
        !coto_up("capabilities"))
        return 0;
    return coto_caps_limit(spec->caps, err) ? -1 : coto_caps_read(c, err);
}

/* A profile that is not loaded is for the host to tell, unless the policy insists. */
static int ask_profile(const struct init_spec *spec, struct init_report *report,
                       struct coto_err *err)
{
    if (!spec->apparmor || !coto_up("apparmor"))
        return 0;
    if ((spec->label_now ? coto_apparmor_now : coto_apparmor_on_exec)(spec->labels_fd, spec->apparmor,
                                                                      report->apparmor))
        report->apparmor_errno = (uint64_t)errno;
    if (!spec->apparmor_must || coto_apparmor_is_enforced(report->apparmor))
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0, "apparmor: profile '%s' %s", spec->apparmor,
                 coto_apparmor_why((int)report->apparmor_errno));
    return coto_err_remedy(err, report->apparmor_errno == ENOENT
                                    ? "load it: apparmor_parser -r /etc/apparmor.d/coto; or leave apparmor out of --require"
                                    : "see `coto doctor`; or leave apparmor out of --require");
}

/* No number is above it, and gVisor takes ~0u for -1. */
#define LAST_FD 0x7fffffff

static int close_but(const int keep[4])
{
    for (int from = 3;;) {
        int next = LAST_FD;
        for (int i = 0; i < 4; i++)
            if (keep[i] >= from && keep[i] < next)
                next = keep[i];
        if (next > from && syscall(SYS_close_range, (unsigned)from, (unsigned)next - 1, 0u))
            return -1;
        if (next == LAST_FD)
            return 0;
        from = next + 1;
    }
}

/* gVisor's close_range and Linux's before 5.11 know no flags: there all are closed now, but for
 * those that the caller still talks on, which die with execve. */
static int keep_three(const int keep[4])
{
    if (syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) == 0)
        return 0;
    return errno == EINVAL ? close_but(keep) : -1;
}

int init_walls_raise(const struct init_spec *spec, struct init_report *report, struct coto_err *err)
{
    if (coto_up("session"))
        setsid();
    if (coto_up("signals"))
        reset_signals(spec->ignored);
    umask((mode_t)spec->umask_bits);
    if (apply_limits(spec, false, err) || become_user(spec, err))
        return -1;
    if (chdir(spec->cwd))
        return coto_err_set(err, COTO_ERR_NOTFOUND, errno, "working directory '%s'", spec->cwd);
    if (spec->filter || spec->landlock_abi) {
        if (coto_up("no_new_privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
            return coto_err_set(err, COTO_ERR_WALL, errno, "no_new_privs");
        if (drop_capabilities(spec, report, err))
            return -1;
    }
    if (ask_profile(spec, report, err))
        return -1;
    if (coto_up("fds") && keep_three(spec->keep_fds))
        return coto_err_set(err, COTO_ERR_WALL, errno, "close inherited descriptors");
    report->fds_closed = 1;
    int abi = 0;
    const struct coto_landlock_ask ask = {.abi_max = (int)spec->landlock_abi,
                                          .writable = (const char *const *)spec->writable.items,
                                          .noexec = spec->noexec,
                                          .own_dev = spec->own_dev};
    if (coto_up("landlock") && spec->landlock_abi && coto_landlock_apply(&ask, &abi, err))
        return -1;
    report->landlock = (uint64_t)abi;
    if (apply_limits(spec, true, err))
        return -1;
    read_back(spec, report);
    return install_filter(spec, report, err);
}

void init_walls_add_started(struct coto_buf *out, unsigned proc, pid_t pid,
                            const struct init_report *r)
{
    const struct {
        enum coto_tag tag;
        uint64_t value;
    } fields[] = {
        {COTO_TAG_R_PID, (uint64_t)pid},
        {COTO_TAG_R_UID, r->uid},
        {COTO_TAG_R_GID, r->gid},
        {COTO_TAG_R_GROUPS, r->groups},
        {COTO_TAG_R_CAP_EFF, r->caps.effective},
        {COTO_TAG_R_CAP_PRM, r->caps.permitted},
        {COTO_TAG_R_CAP_INH, r->caps.inheritable},
        {COTO_TAG_R_CAP_BND, r->caps.bounding},
        {COTO_TAG_R_CAP_AMB, r->caps.ambient},
        {COTO_TAG_R_NNP, r->nnp},
        {COTO_TAG_R_SECCOMP, r->seccomp},
        {COTO_TAG_R_LANDLOCK, r->landlock},
        {COTO_TAG_R_ROOT_RO, r->root_ro},
        {COTO_TAG_R_FDS, r->fds_closed},
        {COTO_TAG_R_NOFILE, r->nofile},
        {COTO_TAG_R_FSIZE, r->fsize},
        {COTO_TAG_R_CPU, r->cpu},
        {COTO_TAG_R_NPROC, r->nproc},
        {COTO_TAG_R_DATA, r->data},
        {COTO_TAG_R_DISK_BYTES, r->disk_bytes},
        {COTO_TAG_R_DISK_INODES, r->disk_inodes},
        {COTO_TAG_R_APPARMOR_ERRNO, r->apparmor_errno},
    };
    size_t at = coto_frame_begin(out, COTO_FRAME_STARTED, proc);

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        coto_frame_add_num(out, fields[i].tag, fields[i].value);
    if (r->apparmor[0])
        coto_frame_add_text(out, COTO_TAG_R_APPARMOR, r->apparmor);
    coto_frame_end(out, at);
}
