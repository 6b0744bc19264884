/* Sandboxes whose making takes long and cannot be cut into pieces: those of a container
 * runtime or an engine. Each has a process of its own, coto-box, which is this very program with
 * --box (apart_main.c); it makes the sandbox with the level's driver, keeps it, and destroys it
 * when it is told to or when this process is gone. The talk is that of front and launcher:
 *
 *   launcher   CREATE [L_PARK] and a plan      CHECK and a plan
 *   coto-box   CREATED with the stream         DONE, or ERROR
 *   launcher   USAGE, BOX_KILL at any time     DESTROY
 *   coto-box   USED                            USED, and it ends
 */
#include "launcher/launcher.h"

#include "base/fd.h"
#include "drivers/launcher/talk.h"
#include "kernel/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct apart {
    struct coto_sandbox base; /* first: what the box has as its sandbox */
    pid_t pid;
    int fd;
    char guest[64];
    struct coto_usage last;
    bool is_silent; /* its process has closed its end */
};

static struct apart *of(const struct box *box)
{
    return (struct apart *)box->sandbox;
}

/* ---- starting ---- */

static _Noreturn void become_box(const struct launcher *l, int fd)
{
    char number[24];
    char *argv[3 + LAUNCHER_HIGH_ARGS + 1] = {"coto-box", number};
    int count = 2;

    /* Every other descriptor of ours closes by itself at execve. */
    snprintf(number, sizeof number, "--box=%d", fd);
    for (int i = 0; i < l->high_arg_count; i++)
        argv[count++] = l->high_args[i];
    argv[count] = NULL;
    fcntl(fd, F_SETFD, 0);
    execve("/proc/self/exe", argv, environ);
    _exit(127);
}

static int ask_for(struct launcher *l, struct box *box, struct coto_err *err)
{
    size_t at;

    coto_buf_clear(&l->out);
    at = coto_frame_begin(&l->out, box->is_check ? COTO_FRAME_CHECK : COTO_FRAME_CREATE, 0);
    coto_frame_add_num(&l->out, COTO_TAG_L_PARK, box->parks);
    int failed = coto_launch_add_plan(&l->out, &box->plan, err);
    coto_frame_end(&l->out, at);
    if (!failed && coto_launch_send(of(box)->fd, &l->out, -1))
        failed = coto_err_set(err, COTO_ERR_LIMIT, errno, "talk to coto-box");
    coto_buf_clear(&l->out);
    return failed;
}

int launcher_apart_start(struct launcher *l, struct box *box, struct coto_err *err)
{
    struct apart *apart = calloc(1, sizeof *apart);
    int sv[2];

    if (!apart || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv)) {
        free(apart);
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start coto-box");
    }
    *apart = (struct apart){.base = {.stream_fd = -1,
                                     .parked_fd = -1,
                                     .alive_fd = -1,
                                     .stdio_fd = {-1, -1, -1}},
                            .fd = sv[0],
                            .last = COTO_USAGE_NONE};
    box->sandbox = &apart->base;
    apart->pid = coto_ns_clone(0, -1, &apart->base.alive_fd);
    if (apart->pid == 0)
        become_box(l, sv[1]);
    close(sv[1]);
    if (apart->pid < 0)
        coto_err_set(err, COTO_ERR_LIMIT, errno, "start coto-box");
    if (apart->pid < 0 || coto_driver_choose(box->plan.isolation, &apart->base.driver, err) ||
        ask_for(l, box, err)) {
        launcher_apart_gone(l, box, NULL);
        return -1;
    }
    box->is_apart = true;
    box->apart = (struct source){SOURCE_APART, box};
    if (launcher_watch(l, apart->fd, &box->apart) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_LIMIT, errno, "watch coto-box");
    launcher_apart_gone(l, box, NULL);
    return -1;
}

/* ---- talking ---- */

void launcher_apart_tell(struct launcher *l, struct box *box, enum coto_frame_type what)
{
    coto_buf_clear(&l->out);
    coto_frame_end(&l->out, coto_frame_begin(&l->out, what, 0));
    coto_launch_send(of(box)->fd, &l->out, -1); /* if it is gone, its death tells */
    coto_buf_clear(&l->out);
}

static void fail(struct launcher *l, struct box *box, const struct coto_err *err)
{
    launcher_box_failed(l, box, err);
    launcher_end_box(l, box, NULL);
}

