#include "daemon/pulse.h"

#include "base/fd.h"

#include <sys/socket.h>

#define THERE 'P' /* launcher/hold.c says it back */
#define EVERY_US 5000000
#define MISSED_MAX 6 /* half a minute: what it waits for itself, a slow disk, takes less */

static bool waits_for_the_kernel(pid_t pid)
{
    return coto_proc_stat(pid, 4, 0, NULL) == 'D';
}

bool coto_pulse_take(struct coto_pulse *pulse, pid_t launcher, int launch_fd, int64_t now_us)
{
    const char there = THERE;
    char byte;

    if (now_us < pulse->due_us)
        return false;
    while (recv(launch_fd, &byte, 1, MSG_DONTWAIT) == 1)
        *pulse = (struct coto_pulse){0};
    pulse->due_us = now_us + EVERY_US;
    if (pulse->is_asked) {
        pulse->missed = waits_for_the_kernel(launcher) ? 0 : pulse->missed + 1;
        bool is_new = pulse->missed >= MISSED_MAX && !pulse->is_told;
        pulse->is_told = pulse->is_told || is_new;
        return is_new;
    }
    pulse->is_asked = send(launch_fd, &there, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    return false;
}
