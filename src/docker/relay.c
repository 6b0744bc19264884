/* Bytes between the driver and the container, and the driver's questions, in one loop. */
#include "docker/container.h"

#include "base/fd.h"
#include "wire/docker.h"
#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK ((size_t)64 * 1024)
#define HEADER 8 /* of the engine's framing: stream, three zeros, length big-endian */
#define LAST_WORDS ((size_t)512)
#define EVENT_TRIES 60
#define EVENT_PAUSE_US 50000

struct relay {
    struct container *c;
    int control_fd, stream_fd;
    struct coto_frame_reader control;
    struct coto_buf to_engine, to_driver;
    unsigned char head[HEADER];
    size_t head_len;
    uint64_t left;         /* of the piece that is arriving */
    struct coto_buf words; /* what coto-init or the runtime said on stderr */
    bool driver_done, engine_done, over;
    bool killed; /* by the driver's word */
};

/* ---- the engine's framing ---- */

static void take_bytes(struct relay *r, const char *data, size_t len)
{
    while (len > 0 && !r->engine_done) {
        if (r->left == 0) {
            r->head[r->head_len++] = (unsigned char)*data++;
            len--;
            if (r->head_len < HEADER)
                continue;
            r->head_len = 0;
            r->left = (uint64_t)r->head[4] << 24 | (uint64_t)r->head[5] << 16 |
                      (uint64_t)r->head[6] << 8 | r->head[7];
            r->engine_done = r->head[0] > 2; /* no such stream: nothing after it can be trusted */
            continue;
        }
        size_t n = len < r->left ? len : (size_t)r->left;
        if (r->head[0] == 1)
            coto_buf_add(&r->to_driver, data, n);
        else if (r->words.len < LAST_WORDS)
            coto_buf_add(&r->words, data, n < LAST_WORDS ? n : LAST_WORDS);
        r->left -= n;
        data += n;
        len -= n;
    }
}

static void from_engine(struct relay *r)
{
    char chunk[CHUNK];

    do {
        ssize_t n = engine_read(&r->c->stream, chunk, sizeof chunk);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            r->engine_done = true;
            return;
        }
        take_bytes(r, chunk, (size_t)n);
    } while (engine_has_more(&r->c->stream) && r->to_driver.len < CHUNK);
}

static void to_engine(struct relay *r)
{
    while (r->to_engine.len > 0) {
        ssize_t n = engine_write(&r->c->stream, r->to_engine.data, r->to_engine.len);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            coto_buf_clear(&r->to_engine);
            return;
        }
        memmove(r->to_engine.data, r->to_engine.data + n, r->to_engine.len - (size_t)n);
        r->to_engine.len -= (size_t)n;
    }
    if (r->driver_done)
        engine_finish(&r->c->stream);
}

/* ---- the driver's stream ---- */

static void from_driver(struct relay *r)
{
    char *to = coto_buf_reserve(&r->to_engine, CHUNK);
    ssize_t n = to ? recv(r->stream_fd, to, CHUNK, MSG_DONTWAIT) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        r->driver_done = true;
    else
        r->to_engine.len += (size_t)n;
    to_engine(r);
}

static void to_driver(struct relay *r)
{
    while (r->to_driver.len > 0) {
        ssize_t n =
            send(r->stream_fd, r->to_driver.data, r->to_driver.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            coto_buf_clear(&r->to_driver);
            break;
        }
        memmove(r->to_driver.data, r->to_driver.data + n, r->to_driver.len - (size_t)n);
        r->to_driver.len -= (size_t)n;
    }
    if (r->engine_done)
        shutdown(r->stream_fd, SHUT_WR);
}

/* ---- questions ---- */

static void answer(struct relay *r, struct coto_buf *out)
{
    if (out->failed || coto_fd_write_all(r->control_fd, out->data, out->len))
        r->over = true;
}

static void add_known(struct coto_buf *out, enum coto_docker_tag tag, int64_t value)
{
    if (value >= 0)
        coto_frame_add_num(out, (enum coto_tag)tag, (uint64_t)value);
}

static void say_used(struct relay *r)
{
    struct container_usage used;
    struct coto_err err = {0};
    coto_auto_buf out = {0};

    if (container_usage(r->c, &used, &err)) {
        coto_frame_add_error(&out, 0, &err);
        answer(r, &out);
        return;
    }
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_USED, 0);
    add_known(&out, COTO_DOCKER_CPU_USER_US, used.cpu_user_us);
    add_known(&out, COTO_DOCKER_CPU_SYSTEM_US, used.cpu_system_us);
    add_known(&out, COTO_DOCKER_MEMORY, used.memory_peak);
    add_known(&out, COTO_DOCKER_PIDS_PEAK, used.pids);
    coto_frame_end(&out, at);
    answer(r, &out);
}

