#include "daemon/place.h"

#include "base/clock.h"
#include "base/fd.h"
#include "daemon/clash.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_INHERITED 3 /* SD_LISTEN_FDS_START */
#define LAST_LIFE_MS 8000 /* what is left of a killed service ends within 5 s */

/* ---- the directory ---- */

static void default_dir(char *to, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (getuid() == 0)
        snprintf(to, size, "/run/coto");
    else if (runtime && runtime[0] == '/')
        snprintf(to, size, "%s/coto", runtime);
    else
        snprintf(to, size, "/tmp/coto-%u", (unsigned)getuid());
}

static void name_dir(const struct coto_settings *settings, char *to, size_t size)
{
    const char *asked = coto_settings_text(settings, COTO_SET_RUNTIME_DIR);

    if (*asked)
        snprintf(to, size, "%s", asked);
    else
        default_dir(to, size);
}

static int check_dir(const char *dir, struct coto_err *err)
{
    struct stat st;

    if (lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid() && !(st.st_mode & 077))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "'%s' is not a directory of yours alone", dir);
    return coto_err_remedy(err, "remove it, chmod 700 it, or name another with --runtime-dir");
}

static void strip_slashes(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
}

static void name_above(const char *path, char *to, size_t size)
{
    snprintf(to, size, "%s", path);
    strip_slashes(to);
    char *slash = strrchr(to, '/');
    if (!slash) {
        snprintf(to, size, ".");
        return;
    }
    slash[slash == to] = '\0';
    strip_slashes(to);
}

/* Whether this user may make that file, or directory, where it is to be. */
static int check_above(const char *path, struct coto_err *err)
{
    char above[4096];

    name_above(path, above, sizeof above);
    if (access(above, W_OK | X_OK) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '%s'", path);
    return coto_err_remedy(err, "make '%s' and let this user write there, or name another place", above);
}

static int make_dir(struct coto_place *place, const struct coto_settings *settings,
                    struct coto_err *err)
{
    name_dir(settings, place->dir, sizeof place->dir);
    if (mkdir(place->dir, 0700) && errno != EEXIST) {
        int e = errno;
        return check_above(place->dir, err) ? -1 : coto_err_set(err, COTO_ERR_SYSTEM, e, "make '%s'", place->dir);
    }
    return check_dir(place->dir, err);
}

static int explain_bind(struct coto_err *err)
{
    if (err->sys_errno == EADDRINUSE)
        return coto_err_remedy(err, "another program has it: choose another (--port=0 takes any free one)");
    if (err->sys_errno == EADDRNOTAVAIL)
        return coto_err_remedy(err, "it is no address of this host: `ip address` lists them; 0.0.0.0 and [::] stand for all");
    if (err->sys_errno == EACCES)
        return coto_err_remedy(err, "ports below 1024 are root's: choose a higher one, let root start the service, or hand it the socket "
                                    "(docs/SERVICE.md, systemd); a unix socket needs a directory that this user may write to");
    return -1;
}

/* Its name alone, and that nothing else has it. */
static int check_socket(const char *path, struct coto_err *err)
{
    char where[4096 + 32];
    struct stat st;

    snprintf(where, sizeof where, "unix:%s", path);
    if (strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "socket '%.300s': longer than the %zu bytes that a socket's name can have", path,
                     sizeof((struct sockaddr_un *)0)->sun_path - 1);
        return coto_err_remedy(err, "name another: socket, or a shorter runtime-dir");
    }
    if (coto_http_check_address(where, err))
        return -1;
    if (lstat(path, &st) || S_ISSOCK(st.st_mode))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "socket '%s': something else than a socket is there", path);
    return coto_err_remedy(err, "remove it, or name another");
}

