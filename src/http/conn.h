/* What the files of the server share: server.c (listeners, limits), conn.c (one connection),
 * request.c (its requests), reply.c (their answers). Only conn.c ends connections, and only
 * when called by the loop. */
#pragma once

#include "http/parse.h"
#include "http/server.h"
#include "http/tls.h"

#define COTO_HTTP_SCRATCH 65536
#define COTO_HTTP_BUCKETS 256
/* With every so many bytes read or written their deadline begins anew. */
#define COTO_HTTP_STEP 65536

enum coto_http_phase {
    COTO_HTTP_HANDSHAKE, /* TLS */
    COTO_HTTP_IDLE,      /* not a byte of the next request was looked at */
    COTO_HTTP_HEAD,
    COTO_HTTP_BODY,   /* asked for by the handler */
    COTO_HTTP_RUN,    /* the handler's turn */
    COTO_HTTP_LINGER, /* all is said; the client's last bytes are thrown away, because closing
                       * with unread bytes would reset the connection and lose the answer */
};

/* Connections that may be ended for a newcomer, by how long they have waited. */
struct coto_http_link {
    struct coto_http_link *prev, *next;
    struct coto_http_conn *conn; /* NULL: the head of a ring, whose next waits longest */
};

/* Of whom no request was authorized yet, and of whom one was. */
enum coto_http_ring { COTO_HTTP_STRANGERS, COTO_HTTP_KNOWN, COTO_HTTP_RINGS };

/* All connections of one peer. */
struct coto_http_group {
    uint64_t key;
    unsigned count;
    struct coto_http_conn *conns;
    struct coto_http_link waiting[COTO_HTTP_RINGS];
    struct coto_http_group *next, **link; /* in its bucket */
};

struct coto_http_conn {
    struct coto_http *server;
    struct coto_http_group *group;
    struct coto_tls_conn *tls;
    struct coto_http_request *request;
    int fd;
    uint32_t events; /* what the loop watches for */
    enum coto_http_phase phase;
    int64_t since_us;       /* of the phase */
    int64_t write_since_us; /* when unsent bytes began to wait; 0: none do */
    size_t write_count;     /* taken since then */
    size_t lingered;        /* bytes thrown away */
    int64_t deadline_us, timer_due_us;
    uint64_t timer;
    const struct coto_tls *judge; /* what its certificate is held to at the end of the handshake, beside what that began with; NULL: no other */
    bool is_busy;    /* in its turn: everything is sent and settled at the end of it */
    bool is_broken;  /* to be ended by the loop */
    bool is_last;    /* close after this reply */
    bool is_closing; /* the last reply is in out */
    bool is_eof, is_known, is_listed, is_answered; /* answered: a request, at least */
    int64_t listed_us;
    struct coto_http_link of_all, of_peer;
    struct coto_buf in, out;
    size_t out_pos;
    struct coto_http_end *ends; /* of requests whose answers are in out */
    struct coto_http_conn *next, **link; /* of the same peer */
    struct coto_http_peer peer;
};

struct coto_http_request {
    struct coto_http_conn *conn;
    char *text; /* the head */
    struct coto_http_head head;
    struct coto_http_body_reader reader;
    struct coto_buf body, fields; /* collected; header lines of the reply */
    uint64_t max, received, stepped;
    coto_http_fn *collect, *gone, *sent;
    coto_http_sink_fn *sink;
    struct coto_http_end *end;
    void *body_arg, *gone_arg, *sent_arg;
    bool is_paused, is_streaming, is_chunked, is_last_part;
    int64_t stream_left; /* -1: any length */
};

struct coto_http_listener;

struct coto_http {
    struct coto_http_config config;
    struct coto_http_stats stats;
    struct coto_http_listener *listeners;
    struct coto_http_group *buckets[COTO_HTTP_BUCKETS];
    struct coto_http_link waiting[COTO_HTTP_RINGS];
    int spare_fd;   /* given up to refuse somebody when there are no others */
    uint64_t timer; /* until listeners wake up, or drained is called */
    bool is_draining;
    coto_loop_fn *drained;
    void *drained_arg;
    int64_t date_second;
    char date[40];
    char scratch[COTO_HTTP_SCRATCH];
};

static inline size_t coto_http_bucket(uint64_t peer_key)
{
    return (peer_key * 0x9e3779b97f4a7c15u) >> 56; /* 256 of them */
}

/* conn.c */
void coto_http_rings_init(struct coto_http_link rings[COTO_HTTP_RINGS]);
struct coto_http_group *coto_http_group_find(const struct coto_http *server, uint64_t key);
int coto_http_conn_new(struct coto_http *server, int fd, struct coto_tls *tls,
                       const struct coto_http_peer *peer, uint64_t peer_key);
void coto_http_conn_end(struct coto_http_conn *conn);
void coto_http_conn_enter(struct coto_http_conn *conn, enum coto_http_phase phase);
size_t coto_http_conn_unsent(const struct coto_http_conn *conn);
bool coto_http_conn_is_idle(const struct coto_http_conn *conn); /* and nothing to send */
/* After a handler's call: sends what can be sent, watches for what matters now. */
void coto_http_conn_touch(struct coto_http_conn *conn);

/* request.c */
/* Parses, hands over, feeds bodies; how many of the bytes were used up. */
size_t coto_http_handle(struct coto_http_conn *conn, char *data, size_t len);
void coto_http_request_fail(struct coto_http_request *request, int status, const char *why);
void coto_http_request_gone(struct coto_http_request *request);
void coto_http_request_free(struct coto_http_request *request);

/* reply.c: the server's own answer; the handle is gone, the connection closes after it. */
void coto_http_refuse(struct coto_http_request *request, int status, const char *why);