/* A busy engine tells of a lack of memory after the end that it led to: one by SIGKILL that was
 * not ours is asked about for a while. */
static void await_events(const struct relay *r, int64_t *ret_ooms, int64_t *ret_status)
{
    container_events(r->c, ret_ooms, ret_status);
    for (int i = 0; i < EVENT_TRIES && r->engine_done && !r->killed && *ret_ooms == 0 &&
                    (*ret_status == -1 || *ret_status == 128 + SIGKILL);
         i++) {
        usleep(EVENT_PAUSE_US);
        container_events(r->c, ret_ooms, ret_status);
    }
}

static void say_ended(struct relay *r)
{
    struct coto_err err = {0};
    coto_auto_buf out = {0};
    int64_t ooms, status;

    if (container_remove(r->c, &err)) {
        coto_frame_add_error(&out, 0, &err);
        answer(r, &out);
        return;
    }
    await_events(r, &ooms, &status);
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_ENDED, 0);
    add_known(&out, COTO_DOCKER_OOM, ooms);
    add_known(&out, COTO_DOCKER_EXIT, status);
    if (r->words.len)
        coto_frame_add(&out, COTO_TAG_TEXT, r->words.data, r->words.len);
    coto_frame_end(&out, at);
    answer(r, &out);
}

static void kill_it(struct relay *r)
{
    r->killed = true;
    container_kill(r->c);
}

static void serve_driver(struct relay *r)
{
    size_t room;
    char *to = coto_frame_reader_space(&r->control, &room);
    ssize_t n = to ? recv(r->control_fd, to, room, MSG_DONTWAIT) : 0;
    struct coto_frame frame;
    int got = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        r->over = true;
        return;
    }
    r->control.buf.len += (size_t)n;
    while (!r->over && (got = coto_frame_next(&r->control, &frame, NULL)) == 1) {
        if ((int)frame.type == COTO_DOCKER_ASK)
            say_used(r);
        else if ((int)frame.type == COTO_DOCKER_KILL)
            kill_it(r);
        else if ((int)frame.type == COTO_DOCKER_END)
            say_ended(r);
        else
            r->over = true;
    }
    r->over = r->over || got < 0;
}

/* ---- the loop ---- */

enum { P_CONTROL, P_DRIVER, P_ENGINE, P_COUNT };

static void watch(const struct relay *r, struct pollfd *pfd)
{
    bool has_stream = r->c->stream.fd >= 0 && !r->engine_done;

    pfd[P_CONTROL] = (struct pollfd){.fd = r->control_fd, .events = POLLIN};
    pfd[P_DRIVER] = (struct pollfd){.fd = r->stream_fd};
    if (!r->driver_done && has_stream && r->to_engine.len < CHUNK)
        pfd[P_DRIVER].events |= POLLIN;
    if (r->to_driver.len > 0)
        pfd[P_DRIVER].events |= POLLOUT;
    if (!pfd[P_DRIVER].events)
        pfd[P_DRIVER].fd = -1;
    pfd[P_ENGINE] = (struct pollfd){.fd = has_stream ? r->c->stream.fd : -1};
    if (r->to_driver.len < CHUNK)
        pfd[P_ENGINE].events |= POLLIN;
    if (r->to_engine.len > 0)
        pfd[P_ENGINE].events |= POLLOUT;
    if (!pfd[P_ENGINE].events)
        pfd[P_ENGINE].fd = -1;
}

static void step(struct relay *r)
{
    struct pollfd pfd[P_COUNT];

    watch(r, pfd);
    if (poll(pfd, P_COUNT, -1) < 0) {
        r->over = errno != EINTR;
        return;
    }
    if (pfd[P_ENGINE].revents & POLLOUT)
        to_engine(r);
    if (pfd[P_ENGINE].revents & (POLLIN | POLLHUP | POLLERR))
        from_engine(r);
    if (pfd[P_DRIVER].revents & (POLLIN | POLLHUP | POLLERR) && !r->driver_done)
        from_driver(r);
    to_driver(r);
    if (pfd[P_CONTROL].revents)
        serve_driver(r);
}

int container_relay(struct container *c, int control_fd, int stream_fd)
{
    struct relay r = {.c = c, .control_fd = control_fd, .stream_fd = stream_fd};
    struct coto_err err;

    coto_fd_set_nonblock(c->stream.fd, 1);
    take_bytes(&r, coto_buf_str(&c->rest), c->rest.len);
    while (!r.over)
        step(&r);
    int failed = container_remove(c, &err);
    coto_frame_reader_fini(&r.control);
    coto_buf_fini(&r.to_engine);
    coto_buf_fini(&r.to_driver);
    coto_buf_fini(&r.words);
    return failed;
}