/* A service that runs there has its addresses, and they are fine. */
static bool is_running(const char *dir)
{
    char path[4096 + 16];

    snprintf(path, sizeof path, "%s/lock", dir);
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

bool coto_place_is_running(const struct coto_settings *settings)
{
    char dir[4096];

    name_dir(settings, dir, sizeof dir);
    return is_running(dir);
}

/* In there it can be, once that is made. */
static int check_unix(const char *path, const char *dir, struct coto_err *err)
{
    char above[4096];

    if (check_socket(path, err))
        return -1;
    name_above(path, above, sizeof above);
    return strcmp(above, dir) == 0 ? 0 : check_above(path, err);
}

/* The lock is looked at only where it matters: a service that starts at that moment would not get it. */
static int check_address(const char *where, const char *dir, struct coto_err *err)
{
    if (coto_str_has_prefix(where, "unix:"))
        return check_unix(where + strlen("unix:"), dir, err);
    if (coto_http_try_bind(where, err) == 0)
        return 0;
    if (err->sys_errno != EADDRINUSE || !is_running(dir))
        return err->sys_errno == EADDRINUSE
                   ? coto_err_remedy(err, "another program has it, or a .socket unit that will hand it over: choose another, or end that one")
                   : explain_bind(err);
    fprintf(stderr, "coto serve: %s is in use; a coto serve runs with this runtime-dir, and it is taken for its own\n", where);
    return 0;
}

static int refuse_count(const char *where, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "listen '%s': there are %d addresses before it, with socket and port, and no room for more", where,
                 COTO_PLACE_SOCKETS);
    return coto_err_remedy(err, "leave some out: 0.0.0.0 and [::] stand for all addresses of this host");
}

/* In the order in which a start opens them; `setting` names whose it is. */
struct wanted {
    const char *where[COTO_PLACE_SOCKETS], *setting[COTO_PLACE_SOCKETS];
    int count;
};

static int refuse_twice(const struct wanted *them, int mine, int other, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "listen '%s': %s has '%s' already, and both cannot be had", them->where[mine], them->setting[other],
                 them->where[other]);
    return coto_err_remedy(err, coto_str_has_prefix(them->where[mine], "unix:") ? "leave one of the two out (--socket=none), or name another path"
                                                                               : "leave one of the two out (--port=none), or choose another port");
}

/* What this host has to say is asked for each alone: bound at once but not listened at, they would not collide. */
static int want(struct wanted *them, const char *where, const char *setting, const char *dir, struct coto_err *err)
{
    int mine = them->count;

    if (mine == COTO_PLACE_SOCKETS)
        return refuse_count(where, err);
    them->where[mine] = where;
    them->setting[mine] = setting;
    for (int i = 0; i < mine; i++)
        if (coto_clash(them->where[i], where))
            return refuse_twice(them, mine, i, err);
    them->count++;
    return check_address(where, dir, err);
}

static int check_addresses(const struct coto_settings *settings, const char *dir, struct coto_err *err)
{
    const char *asked = coto_settings_text(settings, COTO_SET_SOCKET);
    const struct coto_strv *listen = &settings->text[COTO_SET_LISTEN];
    int64_t port = settings->num[COTO_SET_PORT];
    char local[4096 + 32], loopback[64];
    struct wanted them = {0};

    snprintf(local, sizeof local, *asked ? "unix:%s" : "unix:%s/api.sock", *asked ? asked : dir);
    snprintf(loopback, sizeof loopback, "127.0.0.1:%d", (int)port);
    if (strcmp(asked, "none") != 0 && want(&them, local, "socket", dir, err))
        return -1;
    if (port != COTO_SETTING_NONE && want(&them, loopback, "port", dir, err))
        return -1;
    for (size_t i = 0; i < listen->count; i++)
        if (want(&them, listen->items[i], "listen", dir, err))
            return -1;
    return 0;
}

int coto_place_check(const struct coto_settings *settings, struct coto_err *err)
{
    char dir[4096];
    struct stat st;

    name_dir(settings, dir, sizeof dir);
    if (lstat(dir, &st) == 0 ? check_dir(dir, err) : check_above(dir, err))
        return -1;
    strip_slashes(dir);
    return check_addresses(settings, dir, err);
}

static int open_lock(const struct coto_place *place, const char *name)
{
    char path[sizeof place->dir + 16];

    snprintf(path, sizeof path, "%s/%s", place->dir, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* The lock of a life is inherited by whoever may still be at work for the one before. */
static int wait_for_last_life(int fd)
{
    int64_t until = coto_clock_us() + LAST_LIFE_MS * 1000;

    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK || coto_clock_us() > until)
            return -1;
        poll(NULL, 0, 20);
    }
    return 0;
}

