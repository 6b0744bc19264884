/* Where the engine is, and a connection to it. */
#include "docker/engine.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define DEFAULT_SOCKET "/var/run/docker.sock"
#define CALL_SECONDS 60 /* between two bytes of an answer */

static int bad_host(const char *text, const char *why, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "DOCKER_HOST: '%.200s' %s", text, why);
    return coto_err_remedy(err, "use unix:///var/run/docker.sock, or tcp://HOST:2376 with "
                                "DOCKER_TLS_VERIFY=1");
}

static int parse_tcp(struct engine *engine, const char *text, const char *rest,
                     struct coto_err *err)
{
    const char *colon = strrchr(rest, ':');
    size_t len = colon ? (size_t)(colon - rest) : 0;
    bool is_v6 = len > 2 && rest[0] == '[' && rest[len - 1] == ']';

    if (is_v6) {
        rest++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof engine->host || strchr(colon, '/') || strlen(colon + 1) > 5 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1])
        return bad_host(text, "is not tcp://HOST:PORT", err);
    memcpy(engine->host, rest, len);
    engine->host[len] = '\0';
    snprintf(engine->port, sizeof engine->port, "%s", colon + 1);
    return 0;
}

static int parse_host(struct engine *engine, struct coto_err *err)
{
    const char *text = getenv("DOCKER_HOST");

    if (!text || !*text)
        text = "unix://" DEFAULT_SOCKET;
    if (strncmp(text, "tcp://", 6) == 0)
        return parse_tcp(engine, text, text + 6, err);
    if (strncmp(text, "unix://", 7) != 0)
        return bad_host(text, "is neither unix:// nor tcp://", err);
    engine->is_unix = true;
    if (text[7] != '/' || strlen(text + 7) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return bad_host(text, "is not the path of a socket", err);
    snprintf(engine->host, sizeof engine->host, "%s", text + 7);
    return 0;
}

/* ---- TLS ---- */

static int tls_failed(const char *what, const char *file, struct coto_err *err)
{
    unsigned long code = ERR_peek_last_error();

    coto_err_set(err, COTO_ERR_INPUT, 0, "docker: %s '%s': %s", what, file,
                 code ? ERR_reason_error_string(code) : "it cannot be read");
    ERR_clear_error();
    return coto_err_remedy(err,
                           "DOCKER_CERT_PATH names a directory with ca.pem, cert.pem, key.pem");
}

static int load_files(SSL_CTX *tls, const char *dir, struct coto_err *err)
{
    char ca[4096], cert[4096], key[4096];

    snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    snprintf(cert, sizeof cert, "%s/cert.pem", dir);
    snprintf(key, sizeof key, "%s/key.pem", dir);
    if (SSL_CTX_load_verify_locations(tls, ca, NULL) != 1)
        return tls_failed("authority", ca, err);
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
        return tls_failed("certificate", cert, err);
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        return tls_failed("key", key, err);
    return 0;
}

static int prepare_tls(struct engine *engine, struct coto_err *err)
{
    const char *dir = getenv("DOCKER_CERT_PATH");
    const char *home = getenv("HOME");
    char own[4096];

    snprintf(own, sizeof own, "%s/.docker", home ? home : "");
    engine->tls = SSL_CTX_new(TLS_client_method());
    if (!engine->tls)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "docker: TLS");
    SSL_CTX_set_min_proto_version(engine->tls, TLS1_2_VERSION);
    SSL_CTX_set_verify(engine->tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(engine->tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return load_files(engine->tls, dir && *dir ? dir : own, err);
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (strncmp(host, "127.", 4) == 0 && !host[strspn(host, "0123456789.")]);
}

int engine_find(struct engine *ret_engine, struct coto_err *err)
{
    const char *verify = getenv("DOCKER_TLS_VERIFY");
    bool wants_tls = verify && *verify;

    *ret_engine = (struct engine){0};
    if (parse_host(ret_engine, err))
        return -1;
    if (ret_engine->is_unix)
        return 0;
    if (!wants_tls && !is_loopback(ret_engine->host)) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                     "DOCKER_HOST: tcp to '%s' without TLS: whoever is in between owns that host",
                     ret_engine->host);
        return coto_err_remedy(err, "set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH");
    }
    return wants_tls ? prepare_tls(ret_engine, err) : 0;
}

void engine_fini(struct engine *engine)
{
    SSL_CTX_free(engine->tls);
    engine->tls = NULL;
}

/* ---- connecting ---- */

static int no_engine(const struct engine *engine, int number, struct coto_err *err)
{
    const char *kind = engine->is_unix ? "unix://" : "tcp://";

    if (number == EACCES || number == EPERM) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, number,
                     "docker: you may not talk to the engine at %s%s", kind, engine->host);
        return coto_err_remedy(err, "run as a member of the group that owns the socket (usually "
                                    "'docker'), or as root; or use --isolation process");
    }
    coto_err_set(err, COTO_ERR_UNAVAILABLE, number, "docker: no engine at %s%s%s%s", kind,
                 engine->host, engine->is_unix ? "" : ":", engine->port);
    return coto_err_remedy(err, "start it (systemctl start docker), or point DOCKER_HOST at one; "
                                "or use --isolation process");
}

static int connect_unix(const struct engine *engine)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    coto_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s", engine->host);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        return -1;
    return coto_take_fd(&fd);
}

static int connect_tcp(const struct engine *engine)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int fd = -1;

    if (getaddrinfo(engine->host, engine->port, &hints, &found)) {
        errno = EHOSTUNREACH;
        return -1;
    }
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen))
            coto_own_close(&fd);
    }
    freeaddrinfo(found);
    return fd;
}

static int start_tls(const struct engine *engine, struct engine_conn *conn, struct coto_err *err)
{
    struct in6_addr address;
    bool is_address = inet_pton(AF_INET, engine->host, &address) == 1 ||
                      inet_pton(AF_INET6, engine->host, &address) == 1;

    conn->tls = SSL_new(engine->tls);
    if (!conn->tls || SSL_set_fd(conn->tls, conn->fd) != 1)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "docker: TLS");
    X509_VERIFY_PARAM *check = SSL_get0_param(conn->tls);
    if (is_address ? X509_VERIFY_PARAM_set1_ip_asc(check, engine->host) != 1
                   : X509_VERIFY_PARAM_set1_host(check, engine->host, 0) != 1 ||
                         SSL_set_tlsext_host_name(conn->tls, engine->host) != 1)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "docker: TLS");
    if (SSL_connect(conn->tls) == 1)
        return 0;
    long bad = SSL_get_verify_result(conn->tls);
    unsigned long code = ERR_peek_last_error();
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "docker: TLS with %s: %s", engine->host,
                 bad != X509_V_OK ? X509_verify_cert_error_string(bad)
                 : code           ? ERR_reason_error_string(code)
                                  : "the connection ended");
    ERR_clear_error();
    return coto_err_remedy(err,
                           "check ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, and the name "
                           "in DOCKER_HOST");
}

int engine_connect(const struct engine *engine, struct engine_conn *ret_conn, struct coto_err *err)
{
    struct timeval patience = {.tv_sec = CALL_SECONDS};
    struct engine_conn conn = {.fd = engine->is_unix ? connect_unix(engine) : connect_tcp(engine)};

    if (conn.fd < 0)
        return no_engine(engine, errno, err);
    setsockopt(conn.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(conn.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (engine->tls && start_tls(engine, &conn, err)) {
        engine_close(&conn);
        return -1;
    }
    *ret_conn = conn;
    return 0;
}
