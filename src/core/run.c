/* The supervisor's loop: one thread, one poll. It reads frames from coto-init,
 * moves bytes between the caller and the program, and enforces wall-clock and
 * CPU time on its own clock. Whatever happens inside, it ends: a deadline first
 * asks init to kill the tree (so that artifacts survive), and shortly after ends
 * the whole pid namespace by itself. */
#include "core/session.h"

#include "base/fd.h"
#include "base/units.h"
#include "base/weak.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define KILL_GRACE_US 100000
#define KEEP_GRACE_US 1000000 /* a sandbox that goes on is not given up because its host is busy */
#define COLLECT_GRACE_US 30000000
#define CPU_TICK_US 20000
#define WATCH_US 200000
#define OOM_KILLS_MAX 8
#define QUEUE_LOW (256 * 1024)
#define SEND_SOON 4096
#define STDIN_WINDOW (256 * 1024)
#define ARTIFACT_MAX_COUNT 10000

int coto_session_fail(struct coto_session *s, const struct coto_err *err)
{
    if (!s->failed && err != &s->err)
        s->err = *err;
    s->failed = true;
    return -1;
}

char *coto_session_chunk(struct coto_session *s)
{
    if (!s->chunk)
        s->chunk = malloc(COTO_CHUNK);
    if (!s->chunk) {
        coto_err_set(&s->err, COTO_ERR_LIMIT, ENOMEM, "pass bytes on");
        coto_session_fail(s, &s->err);
    }
    return s->chunk;
}

/* ---- sending ---- */

int coto_session_flush(struct coto_session *s)
{
    while (s->out.len > 0 && !s->send_closed) {
        ssize_t n = write(s->sandbox->stream_fd, s->out.data, s->out.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0) {
            s->send_closed = true; /* what init said last is still to be read */
            if (errno != EPIPE && errno != ECONNRESET) { /* it lives and would wait for the rest */
                coto_err_set(&s->err, COTO_ERR_SYSTEM, errno, "write to the sandbox");
                coto_session_fail(s, &s->err);
            }
            break;
        }
        memmove(s->out.data, s->out.data + n, s->out.len - (size_t)n);
        s->out.len -= (size_t)n;
    }
    if (s->send_closed)
        coto_buf_clear(&s->out);
    return 0;
}

/* Tells a phase and how long it took since the last one. */
static void phase(struct coto_session *s, const char *name)
{
    if (!s->io->progress)
        return;
    int64_t now = coto_clock_us();
    s->io->progress(s->io->progress_arg, name, now - s->phase_us);
    s->phase_us = now;
}

static void send_simple(struct coto_session *s, enum coto_frame_type type)
{
    size_t at = coto_frame_begin(&s->out, type, 0);

    coto_frame_end(&s->out, at);
    coto_session_flush(s);
}

/* Ends the run for a reason of ours; the first reason stays. */
void coto_session_end(struct coto_session *s, enum coto_end_cause cause)
{
    if (s->killing || s->exited)
        return;
    s->killing = true;
    s->cause = cause;
    s->kill_us = coto_clock_us() + (s->keep ? KEEP_GRACE_US : KILL_GRACE_US);
    send_simple(s, COTO_FRAME_KILL);
}

/* ---- receiving ---- */

static void send_collect(struct coto_session *s)
{
    size_t at = coto_frame_begin(&s->out, COTO_FRAME_COLLECT, 0);

    coto_frame_add_text(&s->out, COTO_TAG_PATH, "output");
    coto_frame_add_num(&s->out, COTO_TAG_LIMIT_BYTES, (uint64_t)s->plan->disk_bytes);
    coto_frame_add_num(&s->out, COTO_TAG_LIMIT_COUNT, ARTIFACT_MAX_COUNT);
    coto_frame_end(&s->out, at);
    s->collecting = true;
    s->kill_us = coto_clock_us() + COLLECT_GRACE_US;
    coto_session_flush(s);
}

