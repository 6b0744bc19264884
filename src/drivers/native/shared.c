/* Root file systems that sandboxes share (init/shared.c), as a launcher keeps them.
 *
 * A root is a mount namespace, held by a descriptor; nobody is in it. To start a sandbox in one
 * the launcher steps into it, clones, and steps back. Where that cannot be done (not root, a
 * plan with mounts of its own) sandboxes make roots of their own: slower,
 * not weaker.
 */
#include "drivers/native/native.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOTS 8
#define FRESH_US 30000000 /* then what has changed on the host is looked at again */
#define READY_MS 5000

static struct shared_root {
    char key[512]; /* all of a plan that can be seen in it */
    int mounts_fd; /* -1: it could not be made */
    int64_t made_us;
} roots[ROOTS];
static int root_count;
static int own_mounts_fd = -1;
static int own_root_fd = -1;

/* Back to our own mounts. Root of a user namespace may leave those of somebody else, and not come back. */
static bool go_home(void)
{
    /* The root of the namespace need not be the one we had. */
    return !setns(own_mounts_fd, CLONE_NEWNS) && !fchdir(own_root_fd) && !chroot(".");
}

/* ---- whether ---- */

static bool can_share(const struct native *n)
{
    static int can = -1;
    const struct coto_plan *plan = n->plan;

    if (!native_serves || !plan || plan->rootfs.source || plan->mount_count || plan->tmpfs_count ||
        coto_weakened())
        return false;
    if (can < 0) {
        own_mounts_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        own_root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        can = getuid() == 0 && own_mounts_fd >= 0 && own_root_fd >= 0 && go_home();
    }
    return can;
}

/* ---- making one ---- */

static bool is_ready(const struct native *root)
{
    struct coto_frame_reader reader = {0};
    const int fd = root->base.stream_fd;
    struct pollfd pfds[2] = {{.fd = fd, .events = POLLIN}, {.fd = root->pidfd, .events = POLLIN}};
    struct coto_frame frame;
    size_t room;
    char *to = coto_frame_reader_space(&reader, &room);
    ssize_t n = to && poll(pfds, 2, READY_MS) > 0 ? recv(fd, to, room, MSG_DONTWAIT) : -1;

    if (n > 0)
        reader.buf.len += (size_t)n;
    bool ready = n > 0 && coto_frame_next(&reader, &frame, NULL) == 1 &&
                 frame.type == COTO_FRAME_READY;
    coto_frame_reader_fini(&reader);
    return ready;
}

static int make_root(const struct coto_plan *plan)
{
    struct native *n = native_new();
    char path[48];
    int fd = -1;

    if (!n)
        return -1;
    n->plan = plan;
    n->root = COTO_ROOT_FOR_OTHERS;
    if (native_launch(n, -1, NULL) == 0) {
        if (native_send_setup(n, false, NULL) == 0 && is_ready(n)) {
            snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)n->pid);
            fd = open(path, O_RDONLY | O_CLOEXEC);
        }
    }
    native_free(n);
    return fd;
}

/* With lengths: no two plans have the same, whatever is in their names. False: too long. */
bool native_shared_key(const struct coto_plan *plan, char *ret_key, size_t size)
{
    int len = snprintf(ret_key, size, "%u %u %d %zu:%s %zu:%s %zu:%s", (unsigned)plan->uid,
                       (unsigned)plan->gid, plan->ptys > 0, strlen(plan->user_name),
                       plan->user_name, strlen(plan->hostname), plan->hostname,
                       strlen(plan->workdir), plan->workdir);

    return len > 0 && (size_t)len < size;
}

static struct shared_root *find_root(const struct coto_plan *plan)
{
    char key[sizeof roots[0].key];

    if (!native_shared_key(plan, key, sizeof key))
        return NULL;
    for (int i = 0; i < root_count; i++)
        if (strcmp(roots[i].key, key) == 0)
            return &roots[i];
    static unsigned made; /* the oldest goes first */
    struct shared_root *root = &roots[made++ % ROOTS];
    root_count += root_count < ROOTS;
    if (root->key[0])
        coto_own_close(&root->mounts_fd);
    memcpy(root->key, key, sizeof key);
    root->mounts_fd = -1;
    root->made_us = 0;
    return root;
}

/* ---- using one ---- */

void native_shared_find(struct native *n)
{
    struct shared_root *root = can_share(n) ? find_root(n->plan) : NULL;
    int64_t now = coto_clock_us();

    if (!root)
        return;
    if (!root->made_us || now - root->made_us > FRESH_US) {
        if (root->made_us)
            coto_own_close(&root->mounts_fd);
        root->mounts_fd = make_root(n->plan);
        root->made_us = now;
    }
    n->shared_fd = root->mounts_fd;
    n->root = n->shared_fd >= 0 ? COTO_ROOT_GIVEN : COTO_ROOT_OWN;
}

bool native_shared_enter(const struct native *n)
{
    return n->root != COTO_ROOT_GIVEN || setns(n->shared_fd, CLONE_NEWNS) == 0;
}

void native_shared_leave(const struct native *n)
{
    if (n->root != COTO_ROOT_GIVEN)
        return;
    if (!go_home())
        abort(); /* nothing that follows would be where it should */
}
