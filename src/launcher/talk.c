#include "launcher/launcher.h"

#include "base/clock.h"
#include "base/fd.h"
#include "drivers/launcher/talk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEND_TRIES 3

/* ---- channels ---- */

struct channel *launcher_add_channel(struct launcher *l, int fd)
{
    int i = 0;

    while (i < LAUNCHER_CHANNELS && l->channels[i])
        i++;
    errno = EMFILE;
    struct channel *channel = i < LAUNCHER_CHANNELS ? calloc(1, sizeof *channel) : NULL;
    if (!channel)
        return NULL;
    *channel = (struct channel){.source = {SOURCE_CHANNEL, channel},
                                .fd = fd,
                                .front = l->front};
    if (launcher_watch(l, fd, &channel->source)) {
        free(channel);
        return NULL;
    }
    l->channels[i] = channel;
    return channel;
}

/* One that waits for an answer is kept until it has got it. */
static void free_channel(struct launcher *l, struct channel *channel)
{
    for (int i = 0; i < LAUNCHER_CHANNELS; i++)
        if (l->channels[i] == channel)
            l->channels[i] = NULL;
    coto_buf_fini(&channel->hold);
    free(channel);
}

void launcher_close_channel(struct launcher *l, struct channel *channel)
{
    if (!channel->gone) {
        launcher_unwatch(l, channel->fd);
        coto_fd_drop(channel->fd);
        channel->gone = true;
    }
    if (channel->is_keeper)
        l->alone_us = coto_clock_us();
    if (channel == l->control)
        launcher_front_gone(l);
    if (channel->stays)
        launcher_user_gone(l, channel);
    if (!channel->waits)
        free_channel(l, channel);
}

/* ---- answers ---- */

/* A front that asks and does not read gets no answer: nobody else waits for it. What the kernel had no memory for it may have
 * a moment later; then whoever waits is told by the end of the channel, and opens another. There is no other one for
 * control. */
static int send_answer(struct launcher *l, struct channel *channel, int fd)
{
    bool is_gone = channel->gone;
    int failed = -1;

    for (int i = 0; i < SEND_TRIES && !is_gone && failed; i++)
        failed = coto_launch_send_now(channel->fd, &l->out, fd);
    channel->waits = false;
    coto_buf_clear(&l->out);
    if (is_gone)
        free_channel(l, channel);
    else if (failed && !channel->is_control)
        shutdown(channel->fd, SHUT_RDWR); /* the rest when epoll tells */
    return failed;
}

static int answer(struct launcher *l, struct channel *channel, size_t at, int fd)
{
    coto_frame_end(&l->out, at);
    return send_answer(l, channel, fd);
}

static size_t begin(struct launcher *l, enum coto_frame_type type)
{
    coto_buf_clear(&l->out);
    return coto_frame_begin(&l->out, type, 0);
}

/* Whatever it was that failed for want of descriptors, there will be some again. */
static struct coto_err as_limit(const struct coto_err *err)
{
    struct coto_err it = *err;

    if (it.sys_errno != EMFILE && it.sys_errno != ENFILE)
        return it;
    it.kind = COTO_ERR_LIMIT;
    if (!*it.remedy)
        coto_err_remedy(&it, "destroy some sandboxes, or let the service have more open files (LimitNOFILE=, ulimit -n)");
    return it;
}

void launcher_answer_error(struct launcher *l, struct channel *channel, const struct coto_err *err)
{
    const struct coto_err told = as_limit(err);

    coto_buf_clear(&l->out);
    coto_frame_add_error(&l->out, 0, &told);
    send_answer(l, channel, -1);
}

/* The stream goes with it: only the front reads what a guest writes. */
void launcher_answer_created(struct launcher *l, struct channel *channel, struct box *box)
{
    size_t at = begin(l, COTO_FRAME_CREATED);

    coto_frame_add_num(&l->out, COTO_TAG_L_BOX, box->number);
    coto_launch_add_sandbox(&l->out, box->sandbox);
    if (answer(l, channel, at, box->sandbox->stream_fd))
        launcher_end_box(l, box, NULL);
    else if (box->hold.len == 0)
        coto_own_close(&box->sandbox->stream_fd);
    else if (box->sandbox->driver->rest)
        box->sandbox->driver->rest(box->sandbox);
}

