/* The front: HTTP, tokens, records. It has no privilege and lives behind coto's own walls. */
#pragma once

#include "daemon/files.h"
#include "daemon/place.h"
#include "daemon/settings.h"
#include "kernel/self.h"

#include <sys/types.h>

/* What the keeper hands over; the front's own copy, as it is a fork. */
struct coto_front_ask {
    struct coto_settings *settings;
    struct coto_place *place;
    struct coto_files *files;
    unsigned uid, gid; /* to become when it is root */
    unsigned owner_uid; /* may use the unix socket, besides root */
    int control_fd;    /* to the launcher; taken */
    int keeper_fd;     /* to the keeper; taken */
    pid_t keeper;
    const struct coto_self *self; /* the keeper's walls */
    const unsigned char *secret; /* for tokens of sandboxes; the same for each front of this keeper */
};

/* Serves until it is told to end; the exit status. */
int coto_front_run(const struct coto_front_ask *ask);