/* The end of it, by force where init has not said that the program is gone. */
static void finish(struct coto_session *s)
{
    s->finished = true;
    if (s->keep && s->exited && !s->collecting)
        return;
    s->lost = true;
    s->sandbox->driver->kill(s->sandbox);
}

/* Init's account is of all that somebody has waited for since the program, or the stage of it, began: a parent who ignores
 * SIGCHLD keeps its children's time out of it. A guest's kernel counts waiting for a CPU of the
 * host as work, and is the guest's. Where the host has an account that one is told. */
static void take_cpu(struct coto_session *s, const struct coto_frame *frame)
{
    struct coto_usage now;

    s->init_user_us += (int64_t)coto_field_num(frame, COTO_TAG_CPU_USER_US);
    s->init_system_us += (int64_t)coto_field_num(frame, COTO_TAG_CPU_SYSTEM_US);
    if (s->cpu_before_us <= 0)
        return;
    s->sandbox->driver->usage(s->sandbox, &now);
    int64_t used = now.cpu_user_us + now.cpu_system_us - s->cpu_before_us;
    if (now.cpu_user_us < 0 || now.cpu_system_us < 0 || used < 0)
        return;
    /* Init's has what the program did before we noted where the host's stood. */
    if (!s->sandbox->guest_kernel && !s->keep && used <= s->init_user_us + s->init_system_us)
        return;
    int64_t system = now.cpu_system_us - s->system_before_us;
    s->init_system_us = system < 0 ? 0 : system > used ? used : system;
    s->init_user_us = used - s->init_system_us;
}

static void on_exit_frame(struct coto_session *s, const struct coto_frame *frame)
{
    if (s->exited || frame->proc != coto_session_proc(s))
        return;
    s->facts->exited = true;
    s->facts->wait_status = (int)coto_field_num(frame, COTO_TAG_STATUS);
    s->facts->disk_full = coto_field_num(frame, COTO_TAG_DISK_FULL);
    /* After KILL nobody is left, whether init had heard it by then or not. */
    s->facts->state_kept = coto_field_num(frame, COTO_TAG_CONTEXT) & 1 && !s->killing;
    s->facts->state_found = coto_field_num(frame, COTO_TAG_CONTEXT) >> 1 & 1;
    s->facts->stage = s->stage;
    take_cpu(s, frame);
    if (coto_field_num(frame, COTO_TAG_TIMED_OUT) && s->cause == COTO_END_SELF)
        s->cause = COTO_END_WALL_TIME;
    if (s->facts->wait_status == 0 && s->cause == COTO_END_SELF &&
        s->stage + 1 < s->plan->stage_count) {
        s->facts->exited = false;
        if (coto_exec_send(s, s->stage + 1) == 0) {
            coto_stdin_begin(s);
            coto_session_flush(s);
        }
        return;
    }
    s->exited = true;
    s->end_us = coto_clock_us();
    phase(s, "= program ended");
    s->in_fd = -1;
    if (s->cancelled)
        finish(s);
    else if (s->plan->want_artifacts)
        send_collect(s);
    else if (s->stage + 1 == s->plan->stage_count)
        s->finished = true; /* init exits by itself: BYE_ON_EXIT */
    else
        finish(s);
}

static void on_error_frame(struct coto_session *s, const struct coto_frame *frame)
{
    struct coto_err err;

    coto_field_error(frame, &err);
    /* A sandbox that goes on is not lost for a file that did not fit: the EXEC will be refused. */
    if (frame->proc == 0 && s->keep && !s->started && !s->unready && err.kind == COTO_ERR_INPUT) {
        s->unready = true;
        s->err = err;
        return;
    }
    if (frame->proc == 0 && s->unready)
        return; /* what could not be put next to it */
    s->refused = frame->proc != 0;
    if (s->refused && s->unready) {
        coto_session_fail(s, &s->err);
        return;
    }
    const struct coto_language *lang = s->plan->language;
    if (err.kind == COTO_ERR_NOTFOUND && frame->proc && lang &&
        strcmp(s->plan->stages[s->stage].argv.items[0], lang->tool) == 0) {
        const char *image = s->plan->image;
        coto_err_set(&err, COTO_ERR_TOOL, 0, "%s: '%s' is not in the %s%s%s", lang->name, lang->tool,
                     image ? "image '" : "sandbox", image ? image : "", image ? "'" : "");
        coto_err_remedy(&err, "%s: apt-get install %s",
                        image ? "name an image that has it with --image, or add it to this one"
                              : "install it",
                        lang->package);
    } else if (err.kind == COTO_ERR_NOTFOUND && !err.remedy[0]) {
        coto_err_remedy(&err, "commands run inside the sandbox's own file system; bring files in with "
                              "--copy or --mount");
    }
    coto_session_fail(s, &err);
}