static void made(struct launcher *l, struct box *box, const struct coto_frame *frame, int *stream)
{
    struct apart *apart = of(box);
    struct coto_err err = {0};

    if (*stream < 0 || coto_launch_take_sandbox(frame, &apart->base, apart->guest)) {
        coto_err_set(&err, COTO_ERR_INTERNAL, 0, "coto-box: an answer that makes no sense");
        fail(l, box, &err);
        return;
    }
    apart->base.stream_fd = coto_take_fd(stream);
    l->status.starting--;
    l->status.parked += coto_field_num(frame, COTO_TAG_L_PARK);
    launcher_box_ready(l, box);
}

static void checked(struct launcher *l, struct box *box)
{
    struct channel *channel = box->waiter;

    box->waiter = NULL;
    if (channel)
        launcher_answer_done(l, channel);
    launcher_end_box(l, box, NULL);
}

static void used(struct launcher *l, struct box *box, const struct coto_frame *frame)
{
    struct channel *channel = box->asker;

    coto_launch_take_usage(frame, &of(box)->last);
    box->asker = NULL;
    if (channel)
        launcher_answer_usage(l, channel, &of(box)->last);
}

/* Its death tells the rest. */
static void silent(struct launcher *l, struct box *box)
{
    struct coto_err err = {0};

    launcher_unwatch(l, of(box)->fd);
    of(box)->is_silent = true;
    coto_err_set(&err, COTO_ERR_LIMIT, 0, "coto-box ended in the middle");
    coto_err_remedy(&err, "somebody has killed it, or the host is out of memory: try again");
    if (box->state == BOX_STARTING)
        fail(l, box, &err);
    if (box->asker)
        launcher_answer_error(l, box->asker, &err);
    box->asker = NULL;
}

void launcher_apart_says(struct launcher *l, struct box *box)
{
    struct coto_frame frame;
    struct coto_err err = {0};
    coto_auto_fd fd = -1;
    int got = coto_launch_receive(of(box)->fd, &l->in, &frame, &fd);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got != 1) {
        silent(l, box);
    } else if (frame.type == COTO_FRAME_USED) {
        used(l, box, &frame);
    } else if (box->state != BOX_STARTING) {
        return;
    } else if (frame.type == COTO_FRAME_CREATED && !box->is_check) {
        made(l, box, &frame, &fd);
    } else if (frame.type == COTO_FRAME_DONE && box->is_check) {
        checked(l, box);
    } else {
        coto_err_set(&err, COTO_ERR_INTERNAL, 0, "coto-box: an answer that makes no sense");
        if (frame.type == COTO_FRAME_ERROR)
            coto_field_error(&frame, &err);
        fail(l, box, &err);
    }
}

int launcher_apart_ask(struct launcher *l, struct box *box, struct channel *channel)
{
    if (of(box)->is_silent) {
        launcher_answer_usage(l, channel, &of(box)->last);
        return 0;
    }
    if (box->asker)
        return -1;
    box->asker = channel;
    channel->waits = true;
    launcher_apart_tell(l, box, COTO_FRAME_USAGE);
    return 0;
}

/* ---- the end ---- */

bool launcher_apart_is_dead(const struct box *box)
{
    struct pollfd pfd = {.fd = box->sandbox->stream_fd}; /* POLLHUP and POLLERR come unasked */

    return poll(&pfd, 1, 0) != 0;
}

/* The last it has said may lie there unread. */
static void take_last_words(struct apart *apart)
{
    coto_auto_buf buf = {0};
    struct coto_frame frame;
    struct pollfd pfd = {.fd = apart->fd, .events = POLLIN};
    int fd = -1;

    while (poll(&pfd, 1, 0) == 1 && coto_launch_receive(apart->fd, &buf, &frame, &fd) == 1) {
        coto_own_close(&fd);
        if (frame.type == COTO_FRAME_USED)
            coto_launch_take_usage(&frame, &apart->last);
    }
}

void launcher_apart_gone(struct launcher *l, struct box *box, struct coto_usage *ret_usage)
{
    struct apart *apart = of(box);

    launcher_unwatch(l, apart->fd);
    take_last_words(apart);
    if (box->asker)
        launcher_answer_usage(l, box->asker, &apart->last);
    box->asker = NULL;
    if (ret_usage)
        *ret_usage = apart->last;
    coto_own_close(&apart->fd); /* one that was never asked ends with it */
    while (apart->pid > 0 && waitpid(apart->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    coto_own_close(&apart->base.alive_fd);
    coto_own_close(&apart->base.stream_fd);
    free(apart);
    box->sandbox = NULL;
}