/* One that somebody else still uses has no stream for the new front yet. */
static void answer_held(struct launcher *l, struct channel *channel, const struct box *box)
{
    size_t at = begin(l, box ? COTO_FRAME_CREATED : COTO_FRAME_DONE);

    if (box) {
        coto_frame_add_num(&l->out, COTO_TAG_L_BOX, box->number);
        coto_frame_add_num(&l->out, COTO_TAG_L_BUSY, box->user != NULL);
        coto_frame_add(&l->out, COTO_TAG_L_HOLD, box->hold.data, box->hold.len);
        coto_launch_add_sandbox(&l->out, box->sandbox);
    }
    answer(l, channel, at, box && !box->user ? box->sandbox->stream_fd : -1);
}

void launcher_answer_usage(struct launcher *l, struct channel *channel,
                           const struct coto_usage *usage)
{
    size_t at = begin(l, COTO_FRAME_USED);

    coto_launch_add_usage(&l->out, usage);
    answer(l, channel, at, -1);
}

static void add_shelf(struct coto_buf *out, const struct shelf *shelf)
{
    struct coto_launch_shelf it = {.is_parked = shelf->is_parked,
                                   .is_high = shelf->is_apart,
                                   .ready = shelf->ready_count,
                                   .target = shelf->target,
                                   .hits = shelf->hits,
                                   .misses = shelf->misses};

    memcpy(it.profile, shelf->profile, sizeof it.profile);
    coto_frame_add(out, COTO_TAG_L_SHELF, &it, sizeof it);
}

static void answer_status(struct launcher *l, struct channel *channel)
{
    size_t at = begin(l, COTO_FRAME_STATUS_IS);

    coto_frame_add(&l->out, COTO_TAG_L_POOL, &l->status, sizeof l->status);
    for (unsigned i = 0; i < l->shelf_count; i++)
        add_shelf(&l->out, &l->shelves[i]);
    coto_frame_add(&l->out, COTO_TAG_L_SELF, &l->self, sizeof l->self);
    answer(l, channel, at, -1);
}

void launcher_answer_done(struct launcher *l, struct channel *channel)
{
    answer(l, channel, begin(l, COTO_FRAME_DONE), -1);
}

/* ---- requests ---- */

/* A front makes pairs of these. Anything else could have a stranger at its other end, who would be here still
 * when the front that let him in is not. */
static bool is_channel(int fd)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

static void add_channel(struct launcher *l, struct channel *channel, int fd)
{
    struct coto_err err = {0};

    errno = EPROTOTYPE;
    if (channel->is_control && fd >= 0 && is_channel(fd) && launcher_add_channel(l, fd)) {
        launcher_answer_done(l, channel);
        return;
    }
    if (fd >= 0)
        coto_fd_drop(fd);
    coto_err_set(&err, COTO_ERR_LIMIT, errno, "one more channel to the launcher");
    launcher_answer_error(l, channel, &err);
}

/* The profile that a shelf is set up for is its name. Another one with the same plan uses it as it is: it would leave the
 * operator's own with fewer than he wants. */
static bool is_of(const struct shelf *shelf, const struct coto_frame *frame)
{
    char *profile = coto_field_text(frame, COTO_TAG_L_PROFILE);
    bool is_same = strncmp(shelf->profile, profile ? profile : "", sizeof shelf->profile - 1) == 0;

    free(profile);
    return is_same;
}

/* Not answered: the front asks in its loop, which waits for nobody. */
static void warm(struct launcher *l, struct channel *channel, const struct coto_frame *frame)
{
    struct coto_err err = {0};
    struct shelf *shelf = launcher_find_shelf(l, frame);

    if (!channel->is_control)
        coto_err_set(&err, COTO_ERR_FORBIDDEN, 0, "only the control channel sets up the pool");
    else if (!shelf)
        shelf = launcher_add_shelf(l, frame, &err);
    if (err.kind || !shelf) {
        fprintf(stderr, "coto-launch: %s\n", err.text);
        return;
    }
    l->ready_max[shelf->is_apart] = (unsigned)coto_field_num(frame, COTO_TAG_L_MAX);
    l->wait_us = (int64_t)coto_field_num(frame, COTO_TAG_L_WAIT) * 1000;
    if (!is_of(shelf, frame))
        return;
    shelf->min = (unsigned)coto_field_num(frame, COTO_TAG_L_MIN);
    shelf->max = (unsigned)coto_field_num(frame, COTO_TAG_L_MAX);
    shelf->max = shelf->max < shelf->min ? shelf->min : shelf->max;
    shelf->target = shelf->min;
}

