/* Streams. Byte-exact output moves from the program's pipe to the caller's file with
 * splice, so a gigabyte costs no copy in this process. To a pipe or socket it is copied: spliced
 * buffers would still be the program's, packets of which a reader loses what it does not take at
 * once, or pages that change after they were passed on. To a terminal it is copied too: splice
 * waits there with the program's pipe locked, and no signal ends a program that waits for that.
 *
 * No write waits for the reader: who does not read must not keep us from looking at the limits. */
#include "core/session.h"

#include "base/fd.h"
#include "base/units.h"
#include "base/weak.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIG_PIPE (1 << 20)
#define PENDING_MAX (256 * 1024)
#define SURE_BYTES 4096

static enum coto_pump_to kind_of(int fd)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        return COTO_TO_FILE;
    if (S_ISFIFO(st.st_mode))
        return COTO_TO_PIPE;
    if (S_ISSOCK(st.st_mode))
        return COTO_TO_SOCKET;
    return isatty(fd) ? COTO_TO_TERMINAL : COTO_TO_FILE;
}

/* Whether a write to the caller's terminal waits is a flag that its other users share; the same
 * terminal opened once more has one of our own. Not everybody may: after su it is another's. */
static void open_terminal(struct coto_pump *pump)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", pump->to_fd);
    pump->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (pump->own_fd >= 0)
        pump->to_fd = pump->own_fd;
}

void coto_pump_init(struct coto_pump *pump, struct coto_session *s, int which)
{
    bool filtered = s->io->filter && (which == 1 ? s->io->filter_out : s->io->filter_err);

    *pump = (struct coto_pump){
        .which = which,
        .from_fd = s->sandbox->stdio_fd[which],
        .to_fd = which == 1 ? s->io->out_fd : s->io->err_fd,
        .limit = coto_up("output_limit") ? s->plan->output_bytes : COTO_UNIT_NONE,
        .capture_max = s->io->capture ? s->io->capture_max : 0,
        .result = which == 1 ? &s->result->out : &s->result->err,
        .via_fd = {-1, -1},
        .own_fd = -1,
    };
    pump->to = kind_of(pump->to_fd);
    if (pump->to == COTO_TO_TERMINAL)
        open_terminal(pump);
    pump->no_splice = filtered || s->io->capture || s->io->sink || pump->to_fd < 0 ||
                      pump->to != COTO_TO_FILE;
    if (pump->from_fd >= 0)
        coto_fd_set_nonblock(pump->from_fd, 1);
}

void coto_pump_fini(struct coto_pump *pump)
{
    coto_buf_fini(&pump->pending);
    coto_own_close(&pump->via_fd[0]);
    coto_own_close(&pump->via_fd[1]);
    coto_own_close(&pump->own_fd);
}

bool coto_pump_has_left(const struct coto_pump *pump)
{
    return pump->pending.len > 0 || pump->via_len > 0;
}

bool coto_pump_done(const struct coto_pump *pump)
{
    return pump->eof && !coto_pump_has_left(pump);
}

void coto_pump_drop(struct coto_pump *pump)
{
    coto_buf_clear(&pump->pending);
    pump->via_len = 0; /* nobody reads that pipe any more */
}

/* The caller no longer reads: close our end, so that the program gets SIGPIPE as
 * it would without us. */
static void reader_gone(struct coto_session *s, struct coto_pump *pump)
{
    pump->to_fd = -1;
    coto_pump_drop(pump);
    coto_own_close(&s->sandbox->stdio_fd[pump->which]);
    pump->from_fd = -1;
    pump->eof = true;
    if (!s->frames || s->stream_closed)
        return;
    size_t at = coto_frame_begin(&s->out, COTO_FRAME_CLOSE, coto_session_proc(s));
    coto_frame_add_num(&s->out, COTO_TAG_COUNT, (uint64_t)pump->which);
    coto_frame_end(&s->out, at);
}

static void over_limit(struct coto_session *s, struct coto_pump *pump)
{
    pump->result->truncated = true;
    if (s->plan->output_kill)
        coto_session_end(s, COTO_END_OUTPUT);
}

/* The caller's pipe may block, and its flags are not ours to change: much of it goes through
 * a pipe of our own, from which splice never waits. */
static ssize_t write_via(struct coto_pump *pump)
{
    if (pump->via_len == 0) {
        ssize_t n = write(pump->via_fd[1], pump->pending.data, pump->pending.len);
        if (n < 0)
            return n;
        memmove(pump->pending.data, pump->pending.data + n, pump->pending.len - (size_t)n);
        pump->pending.len -= (size_t)n;
        pump->via_len = (size_t)n;
    }
    ssize_t n = splice(pump->via_fd[0], NULL, pump->to_fd, NULL, pump->via_len,
                       SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0)
        pump->via_len -= (size_t)n;
    return n < 0 ? n : 0; /* of what is pending */
}

static bool has_via(struct coto_pump *pump)
{
    if (pump->to != COTO_TO_PIPE || pump->via_fd[0] >= 0)
        return pump->to == COTO_TO_PIPE;
    return pipe2(pump->via_fd, O_CLOEXEC | O_NONBLOCK) == 0;
}

