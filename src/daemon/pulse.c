#include "daemon/pulse.h"

#include <sys/socket.h>

#define THERE 'P' /* launcher/hold.c says it back */
#define EVERY_US 5000000
#define MISSED_MAX 6 /* half a minute: what it waits for itself, a slow disk, takes less */

bool coto_pulse_take(struct coto_pulse *pulse, int launch_fd, int64_t now_us)
{
    const char there = THERE;
    char byte;

    if (now_us < pulse->due_us)
        return false;
    while (recv(launch_fd, &byte, 1, MSG_DONTWAIT) == 1)
        *pulse = (struct coto_pulse){0};
    pulse->due_us = now_us + EVERY_US;
    if (pulse->is_asked)
        return ++pulse->missed >= MISSED_MAX;
    pulse->is_asked = send(launch_fd, &there, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    return false;
}