static void on_ready(struct coto_session *s, const struct coto_frame *frame)
{
    struct coto_err err = {0};
    uint64_t version = coto_field_num(frame, COTO_TAG_VERSION);

    s->ready = true;
    phase(s, "= coto-init is ready");
    if (version != COTO_WIRE_VERSION)
        coto_err_set(&err, COTO_ERR_INTERNAL, 0, "coto-init speaks version %llu, coto %d",
                     (unsigned long long)version, COTO_WIRE_VERSION);
    if (err.kind || s->sandbox->driver->inspect(s->sandbox, frame, &err))
        coto_session_fail(s, &err);
}

static void on_step(struct coto_session *s, const struct coto_frame *frame)
{
    coto_auto_free char *text = coto_field_text(frame, COTO_TAG_TEXT);

    if (s->io->progress && text)
        s->io->progress(s->io->progress_arg, text, (int64_t)coto_field_num(frame, COTO_TAG_SIZE));
}

static void on_output(struct coto_session *s, const struct coto_frame *frame, int which)
{
    struct coto_field field = {0};

    if (s->frames && coto_field_next(frame, &field) == 1 && field.tag == COTO_TAG_DATA)
        coto_pump_take(s, &s->pumps[which - 1], field.data, field.len);
}

/* Whatever is inside may have taken init over, or speak through it: what was not asked for, or
 * more of it, would fill the host. */
static bool is_expected(const struct coto_session *s, int type)
{
    switch (type) {
    case COTO_FRAME_READY:
        return !s->ready;
    case COTO_FRAME_FILE:
        return s->collecting && s->result->artifact_count < ARTIFACT_MAX_COUNT;
    case COTO_FRAME_FILE_DATA:
        return s->collecting && s->came_bytes < s->plan->disk_bytes;
    case COTO_FRAME_FILE_END:
    case COTO_FRAME_COLLECTED:
        return s->collecting;
    default:
        return true;
    }
}

static void on_frame(struct coto_session *s, const struct coto_frame *frame)
{
    switch (is_expected(s, (int)frame->type) ? (int)frame->type : -1) {
    case COTO_FRAME_READY:
        on_ready(s, frame);
        break;
    case COTO_FRAME_STEP:
        on_step(s, frame);
        break;
    case COTO_FRAME_ERROR:
        on_error_frame(s, frame);
        break;
    case COTO_FRAME_STARTED:
        coto_session_started(s);
        phase(s, "= program started behind its inner walls");
        coto_walls_from_started(s, frame);
        break;
    case COTO_FRAME_OUT:
        on_output(s, frame, 1);
        break;
    case COTO_FRAME_ERR:
        on_output(s, frame, 2);
        break;
    case COTO_FRAME_DONE:
        s->in_credit += (int64_t)coto_field_num(frame, COTO_TAG_COUNT);
        break;
    case COTO_FRAME_EXIT:
        on_exit_frame(s, frame);
        break;
    case COTO_FRAME_FILE:
        coto_artifact_begin(s, frame);
        break;
    case COTO_FRAME_FILE_DATA:
        coto_artifact_data(s, frame);
        break;
    case COTO_FRAME_FILE_END:
        coto_artifact_end(s);
        break;
    case COTO_FRAME_COLLECTED:
        s->collected = true;
        s->collecting = false;
        s->result->artifacts_skipped += (int64_t)coto_field_num(frame, COTO_TAG_SKIPPED);
        finish(s);
        break;
    default:
        coto_err_set(&s->err, COTO_ERR_INTERNAL, 0, "wire: frame type %d is unknown, or not asked for",
                     (int)frame->type);
        coto_session_fail(s, &s->err);
    }
}

