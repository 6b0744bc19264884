/* Answers: whole, streamed, as events, and the server's own refusals. */
#include "http/conn.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct status {
    int status;
    const char *phrase, *remedy;
};

/* The remedy is for what the server refuses itself. */
static const struct status statuses[] = {
    {200, "OK", NULL},
    {201, "Created", NULL},
    {202, "Accepted", NULL},
    {204, "No Content", NULL},
    {304, "Not Modified", NULL},
    {400, "Bad Request", "send a well-formed HTTP/1.1 request"},
    {401, "Unauthorized", NULL},
    {403, "Forbidden", NULL},
    {404, "Not Found", NULL},
    {405, "Method Not Allowed", "see /openapi.json for what there is"},
    {408, "Request Timeout", "send the whole request without pauses"},
    {409, "Conflict", NULL},
    {412, "Precondition Failed", NULL},
    {413, "Content Too Large", "send less: large files by PUT files of a sandbox, which streams them"},
    {414, "URI Too Long", "send parameters in the body"},
    {415, "Unsupported Media Type", NULL},
    {417, "Expectation Failed", "leave the Expect header out"},
    {422, "Unprocessable Content", NULL},
    {429, "Too Many Requests", NULL},
    {431, "Request Header Fields Too Large", "send fewer or shorter fields"},
    {500, "Internal Server Error", NULL},
    {501, "Not Implemented", "send the body plain or chunked"},
    {503, "Service Unavailable", "try again later"},
    {505, "HTTP Version Not Supported", "use HTTP/1.1"},
};

static const struct status *find_status(int status)
{
    static const struct status other = {0, "Status", "see the status"};

    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return &other;
}

const char *coto_http_word(int status)
{
    switch (status) {
#define X(number, word)                                                                            \
    case number:                                                                                   \
        return word;
        COTO_ERR_HTTP_WORDS(X)
#undef X
    default:
        return coto_err_info(status == 503 ? COTO_ERR_LIMIT : COTO_ERR_INTERNAL)->word;
    }
}

static const char *date(struct coto_http *server)
{
    time_t now = time(NULL);
    struct tm parts;

    if (server->date_second != (int64_t)now) {
        server->date_second = (int64_t)now;
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT",
                 gmtime_r(&now, &parts));
    }
    return server->date;
}

static bool closes(const struct coto_http_request *request)
{
    const struct coto_http_head *head = &request->head;

    return request->conn->is_last || request->conn->server->is_draining || head->wants_close ||
           (head->minor == 0 && !head->wants_keep) || request->reader.state != COTO_HTTP_BODY_DONE;
}

static bool is_head(const struct coto_http_request *request)
{
    return request->head.method && strcmp(request->head.method, "HEAD") == 0;
}

void coto_http_add_header(struct coto_http_request *request, const char *name, const char *value)
{
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return;
    coto_buf_adds(&request->fields, name);
    coto_buf_adds(&request->fields, ": ");
    coto_buf_adds(&request->fields, value);
    coto_buf_adds(&request->fields, "\r\n");
}

static void add_head(struct coto_http_request *request, int status, const char *type,
                     int64_t length)
{
    struct coto_buf *out = &request->conn->out;

    coto_buf_addf(out,
                  "HTTP/1.1 %d %s\r\nDate: %s\r\nCache-Control: no-store\r\n"
                  "X-Content-Type-Options: nosniff\r\n",
                  status, find_status(status)->phrase, date(request->conn->server));
    if (type)
        coto_http_add_header(request, "Content-Type", type);
    if (length >= 0 && status != 204 && status != 304)
        coto_buf_addf(out, "Content-Length: %lld\r\n", (long long)length);
    if (request->is_chunked)
        coto_buf_adds(out, "Transfer-Encoding: chunked\r\n");
    if (closes(request))
        coto_buf_adds(out, "Connection: close\r\n");
    else if (request->head.minor == 0)
        coto_buf_adds(out, "Connection: keep-alive\r\n");
    if (request->fields.len > 0)
        coto_buf_add(out, request->fields.data, request->fields.len);
    coto_buf_adds(out, "\r\n");
    if (request->fields.failed)
        request->conn->is_broken = true;
}

