#include "core/workfiles.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_MS 30000     /* for init to say or take something */
#define DRAIN_US 10000000 /* for what nobody wants any more */
#define QUEUE_LOW (256 * 1024)
#define OUR_PROC 0xffff /* no program has this number: init's answers to us carry it */

void coto_workfiles_fini(struct coto_workfiles *files)
{
    coto_frame_reader_fini(&files->reader);
    coto_buf_fini(&files->out);
}

static int lose(struct coto_workfiles *files, const char *why, struct coto_err *err)
{
    files->lost = true;
    coto_err_set(err, COTO_ERR_INTERNAL, 0, "files: %s", why);
    return coto_err_remedy(err, "create another sandbox");
}

/* Files lie in memory, and are counted with what programs have there. */
static int ended(struct coto_workfiles *files, struct coto_err *err)
{
    struct coto_sandbox *sandbox = files->sandbox;
    struct coto_usage usage = COTO_USAGE_NONE;

    lose(files, "the sandbox has ended", err);
    if (sandbox->driver->usage(sandbox, &usage) || usage.oom_kills <= sandbox->before.oom_kills)
        return -1;
    coto_err_set(err, COTO_ERR_INPUT, 0, "files: its memory limit has ended the sandbox");
    err->sys_errno = ENOSPC;
    return coto_err_remedy(err, "send less, or create one with more memory: its files count for that");
}

/* ---- the stream ---- */

static int flush(struct coto_workfiles *files, struct coto_err *err)
{
    struct coto_buf *out = &files->out;
    size_t done = 0;

    while (done < out->len) {
        ssize_t n = write(files->sandbox->stream_fd, out->data + done, out->len - done);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EINTR)
            return ended(files, err);
        done += n > 0 ? (size_t)n : 0;
    }
    if (done)
        memmove(out->data, out->data + done, out->len - done);
    out->len -= done;
    return 0;
}

static int read_some(struct coto_workfiles *files, struct coto_err *err)
{
    size_t room;
    char *to = coto_frame_reader_space(&files->reader, &room);
    ssize_t n = to ? read(files->sandbox->stream_fd, to, room) : -1;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return ended(files, err);
    files->reader.buf.len += (size_t)n;
    return 0;
}

/* Waits until something can be sent or read, and does both. */
static int turn(struct coto_workfiles *files, struct coto_err *err)
{
    struct pollfd pfd = {.fd = files->sandbox->stream_fd,
                         .events = (short)(POLLIN | (files->out.len ? POLLOUT : 0))};
    int ready = poll(&pfd, 1, STEP_MS);

    if (ready < 0 && errno == EINTR)
        return 0;
    if (ready <= 0)
        return lose(files, "the sandbox does not answer", err);
    if (flush(files, err))
        return -1;
    return pfd.revents & (POLLIN | POLLHUP) ? read_some(files, err) : 0;
}

/* ---- in ---- */

/* What init says while files go in is about them. */
static int take_words(struct coto_workfiles *files, struct coto_err *err)
{
    struct coto_frame frame;
    int got;

    while ((got = coto_frame_next(&files->reader, &frame, err)) == 1)
        if (frame.type == COTO_FRAME_ERROR && !files->put_err.kind)
            coto_field_error(&frame, &files->put_err);
    return got < 0 ? lose(files, "the sandbox makes no sense", err) : 0;
}

static int send_put(struct coto_workfiles *files, struct coto_err *err)
{
    if (files->out.failed)
        return lose(files, "no memory", err);
    if (flush(files, err))
        return -1;
    while (files->out.len > QUEUE_LOW)
        if (turn(files, err) || take_words(files, err))
            return -1;
    return 0;
}