static void read_launchers(struct coto_place *place)
{
    char text[COTO_PLACE_LAUNCHERS * 12 + 1] = "";
    char *next = text;

    if (pread(place->life_lock, text, sizeof text - 1, 0) <= 0)
        return;
    for (int i = 0; i < COTO_PLACE_LAUNCHERS; i++)
        place->launchers[i] = (pid_t)strtol(next, &next, 10);
}

static int lock(struct coto_place *place, struct coto_err *err)
{
    place->keeper_lock = open_lock(place, "lock");
    if (place->keeper_lock >= 0 && flock(place->keeper_lock, LOCK_EX | LOCK_NB)) {
        coto_err_set(err, COTO_ERR_LIMIT, 0, "another coto serve runs in '%s'", place->dir);
        return coto_err_remedy(err, "end that one, or give this one its own --runtime-dir, --state-dir and --port");
    }
    place->life_lock = place->keeper_lock >= 0 ? open_lock(place, "life") : -1;
    if (place->life_lock < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "lock '%s'", place->dir);
    if (wait_for_last_life(place->life_lock)) {
        coto_err_set(err, COTO_ERR_LIMIT, 0, "processes of a killed coto serve are still in '%s'",
                     place->dir);
        return coto_err_remedy(err, "look for coto-launch and coto-front, and end them");
    }
    read_launchers(place);
    return 0;
}

void coto_place_note(struct coto_place *place, pid_t launcher)
{
    char text[COTO_PLACE_LAUNCHERS * 12 + 1];
    size_t len = 0;

    memmove(place->launchers + 1, place->launchers,
            sizeof place->launchers - sizeof place->launchers[0]);
    place->launchers[0] = launcher;
    for (int i = 0; i < COTO_PLACE_LAUNCHERS; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%-10d\n", (int)place->launchers[i]);
    (void)!pwrite(place->life_lock, text, len, 0);
}

static int make_token(struct coto_place *place, struct coto_err *err)
{
    unsigned char bytes[(COTO_PLACE_TOKEN - 1) / 2];
    char path[sizeof place->dir + 16];

    snprintf(path, sizeof path, "%s/token", place->dir);
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "getrandom");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(place->token + 2 * i, 3, "%02x", bytes[i]);
    if (unlink(path) && errno != ENOENT)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "write '%s'", path);
    coto_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || coto_fd_write_all(fd, place->token, strlen(place->token)))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "write '%s'", path);
    place->made_token = true;
    return 0;
}

/* ---- sockets ---- */

static int add_socket(struct coto_place *place, const char *where, bool is_tls,
                      struct coto_err *err)
{
    struct coto_place_socket *s = &place->sockets[place->socket_count];

    if (place->socket_count == COTO_PLACE_SOCKETS)
        return refuse_count(where, err);
    *s = (struct coto_place_socket){.is_tls = is_tls};
    s->fd = coto_http_bind(where, s->where, err);
    if (s->fd >= 0) {
        place->socket_count++;
        return 0;
    }
    bool is_unix = coto_str_has_prefix(where, "unix:");
    if (is_unix && err->sys_errno == EADDRINUSE && check_socket(where + strlen("unix:"), err))
        return -1;
    return explain_bind(err);
}

/* ---- socket activation: LISTEN_FDS of LISTEN_PID, as systemd hands them over ---- */

