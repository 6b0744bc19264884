/* Network namespaces that were never used.
 *
 * Making one and taking it apart costs the kernel more than all else in a sandbox. A launcher that
 * is root makes them itself: nobody in a sandbox has any right over one, its owner being the
 * host's user namespace. When a sandbox has ended and its init has not said that a socket was
 * made in it (kernel/sockwatch.h), nothing was ever done with its network namespace, and the
 * next sandbox gets it. One in which a socket was made goes with its sandbox
 * (docs/decisions/0012).
 */
#include "drivers/native/native.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define UNUSED_MAX 128

static int unused[UNUSED_MAX];
static int unused_count;
static int own_net_fd = -1;

static void go_home(void)
{
    if (setns(own_net_fd, CLONE_NEWNET))
        abort(); /* nothing that follows would be where it should */
}

static int make_net(void)
{
    int fd = -1;
    int failed = coto_ns_make_net(&fd);

    /* As init does in one of its own (init/aside.c). */
    if (!failed) {
        coto_file_write_at(AT_FDCWD, "/proc/sys/net/core/somaxconn", "64");
        coto_file_write_at(AT_FDCWD, "/proc/sys/net/ipv4/tcp_max_tw_buckets", "8192");
    }
    go_home();
    if (!failed)
        return fd;
    coto_own_close(&fd);
    return -1;
}

/* Only where a process is parked: any other program counts as one that uses sockets. Where it comes
 * late somebody waits for the sandbox, whose init makes one beside us. */
void native_net_find(struct native *n)
{
    if (n->root != COTO_ROOT_GIVEN || !n->plan->parked || n->plan->parked_late)
        return;
    if (own_net_fd < 0)
        own_net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own_net_fd < 0)
        return;
    n->used_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->used_fd >= 0)
        n->net_fd = unused_count > 0 ? unused[--unused_count] : make_net();
    if (n->net_fd < 0)
        coto_own_close(&n->used_fd);
}

bool native_net_enter(const struct native *n)
{
    return n->net_fd < 0 || setns(n->net_fd, CLONE_NEWNET) == 0;
}

void native_net_leave(const struct native *n)
{
    if (n->net_fd >= 0)
        go_home();
}

/* Every process of the sandbox is dead. */
bool native_net_done(struct native *n, bool is_reaped)
{
    uint64_t used;

    if (n->net_fd < 0)
        return false;
    bool is_unused = is_reaped && read(n->used_fd, &used, sizeof used) < 0 && errno == EAGAIN;
    if (is_unused && unused_count < UNUSED_MAX)
        unused[unused_count++] = coto_take_fd(&n->net_fd);
    coto_own_close(&n->net_fd);
    coto_own_close(&n->used_fd);
    return is_unused;
}
