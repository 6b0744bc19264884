/* EXEC: from a frame to a program behind walls. See init.h for the order. */
#include "init/init.h"
#include "init/walls.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- in the child ---- */

static void exec_one(const char *path, const struct init_spec *spec)
{
    execve(path, spec->argv.items, spec->env.items);
    if (errno == ENOEXEC && spec->argv.count < 4096) {
        /* A script without a #! line: what a shell would do. */
        char *argv[4098] = {"/bin/sh", (char *)path};
        memcpy(argv + 2, spec->argv.items + 1, spec->argv.count * sizeof *argv);
        execve("/bin/sh", argv, spec->env.items);
    }
}

static void exec_search(const struct init_spec *spec, struct coto_err *err)
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
        coto_err_remedy(err, "chmod +x, and build it for this machine; with --noexec nothing in a "
                             "writable place starts");
}

/* Runs on a stack of its own in init's memory, which is suspended meanwhile (see
 * start): what it writes to *call is there for init to read. */
struct child_call {
    const struct init_spec *spec;
    int fds[3];
    struct init_report report;
};

static int run_child(void *arg)
{
    struct child_call *call = arg;

    for (int i = 0; i < 3; i++)
        if (call->fds[i] >= 0 && dup2(call->fds[i], i) < 0)
            _exit(70);
    if (init_walls_raise(call->spec, &call->report, &call->report.err) == 0)
        exec_search(call->spec, &call->report.err);
    _exit(127);
}

/* ---- in init ---- */

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
        fcntl(ours[i], F_SETFL, O_NONBLOCK); /* it has no other flag */
    }
    return 0;
}

/* The set-up's second thread has ended but may count against the process limit for a moment
 * longer, where init was born in its cgroup. */
static pid_t clone_child(char *stack_end, struct child_call *call)
{
    pid_t pid;

    for (int tries = 0;; tries++) {
        pid = clone(run_child, stack_end, CLONE_VM | CLONE_VFORK | SIGCHLD, call);
        if (pid >= 0 || errno != EAGAIN || tries == 100)
            return pid;
        usleep(1000);
    }
}

static void close_all(int fds[3])
{
    for (int i = 0; i < 3; i++)
        coto_own_close(&fds[i]);
}

static COTO_LARGE _Alignas(16) char stack[192 * 1024]; /* of the child */

static int tell_refused(int error, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_LIMIT, error, "start a process in the sandbox");
    if (error == EAGAIN)
        coto_err_remedy(err, "what runs in it uses up its limit of processes: end some, or create one with more pids");
    return -1;
}

/* Another interpreter for a sandbox whose first has ended. It is a program like any other, behind the
 * same walls before it is what it is; only its stdin is a channel, by which it gets programs. */
static int start_resident(struct init *init, const struct coto_frame *frame, struct child_call *call,
                          struct init_proc *proc, struct coto_err *err)
{
    struct init_spec spec = *call->spec;
    int stdin_fd = call->fds[0];
    coto_auto_strv argv = {0};
    int sv[2];

    if (init_spec_resident(frame, &argv) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv)) {
        close_all(call->fds);
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "resident");
    }
    spec.argv = argv;
    call->spec = &spec;
    call->fds[0] = sv[1];
    pid_t pid = clone_child(stack + sizeof stack, call);
    int failed = pid < 0 ? tell_refused(errno, err) : 0;
    if (!failed && call->report.err.kind) {
        *err = call->report.err;
        failed = -1;
    }
    coto_own_close(&sv[1]);
    call->fds[0] = stdin_fd;
    if (failed) {
        coto_own_close(&sv[0]);
    } else {
        init->resident = call->report;
        init->parked_pid = proc->pid = pid;
        failed = init_parked_adopt(init, frame, call->fds, sv[0], err);
    }
    close_all(call->fds);
    if (failed)
        return -1;
    init_walls_add_started(&init->out, proc->id, pid, &init->resident);
    return init_send(init);
}

/* The child borrows init's memory until execve (CLONE_VM | CLONE_VFORK): nothing is
 * copied, and its report needs no pipe. It stays init's own trusted code until
 * then, and the memory stays undumpable. */
static int start(struct init *init, const struct coto_frame *frame, const struct init_spec *spec,
                 struct init_proc *proc, struct coto_err *err)
{
    static struct child_call call;