static int inherited_count(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");

    if (!pid || !count || atol(pid) != (long)getpid())
        return 0;
    return atoi(count) > 0 ? atoi(count) : 0;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

    if (a->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static void name_inherited(const struct sockaddr_storage *a, char where[COTO_HTTP_ADDRESS])
{
    char host[INET6_ADDRSTRLEN + 20] = "";
    char port[8] = "";

    if (a->ss_family == AF_UNIX) {
        snprintf(where, COTO_HTTP_ADDRESS, "unix:%.100s",
                 ((const struct sockaddr_un *)a)->sun_path);
        return;
    }
    if (getnameinfo((const struct sockaddr *)a, sizeof *a, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        host[0] = port[0] = '\0';
    snprintf(where, COTO_HTTP_ADDRESS, a->ss_family == AF_INET ? "%s:%s" : "[%s]:%s", host, port);
}

static bool can_tls(const struct coto_settings *settings)
{
    return *coto_settings_text(settings, COTO_SET_TLS_CERTIFICATE) &&
           *coto_settings_text(settings, COTO_SET_TLS_KEY) &&
           *coto_settings_text(settings, COTO_SET_CLIENT_CA) &&
           settings->text[COTO_SET_JWT_KEY].count > 0;
}

static bool is_in(const struct coto_strv *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static int take_inherited(struct coto_place *place, int fd, const struct coto_settings *settings,
                          struct coto_err *err)
{
    struct coto_place_socket *s = &place->sockets[place->socket_count];
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    int listening = 0;
    socklen_t size = sizeof listening;

    if (place->socket_count == COTO_PLACE_SOCKETS || getsockname(fd, (struct sockaddr *)&a, &len) ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) || !listening)
        return coto_err_set(err, COTO_ERR_USAGE, 0,
                            "descriptor %d of LISTEN_FDS: no listening socket", fd);
    *s = (struct coto_place_socket){.fd = fd, .is_inherited = true};
    name_inherited(&a, s->where);
    s->is_tls = (a.ss_family != AF_UNIX && !is_loopback(&a)) ||
                is_in(&settings->text[COTO_SET_LISTEN], s->where);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    place->socket_count++;
    if (!s->is_tls || can_tls(settings))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "inherited socket %s: others can reach it", s->where);
    return coto_err_remedy(err,
                           "set tls-certificate, tls-key, client-ca and jwt-key, or let the socket "
                           "listen on 127.0.0.1 or a unix path");
}

static int take_all_inherited(struct coto_place *place, const struct coto_settings *settings,
                              struct coto_err *err)
{
    int count = inherited_count();

    for (int i = 0; i < count; i++)
        if (take_inherited(place, FIRST_INHERITED + i, settings, err))
            return -1;
    return 0;
}

/* ---- sockets of the settings ---- */

static bool is_unix(const struct coto_place_socket *s)
{
    return coto_str_has_prefix(s->where, "unix:");
}

static bool has_inherited_unix(const struct coto_place *place)
{
    for (int i = 0; i < place->socket_count; i++)
        if (is_unix(&place->sockets[i]))
            return true;
    return false;
}

/* Whether it listens at every address of its family; at [::] usually those of IPv4 come too. */
static bool is_at_all(const struct coto_place_socket *s, bool v6)
{
    int only = 0;
    socklen_t len = sizeof only;

    if (!coto_str_has_prefix(s->where, "[::]:"))
        return !v6 && coto_str_has_prefix(s->where, "0.0.0.0:");
    return v6 || (getsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len) == 0 && !only);
}

/* Whoever connects there reaches an inherited socket that is served in the same way. */
static bool is_covered(const struct coto_place *place, const char *where, bool is_tls)
{
    const char *port = strrchr(where, ':');

    for (int i = 0; i < place->socket_count; i++) {
        const struct coto_place_socket *s = &place->sockets[i];
        if (!s->is_inherited || s->is_tls != is_tls)
            continue;
        if (strcmp(s->where, where) == 0 ||
            (is_tls && strcmp(strrchr(s->where, ':'), port) == 0 && is_at_all(s, where[0] == '[')))
            return true;
    }
    return false;
}

static int open_sockets(struct coto_place *place, const struct coto_settings *settings,
                        struct coto_err *err)
{
    const char *asked = coto_settings_text(settings, COTO_SET_SOCKET);
    int64_t port = settings->num[COTO_SET_PORT];
    bool is_inherited = place->socket_count > 0;
    bool is_port_given = settings->by_flag[COTO_SET_PORT] || settings->by_file[COTO_SET_PORT];
    char where[sizeof place->dir + 32];

    if (*asked)
        snprintf(where, sizeof where, "unix:%s", asked);
    else
        snprintf(where, sizeof where, "unix:%s/api.sock", place->dir);
    if (strcmp(asked, "none") != 0 && !is_covered(place, where, false) &&
        (*asked || !has_inherited_unix(place)) && add_socket(place, where, false, err))
        return -1;
    snprintf(where, sizeof where, "127.0.0.1:%d", (int)port);
    /* Who hands over sockets has chosen them: then a port is opened only for those who name it. */
    if (port != COTO_SETTING_NONE && (is_port_given || !is_inherited) &&
        !is_covered(place, where, false) && add_socket(place, where, false, err))
        return -1;
    for (size_t i = 0; i < settings->text[COTO_SET_LISTEN].count; i++) {
        const char *address = settings->text[COTO_SET_LISTEN].items[i];
        if (!is_covered(place, address, true) && add_socket(place, address, true, err))
            return -1;
    }
    return 0;
}

/* ---- all of it ---- */

/* On loopback: whoever is on this host can connect, so there is a token. */
static bool has_port(const struct coto_place *place)
{
    for (int i = 0; i < place->socket_count; i++)
        if (!place->sockets[i].is_tls && !is_unix(&place->sockets[i]))
            return true;
    return false;
}

bool coto_place_has_tls(const struct coto_place *place)
{
    for (int i = 0; i < place->socket_count; i++)
        if (place->sockets[i].is_tls)
            return true;
    return false;
}

int coto_place_open(const struct coto_settings *settings, struct coto_place *ret_place,
                    struct coto_err *err)
{
    *ret_place = (struct coto_place){.keeper_lock = -1, .life_lock = -1};
    if (make_dir(ret_place, settings, err) || lock(ret_place, err) ||
        take_all_inherited(ret_place, settings, err) || open_sockets(ret_place, settings, err))
        return -1;
    return has_port(ret_place) ? make_token(ret_place, err) : 0;
}

void coto_place_close(struct coto_place *place)
{
    char path[sizeof place->dir + 16];

    for (int i = 0; i < place->socket_count; i++) {
        if (!place->sockets[i].is_inherited && is_unix(&place->sockets[i]))
            unlink(place->sockets[i].where + strlen("unix:"));
        coto_own_close(&place->sockets[i].fd);
    }
    snprintf(path, sizeof path, "%s/token", place->dir);
    if (place->made_token)
        unlink(path);
    coto_own_close(&place->life_lock);
    coto_own_close(&place->keeper_lock);
}

/* Who may use it has a certificate and a token, which are not here. */
static void tell_tls(const struct coto_place_socket *s, const char *body, struct coto_buf *out)
{
    bool is_any = coto_str_has_prefix(s->where, "0.0.0.0:") || coto_str_has_prefix(s->where, "[::]:");

    if (is_unix(s)) {
        coto_buf_addf(out, "  curl --unix-socket %s --cacert CA.crt --cert CLIENT.crt --key CLIENT.key -H \"Authorization: Bearer TOKEN\" https://HOST/api/v1/run %s\n",
                      s->where + 5, body);
        return;
    }
    coto_buf_addf(out, "  curl --cacert CA.crt --cert CLIENT.crt --key CLIENT.key -H \"Authorization: Bearer TOKEN\" https://%s%s/api/v1/run %s\n",
                  is_any ? "HOST" : "", is_any ? strrchr(s->where, ':') : s->where, body);
}

void coto_place_tell(const struct coto_place *place, struct coto_buf *out)
{
    static const char body[] = "-d '{\"code\":\"print(2+2)\"}'";

    for (int i = 0; i < place->socket_count; i++) {
        const struct coto_place_socket *s = &place->sockets[i];
        coto_buf_addf(out, "listening %s%s%s\n",
                      is_unix(s)  ? ""
                      : s->is_tls ? "https://"
                                  : "http://",
                      s->where, is_unix(s) && s->is_tls ? " (TLS)" : "");
    }
    if (place->made_token)
        coto_buf_addf(out, "token     %s/token (only you can read it)\n", place->dir);
    coto_buf_addc(out, '\n');
    for (int i = 0; i < place->socket_count; i++) {
        const struct coto_place_socket *s = &place->sockets[i];
        if (is_unix(s) && !s->is_tls)
            coto_buf_addf(out, "  curl --unix-socket %s http://coto/api/v1/run %s\n", s->where + 5,
                          body);
        else if (!s->is_tls)
            coto_buf_addf(out,
                          "  curl -H \"Authorization: Bearer $(cat %s/token)\" "
                          "http://%s/api/v1/run %s\n",
                          place->dir, s->where, body);
        else
            tell_tls(s, body, out);
    }
}
