/* Listeners, who is let in, and the server as a whole. */
#include "http/conn.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define ACCEPTS_PER_ROUND 16
/* How long a listener rests when there is no descriptor to accept with. */
#define REST_MS 100
#define BACKLOG 1024
/* Whoever was answered just now may be about to send the next request. */
#define SPARED_US 1000000
/* Connections that are only for unix sockets, which strangers cannot reach. */
#define UNIX_RESERVE 64

struct coto_http_listener {
    struct coto_http *server;
    struct coto_http_listener *next;
    struct coto_tls *tls;
    int fd;
    char *path; /* of a unix socket we made */
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
};

/* ---- who is let in ---- */

static void name_address(const union address *address, char ret_name[COTO_HTTP_ADDRESS])
{
    char host[INET6_ADDRSTRLEN] = "";

    if (address->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(ret_name, COTO_HTTP_ADDRESS, "%s:%u", host, ntohs(address->v4.sin_port));
    } else if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof host);
        snprintf(ret_name, COTO_HTTP_ADDRESS, "[%s]:%u", host, ntohs(address->v6.sin6_port));
    } else {
        snprintf(ret_name, COTO_HTTP_ADDRESS, "unix");
    }
}

/* Fills *peer; the value is the same for all connections of one peer. */
static uint64_t identify(int fd, const union address *address, struct coto_http_peer *peer)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    const struct in6_addr *v6 = &address->v6.sin6_addr;
    uint64_t prefix;
    uint32_t v4;

    *peer = (struct coto_http_peer){.uid = -1, .gid = -1, .pid = -1};
    name_address(address, peer->address);
    if (address->any.sa_family == AF_INET)
        return address->v4.sin_addr.s_addr;
    if (address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6)) {
        memcpy(&v4, v6->s6_addr + 12, sizeof v4); /* at [::], where IPv4 comes too: not all one */
        return v4;
    }
    if (address->any.sa_family == AF_INET6) {
        memcpy(&prefix, v6, sizeof prefix); /* whoever has a /64 has all */
        return prefix;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
        peer->uid = (int)cred.uid;
        peer->gid = (int)cred.gid;
        peer->pid = cred.pid;
    }
    return 1ull << 40 | (uint32_t)peer->uid;
}

