/* One connection: bytes in, requests through the parser to the handler, bytes out.
 *
 * Everything that happens to it happens in turn(): parse and handle what has arrived, send,
 * then settle what to wait for. Answers given outside of it (from timers, posts, other
 * connections' handlers) append, send what the kernel takes, and leave the rest to the
 * next turn; a connection found broken there is shut down, which makes the loop call us.
 */
#include "http/conn.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>
#include <sys/socket.h>

#define LINGER_MS 2000
#define LINGER_BYTES (4u * 1024 * 1024)
#define KEEP_BUFFER 16384

size_t coto_http_conn_unsent(const struct coto_http_conn *conn)
{
    return conn->out.len - conn->out_pos;
}

/* ---- who may be ended for a newcomer ---- */

void coto_http_rings_init(struct coto_http_link rings[COTO_HTTP_RINGS])
{
    for (int i = 0; i < COTO_HTTP_RINGS; i++)
        rings[i] = (struct coto_http_link){&rings[i], &rings[i], NULL};
}

static void link_last(struct coto_http_link *head, struct coto_http_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev = head->prev->next = link;
}

static void unlink_from(struct coto_http_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* A stranger always, but while the handler has its request: who sends a byte now and then, or reads
 * none of what is open to all, must not be safe. */
static bool may_be_ended(const struct coto_http_conn *conn)
{
    if (conn->phase == COTO_HTTP_LINGER)
        return true;
    return conn->is_known ? coto_http_conn_is_idle(conn) : conn->phase != COTO_HTTP_RUN;
}

/* One that is listed keeps its place: bytes do not make it younger, requests do. */
static void list(struct coto_http_conn *conn, bool wanted)
{
    enum coto_http_ring ring = conn->is_known ? COTO_HTTP_KNOWN : COTO_HTTP_STRANGERS;

    if (wanted == conn->is_listed)
        return;
    conn->is_listed = wanted;
    if (wanted) {
        conn->listed_us = coto_loop_now_us(conn->server->config.loop);
        link_last(&conn->server->waiting[ring], &conn->of_all);
        link_last(&conn->group->waiting[ring], &conn->of_peer);
    } else {
        unlink_from(&conn->of_all);
        unlink_from(&conn->of_peer);
    }
}

void coto_http_conn_enter(struct coto_http_conn *conn, enum coto_http_phase phase)
{
    if (phase == COTO_HTTP_RUN)
        list(conn, false);
    conn->phase = phase;
    conn->since_us = coto_loop_now_us(conn->server->config.loop);
}

bool coto_http_conn_is_idle(const struct coto_http_conn *conn)
{
    return conn->phase == COTO_HTTP_IDLE && conn->in.len == 0 && coto_http_conn_unsent(conn) == 0;
}

/* ---- bytes ---- */

static void send_some(struct coto_http_conn *conn)
{
    while (coto_http_conn_unsent(conn) > 0 && !conn->is_broken) {
        const char *data = conn->out.data + conn->out_pos;
        size_t len = coto_http_conn_unsent(conn);
        long n = conn->tls ? coto_tls_write(conn->tls, data, len)
                           : send(conn->fd, data, len, MSG_NOSIGNAL);
        if (n <= 0) {
            conn->is_broken = conn->tls ? n >= -1 : errno != EAGAIN && errno != EINTR;
            return;
        }
        conn->out_pos += (size_t)n;
        conn->write_count += (size_t)n;
    }
}

/* The handler's turn: nothing is read, the client's end is watched for. */
static bool waits_for_handler(const struct coto_http_conn *conn)
{
    return conn->phase == COTO_HTTP_RUN ||
           (conn->phase == COTO_HTTP_BODY && conn->request && conn->request->is_paused);
}

/* Something could go on at once, but only the loop may make it. */
static bool goes_on(const struct coto_http_conn *conn)
{
    const struct coto_http_request *request = conn->request;

    if (conn->is_closing || conn->is_broken || (request && request->sent))
        return true;
    if (conn->phase == COTO_HTTP_BODY && request && !request->is_paused)
        return conn->in.len > 0 || request->reader.state == COTO_HTTP_BODY_DONE ||
               (request->head.length > 0 && (uint64_t)request->head.length > request->max);
    return conn->phase == COTO_HTTP_IDLE && conn->in.len > 0;
}

static void tell_ends(struct coto_http_conn *conn)
{
    for (struct coto_http_end *end; (end = conn->ends);) {
        conn->ends = end->next;
        end->fn(end);
    }
}

static void flush(struct coto_http_conn *conn)
{
    send_some(conn);
    if (conn->out.failed)
        conn->is_broken = true;
    if (coto_http_conn_unsent(conn) == 0) {
        conn->out_pos = 0;
        (conn->out.cap > KEEP_BUFFER ? coto_buf_fini : coto_buf_clear)(&conn->out);
        tell_ends(conn);
    }
    /* A kernel that took the last byte may still have no room for the next. */
    if (conn->out.len == 0 && !goes_on(conn)) {
        conn->write_since_us = 0;
    } else if (conn->write_since_us == 0 || conn->write_count >= COTO_HTTP_STEP) {
        conn->write_since_us = coto_loop_now_us(conn->server->config.loop);
        conn->write_count = 0;
    }
    if (conn->out_pos > COTO_HTTP_STEP && conn->out_pos > conn->out.len / 2) {
        conn->out.len -= conn->out_pos;
        memmove(conn->out.data, conn->out.data + conn->out_pos, conn->out.len);
        conn->out_pos = 0;
    }
}

static uint32_t wanted_events(const struct coto_http_conn *conn)
{
    bool sends = coto_http_conn_unsent(conn) > 0 || goes_on(conn);
    uint32_t events = sends ? EPOLLOUT : 0;

    if (conn->is_closing || conn->is_eof)
        return events;
    if (waits_for_handler(conn))
        return events | (uint32_t)EPOLLRDHUP;
    return conn->phase == COTO_HTTP_IDLE && conn->in.len > 0 ? events : events | (uint32_t)EPOLLIN;
}

static int64_t wanted_deadline(const struct coto_http_conn *conn)
{
    const struct coto_http_limits *limits = &conn->server->config.limits;
    int64_t due_us = 0;

    if (conn->phase == COTO_HTTP_IDLE)
        due_us = conn->since_us + limits->idle_ms * 1000LL;
    else if (conn->phase == COTO_HTTP_LINGER)
        due_us = conn->since_us + LINGER_MS * 1000LL;
    else if (conn->phase == COTO_HTTP_HANDSHAKE || conn->phase == COTO_HTTP_HEAD)
        due_us = conn->since_us + limits->head_ms * 1000LL;
    else if (conn->phase == COTO_HTTP_BODY && !waits_for_handler(conn))
        due_us = conn->since_us + limits->body_ms * 1000LL;
    int64_t write_us = conn->write_since_us + limits->write_ms * 1000LL;
    return conn->write_since_us && (!due_us || write_us < due_us) ? write_us : due_us;
}

static void on_timer(void *arg);

/* Watches and waits for what the state needs. A timer that is due too early only looks
 * again: moving it with every request would cost more. */
static void settle(struct coto_http_conn *conn, uint32_t events)
{
    struct coto_loop *loop = conn->server->config.loop;

    if (events != conn->events && coto_loop_mod(loop, conn->fd, events) == 0)
        conn->events = events;
    list(conn, may_be_ended(conn));
    conn->deadline_us = wanted_deadline(conn);
    if (conn->deadline_us == 0 || (conn->timer && conn->timer_due_us <= conn->deadline_us))
        return;
    coto_loop_cancel(loop, conn->timer);
    conn->timer_due_us = conn->deadline_us;
    conn->timer =
        coto_loop_timer(loop, (conn->deadline_us - coto_clock_us() + 999) / 1000, on_timer, conn);
    if (!conn->timer) /* no deadline would be no limit */
        shutdown(conn->fd, SHUT_RDWR);
}

void coto_http_conn_touch(struct coto_http_conn *conn)
{
    if (conn->is_busy)
        return;
    flush(conn);
    if (conn->is_broken)
        shutdown(conn->fd, SHUT_RDWR);
    settle(conn, wanted_events(conn));
}

static void begin_linger(struct coto_http_conn *conn)
{
    if (conn->tls)
        coto_tls_shutdown(conn->tls);
    shutdown(conn->fd, SHUT_WR);
    conn->is_closing = false;
    coto_http_conn_enter(conn, COTO_HTTP_LINGER);
}

/* The client will send no more, and nothing is left to be done for it. */
static bool is_over(const struct coto_http_conn *conn)
{
    bool has_rest =
        conn->phase == COTO_HTTP_IDLE && (conn->in.len > 0 || coto_http_conn_unsent(conn) > 0);

    return conn->is_eof && !conn->is_closing && !has_rest;
}

/* Handles data (scratch, or all of conn->in), keeps what is left of it, sends, settles. */
static void turn(struct coto_http_conn *conn, char *data, size_t len)
{
    conn->is_busy = true;
    size_t used = coto_http_handle(conn, data, len);
    if (conn->phase == COTO_HTTP_LINGER && (conn->lingered += len) > LINGER_BYTES)
        conn->is_broken = true;
    if (data == conn->in.data) {
        memmove(data, data + used, len - used);
        conn->in.len = len - used;
    } else if (len > used) {
        coto_buf_add(&conn->in, data + used, len - used);
    }
    if (conn->in.failed)
        conn->is_broken = true;
    if (conn->in.len == 0)
        coto_buf_fini(&conn->in);
    flush(conn);
    if (conn->request && conn->request->sent && coto_http_conn_unsent(conn) == 0) {
        coto_http_fn *sent = conn->request->sent;
        conn->request->sent = NULL;
        sent(conn->request, conn->request->sent_arg);
        flush(conn);
    }
    conn->is_busy = false;
    if (conn->is_closing && coto_http_conn_unsent(conn) == 0 && !conn->is_broken)
        begin_linger(conn);
    if (conn->is_broken || is_over(conn))
        coto_http_conn_end(conn);
    else
        settle(conn, wanted_events(conn));
}

/* ---- what the loop calls ---- */

static void on_handshake(struct coto_http_conn *conn)
{
    int done = coto_tls_handshake(conn->tls, &conn->peer);

    if (done == -1) {
        conn->server->stats.handshakes_failed++;
        coto_tls_close(conn->tls);
        conn->tls = NULL;
        begin_linger(conn); /* what the client has sent by now would destroy the alert that tells it why */
        settle(conn, EPOLLIN);
        return;
    }
    if (done == 0 && conn->judge && !coto_tls_is_let_in(conn->judge, conn->tls)) {
        coto_http_conn_end(conn);
        return;
    }
    if (done == 0)
        coto_http_conn_enter(conn, COTO_HTTP_IDLE);
    settle(conn, done == COTO_TLS_WANT_WRITE ? EPOLLOUT : EPOLLIN);
}

static void turn_with(struct coto_http_conn *conn, size_t len)
{
    char *scratch = conn->server->scratch;

    if (conn->in.len > 0)
        coto_buf_add(&conn->in, scratch, len);
    if (conn->in.len > 0)
        turn(conn, conn->in.data, conn->in.len);
    else
        turn(conn, scratch, len);
}

static void on_event(void *arg, uint32_t events)
{
    struct coto_http_conn *conn = arg;
    long n = 0;

    if (events & EPOLLERR || conn->is_broken ||
        (events & (EPOLLHUP | EPOLLRDHUP) && !(events & EPOLLIN) && !conn->is_closing)) {
        coto_http_conn_end(conn);
        return;
    }
    if (conn->phase == COTO_HTTP_HANDSHAKE) {
        on_handshake(conn);
        return;
    }
    /* Once only: what else there is brings us back, after the others had their turn. */
    if (events & EPOLLIN) {
        char *scratch = conn->server->scratch;
        n = conn->tls ? coto_tls_read(conn->tls, scratch, COTO_HTTP_SCRATCH)
                      : recv(conn->fd, scratch, COTO_HTTP_SCRATCH, 0);
        conn->is_eof = n == 0;
        conn->is_broken = n == -1 && (conn->tls || (errno != EAGAIN && errno != EINTR));
    }
    turn_with(conn, n > 0 ? (size_t)n : 0);
}

static void on_timer(void *arg)
{
    struct coto_http_conn *conn = arg;

    conn->timer = 0;
    if (conn->deadline_us == 0 || conn->deadline_us > coto_clock_us()) {
        settle(conn, conn->events);
        return;
    }
    bool is_writing = conn->write_since_us != 0;
    if (is_writing || (conn->phase != COTO_HTTP_HEAD && conn->phase != COTO_HTTP_BODY)) {
        conn->server->stats.dropped += is_writing;
        coto_http_conn_end(conn);
        return;
    }
    conn->is_busy = true;
    coto_http_request_fail(conn->request, 408, "the request took too long to arrive");
    turn_with(conn, 0);
}

/* ---- peers ---- */

struct coto_http_group *coto_http_group_find(const struct coto_http *server, uint64_t key)
{
    struct coto_http_group *group = server->buckets[coto_http_bucket(key)];

    while (group && group->key != key)
        group = group->next;
    return group;
}

static struct coto_http_group *get_group(struct coto_http *server, uint64_t key)
{
    struct coto_http_group **bucket = &server->buckets[coto_http_bucket(key)];
    struct coto_http_group *group = coto_http_group_find(server, key);

    if (group || !(group = calloc(1, sizeof *group)))
        return group;
    *group = (struct coto_http_group){.key = key, .next = *bucket, .link = bucket};
    coto_http_rings_init(group->waiting);
    if (group->next)
        group->next->link = &group->next;
    *bucket = group;
    return group;
}

static void drop_if_empty(struct coto_http_group *group)
{
    if (!group || group->count > 0)
        return;
    *group->link = group->next;
    if (group->next)
        group->next->link = group->link;
    free(group);
}

static void join(struct coto_http_conn *conn, struct coto_http_group *group)
{
    conn->group = group;
    conn->next = group->conns;
    conn->link = &group->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    group->conns = conn;
    group->count++;
}

static void leave(struct coto_http_conn *conn)
{
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    conn->group->count--;
    drop_if_empty(conn->group);
}

int coto_http_conn_new(struct coto_http *server, int fd, struct coto_tls *tls,
                       const struct coto_http_peer *peer, uint64_t peer_key)
{
    struct coto_http_conn *conn = calloc(1, sizeof *conn);
    struct coto_http_group *group = get_group(server, peer_key);

    if (!conn || !group || (tls && !(conn->tls = coto_tls_open(tls, fd))) ||
        coto_loop_add(server->config.loop, fd, EPOLLIN, on_event, conn) < 0) {
        if (conn)
            coto_tls_close(conn->tls);
        free(conn);
        drop_if_empty(group);
        return -1;
    }
    conn->server = server;
    conn->fd = fd;
    conn->events = EPOLLIN;
    conn->peer = *peer;
    conn->peer.is_tls = tls != NULL;
    conn->of_all.conn = conn->of_peer.conn = conn;
    join(conn, group);
    server->stats.connections++;
    server->stats.accepted++;
    coto_http_conn_enter(conn, tls ? COTO_HTTP_HANDSHAKE : COTO_HTTP_IDLE);
    settle(conn, EPOLLIN);
    return 0;
}

void coto_http_conn_end(struct coto_http_conn *conn)
{
    struct coto_http *server = conn->server;

    conn->is_busy = true; /* what on_gone still writes goes nowhere */
    if (conn->request)
        coto_http_request_gone(conn->request);
    coto_http_request_free(conn->request);
    tell_ends(conn);
    list(conn, false);
    leave(conn);
    coto_loop_cancel(server->config.loop, conn->timer);
    coto_loop_del(server->config.loop, conn->fd);
    coto_tls_close(conn->tls);
    close(conn->fd);
    coto_buf_fini(&conn->in);
    coto_buf_fini(&conn->out);
    free(conn);
    if (--server->stats.connections == 0 && server->is_draining && server->drained)
        server->timer =
            coto_loop_timer(server->config.loop, 0, server->drained, server->drained_arg);
}