static void read_stream(struct coto_session *s)
{
    size_t room;
    char *to = coto_frame_reader_space(&s->reader, &room);
    ssize_t n = to ? read(s->sandbox->stream_fd, to, room) : -1;
    struct coto_frame frame;
    int got = 0;

    if (to && n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!to || (n < 0 && errno != ECONNRESET)) { /* init lives and would wait for ever */
        coto_err_set(&s->err, to ? COTO_ERR_SYSTEM : COTO_ERR_LIMIT, to ? errno : ENOMEM,
                     "read from the sandbox");
        coto_session_fail(s, &s->err);
        return;
    }
    if (n <= 0) {
        s->stream_closed = s->send_closed = true;
        s->finished = s->lost = true;
        return;
    }
    s->reader.buf.len += (size_t)n;
    while (!s->failed && (got = coto_frame_next(&s->reader, &frame, &s->err)) == 1)
        on_frame(s, &frame);
    if (got < 0)
        coto_session_fail(s, &s->err);
}

/* While files go in: takes what init has to say and waits for room. */
int coto_session_wait_room(struct coto_session *s)
{
    if (s->out.len > SEND_SOON) /* little goes with what comes next: init wakes up once */
        coto_session_flush(s);
    while (s->out.len > QUEUE_LOW && !s->failed && !s->finished) {
        struct pollfd pfd[2] = {{.fd = s->sandbox->stream_fd, .events = POLLIN | POLLOUT},
                                {.fd = s->io->cancel_fd, .events = POLLIN}};
        if (poll(pfd, 2, -1) < 0 && errno != EINTR)
            break;
        if (pfd[0].revents & (POLLIN | POLLHUP))
            read_stream(s);
        if (pfd[1].revents) {
            coto_session_end(s, COTO_END_CANCEL);
            finish(s);
        }
        coto_session_flush(s);
    }
    if (s->out.failed) {
        coto_err_set(&s->err, COTO_ERR_LIMIT, ENOMEM, "send files to the sandbox");
        coto_session_fail(s, &s->err);
    }
    return s->failed || s->finished ? -1 : 0;
}

/* ---- time ---- */

/* -1: nobody counts */
static int64_t cpu_of_sandbox(const struct coto_session *s, int64_t *ret_system_us)
{
    struct coto_usage usage;

    s->sandbox->driver->usage(s->sandbox, &usage);
    if (ret_system_us)
        *ret_system_us = usage.cpu_system_us;
    return usage.cpu_user_us < 0 ? -1 : usage.cpu_user_us + usage.cpu_system_us;
}

/* Init's own work, and earlier programs in the same sandbox, are not this program's time. */
static void note_cpu_before(struct coto_session *s)
{
    const struct coto_sandbox *sandbox = s->sandbox;

    if ((sandbox->counts_cpu || sandbox->cpu_time_by_usage || sandbox->guest_kernel) &&
        !s->cpu_before_us)
        s->cpu_before_us = cpu_of_sandbox(s, &s->system_before_us);
}

static void check_cpu(struct coto_session *s)
{
    if (cpu_of_sandbox(s, NULL) - s->cpu_before_us >= s->plan->cpu_time_ms * 1000)
        coto_session_end(s, COTO_END_CPU_TIME);
}

void coto_session_started(struct coto_session *s)
{
    note_cpu_before(s);
    s->started = true;
    s->watch_us = coto_clock_us() + WATCH_US;
}

/* What the kernel does not bound by itself: each process that the memory limit ends writes a dozen
 * lines to the host's log, and on cgroup v1 buffers of TCP are counted but never refused. */