static void refuse(struct coto_http *server, int fd, bool silently)
{
    char text[512], body[256];

    server->stats.refused++;
    if (silently)
        return;
    int len = snprintf(body, sizeof body,
                       "{\"code\":\"%s\",\"message\":\"too many connections\","
                       "\"remedy\":\"try again in a second; keep connections and use them again\","
                       "\"field\":null}\n",
                       coto_http_word(503));
    len = snprintf(text, sizeof text,
                   "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                   "Content-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
                   len, body);
    (void)!send(fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    (void)!recv(fd, server->scratch, COTO_HTTP_SCRATCH, MSG_DONTWAIT);
}

/* Not over TLS: a handshake is just what we cannot afford now. */
static void turn_away(struct coto_http_listener *listener, int fd)
{
    refuse(listener->server, fd, listener->tls != NULL);
    close(fd);
}

/* The one of these that has waited longest, strangers first. False: none of them may be ended. */
static bool end_one(struct coto_http *server, const struct coto_http_link rings[COTO_HTTP_RINGS])
{
    struct coto_http_conn *oldest = rings[COTO_HTTP_STRANGERS].next->conn;

    if (!oldest)
        oldest = rings[COTO_HTTP_KNOWN].next->conn;
    if (!oldest || (oldest->is_known &&
                    coto_loop_now_us(server->config.loop) - oldest->listed_us < SPARED_US))
        return false;
    /* Whoever was never answered may have sent a request just now. */
    refuse(server, oldest->fd, oldest->tls || oldest->is_answered);
    coto_http_conn_end(oldest);
    return true;
}

static bool has_room(struct coto_http *server, uint64_t key, bool is_unix)
{
    const struct coto_http_limits *limits = &server->config.limits;
    const struct coto_http_group *group = coto_http_group_find(server, key);

    if (group && group->count >= limits->connections_per_peer)
        return end_one(server, group->waiting);
    return server->stats.connections < limits->connections + (is_unix ? UNIX_RESERVE : 0) ||
           end_one(server, server->waiting);
}

static void let_in(struct coto_http_listener *listener, int fd, const union address *address)
{
    struct coto_http *server = listener->server;
    struct coto_http_peer peer;
    uint64_t key = identify(fd, address, &peer);

    if (!has_room(server, key, address->any.sa_family == AF_UNIX) ||
        coto_http_conn_new(server, fd, listener->tls, &peer, key) < 0)
        turn_away(listener, fd);
}

static void wake_listeners(void *arg)
{
    struct coto_http *server = arg;

    server->timer = 0;
    for (struct coto_http_listener *it = server->listeners; it; it = it->next)
        coto_loop_mod(server->config.loop, it->fd, EPOLLIN);
}

/* Out of descriptors, ours or the machine's. Whoever waits would make the loop spin: so a
 * connection makes room as at the limits, or the spare descriptor is used to turn the first one away, or
 * the listener rests. False: nothing can be accepted now. */
static bool make_room(struct coto_http_listener *listener)
{
    struct coto_http *server = listener->server;

    if (end_one(server, server->waiting))
        return true;
    coto_own_close(&server->spare_fd);
    coto_auto_fd fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bool is_away = fd >= 0;
    if (is_away)
        turn_away(listener, coto_take_fd(&fd));
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (is_away && server->spare_fd >= 0)
        return true;
    coto_loop_cancel(server->config.loop, server->timer);
    server->timer = coto_loop_timer(server->config.loop, REST_MS, wake_listeners, server);
    if (server->timer)
        coto_loop_mod(server->config.loop, listener->fd, 0);
    return false;
}

static void on_accept(void *arg, uint32_t events)
{
    struct coto_http_listener *listener = arg;

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
        union address address = {0};
        socklen_t len = sizeof address;
        int fd = accept4(listener->fd, &address.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            let_in(listener, fd, &address);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            if (!make_room(listener))
                return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

/* ---- listening ---- */

int coto_http_listen_fd(struct coto_http *server, int fd, struct coto_tls *tls,
                        struct coto_err *err)
{
    /* Inherited by accepted sockets. A client that vanished without a word is noticed
     * after two minutes; errors mean a unix socket, which needs none of it. */
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
    };
    coto_auto_fd owned = fd;
    coto_auto_free struct coto_http_listener *listener = calloc(1, sizeof *listener);

    if (!listener)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "listen");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    *listener = (struct coto_http_listener){server, server->listeners, tls, fd, NULL};
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        coto_loop_add(server->config.loop, fd, EPOLLIN, on_accept, listener) < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "listen");
    coto_take_fd(&owned);
    server->listeners = coto_take_ptr(listener);
    return 0;
}

/* Digits alone, and no more than a port has: getaddrinfo takes 99999 for 34463. */
static bool is_port(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= 5 && strspn(text, "0123456789") == len && atoi(text) <= 65535;
}

/* "127.0.0.1:80", "[::1]:80": numbers only, so that nothing is looked up. */
static int parse_where(const char *where, union address *ret_address, socklen_t *ret_len)
{
    char host[COTO_HTTP_ADDRESS];
    const char *colon = strrchr(where, ':');
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    if (!colon || colon == where || strlen(where) >= sizeof host || !is_port(colon + 1))
        return -1;
    bool has_brackets = where[0] == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - where) - 2 * has_brackets,
             where + has_brackets);
    if ((strchr(host, ':') && !has_brackets) || getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    *ret_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

/* A socket nobody listens at is what a killed server left behind. */
static int remove_stale(const struct sockaddr_un *address, socklen_t len)
{
    coto_auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    if (fd < 0 || connect(fd, (const struct sockaddr *)address, len) == 0 || errno == EAGAIN) {
        errno = EADDRINUSE;
        return -1;
    }
    if (errno == ECONNREFUSED && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode))
        return unlink(address->sun_path);
    return 0;
}