int coto_workfiles_put(struct coto_workfiles *files, const char *path, unsigned mode,
                       const void *data, size_t len, bool more, struct coto_err *err)
{
    size_t first = len < COTO_FRAME_CHUNK ? len : COTO_FRAME_CHUNK;
    size_t at = coto_frame_begin(&files->out, COTO_FRAME_PUT, 0);

    coto_frame_add_text(&files->out, COTO_TAG_PATH, path);
    coto_frame_add_num(&files->out, COTO_TAG_MODE, mode);
    coto_frame_add(&files->out, COTO_TAG_DATA, data, first);
    coto_frame_add_num(&files->out, COTO_TAG_MORE, more || first < len);
    coto_frame_end(&files->out, at);
    if (send_put(files, err))
        return -1;
    return first < len
               ? coto_workfiles_put_more(files, (const char *)data + first, len - first, more, err)
               : 0;
}

int coto_workfiles_put_more(struct coto_workfiles *files, const void *data, size_t len, bool more,
                            struct coto_err *err)
{
    size_t done = 0;

    do {
        size_t n = len - done < COTO_FRAME_CHUNK ? len - done : COTO_FRAME_CHUNK;
        size_t at = coto_frame_begin(&files->out, COTO_FRAME_PUT_DATA, 0);
        coto_frame_add(&files->out, COTO_TAG_DATA, (const char *)data + done, n);
        done += n;
        coto_frame_add_num(&files->out, COTO_TAG_MORE, more || done < len);
        coto_frame_end(&files->out, at);
        if (send_put(files, err))
            return -1;
    } while (done < len);
    return 0;
}

int coto_workfiles_mkdir(struct coto_workfiles *files, const char *path, struct coto_err *err)
{
    size_t at = coto_frame_begin(&files->out, COTO_FRAME_MKDIR, 0);

    coto_frame_add_text(&files->out, COTO_TAG_PATH, path);
    coto_frame_add_num(&files->out, COTO_TAG_MODE, 0755);
    coto_frame_end(&files->out, at);
    return send_put(files, err);
}

/* ---- out ---- */

struct talk {
    struct coto_workfiles *files;
    struct coto_workfiles_take *take;
    bool stopped;     /* nobody wants the rest */
    int64_t until_us; /* that it comes */
    bool refused;
    bool is_too_much;
};

static void stop(struct talk *t)
{
    if (!t->stopped)
        t->until_us = coto_clock_us() + DRAIN_US;
    t->stopped = true;
}

static int take_name(struct talk *t, const struct coto_frame *frame)
{
    if (t->files->names_left == 0)
        return -1;
    t->files->names_left--;
    char *name = coto_field_text(frame, COTO_TAG_PATH);

    if (!name)
        t->take->skipped++;
    else if (t->take->begin && !t->stopped &&
             t->take->begin(t->take->arg, name, (mode_t)coto_field_num(frame, COTO_TAG_MODE),
                            (int64_t)coto_field_num(frame, COTO_TAG_SIZE)))
        stop(t);
    free(name);
    return 0;
}

static int take_data(struct talk *t, const struct coto_frame *frame)
{
    struct coto_field field = {0};

    if (coto_field_next(frame, &field) != 1 || field.tag != COTO_TAG_DATA)
        return 0;
    if ((int64_t)field.len > t->files->bytes_left)
        return -1;
    t->files->bytes_left -= (int64_t)field.len;
    if (!t->stopped && t->take->data && t->take->data(t->take->arg, field.data, field.len))
        stop(t);
    return 0;
}

/* Whether this frame is the end of the answer. */
static bool take_frame(struct talk *t, const struct coto_frame *frame, struct coto_err *err)
{
    switch ((int)frame->type) {
    case COTO_FRAME_FILE:
        t->is_too_much = take_name(t, frame) != 0;
        return t->is_too_much;
    case COTO_FRAME_FILE_DATA:
        t->is_too_much = take_data(t, frame) != 0;
        return t->is_too_much;
    case COTO_FRAME_ERROR:
        if (frame->proc != OUR_PROC && !t->files->put_err.kind)
            coto_field_error(frame, &t->files->put_err);
        if (frame->proc == OUR_PROC)
            coto_field_error(frame, err);
        t->refused = frame->proc == OUR_PROC;
        return t->refused;
    case COTO_FRAME_COLLECTED:
        t->take->skipped += (int64_t)coto_field_num(frame, COTO_TAG_SKIPPED);
        return frame->proc == OUR_PROC;
    default:
        return false;
    }
}

