/* Network namespaces that nobody has used.
 *
 * Making one and taking it apart costs the kernel more than all else in a sandbox, and two processors that make
 * one each take as long as one that makes both. A launcher that is root has a thread for it (coto-nets), which keeps
 * some ahead. Nobody in a sandbox has any right over one, its owner being the host's user namespace. When a sandbox has
 * ended and its init has not said that a socket was made in it (kernel/sockwatch.h), nothing was ever done with its
 * network namespace, and another sandbox gets it. One in which a socket was made goes with its sandbox
 * (docs/decisions/0012).
 *
 * The thread has a working directory and a root of its own (CLONE_FS), else the launcher could not step into shared
 * roots; it allocates no memory, so that no child of the launcher's finds a lock of malloc's taken.
 */
#include "drivers/native/native.h"

#include "base/clock.h"
#include "base/fd.h"
#include "kernel/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define AHEAD 128         /* 200 KB of the kernel's each */
#define LOW (AHEAD * 3 / 4) /* the thread is woken when fewer are left, not for every one */
#define KEPT_MAX 1024
#define KEEP_US 10000000  /* what came back, for the next ones; then it goes, a part at a time */
#define PER_PROC 32
#define AGAIN_S 1         /* the kernel would make none */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t is_low;
    int fds[KEPT_MAX];
    int count, max;
    int least; /* there were since somebody looked */
} stock = {.lock = PTHREAD_MUTEX_INITIALIZER, .is_low = PTHREAD_COND_INITIALIZER};
static int own_net_fd = -1;

static void go_home(void)
{
    if (setns(own_net_fd, CLONE_NEWNET))
        abort(); /* nothing that follows would be where it should */
}

/* Whoever makes some: a /proc to set their limits in, attached nowhere. In the host's the names of all that are alive
 * would be in one chain, and each would be looked for among all of them. */
struct maker {
    int proc_fd, left;
};

static int proc_of(struct maker *maker)
{
    if (maker->left > 0) {
        maker->left--;
        return maker->proc_fd;
    }
    coto_own_close(&maker->proc_fd);
    maker->proc_fd = coto_mount_new("proc", NULL, COTO_ATTR_NOSUID | COTO_ATTR_NODEV | COTO_ATTR_NOEXEC, NULL);
    if (maker->proc_fd < 0) /* in a container it may be the only one */
        maker->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    maker->left = maker->proc_fd < 0 ? 0 : PER_PROC;
    return maker->proc_fd;
}

/* As init does in one of its own (init/aside.c). It is there for other sandboxes, too: what failed for want of
 * descriptors or memory makes none. Where /proc/sys cannot be written the host's own limits have to do. */
static bool set_limits(struct maker *maker)
{
    int proc = proc_of(maker);
    bool is_set = proc >= 0 && coto_file_write_at(proc, "sys/net/core/somaxconn", "64") == 0 &&
                  coto_file_write_at(proc, "sys/net/ipv4/tcp_max_tw_buckets", "8192") == 0;

    return is_set || errno == EROFS || errno == EACCES || errno == EPERM || errno == ENOENT;
}

static int make_net(struct maker *maker)
{
    int fd = -1;
    int why = coto_ns_make_net(&fd);
    bool is_made = why == 0 && set_limits(maker);

    go_home();
    errno = why;
    if (is_made)
        return fd;
    coto_own_close(&fd);
    return -1;
}

/* A right that is missing will be missing: CAP_NET_ADMIN sets a loopback up, and a unit may have left it out. */
static bool may_make(struct maker *maker)
{
    coto_auto_fd fd = make_net(maker);

    return fd >= 0 || (errno != EPERM && errno != EACCES);
}

/* ---- the stock ---- */

static bool put(int fd)
{
    pthread_mutex_lock(&stock.lock);
    bool has_room = stock.count < stock.max;
    if (has_room)
        stock.fds[stock.count++] = fd;
    pthread_mutex_unlock(&stock.lock);
    return has_room;
}

static int take(void)
{
    pthread_mutex_lock(&stock.lock);
    int fd = stock.count > 0 ? stock.fds[--stock.count] : -1;
    if (stock.count < stock.least)
        stock.least = stock.count;
    bool is_low = stock.count < LOW;
    pthread_mutex_unlock(&stock.lock);
    if (is_low)
        pthread_cond_signal(&stock.is_low);
    return fd;
}

