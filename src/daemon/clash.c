#include "daemon/clash.h"

#include "base/fd.h"
#include "base/str.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* ---- paths ---- */

/* Where the file is to be; its directory may be written in several ways. */
static bool stat_above(const char *path, struct stat *ret_st)
{
    char above[4096];
    const char *slash = strrchr(path, '/');
    int len = slash ? (int)(slash - path) + 1 : 0;

    snprintf(above, sizeof above, "%.*s", slash ? len : 1, slash ? path : ".");
    return stat(above, ret_st) == 0;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_same_path(const char *a, const char *b)
{
    struct stat at_a, at_b;

    if (strcmp(a, b) == 0)
        return true;
    return strcmp(last_name(a), last_name(b)) == 0 && stat_above(a, &at_a) && stat_above(b, &at_b) &&
           at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino;
}

/* ---- numbers ---- */

/* IPv4 as the part of IPv6 that it is for a socket of both. */
static bool parse(const char *where, struct sockaddr_in6 *ret_address)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(where, ':');
    const bool has_brackets = where[0] == '[';
    char host[256];

    if (!colon)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(colon - where) - 2 * has_brackets, where + has_brackets);
    if (getaddrinfo(host, colon + 1, &hints, &found))
        return false;
    *ret_address = (struct sockaddr_in6){.sin6_family = AF_INET6};
    if (found->ai_family == AF_INET6) {
        memcpy(ret_address, found->ai_addr, sizeof *ret_address);
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)found->ai_addr;
        ret_address->sin6_port = v4->sin_port;
        ret_address->sin6_addr.s6_addr[10] = ret_address->sin6_addr.s6_addr[11] = 0xff;
        memcpy(ret_address->sin6_addr.s6_addr + 12, &v4->sin_addr, sizeof v4->sin_addr);
    }
    freeaddrinfo(found);
    return true;
}

/* What a host's sockets for IPv6 take by default. */
static bool is_v6_alone(void)
{
    coto_auto_fd fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int only = 0;
    socklen_t len = sizeof only;

    return fd >= 0 && getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len) == 0 && only;
}

static bool is_any_v4(const struct in6_addr *a)
{
    return IN6_IS_ADDR_V4MAPPED(a) && !(a->s6_addr[12] | a->s6_addr[13] | a->s6_addr[14] | a->s6_addr[15]);
}

/* Whether all that is at the other one is at this one too. */
static bool has_all_of(const struct in6_addr *a, const struct in6_addr *other)
{
    if (IN6_IS_ADDR_V4MAPPED(other))
        return is_any_v4(a) || (IN6_IS_ADDR_UNSPECIFIED(a) && !is_v6_alone());
    return IN6_IS_ADDR_UNSPECIFIED(a);
}

bool coto_clash(const char *a, const char *b)
{
    const char unix_prefix[] = "unix:";
    const bool is_unix = coto_str_has_prefix(a, unix_prefix);
    struct sockaddr_in6 at_a, at_b;

    if (is_unix != coto_str_has_prefix(b, unix_prefix))
        return false;
    if (is_unix)
        return is_same_path(a + strlen(unix_prefix), b + strlen(unix_prefix));
    if (!parse(a, &at_a) || !parse(b, &at_b) || at_a.sin6_port != at_b.sin6_port || !at_a.sin6_port)
        return false;
    bool is_same = IN6_ARE_ADDR_EQUAL(&at_a.sin6_addr, &at_b.sin6_addr) && at_a.sin6_scope_id == at_b.sin6_scope_id;
    return is_same || has_all_of(&at_a.sin6_addr, &at_b.sin6_addr) || has_all_of(&at_b.sin6_addr, &at_a.sin6_addr);
}
