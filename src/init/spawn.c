/* EXEC: from a frame to a program behind walls. See init.h for the order. */
#include "init/init.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"
#include "kernel/apparmor.h"
#include "kernel/caps.h"
#include "kernel/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_RLIMITS 16
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

struct exec_spec {
    struct coto_strv argv, env, writable, full_paths;
    char *cwd;
    char *apparmor; /* NULL: none */
    bool apparmor_must;
    int labels_fd;
    uint64_t uid, gid, caps;
    bool has_uid, frames, noexec, own_dev, kill_on_exit, bye_on_exit;
    uint64_t ignored; /* signals the caller may have left ignored, bit 0 is signal 1 */
    uint64_t umask_bits, timeout_ms, landlock_abi;
    struct {
        int resource;
        struct rlimit limit;
    } rlimits[MAX_RLIMITS];
    int rlimit_count;
    struct sock_filter *filter;
    unsigned short filter_len;
};

/* What the child reads back just before execve, or what failed. */
struct child_report {
    struct coto_err err; /* kind 0: the facts below are valid */
    uint64_t uid, gid, groups, nnp, seccomp, landlock, root_ro, fds_closed;
    uint64_t nofile, fsize, cpu, nproc, data, disk_bytes, disk_inodes;
    uint64_t apparmor_errno;
    char apparmor[COTO_APPARMOR_LABEL]; /* the label at execve */
    struct coto_caps caps;
};

static void spec_fini(struct exec_spec *spec)
{
    coto_strv_fini(&spec->argv);
    coto_strv_fini(&spec->env);
    coto_strv_fini(&spec->writable);
    coto_strv_fini(&spec->full_paths);
    free(spec->cwd);
    free(spec->apparmor);
    free(spec->filter);
}

/* ---- reading the frame ---- */

static int add_text(struct coto_strv *list, const struct coto_field *field)
{
    if (memchr(field->data, 0, field->len))
        return -1;
    return coto_strv_addn(list, (const char *)field->data, field->len);
}

static uint64_t num_at(const unsigned char *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static int take_rlimit(struct exec_spec *spec, const struct coto_field *field)
{
    if (field->len != 24 || spec->rlimit_count == MAX_RLIMITS || num_at(field->data) > 31)
        return -1;
    spec->rlimits[spec->rlimit_count].resource = (int)num_at(field->data);
    spec->rlimits[spec->rlimit_count].limit.rlim_cur = num_at(field->data + 8);
    spec->rlimits[spec->rlimit_count].limit.rlim_max = num_at(field->data + 16);
    spec->rlimit_count++;
    return 0;
}

static int take_filter(struct exec_spec *spec, const struct coto_field *field)
{
    if (spec->filter || field->len == 0 || field->len % sizeof *spec->filter ||
        field->len / sizeof *spec->filter > 4096)
        return -1;
    spec->filter = malloc(field->len);
    if (!spec->filter)
        return -1;
    memcpy(spec->filter, field->data, field->len);
    spec->filter_len = (unsigned short)(field->len / sizeof *spec->filter);
    return 0;
}

static int take_field(struct exec_spec *spec, const struct coto_field *field)
{
    uint64_t num = coto_field_value(field);

    switch (field->tag) {
    case COTO_TAG_ARGV:
        return add_text(&spec->argv, field);
    case COTO_TAG_ENV:
        return add_text(&spec->env, field);
    case COTO_TAG_WRITABLE:
        return add_text(&spec->writable, field);
    case COTO_TAG_FULL_PATH:
        return add_text(&spec->full_paths, field);
    case COTO_TAG_RLIMIT:
        return take_rlimit(spec, field);
    case COTO_TAG_SECCOMP:
        return take_filter(spec, field);
    case COTO_TAG_UID:
        spec->has_uid = true;
        spec->uid = num;
        return 0;
    case COTO_TAG_GID:
        spec->gid = num;
        return 0;
    case COTO_TAG_CAPS:
        spec->caps = num;
        return 0;
    case COTO_TAG_LANDLOCK_ABI:
        spec->landlock_abi = num;
        return 0;
    case COTO_TAG_STDIO:
        spec->frames = num == 1;
        return 0;
    case COTO_TAG_TIMEOUT_MS:
        spec->timeout_ms = num;
        return 0;
    case COTO_TAG_UMASK:
        spec->umask_bits = num & 0777;
        return 0;
    case COTO_TAG_APPARMOR_MUST:
        spec->apparmor_must = num != 0;
        return 0;
    case COTO_TAG_NOEXEC:
        spec->noexec = num != 0;
        return 0;
    case COTO_TAG_KILL_ON_EXIT:
        spec->kill_on_exit = num != 0;
        return 0;
    case COTO_TAG_BYE_ON_EXIT:
        spec->bye_on_exit = num != 0;
        return 0;
    default:
        return 0;
    }
}

static int parse_spec(const struct coto_frame *frame, struct exec_spec *spec, struct coto_err *err)
{
    struct coto_field field = {0};
    int got;

    spec->umask_bits = 022;
    while ((got = coto_field_next(frame, &field)) == 1)
        if (take_field(spec, &field))
            return coto_err_set(err, COTO_ERR_INTERNAL, 0, "exec: bad field %u", field.tag);
    spec->cwd = coto_field_text(frame, COTO_TAG_CWD);
    spec->apparmor = coto_field_text(frame, COTO_TAG_APPARMOR);
    if (got < 0 || spec->argv.count == 0 || !spec->cwd)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "exec: incomplete frame");
    return 0;
}