static void check_memory(struct coto_session *s)
{
    struct coto_usage usage;

    s->sandbox->driver->usage(s->sandbox, &usage);
    if (usage.is_over || usage.oom_kills - s->sandbox->before.oom_kills > OOM_KILLS_MAX)
        coto_session_end(s, COTO_END_MEMORY);
}

/* The earlier of both. */
static int64_t watch_memory(struct coto_session *s, int64_t now, int64_t next)
{
    if (now >= s->watch_us) {
        check_memory(s);
        s->watch_us = now + WATCH_US;
    }
    return s->watch_us < next ? s->watch_us : next;
}

/* Acts on what is due; returns how long poll may sleep in ms, -1 for ever. */
static int tick(struct coto_session *s)
{
    int64_t now = coto_clock_us();
    int64_t next = INT64_MAX;

    if (s->finished)
        return -1;
    if (!s->killing && !s->exited && s->deadline_us) {
        if (now >= s->deadline_us)
            coto_session_end(s, COTO_END_WALL_TIME);
        else
            next = s->deadline_us;
    }
    if (s->started && !s->killing && !s->exited && s->sandbox->cpu_time_by_usage) {
        check_cpu(s);
        if (now + CPU_TICK_US < next)
            next = now + CPU_TICK_US;
    }
    if (s->started && !s->killing && !s->exited && s->sandbox->watches_memory)
        next = watch_memory(s, now, next);
    if (s->io->quiet) {
        if (s->quiet_us && now >= s->quiet_us)
            s->io->quiet(s->io->sink_arg);
        if (now >= s->quiet_us)
            s->quiet_us = now + COTO_QUIET_MS * 1000;
        next = s->quiet_us < next ? s->quiet_us : next;
    }
    if (s->killing || s->collecting) {
        if (now >= s->kill_us)
            finish(s);
        else if (s->kill_us < next)
            next = s->kill_us;
    }
    return next == INT64_MAX ? -1 : (int)((next - now + 999) / 1000);
}

/* ---- the loop ---- */

enum { P_STREAM, P_CANCEL, P_OUT, P_ERR, P_OUT_TO, P_ERR_TO, P_IN, P_IN_TO, P_COUNT };

static void watch_pump(struct pollfd *pfd, const struct coto_pump *pump, int from, int to)
{
    if (!pump->eof && !pump->to_full && !coto_pump_has_left(pump))
        pfd[from] = (struct pollfd){.fd = pump->from_fd, .events = POLLIN};
    if (pump->to_full || coto_pump_has_left(pump))
        pfd[to] = (struct pollfd){.fd = pump->to_fd, .events = POLLOUT};
}

static void watch(struct coto_session *s, struct pollfd *pfd)
{
    bool backlog = s->frames && (coto_pump_has_left(&s->pumps[0]) || coto_pump_has_left(&s->pumps[1]));

    for (int i = 0; i < P_COUNT; i++)
        pfd[i] = (struct pollfd){.fd = -1};
    if (!s->stream_closed) {
        pfd[P_STREAM].fd = s->sandbox->stream_fd;
        pfd[P_STREAM].events = (short)((backlog ? 0 : POLLIN) | (s->out.len ? POLLOUT : 0));
    }
    if (!s->cancelled)
        pfd[P_CANCEL] = (struct pollfd){.fd = s->io->cancel_fd, .events = POLLIN};
    watch_pump(pfd, &s->pumps[0], P_OUT, P_OUT_TO);
    watch_pump(pfd, &s->pumps[1], P_ERR, P_ERR_TO);
    if (s->in_fd >= 0 && s->in_wait_room)
        pfd[P_IN_TO] = (struct pollfd){.fd = s->sandbox->stdio_fd[0], .events = POLLOUT};
    else if (s->in_fd >= 0 && s->started && coto_stdin_is_wanted(s))
        pfd[P_IN] = (struct pollfd){.fd = s->in_fd, .events = POLLIN};
}