static bool is_cancelled(const struct coto_workfiles *files)
{
    struct pollfd pfd = {.fd = files->cancel_fd, .events = POLLIN};

    return files->cancel_fd >= 0 && poll(&pfd, 1, 0) > 0;
}

/* Sends what is queued and reads until init's answer is complete. */
static int converse(struct coto_workfiles *files, struct coto_workfiles_take *take,
                    struct coto_err *err)
{
    struct talk t = {.files = files, .take = take};
    struct coto_frame frame;
    int got;

    if (files->out.failed)
        return lose(files, "no memory", err);
    for (;;) {
        if (turn(files, err))
            return -1;
        while ((got = coto_frame_next(&files->reader, &frame, err)) == 1)
            if (take_frame(&t, &frame, err))
                return t.is_too_much ? lose(files, "more came than was asked for", err)
                       : t.refused   ? -1
                                     : 0;
        if (got < 0)
            return lose(files, "the sandbox makes no sense", err);
        if (is_cancelled(files))
            stop(&t);
        if (t.stopped && coto_clock_us() > t.until_us)
            return lose(files, "the client is gone and the rest takes too long", err);
    }
}

static size_t ask(struct coto_workfiles *files, enum coto_frame_type type, const char *path)
{
    size_t at = coto_frame_begin(&files->out, type, OUR_PROC);

    coto_frame_add_text(&files->out, COTO_TAG_PATH, path);
    return at;
}

static int ask_out(struct coto_workfiles *files, size_t at, int64_t max, unsigned count,
                   struct coto_workfiles_take *take, struct coto_err *err)
{
    coto_frame_add_num(&files->out, COTO_TAG_LIMIT_BYTES, (uint64_t)max);
    coto_frame_add_num(&files->out, COTO_TAG_LIMIT_COUNT, count);
    coto_frame_end(&files->out, at);
    files->names_left = (uint64_t)count + 1; /* and the thing itself */
    files->bytes_left = max;
    return converse(files, take, err);
}

int coto_workfiles_get(struct coto_workfiles *files, const char *path, int64_t max,
                       unsigned max_names, struct coto_workfiles_take *take, struct coto_err *err)
{
    return ask_out(files, ask(files, COTO_FRAME_GET, path), max, max_names, take, err);
}

int coto_workfiles_collect(struct coto_workfiles *files, const char *path, int64_t max,
                           unsigned max_files, struct coto_workfiles_take *take,
                           struct coto_err *err)
{
    return ask_out(files, ask(files, COTO_FRAME_COLLECT, path), max, max_files, take, err);
}

int coto_workfiles_remove(struct coto_workfiles *files, const char *path, struct coto_err *err)
{
    struct coto_workfiles_take none = {0};

    files->names_left = 0;
    files->bytes_left = 0;
    coto_frame_end(&files->out, ask(files, COTO_FRAME_REMOVE, path));
    return converse(files, &none, err);
}

static int note_size(void *arg, const char *name, mode_t mode, int64_t bytes)
{
    (void)name;
    (void)mode;
    *(int64_t *)arg = bytes;
    return 0;
}

int coto_workfiles_settle(struct coto_workfiles *files, const char *path, int64_t *ret_bytes,
                          struct coto_err *err)
{
    int64_t bytes = 0;
    struct coto_workfiles_take take = {.begin = note_size, .arg = &bytes};
    int failed = coto_workfiles_get(files, path, 0, 0, &take, err);

    if (!files->lost && files->put_err.kind) {
        *err = files->put_err;
        files->put_err = (struct coto_err){0};
        return -1;
    }
    if (!failed && ret_bytes)
        *ret_bytes = bytes;
    return failed;
}
