/* What a child borrows of a launcher until it has executed coto-init: its stack, and its ends of
 * everything.
 *
 * A launcher has descriptors for each of a thousand sandboxes. A child with a copy of them all would close
 * them one by one when it executes coto-init, which takes as long as making its cgroup. So it
 * is born with the launcher's own table and takes the lower part of it, a copy, with one call
 * (close_range). Its own ends are there: every slot has numbers for them below `first`, which
 * nothing else uses. As soon as the child says, in memory, that it has its copy, they are closed here; the
 * stack is its own until it has executed coto-init, which READY tells.
 */
#include "drivers/native/native.h"

#include "base/fd.h"
#include "base/weak.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define SLOTS 32
#define ENDS 3    /* of stream, parked process and eventfd */
#define LOWEST 32 /* below it are the launcher's own first ones */
#define ENOUGH 1024 /* descriptors that it may have: else it can spare none, and has few to copy */

static struct native_launch slots[SLOTS];
static struct native *users[SLOTS];
static int first = -1;

/* Takes the numbers, before others are there. */
void native_slots_reserve(int null_fd, int init_fd)
{
    struct rlimit limit;
    bool is_ours = null_fd >= 0 && null_fd < LOWEST && init_fd >= 0 && init_fd < LOWEST &&
                   getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= ENOUGH && coto_up("fds");
    int fds[SLOTS * ENDS];
    int count = 0;

    for (; is_ours && count < SLOTS * ENDS; count++) {
        fds[count] = fcntl(null_fd, F_DUPFD_CLOEXEC, LOWEST + count);
        is_ours = fds[count] == LOWEST + count;
    }
    if (is_ours)
        first = LOWEST + SLOTS * ENDS;
    while (!is_ours && count > 0)
        coto_own_close(&fds[--count]);
}

static int number_of(const struct native_launch *launch)
{
    return LOWEST + (int)(launch - slots) * ENDS;
}

bool native_slot_take(struct native *n)
{
    for (int i = 0; first > 0 && i < SLOTS; i++)
        if (!users[i]) {
            users[i] = n;
            n->launch = &slots[i];
            n->launch->first = first;
            n->launch->has_ends = true;
            atomic_store(&n->launch->is_apart, false);
            return true;
        }
    n->launch = calloc(1, sizeof *n->launch);
    return n->launch != NULL;
}

/* To the numbers of its slot. */
int native_slot_put(struct native_launch *launch)
{
    for (int i = 0; i < ENDS; i++) {
        int *end = &launch->fds[3 + i];
        int to = number_of(launch) + i;
        if (*end < 0)
            continue;
        if (dup3(*end, to, O_CLOEXEC) < 0)
            return -1;
        close(*end);
        *end = to;
    }
    return 0;
}

/* The child still reads their numbers. */
static void close_ends(struct native_launch *launch)
{
    for (int i = 0; i < ENDS && launch->has_ends; i++) {
        int end = launch->fds[3 + i];
        if (end == number_of(launch) + i)
            dup3(launch->fds[0], end, O_CLOEXEC); /* which is /dev/null */
        else if (end >= 0)
            close(end); /* something failed before */
    }
    launch->has_ends = false;
}

/* The child has executed coto-init, or is dead, or was never born. */
void native_slot_drop(struct native *n)
{
    struct native_launch *launch = n->launch;

    n->launch = NULL;
    if (!launch || !launch->first) {
        free(launch);
        return;
    }
    close_ends(launch);
    users[launch - slots] = NULL;
}

/* A child that dies early closes nothing of ours: whoever waits for its stream to end would
 * wait for ever. */
void native_slots_look(void)
{
    for (int i = 0; first > 0 && i < SLOTS; i++) {
        struct pollfd pfd = {.fd = users[i] ? users[i]->pidfd : -1, .events = POLLIN};
        if (users[i] && (atomic_load(&slots[i].is_apart) || poll(&pfd, 1, 0) == 1))
            close_ends(&slots[i]);
    }
}