/* A pipe that polls writable takes at least this much without blocking; a file takes all. */
static ssize_t write_directly(const struct coto_pump *pump)
{
    struct pollfd to = {.fd = pump->to_fd, .events = POLLOUT};
    size_t len = pump->pending.len;

    if (pump->to == COTO_TO_SOCKET)
        return send(pump->to_fd, pump->pending.data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (pump->to != COTO_TO_FILE && poll(&to, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    if (pump->to != COTO_TO_FILE && len > SURE_BYTES)
        len = SURE_BYTES;
    return write(pump->to_fd, pump->pending.data, len);
}

void coto_pump_write(struct coto_session *s, struct coto_pump *pump)
{
    pump->to_full = false;
    if (!coto_pump_has_left(pump) || pump->to_fd < 0)
        return;
    bool is_much = pump->via_len > 0 || (pump->pending.len > SURE_BYTES && has_via(pump));
    ssize_t n = is_much ? write_via(pump) : write_directly(pump);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == EIO)) {
        reader_gone(s, pump);
        return;
    }
    if (n < 0) {
        /* A full disk, say: output that is lost must not look like success. */
        coto_err_set(&s->err, COTO_ERR_OUTPUT, errno, "standard %s",
                     pump->which == 1 ? "output" : "error");
        coto_session_fail(s, &s->err);
        return;
    }
    memmove(pump->pending.data, pump->pending.data + n, pump->pending.len - (size_t)n);
    pump->pending.len -= (size_t)n;
}

/* Output or input that is lost must not look like success. */
static void fail_stream(struct coto_session *s, int kind, int error, const char *what)
{
    coto_err_set(&s->err, kind, error, "%s", what);
    coto_session_fail(s, &s->err);
}

void coto_pump_take(struct coto_session *s, struct coto_pump *pump, const void *data, size_t len)
{
    struct coto_stream_result *r = pump->result;
    int64_t room = pump->limit == COTO_UNIT_NONE ? (int64_t)len : pump->limit - r->kept;
    size_t keep = room < (int64_t)len ? (size_t)(room > 0 ? room : 0) : len;
    bool filtered = s->io->filter && (pump->which == 1 ? s->io->filter_out : s->io->filter_err);

    r->seen += (int64_t)len;
    if (keep < len)
        over_limit(s, pump);
    if (s->io->capture) {
        int64_t left = pump->capture_max == COTO_UNIT_NONE ? (int64_t)keep
                                                           : pump->capture_max - (int64_t)r->data.len;
        if (left < (int64_t)keep && pump->to_fd < 0) {
            keep = left > 0 ? (size_t)left : 0;
            r->truncated = true;
        }
        coto_buf_add(&r->data, data, left < (int64_t)keep ? (size_t)(left > 0 ? left : 0) : keep);
        if (r->data.failed)
            fail_stream(s, COTO_ERR_LIMIT, ENOMEM, "keep the output");
    }
    r->kept += (int64_t)keep;
    if (s->io->sink && keep > 0)
        s->io->sink(s->io->sink_arg, pump->which, data, keep);
    if (pump->to_fd < 0 || keep == 0)
        return;
    r->last = ((const char *)data)[keep - 1];
    if (filtered)
        s->io->filter(s->io->filter_arg, pump->which, data, keep, &pump->pending);
    else
        coto_buf_add(&pump->pending, data, keep);
    if (pump->pending.failed)
        fail_stream(s, COTO_ERR_LIMIT, ENOMEM, "pass output on");
    else
        coto_pump_write(s, pump);
}

static void grow_pipes(struct coto_pump *pump)
{
    /* Fewer, larger moves once a program proves talkative; refused is fine. */
    fcntl(pump->from_fd, F_SETPIPE_SZ, BIG_PIPE);
    if (pump->to_fd >= 0)
        fcntl(pump->to_fd, F_SETPIPE_SZ, BIG_PIPE);
    if (pump->via_fd[1] >= 0)
        fcntl(pump->via_fd[1], F_SETPIPE_SZ, BIG_PIPE);
    pump->grown = true;
}

/* 1: moved something or must wait; 0: splice is impossible here. */
static int try_splice(struct coto_session *s, struct coto_pump *pump)
{
    int64_t room = pump->limit == COTO_UNIT_NONE ? BIG_PIPE : pump->limit - pump->result->kept;

    if (pump->no_splice || pump->to_fd < 0 || room <= 0)
        return 0;
    ssize_t n = splice(pump->from_fd, NULL, pump->to_fd, NULL,
                       (size_t)(room < BIG_PIPE ? room : BIG_PIPE), SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0) {
        pump->result->seen += n;
        pump->result->kept += n;
        if (!pump->grown && pump->result->seen > 65536)
            grow_pipes(pump);
        return 1;
    }
    if (n == 0) {
        pump->eof = true;
        return 1;
    }
    if (errno == EAGAIN) {
        /* Either side; when the program's pipe has bytes it is the caller's. */
        pump->to_full = true;
        return 1;
    }
    if (errno == EPIPE) {
        reader_gone(s, pump);
        return 1;
    }
    pump->no_splice = true;
    return 0;
}

void coto_pump_run(struct coto_session *s, struct coto_pump *pump)
{
    if (pump->from_fd < 0 || pump->eof || pump->pending.len >= PENDING_MAX)
        return;
    if (try_splice(s, pump))
        return;
    char *chunk = coto_session_chunk(s);
    if (!chunk)
        return;
    ssize_t n = read(pump->from_fd, chunk, COTO_CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        fail_stream(s, COTO_ERR_SYSTEM, errno, "read the program's output");
    if (n <= 0) {
        pump->eof = true;
        return;
    }
    coto_pump_take(s, pump, chunk, (size_t)n);
    if (pump->to == COTO_TO_PIPE && !pump->grown && pump->result->seen > 65536)
        grow_pipes(pump);
}

/* ---- stdin ---- */

static bool is_last_stage(const struct coto_session *s)
{
    return s->stage + 1 == s->plan->stage_count;
}

static void send_stdin_end(struct coto_session *s)
{
    size_t at = coto_frame_begin(&s->out, COTO_FRAME_STDIN, coto_session_proc(s));

    coto_frame_end(&s->out, at);
}

/* Frames are addressed to one process: a build that was sent stdin would take it
 * to its grave, so only the last stage gets it. */
void coto_stdin_begin(struct coto_session *s)
{
    if (s->frames && (s->in_fd < 0 || !is_last_stage(s)))
        send_stdin_end(s);
}

bool coto_stdin_is_wanted(const struct coto_session *s)
{
    return !s->frames || (s->in_credit > 0 && is_last_stage(s));
}

static void stdin_ended(struct coto_session *s)
{
    s->in_fd = -1;
    if (s->in_pending.len > 0)
        return;
    if (s->sandbox->stdio_fd[0] >= 0)
        coto_own_close(&s->sandbox->stdio_fd[0]);
    else if (!s->stream_closed)
        send_stdin_end(s);
}

/* Of the caller's stdin: >0 bytes, 0 nothing now, -1 there is no more. A terminal that is
 * gone answers EIO; of a disk it means that bytes are missing. */
static ssize_t read_stdin(struct coto_session *s, char *chunk, size_t size)
{
    ssize_t n = read(s->in_fd, chunk, size);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0 && errno == EIO && !isatty(s->in_fd))
        fail_stream(s, COTO_ERR_INPUT, EIO, "standard input");
    return n <= 0 ? -1 : n;
}

static void stdin_frame(struct coto_session *s)
{
    char *chunk = coto_session_chunk(s);
    size_t want = s->in_credit < COTO_FRAME_CHUNK ? (size_t)s->in_credit : COTO_FRAME_CHUNK;
    ssize_t n = chunk ? read_stdin(s, chunk, want) : 0;

    if (n < 0)
        stdin_ended(s);
    if (n <= 0)
        return;
    size_t at = coto_frame_begin(&s->out, COTO_FRAME_STDIN, coto_session_proc(s));
    coto_frame_add(&s->out, COTO_TAG_DATA, chunk, (size_t)n);
    coto_frame_end(&s->out, at);
    s->in_credit -= n;
}

static void stdin_copy(struct coto_session *s)
{
    char *chunk = coto_session_chunk(s);
    int to = s->sandbox->stdio_fd[0];

    if (!chunk)
        return;
    if (s->in_pending.len == 0) {
        ssize_t n = read_stdin(s, chunk, COTO_CHUNK);
        if (n < 0)
            stdin_ended(s);
        if (n <= 0)
            return;
        coto_buf_add(&s->in_pending, chunk, (size_t)n);
        if (s->in_pending.failed) {
            fail_stream(s, COTO_ERR_LIMIT, ENOMEM, "pass input on");
            return;
        }
    }
    ssize_t n = write(to, s->in_pending.data, s->in_pending.len);
    s->in_wait_room = n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM);
    if (n < 0 && !s->in_wait_room)
        n = (ssize_t)s->in_pending.len; /* nobody reads: drop */
    if (n > 0) {
        memmove(s->in_pending.data, s->in_pending.data + n, s->in_pending.len - (size_t)n);
        s->in_pending.len -= (size_t)n;
        s->in_wait_room = s->in_pending.len > 0;
    }
}

void coto_stdin_run(struct coto_session *s)
{
    int to = s->sandbox->stdio_fd[0];

    if (s->in_fd < 0)
        return;
    if (to < 0) {
        stdin_frame(s);
        return;
    }
    if (!s->in_no_splice && s->in_pending.len == 0) {
        ssize_t n = splice(s->in_fd, NULL, to, NULL, BIG_PIPE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        s->in_wait_room = n < 0 && errno == EAGAIN;
        if (n > 0 || s->in_wait_room)
            return;
        if (n == 0) {
            stdin_ended(s);
            return;
        }
        s->in_no_splice = true;
    }
    stdin_copy(s);
}
