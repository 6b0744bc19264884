#include "docker/engine.h"

#include "base/fd.h"
#include "http/parse.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define HEAD_MAX ((size_t)64 * 1024)
#define BODY_MAX ((size_t)16 * 1024 * 1024)
/* What CgroupnsMode and one-shot stats need, and what engines from 29 on still speak. */
#define API_OLDEST 41
#define API_NEWEST 44

/* ---- bytes ---- */

static ssize_t tls_result(const struct engine_conn *conn, int n)
{
    if (n > 0)
        return n;
    switch (SSL_get_error(conn->tls, n)) {
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_SYSCALL:
        if (errno == 0)
            errno = ECONNRESET;
        return -1;
    default:
        errno = EPROTO;
        return -1;
    }
}

ssize_t engine_read(struct engine_conn *conn, void *to, size_t size)
{
    ssize_t n;

    if (conn->tls) {
        errno = 0;
        return tls_result(conn,
                          SSL_read(conn->tls, to, (int)(size > INT32_MAX ? INT32_MAX : size)));
    }
    do
        n = recv(conn->fd, to, size, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

ssize_t engine_write(struct engine_conn *conn, const void *from, size_t size)
{
    ssize_t n;

    if (conn->tls) {
        errno = 0;
        return tls_result(conn,
                          SSL_write(conn->tls, from, (int)(size > INT32_MAX ? INT32_MAX : size)));
    }
    do
        n = send(conn->fd, from, size, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

bool engine_has_more(const struct engine_conn *conn)
{
    return conn->tls && SSL_pending(conn->tls) > 0;
}

void engine_finish(struct engine_conn *conn)
{
    if (conn->tls)
        SSL_shutdown(conn->tls);
    else if (conn->fd >= 0)
        shutdown(conn->fd, SHUT_WR);
}

void engine_close(struct engine_conn *conn)
{
    SSL_free(conn->tls);
    conn->tls = NULL;
    coto_own_close(&conn->fd);
}

static int send_all(struct engine_conn *conn, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = engine_write(conn, data, len);
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* ---- a reply's head ---- */

struct head {
    int status;
    int64_t length;     /* of the body; -1 chunked, -2 until the connection ends */
    unsigned api_minor; /* of "Api-Version: 1.NN"; 0 none */
};

static void take_field(struct head *head, const char *name, const char *value)
{
    unsigned minor;

    if (strcasecmp(name, "Content-Length") == 0 && isdigit((unsigned char)*value))
        head->length = strtoll(value, NULL, 10);
    else if (strcasecmp(name, "Transfer-Encoding") == 0 && strcasecmp(value, "chunked") == 0)
        head->length = -1;
    else if (strcasecmp(name, "Api-Version") == 0 && sscanf(value, "1.%u", &minor) == 1)
        head->api_minor = minor;
}

/* The text ends in an empty line and is cut up. */
static int parse_head(char *text, struct head *ret_head)
{
    struct head head = {.length = -2};
    char *line = strstr(text, "\r\n");

    if (sscanf(text, "HTTP/1.%*1d %3d", &head.status) != 1 || head.status < 100 || !line)
        return -1;
    for (line += 2; *line && *line != '\r';) {
        char *end = strstr(line, "\r\n");
        char *colon = strchr(line, ':');
        if (!end || !colon || colon > end)
            return -1;
        *end = *colon = '\0';
        take_field(&head, line, colon + 1 + strspn(colon + 1, " \t"));
        line = end + 2;
    }
    if (head.status == 101 || head.status == 204 || head.status == 304)
        head.length = 0;
    *ret_head = head;
    return 0;
}

static int broken(int number, struct coto_err *err)
{
    if (number == EAGAIN) {
        coto_err_set(err, COTO_ERR_LIMIT, 0, "docker: the engine does not answer");
        return coto_err_remedy(err, "look at its log: journalctl -u docker");
    }
    coto_err_set(err, COTO_ERR_UNAVAILABLE, number, "docker: the engine went away");
    return coto_err_remedy(err, "look at its log, and start it again: systemctl start docker");
}

/* Reads up to the empty line; what came after it stays in *rest. */
static int read_head(struct engine_conn *conn, struct coto_buf *rest, struct head *ret_head,
                     struct coto_err *err)
{
    coto_auto_buf text = {0};
    char *end = NULL;

    while (!end) {
        char *to = text.len < HEAD_MAX ? coto_buf_reserve(&text, 4096) : NULL;
        ssize_t n = to ? engine_read(conn, to, 4096) : -1;
        if (n <= 0)
            return broken(n == 0 ? ECONNRESET : to ? errno : EMSGSIZE, err);
        text.len += (size_t)n;
        text.data[text.len] = '\0';
        end = memmem(text.data, text.len, "\r\n\r\n", 4);
    }
    end += 4;
    coto_buf_add(rest, end, text.len - (size_t)(end - text.data));
    *end = '\0';
    if (rest->failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker");
    if (memchr(text.data, '\0', (size_t)(end - text.data)) || parse_head(text.data, ret_head))
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: that is not an HTTP answer");
    return 0;
}

/* ---- a reply's body ---- */

/* Takes what is in *in; 1 when the body is complete. */
static int take_body(struct coto_http_body_reader *reader, struct coto_buf *in,
                     struct coto_buf *body)
{
    size_t used = 0;

    while (reader->state != COTO_HTTP_BODY_DONE && in->len > 0) {
        const char *piece;
        size_t len, took;
        int got = coto_http_body_next(reader, in->data + used, in->len - used, &took, &piece, &len);
        if (got < 0 || body->len + (got > 0 ? len : 0) > BODY_MAX)
            return -1;
        used += took;
        if (got > 0)
            coto_buf_add(body, piece, len);
        else if (took == 0 || used == in->len)
            break;
    }
    coto_buf_clear(in);
    return reader->state == COTO_HTTP_BODY_DONE;
}

static int read_body(struct engine_conn *conn, const struct head *head, struct coto_buf *rest,
                     struct coto_buf *body, struct coto_err *err)
{
    struct coto_http_body_reader reader;
    bool to_end = head->length == -2;
    int done = 0;

    coto_http_body_init(&reader, to_end ? (int64_t)BODY_MAX : head->length);
    for (;;) {
        done = take_body(&reader, rest, body);
        if (done)
            break;
        char *to = coto_buf_reserve(rest, 65536);
        ssize_t n = to ? engine_read(conn, to, 65536) : -1;
        if (n == 0 && to_end)
            return 0;
        if (n <= 0)
            return broken(n == 0 ? ECONNRESET : errno, err);
        rest->len += (size_t)n;
    }
    if (done < 0 || body->failed)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0,
                            "docker: an answer is malformed or too long");
    return 0;
}

/* ---- calls ---- */

struct content {
    const char *type, *data; /* NULL: none */
    size_t len;
};

static int send_request(struct engine_conn *conn, const struct engine *engine, const char *method,
                        const char *path, const struct content *body, struct coto_err *err)
{
    coto_auto_buf text = {0};
    bool upgrades = !body;

    coto_buf_addf(&text,
                  "%s %s%s HTTP/1.1\r\nHost: docker\r\nUser-Agent: coto/" COTO_VERSION "\r\n%s",
                  method, engine->api, path,
                  upgrades ? "Connection: Upgrade\r\nUpgrade: tcp\r\n" : "Connection: close\r\n");
    if (body && body->data)
        coto_buf_addf(&text, "Content-Type: %s\r\n", body->type);
    if ((body && body->data) || strcmp(method, "POST") == 0)
        coto_buf_addf(&text, "Content-Length: %zu\r\n", body ? body->len : 0);
    coto_buf_adds(&text, "\r\n");
    if (body && body->data)
        coto_buf_add(&text, body->data, body->len);
    if (text.failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker");
    return send_all(conn, text.data, text.len) ? broken(errno, err) : 0;
}

int engine_receive(struct engine_conn *conn, struct engine_reply *ret_reply, struct coto_err *err)
{
    coto_auto_buf rest = {0};
    struct engine_reply reply = {0};
    struct head head = {0};

    if (read_head(conn, &rest, &head, err) || read_body(conn, &head, &rest, &reply.body, err)) {
        engine_reply_fini(&reply);
        return -1;
    }
    reply.status = head.status;
    reply.api_minor = head.api_minor;
    *ret_reply = reply;
    return 0;
}

static int call(const struct engine *engine, const char *method, const char *path,
                const struct content *body, struct engine_reply *ret_reply, struct coto_err *err)
{
    struct engine_conn conn;

    if (engine_connect(engine, &conn, err))
        return -1;
    int failed = send_request(&conn, engine, method, path, body, err) ||
                 engine_receive(&conn, ret_reply, err);
    engine_close(&conn);
    return failed ? -1 : 0;
}

int engine_call(const struct engine *engine, const char *method, const char *path, const char *body,
                struct engine_reply *ret_reply, struct coto_err *err)
{
    const struct content content = {"application/json", body, body ? strlen(body) : 0};

    return call(engine, method, path, &content, ret_reply, err);
}

int engine_put(const struct engine *engine, const char *path, const struct coto_buf *archive,
               struct engine_reply *ret_reply, struct coto_err *err)
{
    const struct content content = {"application/x-tar", archive->data, archive->len};

    return call(engine, "PUT", path, &content, ret_reply, err);
}

void engine_reply_fini(struct engine_reply *reply)
{
    coto_buf_fini(&reply->body);
}

/* What is too long keeps its end: the engine's messages say what led to what, the cause last. */
static void shorten(const char *text, char *ret_text, size_t size)
{
    size_t len = strlen(text);
    int head = (int)(size / 4);

    if (len < size) {
        memcpy(ret_text, text, len + 1);
        return;
    }
    const char *tail = text + len - (size - (size_t)head - sizeof " ... ");
    while (((unsigned char)*tail & 0xc0) == 0x80) /* not in the middle of a character */
        tail++;
    snprintf(ret_text, size, "%.*s ... %s", head, text, tail);
}

void engine_message(const struct engine_reply *reply, char *ret_text, size_t size)
{
    json_t *tree = json_loadb(reply->body.data ? reply->body.data : "", reply->body.len, 0, NULL);
    const char *text = json_string_value(json_object_get(tree, "message"));

    shorten(text ? text : "it gives no reason", ret_text, size);
    for (char *p = ret_text; *p; p++)
        if (iscntrl((unsigned char)*p))
            *p = ' ';
    json_decref(tree);
}

int engine_ping(struct engine *engine, struct coto_err *err)
{
    struct engine_reply reply;

    engine->api[0] = '\0';
    if (engine_call(engine, "GET", "/_ping", NULL, &reply, err))
        return -1;
    engine_reply_fini(&reply);
    if (reply.status != 200) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                     "docker: the engine answers its ping with status %d", reply.status);
        return coto_err_remedy(err, "look at its log: journalctl -u docker");
    }
    if (reply.api_minor < API_OLDEST) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                     "docker: the engine speaks API 1.%u, coto needs 1.%d", reply.api_minor,
                     API_OLDEST);
        return coto_err_remedy(err, "install Docker 20.10 or newer");
    }
    snprintf(engine->api, sizeof engine->api, "/v1.%d",
             reply.api_minor >= API_NEWEST ? API_NEWEST : API_OLDEST);
    return 0;
}

int engine_upgrade(const struct engine *engine, const char *path, struct engine_conn *ret_conn,
                   struct coto_buf *rest, struct coto_err *err)
{
    struct engine_conn conn;
    struct head head = {0};

    if (engine_connect(engine, &conn, err))
        return -1;
    int failed = send_request(&conn, engine, "POST", path, NULL, err) ||
                 read_head(&conn, rest, &head, err);
    if (!failed && head.status != 101)
        failed = coto_err_set(err, COTO_ERR_INTERNAL, 0,
                              "docker: attach was answered with status %d", head.status);
    if (failed) {
        engine_close(&conn);
        return -1;
    }
    *ret_conn = conn;
    return 0;
}