static void serve(struct coto_session *s, const struct pollfd *pfd)
{
    if (pfd[P_OUT].revents)
        coto_pump_run(s, &s->pumps[0]);
    if (pfd[P_ERR].revents)
        coto_pump_run(s, &s->pumps[1]);
    if (pfd[P_OUT_TO].revents)
        coto_pump_write(s, &s->pumps[0]);
    if (pfd[P_ERR_TO].revents)
        coto_pump_write(s, &s->pumps[1]);
    if (pfd[P_IN].revents || pfd[P_IN_TO].revents)
        coto_stdin_run(s);
    if (pfd[P_STREAM].revents & (POLLIN | POLLHUP | POLLERR))
        read_stream(s);
    coto_session_flush(s);
    if (pfd[P_CANCEL].revents) {
        /* The caller wants out, also out of waiting for a slow reader. Init still gets
         * its moment to end the tree and tell what it used. */
        s->cancelled = true;
        coto_session_end(s, COTO_END_CANCEL);
        if (s->exited)
            finish(s);
        s->pumps[0].eof = s->pumps[1].eof = true;
        coto_pump_drop(&s->pumps[0]);
        coto_pump_drop(&s->pumps[1]);
    }
}

static bool is_done(const struct coto_session *s)
{
    if (s->failed)
        return true;
    if (!s->finished)
        return false;
    if (s->frames)
        return !coto_pump_has_left(&s->pumps[0]) && !coto_pump_has_left(&s->pumps[1]);
    return coto_pump_done(&s->pumps[0]) && coto_pump_done(&s->pumps[1]);
}

/* Whoever was given the program's pipes, through a socket in a mount, may hold them for ever:
 * when init is gone nobody writes any more, and what is in them is all there is. */
static void end_streams(struct coto_session *s)
{
    if (!s->finished || !s->stream_closed || !coto_up("end_streams"))
        return;
    for (int i = 0; i < 2; i++) {
        int waiting = 0;
        struct coto_pump *pump = &s->pumps[i];
        if (!pump->eof && pump->from_fd >= 0 && ioctl(pump->from_fd, FIONREAD, &waiting) == 0 && !waiting)
            pump->eof = true;
    }
}

static void loop(struct coto_session *s)
{
    while (!is_done(s)) {
        struct pollfd pfd[P_COUNT];
        end_streams(s);
        watch(s, pfd);
        int timeout = tick(s);
        if (is_done(s))
            break;
        if (poll(pfd, P_COUNT, timeout) < 0) {
            if (errno == EINTR)
                continue;
            coto_err_set(&s->err, COTO_ERR_SYSTEM, errno, "poll");
            coto_session_fail(s, &s->err);
        }
        serve(s, pfd);
    }
}

static void start_clock(struct coto_session *s)
{
    s->start_us = coto_clock_us();
    if (s->plan->timeout_ms != COTO_UNIT_NONE && coto_up("timeout"))
        s->deadline_us = s->start_us + s->plan->timeout_ms * 1000;
}

static void begin(struct coto_session *s)
{
    s->frames = s->sandbox->stdio_fd[1] < 0;
    s->in_credit = STDIN_WINDOW;
    s->in_fd = s->io->in_fd;
    coto_pump_init(&s->pumps[0], s, 1);
    coto_pump_init(&s->pumps[1], s, 2);
    if (s->sandbox->stdio_fd[0] >= 0)
        coto_fd_set_nonblock(s->sandbox->stdio_fd[0], 1);
    if (s->in_fd < 0)
        coto_own_close(&s->sandbox->stdio_fd[0]);
    coto_walls_of_supervisor(s);
    start_clock(s); /* a set-up that hangs must end too */
    if (s->ready) /* init has nothing more to set up */
        note_cpu_before(s);
    if (coto_copyin(s) || (!s->ahead && coto_exec_send(s, 0)))
        return;
    if (s->ahead)
        coto_ahead_release(s);
    coto_stdin_begin(s);
    start_clock(s);
    coto_session_flush(s);
}

