#include "init/init.h"
#include "init/setup.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"
#include "kernel/caps.h"
#include "kernel/sched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define STDIN_WINDOW (256 * 1024)
#define KILL_AGAIN_MS 10
#define LARGE_EXEC 8192 /* bytes */

/* gVisor answers EAGAIN for a stream that is full, although it was never made non-blocking. */
static int write_stream(int fd, const char *data, size_t len)
{
    while (len > 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLOUT};
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EAGAIN)
            poll(&pfd, 1, -1);
        else if (n < 0 && errno != EINTR)
            return -1;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int init_send(struct init *init)
{
    /* After one frame was lost none may follow: the host would take the rest for all. */
    int failed = init->send_failed || init->out.failed ||
                 write_stream(init->out_fd, init->out.data, init->out.len) < 0;

    /* Nobody listens: end, unless the stream itself is still open (take_stream). */
    if (failed && !init->send_failed)
        init->bye = init->bye || init->out.failed || !init->is_pid1 ||
                    (errno != EPIPE && errno != ECONNRESET);
    coto_buf_clear(&init->out);
    init->send_failed = init->send_failed || failed;
    return failed ? -1 : 0;
}

void init_send_error(struct init *init, unsigned proc, const struct coto_err *err)
{
    coto_frame_add_error(&init->out, proc, err);
    init_send(init);
}

int init_poll(struct pollfd *pfd, int timeout_ms)
{
    int ready;

    do
        ready = poll(pfd, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready;
}

static struct init_proc *find_proc(struct init *init, unsigned id)
{
    for (int i = 0; i < COTO_INIT_PROCS; i++)
        if (id && init->procs[i].id == id)
            return &init->procs[i];
    return NULL;
}

static void free_proc(struct init_proc *proc)
{
    for (int i = 0; i < 3; i++)
        coto_own_close(&proc->fd[i]);
    coto_buf_fini(&proc->in);
    coto_strv_fini(&proc->full_paths);
    *proc = (struct init_proc){.fd = {-1, -1, -1}};
}

/* ---- output and input of a process in frame mode ---- */

static int forward_output(struct init *init, struct init_proc *proc, int which)
{
    static COTO_LARGE char chunk[COTO_FRAME_CHUNK];
    ssize_t n = read(proc->fd[which], chunk, sizeof chunk);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        coto_own_close(&proc->fd[which]);
        return 0;
    }
    size_t at = coto_frame_begin(&init->out, which == 1 ? COTO_FRAME_OUT : COTO_FRAME_ERR, proc->id);
    coto_frame_add(&init->out, COTO_TAG_DATA, chunk, (size_t)n);
    coto_frame_end(&init->out, at);
    init_send(init);
    return (int)n;
}

static void drain_output(struct init *init, struct init_proc *proc)
{
    for (int which = 1; which <= 2; which++) {
        /* All writers are dead by now, or are not waited for (kill_on_exit off, or
         * state is kept) and may write for ever: take what is there. */
        struct pollfd pfd = {.fd = proc->fd[which], .events = POLLIN};
        int left = 0;
        if (pfd.fd >= 0 && ioctl(pfd.fd, FIONREAD, &left))
            left = INT_MAX;
        while (left > 0 && proc->fd[which] >= 0 && init_poll(&pfd, 0) > 0)
            left -= forward_output(init, proc, which);
    }
}

static void feed_stdin(struct init *init, struct init_proc *proc)
{
    ssize_t n = write(proc->fd[0], proc->in.data, proc->in.len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM))
        return;
    size_t taken = n < 0 ? proc->in.len : (size_t)n; /* reader gone: swallow */
    memmove(proc->in.data, proc->in.data + taken, proc->in.len - taken);
    proc->in.len -= taken;
    if (n < 0 || (proc->in.len == 0 && proc->in_eof))
        coto_own_close(&proc->fd[0]);
    size_t at = coto_frame_begin(&init->out, COTO_FRAME_DONE, proc->id);
    coto_frame_add_num(&init->out, COTO_TAG_COUNT, taken);
    coto_frame_end(&init->out, at);
    init_send(init);
}

