/* HTTP/1.1 server on one event loop, for strangers: the parser refuses whatever two
 * programs could read differently (http/parse.h), every phase has a deadline, every
 * buffer a limit.
 *
 * The handler is called when a request's head is complete. It may answer at once, ask
 * for the body (collect or sink), or keep the handle and answer later. Requests of a
 * connection are handled strictly one after the other; what a client pipelines waits.
 *
 * A handle is valid until coto_http_reply or coto_http_finish is called, or until the
 * function set by coto_http_on_gone returns: the client disconnected (a half-closed
 * connection counts as that), sent a bad or too large body (the server answers that
 * itself), or read too slowly. That function is always called from the loop, never from
 * inside one of the functions here. All of it belongs to the loop's thread.
 *
 * Past a limit of connections the one makes room that has waited longest for a request of which
 * none was vouched for; then one that was, and has been idle for a second; else the newcomer gets 503.
 * One whose request is with the handler is never ended for that.
 *
 * Errors the server answers itself have JSON bodies: code, message, remedy, field.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct coto_http;
struct coto_http_request;
struct coto_tls;

typedef void coto_http_fn(struct coto_http_request *request, void *arg);
/* A piece of the body; len 0 is its end. Not 0: refused, the server answers 400. */
typedef int coto_http_sink_fn(struct coto_http_request *request, const void *data, size_t len,
                              void *arg);

/* 0 stands for the default. */
struct coto_http_limits {
    unsigned head_bytes;           /* request line and header: 16384 */
    unsigned headers;              /* header fields: 64, which is also the most */
    unsigned connections;          /* 4096, and 64 more at unix sockets */
    unsigned connections_per_peer; /* per address (IPv6: per /64) or uid: 1024 */
    unsigned head_ms;              /* handshake, request line and header: 10000 */
    unsigned body_ms;              /* for the client to send 64 KiB of body or the rest: 10000 */
    unsigned idle_ms;              /* between requests: 60000 */
    unsigned write_ms;             /* for the client to take 64 KiB or all there is: 20000 */
    unsigned out_bytes;            /* unsent bytes of a stream before it is dropped: 1 MiB */
};

struct coto_http_config {
    struct coto_loop *loop;
    coto_http_fn *handler;
    void *arg;
    struct coto_http_limits limits;
};

#define COTO_HTTP_ADDRESS 128
struct coto_http_peer {
    char address[COTO_HTTP_ADDRESS]; /* "192.0.2.1:4711", "[::1]:4711", "unix" */
    int uid, gid, pid;               /* of the one who connected to a unix socket, else -1 */
    bool is_tls;
    /* From the verified client certificate, else "". A name that does not fit or holds
     * control characters is not there. */
    char cn[128];
    char san[256];   /* the first of "URI:...", else "DNS:...", else "" */
    char serial[64]; /* upper case hexadecimal, as openssl prints it */
};

struct coto_http_stats {
    uint64_t connections; /* open now */
    uint64_t accepted;
    uint64_t refused;  /* connections past a limit or without a descriptor, and those that made room */
    uint64_t requests; /* heads handed to the handler */
    uint64_t bad;      /* answered by the server itself: 4xx, 5xx */
    uint64_t dropped;  /* slow readers */
    uint64_t handshakes_failed;
};

int coto_http_new(const struct coto_http_config *config, struct coto_http **ret_server,
                  struct coto_err *err);
/* Closes everything now; on_gone functions are called. NULL is fine. */
void coto_http_free(struct coto_http *server);

/* Listens at "unix:/path" (mode 0600), "127.0.0.1:8080", "[::1]:0". ret_where (may be NULL)
 * gets the name with the real port. tls NULL: plain. tls is shared and outlives the server. */
int coto_http_listen(struct coto_http *server, const char *where, struct coto_tls *tls,
                     char ret_where[COTO_HTTP_ADDRESS], struct coto_err *err);
/* The listening socket alone, for coto_http_listen_fd in another process. The socket of a
 * unix path stays in its directory. */
int coto_http_bind(const char *where, char ret_where[COTO_HTTP_ADDRESS], struct coto_err *err);
/* Whether it could be had: bound, and let go. Not for unix paths. */
int coto_http_try_bind(const char *where, struct coto_err *err);
/* Its form alone. */
int coto_http_check_address(const char *where, struct coto_err *err);
/* A listening socket made by somebody else (socket activation); owned from now on, also
 * on failure. */
int coto_http_listen_fd(struct coto_http *server, int fd, struct coto_tls *tls,
                        struct coto_err *err);
/* Stops listening and reading new requests, lets running ones finish, then calls fn. */
void coto_http_drain(struct coto_http *server, coto_loop_fn *fn, void *arg);
/* To be called when certificates changed, with what there is now: each connection with TLS is judged by that, when its handshake is done
 * if it is not yet, and what is not let in begins no request any more, whatever of its head or its body is there. The others
 * are closed after their next reply; without TLS they go on. NULL: whatever they have shown, idle ones are closed at once, others after their reply. */
void coto_http_recycle(struct coto_http *server, const struct coto_tls *now);
const struct coto_http_stats *coto_http_stats(const struct coto_http *server);