static void complete(struct coto_session *s)
{
    struct coto_result *r = s->result;

    if (!s->end_us)
        s->end_us = coto_clock_us();
    r->duration_us = s->end_us - s->start_us;
    r->facts.cause = s->cause;
    memcpy(r->walls, s->sandbox->walls, sizeof r->walls);
    memcpy(r->runtime, s->sandbox->runtime, sizeof r->runtime);
    r->stage = s->plan->stages[s->stage].name;
}

/* ---- from outside ---- */

static void name_result(struct coto_session *s)
{
    struct coto_result *r = s->result;
    const struct coto_plan *plan = s->plan;

    *r = (struct coto_result){0};
    s->facts = &r->facts;
    snprintf(r->id, sizeof r->id, "%s", plan->id);
    snprintf(r->profile, sizeof r->profile, "%s", plan->profile);
    memcpy(r->policy_hash, plan->policy_hash, sizeof plan->policy_hash);
    memcpy(r->code_hash, plan->code_hash, sizeof plan->code_hash);
    coto_clock_utc(r->started_at);
    s->phase_us = coto_clock_us();
}

/* From the program's end to a verdict; the sandbox's usage is in the facts. */
static int conclude(struct coto_session *s, struct coto_err *err)
{
    struct coto_result *r = s->result;
    struct coto_usage *used = &r->facts.usage;

    /* What died together with a killed init was reaped by nobody: then nothing is known. */
    if (used->of_reaped && !s->exited)
        used->cpu_user_us = used->cpu_system_us = used->memory_peak_bytes = -1;
    /* Nothing is an account too, of a clock that goes in ticks as gVisor's does; but not of an
     * interpreter that goes on, for which nobody was waited. */
    if (s->init_user_us || s->init_system_us || (s->exited && !s->plan->context && used->cpu_user_us < 0)) {
        used->cpu_user_us = s->init_user_us;
        used->cpu_system_us = s->init_system_us;
    }
    /* A program can send itself SIGXCPU: only with the time used up is it the limit's. Half
     * of it, because the kernel's alarm counts ticks and the account does not. */
    int64_t cpu_us = used->cpu_user_us + used->cpu_system_us;
    int64_t *spent_us = s->keep ? &s->sandbox->before.cpu_us : NULL;          /* else it is gone */
    int64_t before_us = spent_us && s->plan->context ? *spent_us : 0; /* the kernel's limit is the interpreter's */
    r->facts.cpu_limited = s->plan->cpu_time_ms != COTO_UNIT_NONE && before_us + cpu_us >= s->plan->cpu_time_ms * 500;
    if (spent_us && cpu_us > 0)
        *spent_us += cpu_us;
    coto_verdict_decide(&r->facts, r);
    coto_frame_reader_fini(&s->reader);
    coto_buf_fini(&s->out);
    coto_buf_fini(&s->in_pending);
    coto_pump_fini(&s->pumps[0]);
    coto_pump_fini(&s->pumps[1]);
    free(s->chunk);
    if (!s->failed)
        return 0;
    coto_result_fini(r);
    *err = s->err;
    return -1;
}

int coto_core_run(const struct coto_plan *plan, const struct coto_io *io,
                  struct coto_result *ret_result, struct coto_err *err)
{
    struct coto_session s = {
        .plan = plan, .io = io, .result = ret_result, .first_proc = 1, .file_fd = -1};
    const struct coto_driver *driver;

    name_result(&s);
    if (coto_driver_choose(plan->isolation, &driver, err) ||
        driver->create(plan, io->progress != NULL, &s.sandbox, err))
        return -1;
    ret_result->driver = driver->name;
    phase(&s, "= supervisor's side of the sandbox");
    begin(&s);
    loop(&s);
    if (s.lost && !s.exited && !s.killing && driver->lost && driver->lost(s.sandbox, &s.err))
        coto_session_fail(&s, &s.err);
    coto_artifact_stop(&s);
    complete(&s);
    phase(&s, "= output drained");
    driver->destroy(s.sandbox, &ret_result->facts.usage);
    phase(&s, "= sandbox destroyed");
    return conclude(&s, err);
}

