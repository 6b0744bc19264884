/* A client of the Docker Engine API: HTTP/1.1 over a unix socket, or over TCP with TLS.
 *
 * Where the engine is comes from DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, as
 * docker's own client reads them. One connection per call: an engine on this host takes a
 * connection in microseconds, and a broken one is never met again.
 *
 * The engine is not trusted with our memory: heads and bodies are bounded, every wait has
 * an end.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

struct engine {
    char host[256]; /* unix: path of the socket; tcp: name or address */
    char port[8];
    bool is_unix;
    SSL_CTX *tls; /* NULL: none */
    char api[8];  /* "/v1.41" once engine_ping has agreed on one */
};

struct engine_conn {
    int fd; /* -1: closed */
    SSL *tls;
};

struct engine_reply {
    int status;
    unsigned api_minor; /* of "Api-Version: 1.NN"; 0 none */
    struct coto_buf body;
};

/* Reads the environment. */
int engine_find(struct engine *ret_engine, struct coto_err *err);
void engine_fini(struct engine *engine);
/* Is it there, may we talk to it, is it new enough? */
int engine_ping(struct engine *engine, struct coto_err *err);

/* A call and its whole answer, whatever its status; body NULL: none. Only what keeps an
 * answer from coming is an error. */
int engine_call(const struct engine *engine, const char *method, const char *path, const char *body,
                struct engine_reply *ret_reply, struct coto_err *err);
/* The same with a tar archive as its body. */
int engine_put(const struct engine *engine, const char *path, const struct coto_buf *archive,
               struct engine_reply *ret_reply, struct coto_err *err);
/* Its second half: a head and a body from a connection. */
int engine_receive(struct engine_conn *conn, struct engine_reply *ret_reply, struct coto_err *err);
void engine_reply_fini(struct engine_reply *reply);
/* The "message" of an answer that is an error. */
void engine_message(const struct engine_reply *reply, char *ret_text, size_t size);

/* A call that turns the connection into a byte stream; what has come already is in *rest. */
int engine_upgrade(const struct engine *engine, const char *path, struct engine_conn *ret_conn,
                   struct coto_buf *rest, struct coto_err *err);

/* As read and write on a non-blocking descriptor: EAGAIN when it would block. */
ssize_t engine_read(struct engine_conn *conn, void *to, size_t size);
ssize_t engine_write(struct engine_conn *conn, const void *from, size_t size);
/* Tells the other end that no more bytes come. */
void engine_finish(struct engine_conn *conn);
void engine_close(struct engine_conn *conn);
/* Bytes that poll does not see. */
bool engine_has_more(const struct engine_conn *conn);

/* address.c */
int engine_connect(const struct engine *engine, struct engine_conn *ret_conn, struct coto_err *err);