/* ---- in the child ---- */

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

static int become_user(const struct exec_spec *spec, struct coto_err *err)
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

static int apply_limits(const struct exec_spec *spec, struct coto_err *err)
{
    for (int i = 0; i < spec->rlimit_count && coto_up("rlimits"); i++)
        if (setrlimit(spec->rlimits[i].resource, &spec->rlimits[i].limit))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set resource limit %d",
                                spec->rlimits[i].resource);
    return 0;
}

static void read_back(const struct exec_spec *spec, struct child_report *report)
{
    struct statvfs fs;
    struct rlimit rl;

    report->uid = getuid();
    report->gid = getgid();
    int groups = getgroups(0, NULL);
    report->groups = groups < 0 ? 0 : (uint64_t)groups;
    report->nnp = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    report->root_ro = statvfs("/", &fs) == 0 && (fs.f_flag & ST_RDONLY);
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

static int install_filter(const struct exec_spec *spec, struct child_report *report,
                          struct coto_err *err)
{
    struct sock_fprog prog = {.len = spec->filter_len, .filter = spec->filter};

    if (!spec->filter || !coto_up("seccomp"))
        return 0;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
        return coto_err_set(err, COTO_ERR_WALL, errno, "seccomp: install the filter");
    /* A tier that forbids prctl answers with an error, which only a filter can. */
    int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    report->seccomp = mode == 2 || mode < 0 ? 2 : 0;
    return 0;
}

/* Where the driver has dropped them already, as natively, reading is enough. */
static int drop_capabilities(const struct exec_spec *spec, struct child_report *report,
                             struct coto_err *err)
{
    struct coto_caps *c = &report->caps;

    if (coto_caps_read(c, err))
        return -1;
    if (((c->effective | c->permitted | c->inheritable | c->bounding | c->ambient) & ~spec->caps) == 0 ||
        !coto_up("capabilities"))
        return 0;
    return coto_caps_limit(spec->caps, err) ? -1 : coto_caps_read(c, err);
}

/* A profile that is not loaded is for the host to tell, unless the policy insists. */
static int ask_profile(const struct exec_spec *spec, struct child_report *report,
                       struct coto_err *err)
{
    if (!spec->apparmor || !coto_up("apparmor"))
        return 0;
    if (coto_apparmor_on_exec(spec->labels_fd, spec->apparmor, report->apparmor))
        report->apparmor_errno = (uint64_t)errno;
    if (!spec->apparmor_must || coto_apparmor_is_enforced(report->apparmor))
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0, "apparmor: profile '%s' %s", spec->apparmor,
                 coto_apparmor_why((int)report->apparmor_errno));
    return coto_err_remedy(err, "load it: apparmor_parser -r /etc/apparmor.d/coto (deploy/apparmor); "
                                "or leave apparmor out of --require");
}