/* The group counts from its beginning: what earlier programs met is not this one's. */
static void of_this_run(struct coto_sandbox *sandbox, struct coto_usage *usage)
{
    int64_t kills = usage->oom_kills;
    int64_t refused = usage->pids_refused;

    if (kills < sandbox->before.oom_kills || refused < sandbox->before.pids_refused)
        return; /* nobody counts any more: the sandbox is gone */
    usage->oom_kills -= sandbox->before.oom_kills;
    usage->pids_refused -= sandbox->before.pids_refused;
    sandbox->before.oom_kills = kills;
    sandbox->before.pids_refused = refused;
}

void coto_core_adopt(struct coto_sandbox *sandbox)
{
    struct coto_usage usage;

    sandbox->driver->usage(sandbox, &usage);
    of_this_run(sandbox, &usage);
}

int coto_core_run_in(struct coto_run_in *in, const struct coto_plan *plan, const struct coto_io *io,
                     struct coto_result *ret_result, struct coto_err *err)
{
    struct coto_session s = {.plan = plan,
                             .io = io,
                             .result = ret_result,
                             .sandbox = in->sandbox,
                             .first_proc = in->first_proc,
                             .keep = in->keep,
                             .ahead = in->ahead,
                             .ready = true,
                             .file_fd = -1};

    name_result(&s);
    ret_result->driver = in->sandbox->driver->name;
    begin(&s);
    loop(&s);
    coto_artifact_stop(&s);
    complete(&s);
    in->sandbox->driver->usage(in->sandbox, &ret_result->facts.usage);
    of_this_run(in->sandbox, &ret_result->facts.usage);
    in->lost = s.lost || (s.failed && !s.refused);
    return conclude(&s, err);
}

void coto_core_cancelled(const struct coto_plan *plan, const char *driver,
                         struct coto_result *ret_result)
{
    struct coto_session s = {.plan = plan, .result = ret_result};

    name_result(&s);
    ret_result->driver = driver;
    ret_result->stage = plan->stages[0].name;
    ret_result->facts = (struct coto_facts){.cause = COTO_END_CANCEL, .usage = COTO_USAGE_NONE};
    coto_verdict_decide(&ret_result->facts, ret_result);
}

int coto_core_start_ahead(struct coto_sandbox *sandbox, const struct coto_plan *plan,
                          struct coto_err *err)
{
    const struct coto_io io = {
        .in_fd = -1, .out_fd = -1, .err_fd = -1, .artifacts_fd = -1, .cancel_fd = -1};
    struct coto_result result;
    struct coto_session s = {.plan = plan,
                             .io = &io,
                             .result = &result,
                             .sandbox = sandbox,
                             .first_proc = 1,
                             .keep = true,
                             .ahead = true,
                             .frames = true,
                             .ready = true,
                             .in_fd = -1,
                             .file_fd = -1};

    name_result(&s);
    coto_pump_init(&s.pumps[0], &s, 1);
    coto_pump_init(&s.pumps[1], &s, 2);
    start_clock(&s);
    if (coto_ahead_put_script(&s) == 0 && coto_exec_send(&s, 0) == 0)
        coto_session_flush(&s);
    while (!s.started && !s.exited && !is_done(&s)) {
        struct pollfd pfd = {sandbox->stream_fd, (short)(POLLIN | (s.out.len ? POLLOUT : 0)), 0};
        int timeout = tick(&s);
        if (!is_done(&s) && poll(&pfd, 1, timeout) > 0 && pfd.revents & (POLLIN | POLLHUP | POLLERR))
            read_stream(&s);
        coto_session_flush(&s);
    }
    if (!s.failed && (!s.started || s.reader.pos != s.reader.buf.len || s.out.len)) {
        coto_err_set(&s.err, COTO_ERR_INTERNAL, 0, "the interpreter does not wait");
        coto_session_fail(&s, &s.err);
    }
    conclude(&s, err);
    if (s.failed)
        return -1;
    coto_result_fini(&result);
    return 0;
}