static int bind_unix(int fd, struct sockaddr_un *address, socklen_t len)
{
    if (remove_stale(address, len) < 0)
        return -1;
    mode_t old = umask(0177); /* no moment in which others could connect */
    int result = bind(fd, (struct sockaddr *)address, len);
    umask(old);
    return result;
}

static int parse_address(const char *where, union address *ret_address, socklen_t *ret_len,
                         struct coto_err *err)
{
    bool is_unix = coto_str_has_prefix(where, "unix:");
    const char *path = is_unix ? where + strlen("unix:") : "";

    *ret_address = (union address){.un.sun_family = AF_UNIX};
    *ret_len = sizeof ret_address->un;
    if (is_unix ? !*path || strlen(path) >= sizeof ret_address->un.sun_path
                : parse_where(where, ret_address, ret_len) < 0) {
        const char *colon = is_unix ? NULL : strrchr(where, ':');
        if (colon && !strchr(colon, ']') && !is_port(colon + 1))
            coto_err_set(err, COTO_ERR_USAGE, 0, "listen '%s': not an address: '%s' is not a port, 0 to 65535",
                         where, colon + 1);
        else
            coto_err_set(err, COTO_ERR_USAGE, 0, "listen '%s': not an address", where);
        return coto_err_remedy(err, "use 127.0.0.1:8080, [::1]:8080 or unix:/path/of/socket");
    }
    if (is_unix)
        memcpy(ret_address->un.sun_path, path, strlen(path));
    return 0;
}

int coto_http_check_address(const char *where, struct coto_err *err)
{
    union address address;
    socklen_t len;

    return parse_address(where, &address, &len, err);
}

/* Without listening: several can try at once. */
int coto_http_try_bind(const char *where, struct coto_err *err)
{
    union address address;
    socklen_t len;
    const int on = 1;

    if (parse_address(where, &address, &len, err))
        return -1;
    coto_auto_fd fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, &address.any, len))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "listen '%s'", where);
    return 0;
}

int coto_http_bind(const char *where, char ret_where[COTO_HTTP_ADDRESS], struct coto_err *err)
{
    bool is_unix = coto_str_has_prefix(where, "unix:");
    union address address;
    socklen_t len;
    const int on = 1;

    if (parse_address(where, &address, &len, err))
        return -1;
    coto_auto_fd fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !is_unix)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || (is_unix ? bind_unix(fd, &address.un, len) : bind(fd, &address.any, len)) < 0 ||
        listen(fd, BACKLOG) < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "listen '%s'", where);
    if (ret_where && is_unix)
        snprintf(ret_where, COTO_HTTP_ADDRESS, "%s", where);
    else if (ret_where && getsockname(fd, &address.any, &len) == 0)
        name_address(&address, ret_where);
    return coto_take_fd(&fd);
}

int coto_http_listen(struct coto_http *server, const char *where, struct coto_tls *tls,
                     char ret_where[COTO_HTTP_ADDRESS], struct coto_err *err)
{
    int fd = coto_http_bind(where, ret_where, err);

    if (fd < 0)
        return -1;
    if (coto_http_listen_fd(server, fd, tls, err) < 0)
        return coto_err_wrap(err, "'%s'", where);
    if (coto_str_has_prefix(where, "unix:"))
        server->listeners->path = strdup(where + strlen("unix:"));
    return 0;
}

/* ---- the server ---- */

static void set_default(unsigned *limit, unsigned value)
{
    if (*limit == 0)
        *limit = value;
}

int coto_http_new(const struct coto_http_config *config, struct coto_http **ret_server,
                  struct coto_err *err)
{
    struct coto_http *server = calloc(1, sizeof *server);