static void ask_apart(struct launcher *l, struct channel *channel, struct box *box)
{
    struct coto_err err = {0};

    if (launcher_apart_ask(l, box, channel) == 0)
        return;
    coto_err_set(&err, COTO_ERR_LIMIT, 0, "launcher: somebody else asks");
    launcher_answer_error(l, channel, &err);
}

static void check(struct launcher *l, struct channel *channel, const struct coto_frame *frame)
{
    struct coto_err err = {0};

    channel->waits = true;
    if (launcher_start_check(l, frame, channel, &err))
        launcher_answer_error(l, channel, &err);
}

static void about_box(struct launcher *l, struct channel *channel, const struct coto_frame *frame)
{
    struct box *box = launcher_find_box(l, coto_field_num(frame, COTO_TAG_L_BOX));
    struct coto_usage usage;
    struct coto_err err = {0};

    if (!box || box->state != BOX_IN_USE) {
        if (frame->type == COTO_FRAME_BOX_KILL)
            return;
        coto_err_set(&err, COTO_ERR_NOTFOUND, 0, "launcher: no such sandbox");
        launcher_answer_error(l, channel, &err);
        return;
    }
    switch ((int)frame->type) {
    case COTO_FRAME_BOX_KILL:
        if (box->is_apart)
            launcher_apart_tell(l, box, COTO_FRAME_BOX_KILL);
        else
            l->driver->kill(box->sandbox);
        break;
    case COTO_FRAME_USAGE:
        if (box->is_apart) {
            ask_apart(l, channel, box);
            break;
        }
        l->driver->usage(box->sandbox, &usage);
        launcher_answer_usage(l, channel, &usage);
        break;
    default:
        channel->waits = true;
        box->wants_usage = coto_field_num(frame, COTO_TAG_L_USAGE) != 0;
        launcher_end_box(l, box, channel);
    }
}

static void handle(struct launcher *l, struct channel *channel, const struct coto_frame *frame, int fd)
{
    struct coto_err err = {0};

    if (frame->type != COTO_FRAME_CHANNEL && fd >= 0)
        coto_fd_drop(fd);
    if (!launcher_may_ask(l, channel, frame)) {
        if (frame->type == COTO_FRAME_BOX_KILL)
            return;
        coto_err_set(&err, COTO_ERR_FORBIDDEN, 0, "launcher: its front is gone");
        launcher_answer_error(l, channel, &err);
        return;
    }
    switch ((int)frame->type) {
    case COTO_FRAME_CHANNEL:
        add_channel(l, channel, fd);
        break;
    case COTO_FRAME_WARM:
        warm(l, channel, frame);
        break;
    case COTO_FRAME_CREATE:
        launcher_create(l, channel, frame);
        break;
    case COTO_FRAME_CHECK:
        check(l, channel, frame);
        break;
    case COTO_FRAME_STATUS:
        l->status.from_pool += coto_field_num(frame, COTO_TAG_L_HITS);
        answer_status(l, channel);
        break;
    case COTO_FRAME_HELD:
        answer_held(l, channel, launcher_held(l, channel, coto_field_num(frame, COTO_TAG_L_BOX)));
        break;
    case COTO_FRAME_USE:
        launcher_use(l, channel, coto_field_num(frame, COTO_TAG_L_BOX));
        launcher_answer_done(l, channel);
        break;
    case COTO_FRAME_USAGE:
    case COTO_FRAME_BOX_KILL:
    case COTO_FRAME_DESTROY:
        about_box(l, channel, frame);
        break;
    default:
        coto_err_set(&err, COTO_ERR_INTERNAL, 0, "launcher: unknown request %d", (int)frame->type);
        launcher_answer_error(l, channel, &err);
    }
}

void launcher_take_message(struct launcher *l, struct channel *channel)
{
    struct coto_frame frame;
    int fd = -1;
    if (channel->is_keeper) {
        launcher_keeper_says(l, channel);
        return;
    }
    int got = coto_launch_receive_now(channel->fd, &l->in, &frame, &fd);

    if (got < 0 && errno == EAGAIN)
        return;
    /* A channel asks one thing at a time; one that does not is not ours. */
    if (got != 1 || (channel->waits && frame.type != COTO_FRAME_BOX_KILL)) {
        if (fd >= 0)
            coto_fd_drop(fd);
        launcher_close_channel(l, channel);
        return;
    }
    handle(l, channel, &frame, fd);
}