static int raise_walls(const struct exec_spec *spec, struct child_report *report,
                       struct coto_err *err)
{
    if (coto_up("session"))
        setsid();
    if (coto_up("signals"))
        reset_signals(spec->ignored);
    umask((mode_t)spec->umask_bits);
    if (apply_limits(spec, err) || become_user(spec, err))
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
    if (coto_up("fds") && syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */))
        return coto_err_set(err, COTO_ERR_WALL, errno, "close inherited descriptors");
    report->fds_closed = 1;
    int abi = 0;
    const struct coto_landlock_ask ask = {(int)spec->landlock_abi,
                                          (const char *const *)spec->writable.items, spec->noexec,
                                          spec->own_dev};
    if (coto_up("landlock") && spec->landlock_abi && coto_landlock_apply(&ask, &abi, err))
        return -1;
    report->landlock = (uint64_t)abi;
    read_back(spec, report);
    return install_filter(spec, report, err);
}

static void exec_one(const char *path, const struct exec_spec *spec)
{
    execve(path, spec->argv.items, spec->env.items);
    if (errno == ENOEXEC && spec->argv.count < 4096) {
        /* A script without a #! line: what a shell would do. */
        char *argv[4098] = {"/bin/sh", (char *)path};
        memcpy(argv + 2, spec->argv.items + 1, spec->argv.count * sizeof *argv);
        execve("/bin/sh", argv, spec->env.items);
    }
}

static void exec_search(const struct exec_spec *spec, struct coto_err *err)
{
    const char *name = spec->argv.items[0];
    const char *path = "/usr/bin:/bin";
    int saved = ENOENT;

    for (size_t i = 0; i < spec->env.count; i++)
        if (strncmp(spec->env.items[i], "PATH=", 5) == 0)
            path = spec->env.items[i] + 5;
    if (strchr(name, '/')) {
        exec_one(name, spec);
        saved = errno;
        path = "";
    }
    while (*path) {
        char full[4096];
        size_t n = strcspn(path, ":");
        if (snprintf(full, sizeof full, "%.*s/%s", (int)n, path, name) < (int)sizeof full) {
            exec_one(full, spec);
            if (errno != ENOENT && errno != ENOTDIR)
                saved = errno;
        }
        path += n + (path[n] == ':');
    }
    int kind = saved == ENOENT || saved == ENOTDIR ? COTO_ERR_NOTFOUND : COTO_ERR_NOEXEC;
    coto_err_set(err, kind, saved, "start '%s'", name);
    if (kind == COTO_ERR_NOEXEC)
        coto_err_remedy(err, "make it executable (chmod +x) and built for this machine; with --noexec "
                             "nothing in a writable place can be started");
}

/* Runs on a stack of its own in init's memory, which is suspended meanwhile (see
 * start): what it writes to *call is there for init to read. */
struct child_call {
    const struct exec_spec *spec;
    int fds[3];
    struct child_report report;
};

static int run_child(void *arg)
{
    struct child_call *call = arg;

    for (int i = 0; i < 3; i++)
        if (call->fds[i] >= 0 && dup2(call->fds[i], i) < 0)
            _exit(70);
    if (raise_walls(call->spec, &call->report, &call->report.err) == 0)
        exec_search(call->spec, &call->report.err);
    _exit(127);
}

/* ---- in init ---- */

