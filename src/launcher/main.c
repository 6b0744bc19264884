/* coto-launch --keeper=FD [--filter=HASH] [--max-sandboxes=N] [--generation=N] [--life=FD] [--memory=N] and other
 * ceilings (most.c) [--high-isolation=N] [--high-runtime=NAME] [--high-image=NAME]
 * [--high-images-dir=DIR] [--high-image-key=FILE] [--high-allow-runtime=NAME[@VERSION]]...: started by coto-serve, never by hand; with --box=FD
 * by itself (apart.c), and with --sweep (sweep.c). Boxes of different generations have different numbers, so that the front
 * cannot take one for another. The descriptor of life is a lock that tells the next service
 * that we are still here; nobody else gets it. The filter is the one that the keeper has loaded for itself and us. */
#include "launcher/launcher.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TICK_MS 250
#define FRONT_END_US 1000000 /* so long at most does a front live on without its keeper */

int launcher_watch(struct launcher *l, int fd, struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void launcher_unwatch(struct launcher *l, int fd)
{
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void serve(struct launcher *l, struct source *source)
{
    switch (source->kind) {
    case SOURCE_CHANNEL:
        launcher_take_message(l, source->owner);
        break;
    case SOURCE_STREAM:
        launcher_stream_ready(l, source->owner);
        break;
    case SOURCE_ALIVE:
        launcher_box_dead(l, source->owner);
        break;
    case SOURCE_APART:
        launcher_apart_says(l, source->owner);
        break;
    case SOURCE_LATE:
        launcher_wanted(l, source->owner);
        break;
    case SOURCE_TEMPLATE:
        launcher_template_says(l, source->owner);
        break;
    }
}

static void end_all(struct launcher *l)
{
    for (int i = 0; i < LAUNCHER_BOXES; i++)
        if (l->boxes[i])
            launcher_end_box(l, l->boxes[i], NULL);
}

/* With its keeper a front dies, but the kernel closes what that had a moment before it comes to the front: whose sandboxes
 * ended meanwhile would be told as programs that have. */
static bool is_over(const struct launcher *l)
{
    return l->ending || (l->alone_us && (!l->control || coto_clock_us() - l->alone_us > FRONT_END_US));
}

/* One event a turn: an answer to it may free what another one is about. */
static int run(struct launcher *l)
{
    bool told = false;

    while (!l->ending || l->box_count > 0) {
        struct epoll_event event;
        int n = epoll_wait(l->epoll_fd, &event, 1, TICK_MS);
        if (n < 0 && errno != EINTR)
            return 71;
        if (n == 1)
            serve(l, event.data.ptr);
        l->ending = is_over(l);
        if (l->ending && !told) {
            told = true;
            launcher_template_stop(l);
            end_all(l);
        }
        launcher_watch_again(l);
        launcher_tick(l);
        launcher_refill(l);
    }
    l->driver->discard();
    return 0;
}

/* What the operator says about level high. A process apart gets the same words. */
static bool take_high(struct launcher *l, char *arg)
{
    struct launcher_high *high = &l->high;
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"--high-runtime=", &high->runtime},
                 {"--high-image=", &high->image.name},
                 {"--high-images-dir=", &high->image.dir},
                 {"--high-image-key=", &high->image.key}};
    static const char isolation[] = "--high-isolation=", allow[] = "--high-allow-runtime=";

    if (strncmp(arg, "--high-", 7) != 0 || l->high_arg_count == LAUNCHER_HIGH_ARGS)
        return false;
    l->high_args[l->high_arg_count++] = arg;
    if (strncmp(arg, isolation, sizeof isolation - 1) == 0)
        high->isolation = atoi(arg + sizeof isolation - 1);
    if (strncmp(arg, allow, sizeof allow - 1) == 0 && high->allowed_count < LAUNCHER_ALLOWED)
        high->allowed[high->allowed_count++] = arg + sizeof allow - 1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strncmp(arg, texts[i].name, strlen(texts[i].name)) == 0)
            *texts[i].value = arg + strlen(texts[i].name);
    return true;
}

/* With the right to make containers only where there may be some. */
static int confine(struct launcher *l, const char *filter, struct coto_err *err)
{
    bool has_high = l->most.levels & LAUNCHER_HIGH && l->high.isolation != COTO_ISOLATION_PROCESS;

    prctl(PR_SET_DUMPABLE, 0);
    return coto_self_confine(coto_self_launcher_needs(has_high), filter, &l->self, err);
}

static long number_after(const char *arg, const char *name)
{
    size_t n = strlen(name);

    return strncmp(arg, name, n) == 0 ? atol(arg + n) : -1;
}

int main(int argc, char **argv)
{
    static struct launcher l = {.max_boxes = LAUNCHER_BOXES / 2,
                                .next_number = 1,
                                .high = {.runtime = "", .image = {"", "", ""}}};
    struct coto_err err = {0};
    int keeper = -1;
    int box = -1;
    const char *filter = NULL;

    if (argc == 2 && strcmp(argv[1], "--sweep") == 0)
        return launcher_sweep_main();
    l.most = launcher_any;
    for (int i = 1; i < argc; i++) {
        long v;
        if (take_high(&l, argv[i]) || launcher_take_most(&l.most, argv[i]))
            continue;
        if (strncmp(argv[i], "--filter=", 9) == 0)
            filter = argv[i] + 9;
        else if ((v = number_after(argv[i], "--keeper=")) >= 0)
            keeper = (int)v;
        else if ((v = number_after(argv[i], "--box=")) > 2)
            box = (int)v;
        else if ((v = number_after(argv[i], "--max-sandboxes=")) > 0 && v < LAUNCHER_BOXES / 2)
            l.max_boxes = (unsigned)v;
        else if ((v = number_after(argv[i], "--generation=")) > 0)
            l.next_number = ((uint64_t)v << 32) + 1;
        else if ((v = number_after(argv[i], "--life=")) > 2)
            fcntl((int)v, F_SETFD, FD_CLOEXEC);
    }
    if (box >= 0 && fcntl(box, F_SETFD, FD_CLOEXEC) == 0)
        return launcher_apart_main(box, &l.high);
    if (keeper < 0 || fcntl(keeper, F_SETFD, FD_CLOEXEC)) {
        fprintf(stderr, "coto-launch: it is started by `coto serve`, not by hand\n");
        return 64;
    }
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C is for the keeper, which then tells us. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int failed = confine(&l, filter, &err);
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct channel *channel = launcher_add_channel(&l, keeper);
    if (failed || coto_driver_choose(COTO_ISOLATION_PROCESS, &l.driver, &err) || !channel) {
        fprintf(stderr, "coto-launch: %s\n", err.kind ? err.text : strerror(errno));
        return 71;
    }
    channel->is_keeper = true;
    if (l.driver && l.driver->serve)
        l.driver->serve();
    return run(&l);
}
