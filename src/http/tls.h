/* TLS for the server, on OpenSSL: TLS 1.2 and 1.3 only, client certificates verified inside
 * the handshake, no session is ever resumed (a resumed session would outlive a revoked
 * certificate), no renegotiation, no compression.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coto_http_peer;
struct coto_tls;
typedef bool coto_http_name_fn(const char *name, void *arg);
struct coto_tls_conn;

struct coto_tls_config {
    const char *certificate; /* PEM files: the server's chain, */
    const char *key;         /* its key, */
    const char *client_ca;   /* who issues client certificates; NULL: none are asked for, */
    const char *crl;         /* and which of them are revoked; NULL: none */
};

int coto_tls_new(const struct coto_tls_config *config, struct coto_tls **ret_tls,
                 struct coto_err *err);
/* Reads the files again. On failure everything stays as it was. Connections keep what they
 * began with: see coto_http_recycle. */
int coto_tls_reload(struct coto_tls *tls, struct coto_err *err);
/* Other files from now on, in the same way. */
int coto_tls_change(struct coto_tls *tls, const struct coto_tls_config *config, struct coto_err *err);
void coto_tls_free(struct coto_tls *tls); /* NULL is fine */
/* 0, or -1: which of the files has expired, or is not valid yet. It loads all the same. */
int coto_tls_check_time(const struct coto_tls_config *config, int64_t now_s, struct coto_err *err);

/* ---- for http/conn.c: one connection on a non-blocking socket ---- */

/* Neither done nor failed: wait until the socket can be read, or written. */
#define COTO_TLS_WANT_READ (-2)
#define COTO_TLS_WANT_WRITE (-3)

struct coto_tls_conn *coto_tls_open(struct coto_tls *tls, int fd); /* NULL: no memory */
void coto_tls_close(struct coto_tls_conn *conn);                   /* NULL is fine */
/* 0 done (ret_peer is filled in), -1 failed, or WANT_*. */
int coto_tls_handshake(struct coto_tls_conn *conn, struct coto_http_peer *ret_peer);
/* Whether its certificate is as good for tls as it is now; once the handshake is done. */
bool coto_tls_is_let_in(const struct coto_tls *tls, struct coto_tls_conn *conn);
/* As coto_http_any_name and coto_http_certificate_hash, once the handshake is done. */
bool coto_tls_any_name(struct coto_tls_conn *conn, coto_http_name_fn *fn, void *arg);
bool coto_tls_hash(struct coto_tls_conn *conn, unsigned char ret_hash[32]);
/* Bytes, 0 at the end (read), -1 failed, or WANT_*. */
long coto_tls_read(struct coto_tls_conn *conn, void *data, size_t len);
long coto_tls_write(struct coto_tls_conn *conn, const void *data, size_t len);
/* Tells the peer that no more will come. */
void coto_tls_shutdown(struct coto_tls_conn *conn);