static int take_stdin(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    struct init_proc *proc = find_proc(init, frame->proc);
    struct coto_field field = {0};

    if (!proc)
        return 0; /* it ended while these bytes were on their way */
    if (coto_field_next(frame, &field) != 1 || field.len == 0) {
        proc->in_eof = true;
        if (proc->in.len == 0)
            coto_own_close(&proc->fd[0]);
        return 0;
    }
    if (proc->in.len + field.len > STDIN_WINDOW + COTO_FRAME_MAX)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "stdin: host sent past its window");
    coto_buf_add(&proc->in, field.data, field.len);
    return 0;
}

/* The program gets SIGPIPE or EPIPE, as it would from a pipe of its own. */
static int close_output(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    struct init_proc *proc = find_proc(init, frame->proc);
    uint64_t which = coto_field_num(frame, COTO_TAG_COUNT);

    if (which != 1 && which != 2)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "close: no such output");
    if (proc)
        coto_own_close(&proc->fd[which]);
    return 0;
}

/* ---- ends ---- */

static bool is_full(const char *path)
{
    struct statvfs fs;

    /* gVisor's tmpfs counts no files: all its numbers of them are 0. */
    return statvfs(path, &fs) == 0 && fs.f_blocks > 0 &&
           (fs.f_bavail == 0 || (fs.f_files > 0 && fs.f_favail == 0));
}

static void send_exit(struct init *init, struct init_proc *proc, int status)
{
    uint64_t full = 0;
    struct init_cpu used;
    int64_t maxrss;

    for (size_t i = 0; i < proc->full_paths.count; i++)
        full |= is_full(proc->full_paths.items[i]);
    drain_output(init, proc);
    init_cpu_end(init, &proc->cpu, &used, &maxrss);
    size_t at = coto_frame_begin(&init->out, COTO_FRAME_EXIT, proc->id);
    coto_frame_add_num(&init->out, COTO_TAG_STATUS, (uint64_t)(unsigned)status);
    coto_frame_add_num(&init->out, COTO_TAG_CPU_USER_US, (uint64_t)used.user_us);
    coto_frame_add_num(&init->out, COTO_TAG_CPU_SYSTEM_US, (uint64_t)used.system_us);
    coto_frame_add_num(&init->out, COTO_TAG_MAXRSS_BYTES, proc->pid == init->parked_pid ? 0 : (uint64_t)maxrss);
    coto_frame_add_num(&init->out, COTO_TAG_DISK_FULL, full);
    coto_frame_add_num(&init->out, COTO_TAG_TIMED_OUT, proc->timed_out);
    coto_frame_add_num(&init->out, COTO_TAG_CONTEXT,
                       (uint64_t)proc->state_kept | (uint64_t)proc->state_found << 1);
    coto_frame_end(&init->out, at);
    bool bye = proc->bye_on_exit;
    free_proc(proc);
    init_send(init);
    init->bye = init->bye || bye;
}

static void drain_signals(const struct init *init)
{
    struct signalfd_siginfo drop[8];

    while (read(init->signal_fd, drop, sizeof drop) > 0)
        ;
}

/* Kills and reaps until no child is left; usage of all of them lands in RUSAGE_CHILDREN. A copy of the
 * template that is just coming in cannot be killed before it has our ids, so nobody is waited for
 * without another try. */
static void end_everything(struct init *init)
{
    struct pollfd ends = {.fd = init->signal_fd, .events = POLLIN};
    pid_t left;

    /* PID 1 is the parent of every orphan: no child means nobody else is there. */
    if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
        return;
    init_kill_all(init);
    while ((left = waitpid(-1, NULL, WNOHANG)) >= 0 || errno == EINTR) {
        if (left)
            continue;
        poll(&ends, 1, KILL_AGAIN_MS);
        drain_signals(init);
        init_kill_all(init);
    }
    init_parked_gone(init, init->parked_pid); /* reaped with the rest */
}

static void reap(struct init *init)
{
    int status;
    pid_t pid;

    drain_signals(init);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == init->parked_pid && !init->is_used)
            init->bye = true; /* a sandbox in a pool without what it was kept for */
        init_parked_gone(init, pid);
        for (int i = 0; i < COTO_INIT_PROCS; i++) {
            struct init_proc *proc = &init->procs[i];
            if (!proc->id || proc->pid != pid)
                continue;
            bool spares = proc->spares && init->has_state;
            if (proc->kill_on_exit && !spares && coto_up("kill_all"))
                end_everything(init);
            proc->state_kept = spares;
            send_exit(init, proc, status);
        }
    }
}