static void answered(struct coto_http_request *request)
{
    struct coto_http_conn *conn = request->conn;

    conn->is_closing = closes(request);
    conn->is_answered = true;
    coto_http_request_free(request);
    coto_http_conn_enter(conn, COTO_HTTP_IDLE);
    coto_http_conn_touch(conn);
}

void coto_http_reply(struct coto_http_request *request, int status, const char *type,
                     const void *body, size_t len)
{
    add_head(request, status, type, (int64_t)len);
    if (!is_head(request) && status != 204 && status != 304)
        coto_buf_add(&request->conn->out, body, len);
    answered(request);
}

void coto_http_refuse(struct coto_http_request *request, int status, const char *why)
{
    coto_auto_buf body = {0};
    struct coto_json json = {.out = &body};

    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "code", coto_http_word(status));
    coto_json_str(&json, "message", why);
    coto_json_str(&json, "remedy", find_status(status)->remedy);
    coto_json_str(&json, "field", NULL);
    coto_json_end(&json, '}');
    coto_buf_addc(&body, '\n');
    if (status == 405)
        coto_http_add_header(request, "Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    request->conn->server->stats.bad++;
    request->conn->is_last = true;
    coto_http_reply(request, status, "application/json", coto_buf_str(&body), body.failed ? 0 : body.len);
}

/* ---- streams ---- */

void coto_http_stream(struct coto_http_request *request, int status, const char *type,
                      int64_t length)
{
    request->is_streaming = true;
    request->stream_left = length;
    request->is_chunked = length < 0 && request->head.minor > 0;
    if (length < 0 && request->head.minor == 0)
        request->conn->is_last = true; /* the end of the connection is the end of the body */
    add_head(request, status, type, length);
    coto_http_conn_touch(request->conn);
}

static int lose(struct coto_http_request *request)
{
    request->conn->is_broken = true;
    coto_http_conn_touch(request->conn);
    return -1;
}

int coto_http_write(struct coto_http_request *request, const void *data, size_t len)
{
    struct coto_http_conn *conn = request->conn;

    if (conn->is_broken)
        return -1;
    if (request->stream_left >= 0) {
        if (len > (uint64_t)request->stream_left)
            return lose(request);
        request->stream_left -= (int64_t)len;
    }
    if (len == 0 || is_head(request))
        return 0;
    if (!request->is_last_part && coto_http_conn_unsent(conn) + len > conn->server->config.limits.out_bytes) {
        conn->server->stats.dropped++;
        return lose(request);
    }
    if (request->is_chunked)
        coto_buf_addf(&conn->out, "%zx\r\n", len);
    coto_buf_add(&conn->out, data, len);
    if (request->is_chunked)
        coto_buf_adds(&conn->out, "\r\n");
    coto_http_conn_touch(conn);
    return conn->is_broken ? -1 : 0;
}

void coto_http_last_part(struct coto_http_request *request)
{
    request->is_last_part = true;
}

size_t coto_http_unsent(const struct coto_http_request *request)
{
    return coto_http_conn_unsent(request->conn);
}

void coto_http_on_sent(struct coto_http_request *request, coto_http_fn *fn, void *arg)
{
    request->sent = fn;
    request->sent_arg = arg;
    coto_http_conn_touch(request->conn);
}

void coto_http_finish(struct coto_http_request *request)
{
    if (request->is_chunked && !is_head(request))
        coto_buf_adds(&request->conn->out, "0\r\n\r\n");
    if (request->stream_left > 0 && !is_head(request))
        request->conn->is_broken = true;
    answered(request);
}

void coto_http_break(struct coto_http_request *request)
{
    request->conn->is_broken = true;
    answered(request);
}

/* ---- server-sent events ---- */

int coto_http_event(struct coto_http_request *request, const char *event, const char *data,
                    size_t len)
{
    coto_auto_buf text = {0};

    if (event)
        coto_buf_addf(&text, "event: %s\n", event);
    for (size_t at = 0; data && at <= len; at++) {
        size_t end = at;
        while (end < len && data[end] != '\n' && data[end] != '\r')
            end++;
        coto_buf_adds(&text, "data: ");
        coto_buf_add(&text, data + at, end - at);
        coto_buf_addc(&text, '\n');
        at = end + (end + 1 < len && data[end] == '\r' && data[end + 1] == '\n');
    }
    coto_buf_adds(&text, data ? "\n" : ":\n\n");
    return text.failed ? lose(request) : coto_http_write(request, text.data, text.len);
}
