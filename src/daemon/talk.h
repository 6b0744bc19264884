/* What the keeper and the front say to each other: packets of a socket pair.
 *
 *   front to keeper   READY     it serves
 *   keeper to front   LAUNCHER  there is a new launcher; one descriptor, its control channel
 *                     FILES     key files have changed, or their names: one descriptor, the names (settings.h), then
 *                               copies of all; the data is which is which (files.h)
 *                     NUMBERS   settings have changed: all numbers, and one descriptor, the lists (settings.h)
 */
#pragma once

#include <stddef.h>

#define COTO_TALK_FDS 64

enum coto_talk {
    COTO_TALK_READY = 'R',
    COTO_TALK_LAUNCHER = 'L',
    COTO_TALK_FILES = 'F',
    COTO_TALK_NUMBERS = 'N',
};

struct coto_message {
    char what;
    char data[2048];
    size_t len;
    int fds[COTO_TALK_FDS]; /* of a received one: the caller's */
    int fd_count;
};

/* 0, or -1 with errno. */
int coto_talk_send(int fd, const struct coto_message *message);
/* 1, 0 when the other end is gone, -1 with errno. */
int coto_talk_receive(int fd, struct coto_message *ret_message);