void init_context_exit(struct init *init, unsigned proc, int status)
{
    struct init_proc *found = find_proc(init, proc);

    if (!found)
        return;
    found->state_kept = init->has_state = true;
    send_exit(init, found, status);
}

static int send_signal(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    struct init_proc *proc = find_proc(init, frame->proc);
    uint64_t signo = coto_field_num(frame, COTO_TAG_SIGNO);

    if (signo == 0 || signo > 64)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "signal %llu does not exist",
                            (unsigned long long)signo);
    if (proc)
        kill(proc->pid, (int)signo);
    return 0;
}

/* ---- the loop ---- */

static int start(struct init *init, const struct coto_frame *frame, struct coto_err *err)
{
    unsigned unready = init->unready;

    init->unready = 0;
    if (frame->proc && frame->proc == unready)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "exec: its files are not there");
    return init_spawn(init, frame, err);
}

static void handle(struct init *init, const struct coto_frame *frame)
{
    struct coto_err err = {0};
    int failed = 0;

    switch ((int)frame->type) {
    case COTO_FRAME_PUT:
        failed = init_put(init, frame, &err);
        break;
    case COTO_FRAME_PUT_DATA:
        failed = init_put_more(init, frame, &err);
        break;
    case COTO_FRAME_MKDIR:
        failed = init_mkdir(init, frame, &err);
        break;
    case COTO_FRAME_SYMLINK:
        failed = init_symlink(init, frame, &err);
        break;
    case COTO_FRAME_EXEC:
        failed = start(init, frame, &err);
        break;
    case COTO_FRAME_PARK:
        failed = init_park(init, frame, &err);
        break;
    case COTO_FRAME_STDIN:
        failed = take_stdin(init, frame, &err);
        break;
    case COTO_FRAME_CLOSE:
        failed = close_output(init, frame, &err);
        break;
    case COTO_FRAME_SIGNAL:
        failed = send_signal(init, frame, &err);
        break;
    case COTO_FRAME_KILL:
        init_kill_all(init);
        break;
    case COTO_FRAME_COLLECT:
        failed = init_collect(init, frame, &err);
        break;
    case COTO_FRAME_GET:
        failed = init_get(init, frame, &err);
        break;
    case COTO_FRAME_REMOVE:
        failed = init_remove(init, frame, &err);
        break;
    case COTO_FRAME_BYE:
        init->bye = true;
        break;
    default:
        failed = coto_err_set(&err, COTO_ERR_INTERNAL, 0, "wire: unknown frame type %d",
                              (int)frame->type);
    }
    if (!failed)
        return;
    bool is_put = frame->type == COTO_FRAME_PUT || frame->type == COTO_FRAME_PUT_DATA ||
                  frame->type == COTO_FRAME_MKDIR || frame->type == COTO_FRAME_SYMLINK;
    if (is_put)
        init->unready = frame->proc;
    init_send_error(init, is_put ? 0 : frame->proc, &err);
}

/* The host's end was lost with the process that had it, perhaps in the middle of a frame, and there
 * is another one. What ran for the old one is ended; what only waits, an interpreter with
 * its state, goes on waiting. */
static void take_stream(struct init *init, int fd)
{
    for (int i = 0; i < COTO_INIT_PROCS; i++)
        if (init->procs[i].id) {
            end_everything(init);
            free_proc(&init->procs[i]);
        }
    coto_own_close(&init->put_fd);
    coto_frame_reader_fini(&init->reader);
    init->reader = (struct coto_frame_reader){0};
    coto_buf_clear(&init->out);
    init->send_failed = false;
    if (dup3(fd, init->in_fd, O_CLOEXEC) < 0 ||
        (init->out_fd != init->in_fd && dup3(fd, init->out_fd, O_CLOEXEC) < 0))
        init->bye = true;
    close(fd);
}

