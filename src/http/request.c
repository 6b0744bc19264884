/* Requests on their way from the bytes of a connection to the handler. */
#include "http/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unsent bytes past which no further pipelined request is begun. */
#define OUT_HIGH (256u * 1024)

void coto_http_request_free(struct coto_http_request *request)
{
    if (!request)
        return;
    request->conn->request = NULL;
    if (request->end) {
        request->end->next = request->conn->ends;
        request->conn->ends = request->end;
    }
    coto_buf_fini(&request->body);
    coto_buf_fini(&request->fields);
    free(request->text);
    free(request);
}

void coto_http_request_gone(struct coto_http_request *request)
{
    coto_http_fn *gone = request->gone;

    request->gone = NULL;
    if (gone)
        gone(request, request->gone_arg);
}

void coto_http_request_fail(struct coto_http_request *request, int status, const char *why)
{
    struct coto_http_conn *conn = request->conn;

    coto_http_request_gone(request);
    if (conn->request != request)
        return; /* answered as the last thing */
    if (request->is_streaming)
        conn->is_broken = true;
    else
        coto_http_refuse(request, status, why);
}

/* The steps return 1 to go on, 0 to wait. */

static int begin(struct coto_http_conn *conn)
{
    conn->request = calloc(1, sizeof *conn->request);
    conn->is_broken = !conn->request;
    if (conn->is_broken)
        return 0;
    conn->request->conn = conn;
    coto_http_conn_enter(conn, COTO_HTTP_HEAD);
    return 1;
}

static int step_head(struct coto_http_conn *conn, char *data, size_t len, size_t *used)
{
    struct coto_http *server = conn->server;
    struct coto_http_request *request = conn->request;
    struct coto_http_head *head = &request->head;

    int done = coto_http_head_parse(head, data, len, server->config.limits.head_bytes,
                                    server->config.limits.headers);
    if (done == 0)
        return 0;
    if (done < 0 || !(request->text = malloc(head->pos))) {
        coto_http_request_fail(request, done < 0 ? head->status : 503,
                               done < 0 ? head->why : "out of memory");
        return 1;
    }
    memcpy(request->text, data, head->pos);
    *used += head->pos;
    coto_http_body_init(&request->reader, head->length);
    server->stats.requests++;
    coto_http_conn_enter(conn, COTO_HTTP_RUN);
    server->config.handler(request, server->config.arg);
    return 1;
}

static int take_piece(struct coto_http_request *request, const char *piece, size_t len)
{
    request->received += len;
    if (request->received > request->max)
        return 413;
    if (request->received - request->stepped >= COTO_HTTP_STEP) {
        request->stepped = request->received;
        coto_http_conn_enter(request->conn, COTO_HTTP_BODY);
    }
    if (request->sink)
        return request->sink(request, piece, len, request->body_arg) ? 400 : 0;
    coto_buf_add(&request->body, piece, len);
    return request->body.failed ? 503 : 0;
}

static void fail_body(struct coto_http_request *request, int status)
{
    char why[80];

    snprintf(why, sizeof why, "the body is too large: %llu bytes at most",
             (unsigned long long)request->max);
    coto_http_request_fail(request, status,
                           status == 413   ? why
                           : status == 503 ? "out of memory"
                                           : "the body was refused or is malformed");
}

static int step_body(struct coto_http_conn *conn, const char *data, size_t len, size_t *used)
{
    struct coto_http_request *request = conn->request;
    const char *piece = NULL;
    size_t piece_len = 0, taken = 0;
    int status = 0, got = 0;

    if (request->head.length > 0 && (uint64_t)request->head.length > request->max) {
        status = 413;
    } else if (request->reader.state == COTO_HTTP_BODY_DONE) {
        coto_http_conn_enter(conn, COTO_HTTP_RUN);
        if (!request->sink)
            request->collect(request, request->body_arg);
        else
            status = request->sink(request, "", 0, request->body_arg) ? 400 : 0;
        got = 1;
    } else {
        got = coto_http_body_next(&request->reader, data, len, &taken, &piece, &piece_len);
        *used += taken;
        status = got < 0 ? 400 : got > 0 ? take_piece(request, piece, piece_len) : 0;
    }
    if (status && conn->request == request) /* the sink may have answered */
        fail_body(request, status);
    return got != 0 || status || taken > 0 || request->reader.state == COTO_HTTP_BODY_DONE;
}