    if (!server)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "HTTP server");
    server->config = *config;
    struct coto_http_limits *limits = &server->config.limits;
    set_default(&limits->head_bytes, 16384);
    set_default(&limits->headers, COTO_HTTP_FIELDS_MAX);
    set_default(&limits->connections, 4096);
    set_default(&limits->connections_per_peer, 1024);
    set_default(&limits->head_ms, 10000);
    set_default(&limits->body_ms, 10000);
    set_default(&limits->idle_ms, 60000);
    set_default(&limits->write_ms, 20000);
    set_default(&limits->out_bytes, 1024 * 1024);
    coto_http_rings_init(server->waiting);
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *ret_server = server;
    return 0;
}

static void stop_listening(struct coto_http *server)
{
    while (server->listeners) {
        struct coto_http_listener *listener = server->listeners;
        server->listeners = listener->next;
        coto_loop_del(server->config.loop, listener->fd);
        if (listener->path) /* before it is closed: nobody can have put another one there */
            unlink(listener->path);
        close(listener->fd);
        free(listener->path);
        free(listener);
    }
}

/* Verifying takes a tenth of a millisecond each, of the loop's: past these a connection counts as not let in. */
#define LOOKED_AT_MOST 256

/* What it has shown was judged by files of before. */
static bool is_let_in(const struct coto_http_conn *conn, const struct coto_tls *now, unsigned *looked_at)
{
    return conn->phase == COTO_HTTP_HANDSHAKE || (conn->phase > COTO_HTTP_BODY) ||
           ((*looked_at)++ < LOOKED_AT_MOST && coto_tls_is_let_in(now, conn->tls));
}

/* No request is begun any more, whatever of it is there. */
static void end_before_next(struct coto_http_conn *conn)
{
    if (conn->phase == COTO_HTTP_BODY || coto_http_conn_is_idle(conn)) {
        coto_http_conn_end(conn);
        return;
    }
    coto_http_request_free(conn->request); /* half a head at most */
    coto_http_conn_enter(conn, COTO_HTTP_IDLE);
    conn->is_closing = true; /* after the answers that there are */
    coto_http_conn_touch(conn);
}

static void recycle_group(struct coto_http_group *group, const struct coto_tls *now, unsigned *looked_at)
{
    for (struct coto_http_conn *conn = group->conns, *next; conn; conn = next) {
        next = conn->next;
        if (now && !conn->tls)
            continue; /* it has shown nothing */
        conn->is_last = true;
        if (now) /* a drain is no new judge: what had begun before a revocation is judged at its end */
            conn->judge = now;
        if (now ? !is_let_in(conn, now, looked_at) : coto_http_conn_is_idle(conn))
            end_before_next(conn);
    }
}

void coto_http_recycle(struct coto_http *server, const struct coto_tls *now)
{
    unsigned looked_at = 0;

    for (int i = 0; i < COTO_HTTP_BUCKETS; i++)
        for (struct coto_http_group *group = server->buckets[i], *next; group; group = next) {
            next = group->next; /* it goes with its last connection */
            recycle_group(group, now, &looked_at);
        }
}

void coto_http_drain(struct coto_http *server, coto_loop_fn *fn, void *arg)
{
    stop_listening(server);
    server->drained = fn;
    server->drained_arg = arg;
    coto_http_recycle(server, NULL);
    server->is_draining = true;
    coto_loop_cancel(server->config.loop, server->timer);
    if (server->stats.connections == 0)
        server->timer = coto_loop_timer(server->config.loop, 0, fn, arg);
}

void coto_http_free(struct coto_http *server)
{
    if (!server)
        return;
    stop_listening(server);
    server->is_draining = false;
    for (int i = 0; i < COTO_HTTP_BUCKETS; i++)
        while (server->buckets[i])
            coto_http_conn_end(server->buckets[i]->conns);
    coto_loop_cancel(server->config.loop, server->timer);
    coto_own_close(&server->spare_fd);
    free(server);
}

const struct coto_http_stats *coto_http_stats(const struct coto_http *server)
{
    return &server->stats;
}
