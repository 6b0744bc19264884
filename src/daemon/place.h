/* Where the service can be reached: its private directory with lock, token and socket, and
 * the listening sockets. All of it belongs to the keeper; the front inherits open sockets. */
#pragma once

#include "base/err.h"
#include "daemon/settings.h"
#include "http/server.h"

#include <stdbool.h>
#include <sys/types.h>

#define COTO_PLACE_SOCKETS 32
#define COTO_PLACE_TOKEN 65
#define COTO_PLACE_LAUNCHERS 8

struct coto_place_socket {
    int fd;
    bool is_tls;
    bool is_inherited; /* it is another program's (socket activation) */
    char where[COTO_HTTP_ADDRESS]; /* "unix:/run/coto/api.sock", "127.0.0.1:8640" */
};

struct coto_place {
    char dir[4096];
    char token[COTO_PLACE_TOKEN];
    int keeper_lock; /* held by the keeper alone: a second one is refused at once */
    int life_lock;   /* held by all of its processes: the next life waits until they are gone */
    pid_t launchers[COTO_PLACE_LAUNCHERS]; /* noted there, newest first, those of earlier lives too */
    struct coto_place_socket sockets[COTO_PLACE_SOCKETS];
    int socket_count;
    bool made_token;
};

/* Makes the directory (0700, this user's), locks it, takes inherited sockets, opens those of the settings
 * that are not among them, and writes the token. Whatever others can reach is TLS. */
int coto_place_open(const struct coto_settings *settings, struct coto_place *ret_place,
                    struct coto_err *err);
/* Whether its directory and socket could be made, without making them. */
int coto_place_check(const struct coto_settings *settings, struct coto_err *err);
/* Whether a service runs with that runtime directory. */
bool coto_place_is_running(const struct coto_settings *settings);
/* Closes, and removes the socket and the token. */
void coto_place_close(struct coto_place *place);
/* Whether others can reach it. */
bool coto_place_has_tls(const struct coto_place *place);
/* Notes the launcher's pid for the next life. */
void coto_place_note(struct coto_place *place, pid_t launcher);
/* How to use it, for people. */
void coto_place_tell(const struct coto_place *place, struct coto_buf *out);