size_t coto_http_handle(struct coto_http_conn *conn, char *data, size_t len)
{
    size_t used = 0;
    int go_on = 1;

    while (go_on && !conn->is_broken) {
        if (conn->is_closing || conn->phase == COTO_HTTP_LINGER)
            return len;
        if (conn->phase == COTO_HTTP_BODY && !conn->request->is_paused)
            go_on = step_body(conn, data + used, len - used, &used);
        else if (conn->phase == COTO_HTTP_IDLE)
            go_on = used < len && coto_http_conn_unsent(conn) < OUT_HIGH && begin(conn);
        else if (conn->phase == COTO_HTTP_HEAD)
            go_on = step_head(conn, data + used, len - used, &used);
        else
            go_on = 0;
    }
    return used;
}

/* ---- what handlers ask and say before they answer ---- */

const char *coto_http_method(const struct coto_http_request *request)
{
    return request->head.method;
}

const char *coto_http_path(const struct coto_http_request *request)
{
    return coto_http_head_text(request->text, request->head.path);
}

const char *coto_http_query(const struct coto_http_request *request)
{
    return coto_http_head_text(request->text, request->head.query);
}

int coto_http_query_get(const struct coto_http_request *request, const char *name, char *ret_value,
                        size_t size)
{
    size_t name_len = strlen(name);
    int found = 0;

    for (const char *at = coto_http_query(request); *at; at += *at == '&') {
        size_t len = strcspn(at, "&");
        size_t key_len = strcspn(at, "=&");
        const char *value = at + key_len + (at[key_len] == '=');
        size_t value_len = (size_t)(at + len - value);
        if (key_len == name_len && memcmp(at, name, key_len) == 0) {
            if (found++ || value_len >= size)
                return -1;
            memcpy(ret_value, value, value_len);
            long decoded = coto_http_decode(ret_value, value_len, true);
            if (decoded < 0 || memchr(ret_value, '\0', (size_t)decoded))
                return -1;
            ret_value[decoded] = '\0';
        }
        at += len;
    }
    return found;
}

const char *coto_http_header(const struct coto_http_request *request, const char *name)
{
    return coto_http_head_get(&request->head, request->text, name);
}

const struct coto_http_peer *coto_http_peer(const struct coto_http_request *request)
{
    return &request->conn->peer;
}

bool coto_http_any_name(const struct coto_http_request *request, coto_http_name_fn *fn, void *arg)
{
    return request->conn->tls && coto_tls_any_name(request->conn->tls, fn, arg);
}

bool coto_http_certificate_hash(const struct coto_http_request *request, unsigned char ret_hash[32])
{
    return request->conn->tls && coto_tls_hash(request->conn->tls, ret_hash);
}

bool coto_http_has_body(const struct coto_http_request *request)
{
    return request->head.length != 0;
}

int64_t coto_http_body_length(const struct coto_http_request *request)
{
    return request->head.length;
}

const char *coto_http_body(const struct coto_http_request *request, size_t *ret_len)
{
    *ret_len = request->body.len;
    return coto_buf_str(&request->body);
}

void coto_http_swap_body(struct coto_http_request *request, struct coto_buf *body)
{
    struct coto_buf own = request->body;

    request->body = *body;
    *body = own;
}

void coto_http_vouch(struct coto_http_request *request)
{
    request->conn->is_known = true; /* it is in no ring: the handler has its request */
}

void coto_http_on_gone(struct coto_http_request *request, coto_http_fn *fn, void *arg)
{
    request->gone = fn;
    request->gone_arg = arg;
}

void coto_http_on_end(struct coto_http_request *request, struct coto_http_end *end)
{
    request->end = end;
}

struct coto_http_end *coto_http_get_end(const struct coto_http_request *request)
{
    return request->end;
}

static void ask_body(struct coto_http_request *request, uint64_t max, void *arg)
{
    request->max = max;
    request->body_arg = arg;
    if (request->head.wants_continue && request->head.length != 0 && !request->is_streaming &&
        (request->head.length < 0 || (uint64_t)request->head.length <= max))
        coto_buf_adds(&request->conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
    coto_http_conn_enter(request->conn, COTO_HTTP_BODY);
    coto_http_conn_touch(request->conn);
}

void coto_http_collect(struct coto_http_request *request, size_t max, coto_http_fn *fn, void *arg)
{
    request->collect = fn;
    ask_body(request, max, arg);
}

void coto_http_sink(struct coto_http_request *request, uint64_t max, coto_http_sink_fn *fn,
                    void *arg)
{
    request->sink = fn;
    ask_body(request, max, arg);
}

void coto_http_pause(struct coto_http_request *request, bool paused)
{
    /* The time we kept the client waiting is not its own. */
    if (request->is_paused && !paused && request->conn->phase == COTO_HTTP_BODY)
        coto_http_conn_enter(request->conn, COTO_HTTP_BODY);
    request->is_paused = paused;
    coto_http_conn_touch(request->conn);
}