/* The first program's frame is larger than what follows (core/exec.c: RESIDENT), and many sandboxes wait for long after it. */
static void give_back(struct coto_frame_reader *reader)
{
    const uintptr_t page = 4096, at = (uintptr_t)reader->buf.data;
    uintptr_t from = (at + 2 * page - 1) / page * page, to = (at + reader->buf.cap) / page * page;

    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

static void read_stream(struct init *init)
{
    size_t room;
    char *to = coto_frame_reader_space(&init->reader, &room);
    int stream = -1;
    int fds;
    ssize_t n = to ? coto_fd_receive_with(init->in_fd, to, room, &stream, 1, &fds) : -1;

    if (to && n < 0 && errno == ENOTSOCK) /* at levels where the stream is a pipe */
        n = read(init->in_fd, to, room);

    if (stream >= 0) {
        take_stream(init, stream);
        return;
    }
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        init->bye = true;
        return;
    }
    init->reader.buf.len += (size_t)n;
    struct coto_frame frame;
    struct coto_err err = {0};
    bool was_large = false;
    int got = 0;
    while (!init->bye && (got = coto_frame_next(&init->reader, &frame, &err)) == 1) {
        handle(init, &frame);
        was_large = was_large || (frame.type == COTO_FRAME_EXEC && frame.len > LARGE_EXEC);
    }
    if (was_large && init->reader.pos == init->reader.buf.len)
        give_back(&init->reader);
    if (got < 0) {
        init_send_error(init, 0, &err);
        init->bye = true;
    }
}

/* Fires deadlines; returns how long poll may sleep, in ms, -1 for ever. */
static int next_timeout(struct init *init)
{
    int64_t now = coto_clock_us();
    int64_t soonest = INT64_MAX;

    for (int i = 0; i < COTO_INIT_PROCS; i++) {
        struct init_proc *proc = &init->procs[i];
        if (!proc->id || !proc->deadline_us)
            continue;
        if (now >= proc->deadline_us) {
            proc->timed_out = true;
            proc->deadline_us = 0;
            init_kill_all(init);
        } else if (proc->deadline_us < soonest) {
            soonest = proc->deadline_us;
        }
    }
    return soonest == INT64_MAX ? -1 : (int)((soonest - now) / 1000 + 1);
}

static void loop(struct init *init)
{
    while (!init->bye) {
        struct pollfd pfds[4 + 3 * COTO_INIT_PROCS];
        struct {
            struct init_proc *proc;
            int which;
        } owner[4 + 3 * COTO_INIT_PROCS];
        nfds_t n = 4;

        pfds[0] = (struct pollfd){.fd = init->in_fd, .events = POLLIN};
        pfds[1] = (struct pollfd){.fd = init->signal_fd, .events = POLLIN};
        pfds[2] = (struct pollfd){.fd = init->parked_pid && !init->context ? -1 : init->parked_fd,
                                  .events = POLLIN};
        pfds[3] = (struct pollfd){.fd = init->sockets_fd, .events = POLLIN};
        for (int i = 0; i < COTO_INIT_PROCS; i++) {
            struct init_proc *proc = &init->procs[i];
            for (int k = 0; k < 3; k++) {
                if (!proc->id || proc->fd[k] < 0 || (k == 0 && proc->in.len == 0))
                    continue;
                pfds[n].fd = proc->fd[k];
                pfds[n].events = k == 0 ? POLLOUT : POLLIN;
                owner[n].proc = proc;
                owner[n++].which = k;
            }
        }
        int ready = poll(pfds, n, next_timeout(init));
        if (ready < 0 && errno != EINTR)
            break;
        if (ready <= 0)
            continue;
        if (pfds[2].revents)
            init_parked_says(init);
        if (pfds[3].revents & POLLIN)
            init_sockets_wanted(init);
        else if (pfds[3].revents) /* nobody is left who could want one */
            coto_own_close(&init->sockets_fd);
        for (nfds_t i = 4; i < n; i++) {
            if (!pfds[i].revents || owner[i].proc->fd[owner[i].which] != pfds[i].fd)
                continue;
            if (owner[i].which == 0)
                feed_stdin(init, owner[i].proc);
            else
                forward_output(init, owner[i].proc, owner[i].which);
        }
        /* Frames before deaths: what the host sent first is done first. */
        if (pfds[0].revents)
            read_stream(init);
        if (pfds[1].revents)
            reap(init);
    }
}