    call = (struct child_call){.spec = spec, .fds = {-1, -1, -1}};
    if (spec->frames && make_pipes(proc->fd, call.fds, err))
        return -1;
    if (spec->parked && !init->context && init_parked_wait(init)) {
        proc->state_found = init->has_state;
        proc->pid = init_parked_start(init, frame, call.fds, spec->context, err);
        if (proc->pid) {
            close_all(call.fds);
            return proc->pid < 0 ? -1 : 0;
        }
    }
    coto_own_close(&init->late_fd); /* nobody comes where this has run */
    init_sockets_used(init);        /* nobody watches what it does */
    if (spec->context && spec->has_resident && init->parked_fd < 0)
        return start_resident(init, frame, &call, proc, err);
    proc->pid = clone_child(stack + sizeof stack, &call);
    int saved = errno;
    close_all(call.fds);
    if (proc->pid < 0)
        return tell_refused(saved, err);
    if (call.report.err.kind) {
        *err = call.report.err;
        return -1;
    }
    init_walls_add_started(&init->out, proc->id, proc->pid, &call.report);
    init_send(init);
    return 0;
}

int init_spawn(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    struct init_spec spec = {.own_dev = init->is_built,
                             .is_bounded = init->is_bounded,
                             .labels_fd = init->labels_fd,
                             .ignored = init->ignored | (uint64_t)1 << (SIGPIPE - 1)};
    struct init_proc *proc = frame->proc ? free_slot(init, frame->proc) : NULL;
    int failed = init_spec_parse(frame, &spec, err);

    if (!failed)
        failed = init_floor_check(&init->floor, &spec, err);
    if (!failed && !proc)
        failed = coto_err_set(err, COTO_ERR_LIMIT, 0, "process number %u is taken, or %d run already",
                              frame->proc, COTO_INIT_PROCS);
    if (!failed) {
        proc->kill_on_exit = spec.kill_on_exit;
        proc->spares = spec.spares && init->has_state;
        init_cpu_begin(init, &proc->cpu);
        proc->bye_on_exit = spec.bye_on_exit;
        proc->id = frame->proc;
        init->is_used = true;
        failed = start(init, frame, &spec, proc, err);
        if (failed) {
            close_all(proc->fd);
            *proc = (struct init_proc){.fd = {-1, -1, -1}}; /* its death is reaped like any other */
        } else {
            proc->deadline_us =
                spec.timeout_ms ? coto_clock_us() + (int64_t)spec.timeout_ms * 1000 : 0;
            proc->full_paths = spec.full_paths;
            spec.full_paths = (struct coto_strv){0};
        }
    }
    init_spec_fini(&spec);
    return failed;
}

/* Not where init built the sandbox itself: there whoever made it has said what every program
 * must have at least, and a parked one comes from outside. Its outputs are pipes, as a
 * program's, that nobody reads. */
int init_park(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    static struct child_call call;
    struct init_spec spec = {.labels_fd = -1, .ignored = init->ignored};
    int ours[3] = {-1, -1, -1};
    int sv[2];

    call = (struct child_call){.spec = &spec, .fds = {-1, -1, -1}};
    if (init->is_built || init->is_used || init->parked_fd >= 0)
        return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "park: not here, or too late");
    int failed = init_spec_parse(frame, &spec, err) || make_pipes(ours, call.fds, err);
    if (!failed && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        failed = coto_err_set(err, COTO_ERR_LIMIT, errno, "park");
    coto_own_close(&ours[0]);
    if (!failed) {
        coto_own_close(&call.fds[0]);
        call.fds[0] = sv[1];
        init->parked_fd = sv[0];
        init->tells_parked = true;
        if (clone_child(stack + sizeof stack, &call) < 0)
            failed = coto_err_set(err, COTO_ERR_LIMIT, errno, "park");
    }
    close_all(call.fds);
    init_spec_fini(&spec);
    return failed;
}

/* ---- killing ---- */

/* Who is further down becomes a child of ours, and is met in the next round: no depth of theirs
 * may use up our stack. */
#define DEEP 64

static void kill_children_of(const struct init *init, pid_t pid, int depth)
{
    char path[64];
    char text[8192];

    snprintf(path, sizeof path, "%d/task/%d/children", (int)pid, (int)pid);
    if (coto_file_read_words_at(init->proc_fd, path, text, sizeof text) <= 0)
        return;
    for (char *p = text; *p;) {
        pid_t child = (pid_t)strtol(p, &p, 10);
        if (child > 1) {
            /* Stopped first, so that it cannot fork between our look and the kill. */
            kill(child, SIGSTOP);
            if (depth < DEEP)
                kill_children_of(init, child, depth + 1);
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
        kill_children_of(init, getpid(), 0);
}