static void send_started(struct init *init, const struct init_proc *proc,
                         const struct child_report *r)
{
    const struct {
        enum coto_tag tag;
        uint64_t value;
    } fields[] = {
        {COTO_TAG_R_PID, (uint64_t)proc->pid},
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
    size_t at = coto_frame_begin(&init->out, COTO_FRAME_STARTED, proc->id);

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        coto_frame_add_num(&init->out, fields[i].tag, fields[i].value);
    if (r->apparmor[0])
        coto_frame_add_text(&init->out, COTO_TAG_R_APPARMOR, r->apparmor);
    coto_frame_end(&init->out, at);
    init_send(init);
}

static struct init_proc *free_slot(struct init *init, unsigned id)
{
    struct init_proc *slot = NULL;

    for (int i = 0; i < COTO_INIT_PROCS; i++) {
        if (init->procs[i].id == id)
            return NULL;
        if (!init->procs[i].id && !slot)
            slot = &init->procs[i];
    }
    return slot;
}

static int make_pipes(int ours[3], int theirs[3], struct coto_err *err)
{
    for (int i = 0; i < 3; i++) {
        int p[2];
        if (pipe2(p, O_CLOEXEC))
            return coto_err_set(err, COTO_ERR_LIMIT, errno, "pipe");
        ours[i] = i == 0 ? p[1] : p[0];
        theirs[i] = i == 0 ? p[0] : p[1];
        coto_fd_set_nonblock(ours[i], 1);
    }
    return 0;
}

/* The child borrows init's memory until execve (CLONE_VM | CLONE_VFORK): nothing is
 * copied, and its report needs no pipe. It stays init's own trusted code until
 * then, and the memory stays undumpable. */
static int start(struct init *init, struct exec_spec *spec, struct init_proc *proc,
                 struct coto_err *err)
{
    static _Alignas(16) char stack[192 * 1024];
    static struct child_call call;

    call = (struct child_call){.spec = spec, .fds = {-1, -1, -1}};
    if (spec->frames && make_pipes(proc->fd, call.fds, err))
        return -1;
    proc->pid = clone(run_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &call);
    int saved = errno;
    for (int i = 0; i < 3; i++)
        coto_own_close(&call.fds[i]);
    if (proc->pid < 0)
        return coto_err_set(err, COTO_ERR_LIMIT, saved, "start a process in the sandbox");
    if (call.report.err.kind) {
        *err = call.report.err;
        return -1;
    }
    send_started(init, proc, &call.report);
    return 0;
}

int init_spawn(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    struct exec_spec spec = {.own_dev = init->is_built,
                             .labels_fd = init->labels_fd,
                             .ignored = init->ignored | (uint64_t)1 << (SIGPIPE - 1)};
    struct init_proc *proc = frame->proc ? free_slot(init, frame->proc) : NULL;
    int failed = parse_spec(frame, &spec, err);

    if (!failed && !proc)
        failed = coto_err_set(err, COTO_ERR_LIMIT, 0, "process number %u is taken, or %d run already",
                              frame->proc, COTO_INIT_PROCS);
    if (!failed) {
        proc->kill_on_exit = spec.kill_on_exit;
        proc->bye_on_exit = spec.bye_on_exit;
        proc->id = frame->proc;
        failed = start(init, &spec, proc, err);
        if (failed) {
            for (int i = 0; i < 3; i++)
                coto_own_close(&proc->fd[i]);
            *proc = (struct init_proc){.fd = {-1, -1, -1}}; /* its death is reaped like any other */
        } else {
            proc->deadline_us =
                spec.timeout_ms ? coto_clock_us() + (int64_t)spec.timeout_ms * 1000 : 0;
            proc->full_paths = spec.full_paths;
            spec.full_paths = (struct coto_strv){0};
        }
    }
    spec_fini(&spec);
    return failed;
}

/* ---- killing ---- */

static void kill_children_of(const struct init *init, pid_t pid)
{
    char path[64];
    char text[8192];

    snprintf(path, sizeof path, "%d/task/%d/children", (int)pid, (int)pid);
    if (coto_file_read_at(init->proc_fd, path, text, sizeof text) <= 0)
        return;
    for (char *p = text; *p;) {
        pid_t child = (pid_t)strtol(p, &p, 10);
        if (child > 1) {
            /* Stopped first, so that it cannot fork between our look and the kill. */
            kill(child, SIGSTOP);
            kill_children_of(init, child);
            kill(child, SIGKILL);
        }
        while (*p == ' ')
            p++;
    }
}

void init_kill_all(const struct init *init)
{
    if (!coto_up("kill_all"))
        return;
    if (init->is_pid1)
        kill(-1, SIGKILL);
    else
        kill_children_of(init, getpid());
}