/* ---- the request; texts are borrowed and live as long as the handle ---- */

const char *coto_http_method(const struct coto_http_request *request); /* "GET", "HEAD", ... */
/* Decoded, valid UTF-8, begins with '/'; no empty, "." or ".." segment, no encoded slash, no
 * control character (such requests are refused before). A '/' may end it. */
const char *coto_http_path(const struct coto_http_request *request);
/* Raw text after '?', "" when there is none. */
const char *coto_http_query(const struct coto_http_request *request);
/* The decoded value of one query parameter: 1, 0 not given, -1 malformed, twice or too long. */
int coto_http_query_get(const struct coto_http_request *request, const char *name, char *ret_value,
                        size_t size);
/* The field's value without surrounding blanks, NULL when absent; any case. Fields that may
 * come once only (Host, Authorization, Content-Type, ...) did; of others the first. */
const char *coto_http_header(const struct coto_http_request *request, const char *name);
const struct coto_http_peer *coto_http_peer(const struct coto_http_request *request);
/* Names of the verified client certificate: "URI:..." and "DNS:..." of its SAN, all of them; "CN:..." only
 * where it has no SAN. Whether fn says so of any; false where there is no certificate. */
typedef bool coto_http_name_fn(const char *name, void *arg);
bool coto_http_any_name(const struct coto_http_request *request, coto_http_name_fn *fn, void *arg);
/* SHA-256 of that certificate as it was sent (DER). False: there is none. */
bool coto_http_certificate_hash(const struct coto_http_request *request, unsigned char ret_hash[32]);
bool coto_http_has_body(const struct coto_http_request *request);
/* What Content-Length says; -1 for a chunked body, 0 without a body. */
int64_t coto_http_body_length(const struct coto_http_request *request);

/* Whose request this is may be here: by the handler, before it returns. */
void coto_http_vouch(struct coto_http_request *request);
void coto_http_on_gone(struct coto_http_request *request, coto_http_fn *fn, void *arg);

/* Called once when the last byte of the reply is with the kernel, or the connection has ended: after
 * the handle is gone. It must not call anything of the server. One per request, set by the handler. */
struct coto_http_end {
    void (*fn)(struct coto_http_end *end);
    struct coto_http_end *next; /* the server's */
};
void coto_http_on_end(struct coto_http_request *request, struct coto_http_end *end);
struct coto_http_end *coto_http_get_end(const struct coto_http_request *request); /* NULL: none */

/* ---- the body: ask once, or answer without; then the connection is closed ---- */

/* Calls fn when the whole body is here; past max bytes the server answers 413. Also without a
 * body; always from the loop, after the handler has returned. */
void coto_http_collect(struct coto_http_request *request, size_t max, coto_http_fn *fn, void *arg);
/* The collected body, NUL-terminated. */
const char *coto_http_body(const struct coto_http_request *request, size_t *ret_len);
/* The collected body for another one: to have it while the handle may go. */
void coto_http_swap_body(struct coto_http_request *request, struct coto_buf *body);
void coto_http_sink(struct coto_http_request *request, uint64_t max, coto_http_sink_fn *fn,
                    void *arg);
/* The sink is called no more, and the client not waited for, until resumed. */
void coto_http_pause(struct coto_http_request *request, bool paused);

/* ---- the reply ---- */

/* Adds a header field to the reply. A value with control characters is left out. */
void coto_http_add_header(struct coto_http_request *request, const char *name, const char *value);
/* Answers; the handle is gone. HEAD gets the header only, 204 and 304 no body. */
/* The word for a refusal with this status that is about the HTTP request itself. */
const char *coto_http_word(int status);
void coto_http_reply(struct coto_http_request *request, int status, const char *type,
                     const void *body, size_t len);
/* Begins a streamed answer: length bytes, or -1: chunked (HTTP/1.0: until the end). */
void coto_http_stream(struct coto_http_request *request, int status, const char *type,
                      int64_t length);
/* 0, or -1: this connection is lost and on_gone will be called from the loop. */
int coto_http_write(struct coto_http_request *request, const void *data, size_t len);
/* What is written from now on is the end of it, and may be more than out_bytes, as a whole reply may. */
void coto_http_last_part(struct coto_http_request *request);
/* Bytes written and not yet taken by the kernel; a producer stops well before out_bytes. */
size_t coto_http_unsent(const struct coto_http_request *request);
/* fn is called, once, when nothing is unsent any more. NULL: not. */
void coto_http_on_sent(struct coto_http_request *request, coto_http_fn *fn, void *arg);
/* Ends the stream; the handle is gone. Less than length bytes: the connection breaks off. */
void coto_http_finish(struct coto_http_request *request);

/* Ends it so that the client sees that something is missing; the handle is gone. */
void coto_http_break(struct coto_http_request *request);

/* One server-sent event; event may be NULL, line ends in data become data lines. A NULL data
 * is a comment that keeps proxies awake. Returns as coto_http_write. */
int coto_http_event(struct coto_http_request *request, const char *event, const char *data,
                    size_t len);
#define COTO_HTTP_EVENTS "text/event-stream"