static int number_after(const char *arg, const char *name)
{
    size_t n = strlen(name);

    return strncmp(arg, name, n) == 0 ? atoi(arg + n) : -1;
}

/* The workspace of a level that mounts it empty: a container's. */
static int open_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0)
        mkdirat(fd, "output", 0755); /* a file put there tells why it failed */
    return fd;
}

/* Returns whether a sandbox is to be built first. */
static bool parse_args(struct init *init, int argc, char **argv)
{
    bool setup = false;

    for (int i = 1; i < argc; i++) {
        int v;
        if ((v = number_after(argv[i], "--in=")) >= 0)
            init->in_fd = v;
        else if ((v = number_after(argv[i], "--out=")) >= 0)
            init->out_fd = v;
        else if ((v = number_after(argv[i], "--parked=")) >= 0)
            init->parked_fd = v;
        else if ((v = number_after(argv[i], "--late=")) >= 0)
            init->late_fd = v;
        else if ((v = number_after(argv[i], "--work=")) >= 0)
            init->work_fd = v;
        else if ((v = number_after(argv[i], "--root=")) >= 0 && v <= COTO_ROOT_GIVEN)
            init->root = (unsigned)v;
        else if ((v = number_after(argv[i], "--used=")) >= 0)
            init->used_fd = v;
        else if (strncmp(argv[i], "--dir=", 6) == 0)
            init->work_fd = open_dir(argv[i] + 6);
        else
            setup = setup || strcmp(argv[i], "--setup") == 0;
    }
    return setup;
}

int main(int argc, char **argv)
{
    static struct init init; /* set below: as data it would be a page of the file */
    sigset_t mask;

    struct coto_err err = {0};
    struct init_built built = {.work_fd = -1};

    init.out_fd = 1;
    init.work_fd = init.proc_fd = init.put_fd = -1;
    init.parked_fd = init.late_fd = init.used_fd = init.sockets_fd = init.labels_fd = -1;
    /* A caller that ignores its children's deaths would make us miss the program's. */
    signal(SIGCHLD, SIG_DFL);
    umask(022); /* the caller's is for its own files: directories of the root must be entered */
    init.is_pid1 = getpid() == 1;
    if (init.is_pid1) /* else the tree must be ended first: the stream's end tells */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 3; fd <= 5; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    bool setup = parse_args(&init, argc, argv);
    init.ignored = ~(uint64_t)0;
    if (coto_sched_leave_real_time(&err) ||
        (setup && init_setup(init.in_fd, init.root, init.used_fd >= 0, &built, &err))) {
        init_send_error(&init, 0, &err);
        return 70;
    }
    if (setup) {
        init.is_built = true;
        init.work_fd = built.work_fd;
        init.floor = built.floor;
        init.ignored = built.ignored;
        init.labels_fd = built.labels_fd;
    } else { /* in a container; its /proc can be written to */
        init.labels_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    /* Nothing of the guest may look into this process. Not before: until the id maps
     * are written the supervisor must be able to open our /proc files. A change of uid has
     * the same effect, so that leaving the wall out means to undo it. */
    prctl(PR_SET_DUMPABLE, coto_up("dumpable") ? 0 : 1);
    if (!init.is_pid1)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < COTO_INIT_PROCS; i++)
        init.procs[i].fd[0] = init.procs[i].fd[1] = init.procs[i].fd[2] = -1;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    init.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    init.root_fd = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!init.is_pid1)
        init.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (init.signal_fd < 0)
        return 70;

    size_t at = coto_frame_begin(&init.out, COTO_FRAME_READY, 0);
    coto_frame_add_num(&init.out, COTO_TAG_VERSION, COTO_WIRE_VERSION);
    for (int i = 0; setup && i < COTO_NS_COUNT; i++)
        coto_frame_add_num(&init.out, COTO_TAG_S_NAMESPACE, built.ns.inode[i]);
    coto_frame_end(&init.out, at);
    init_send(&init);
    init.is_bounded = !setup && coto_caps_is_bounded(); /* while it waits for the first program */
    loop(&init);
    if (coto_up("kill_all"))
        end_everything(&init);
    return 0;
}