struct beginning {
    pthread_barrier_t is_made;
    bool is_apart;
};

static void *make_ahead(void *arg)
{
    const struct timespec again = {.tv_sec = AGAIN_S};
    struct maker maker = {.proc_fd = -1};
    struct beginning *beginning = arg;
    bool is_apart = unshare(CLONE_FS) == 0;

    prctl(PR_SET_NAME, "coto-nets");
    beginning->is_apart = is_apart;
    pthread_barrier_wait(&beginning->is_made); /* then it is gone */
    if (!is_apart)
        return NULL;
    for (;;) {
        pthread_mutex_lock(&stock.lock);
        while (stock.count >= AHEAD || stock.count >= stock.max)
            pthread_cond_wait(&stock.is_low, &stock.lock);
        pthread_mutex_unlock(&stock.lock);
        int fd = make_net(&maker);
        if (fd < 0)
            nanosleep(&again, NULL);
        else if (!put(fd))
            close(fd);
    }
}

/* An eighth of what the launcher may open. */
static int most(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 8 >= KEPT_MAX)
        return KEPT_MAX;
    return (int)(limit.rlim_cur / 8);
}

/* False: nobody makes any ahead. */
static bool start_maker(struct maker *maker)
{
    static int is_there = -1;
    struct beginning beginning = {0};
    pthread_t thread;
    sigset_t all;
    sigset_t before;

    if (is_there >= 0)
        return is_there;
    is_there = 0;
    own_net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    /* Root of a user namespace in a network of somebody else's can leave that, and not come back. */
    if (own_net_fd < 0 || setns(own_net_fd, CLONE_NEWNET) || !may_make(maker) || pthread_barrier_init(&beginning.is_made, NULL, 2))
        return false;
    stock.max = most();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, make_ahead, &beginning) == 0) {
        pthread_barrier_wait(&beginning.is_made);
        is_there = beginning.is_apart;
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_barrier_destroy(&beginning.is_made);
    return is_there;
}

/* How many were not needed at any moment of the last ten seconds. */
static int count_spare(void)
{
    pthread_mutex_lock(&stock.lock);
    int spare = stock.least - AHEAD;
    stock.least = stock.count;
    pthread_mutex_unlock(&stock.lock);
    return spare;
}

/* Four times a second: what a thousand sandboxes gave back is not kept for ever. */
void native_nets_look(void)
{
    static int64_t next_us;
    static int spare;
    int64_t now = coto_clock_us();

    if (now >= next_us) {
        spare = count_spare();
        next_us = now + KEEP_US;
    }
    for (int i = 0; i < KEPT_MAX / 32 && spare > 0; i++, spare--) {
        pthread_mutex_lock(&stock.lock);
        int fd = stock.count > AHEAD ? stock.fds[--stock.count] : -1;
        pthread_mutex_unlock(&stock.lock);
        coto_own_close(&fd);
    }
}

/* ---- of a sandbox ---- */

/* Only where a process is parked: any other program counts as one that uses sockets. Where it comes
 * late somebody waits for the sandbox: when there is none its init makes one, beside us. */
void native_net_find(struct native *n)
{
    static struct maker maker = {.proc_fd = -1};

    if (n->root != COTO_ROOT_GIVEN || !n->plan->parked || !start_maker(&maker))
        return;
    n->net_fd = take();
    if (n->net_fd < 0 && !n->plan->parked_late)
        n->net_fd = make_net(&maker);
    if (n->net_fd >= 0)
        n->used_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->used_fd < 0)
        coto_own_close(&n->net_fd);
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

/* Every process of the sandbox is dead, or there was none. */
bool native_net_done(struct native *n, bool is_empty)
{
    uint64_t used;

    if (n->net_fd < 0)
        return false;
    bool is_unused = is_empty && read(n->used_fd, &used, sizeof used) < 0 && errno == EAGAIN;
    if (is_unused && put(n->net_fd))
        n->net_fd = -1;
    coto_own_close(&n->net_fd);
    coto_own_close(&n->used_fd);
    return is_unused;
}
