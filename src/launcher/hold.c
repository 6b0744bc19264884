/* A front may die at any time; the sandboxes that callers hold do not die with it.
 *
 * Such a box comes with a text that only fronts understand, and a copy of its stream stays here.
 * When the front is gone nobody knows how much of a frame it had read or written. So the box gets
 * another stream: its init is sent the other end as a descriptor through the old one, which it
 * takes for the beginning of a new talk (init/main.c). The next front asks for all of them.
 * A container's stream cannot be exchanged like that (an engine relays it, and gVisor passes no
 * descriptors): such a box ends with its front.
 * A box without such a text ends, unless somebody who outlives the front (an async execution)
 * has said on a channel of its own that it uses it. */
#include "launcher/launcher.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define THERE 'P' /* daemon/pulse.c */
#define LEFT_US 10000000 /* by then an execution that had begun has said that it stays */

/* It comes before the plan. A longer one would not fit into the answer to the next front. What has outlived its
 * front leaves nothing to the next one. */
int launcher_take_hold(struct channel *channel, const struct coto_frame *create, struct coto_err *err)
{
    struct coto_field field = {0};

    coto_buf_clear(&channel->hold);
    while (coto_field_next(create, &field) == 1 && field.tag != COTO_TAG_L_NUMBERS)
        if (field.tag == COTO_TAG_L_HOLD && channel->hold.len == 0)
            coto_buf_add(&channel->hold, field.data, field.len);
    if (channel->hold.len <= (channel->left_us ? 0 : COTO_LAUNCH_HOLD))
        return 0;
    coto_buf_clear(&channel->hold);
    return coto_err_set(err, COTO_ERR_INTERNAL, 0, "launcher: what is to be held makes no sense");
}

void launcher_set_user(struct box *box, struct channel *channel)
{
    if (box->user)
        box->user->boxes--;
    box->user = channel;
    if (channel)
        channel->boxes++;
}

void launcher_hold(struct box *box, struct channel *channel)
{
    box->hold = channel->hold;
    channel->hold = (struct coto_buf){0};
    box->front = channel->front;
    launcher_set_user(box, channel->stays && !channel->gone ? channel : NULL);
}

/* ---- another stream ---- */

static int new_stream(struct box *box)
{
    int *old = &box->sandbox->stream_fd;
    int sv[2];

    if (*old < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
        return -1;
    shutdown(*old, SHUT_RD); /* init may be waiting for somebody to read */
    /* The front had it too: it may be full, and set to wait. */
    int failed = coto_fd_send_now(*old, 0, &sv[1], 1) || coto_fd_set_nonblock(sv[0], 1);
    close(sv[1]);
    if (failed) {
        close(sv[0]);
        return -1;
    }
    close(*old);
    *old = sv[0];
    return 0;
}

static void leave(struct launcher *l, struct box *box)
{
    launcher_set_user(box, NULL);
    if (box->hold.len == 0 || box->is_apart || new_stream(box))
        launcher_end_box(l, box, NULL);
}

static bool is_used(const struct box *box)
{
    return box->user && !box->user->gone;
}

/* One that its own front knew, and that nobody uses. */
static bool may_use(const struct channel *channel, const struct box *box)
{
    return !channel->stays && (!box || (box->front <= channel->front && !box->user));
}

/* What has outlived its front has one execution to bring to its end, and no business with anything else:
 * that front may have been replaced because it was taken over. */
bool launcher_may_ask(struct launcher *l, const struct channel *channel, const struct coto_frame *frame)
{
    const struct box *box = launcher_find_box(l, coto_field_num(frame, COTO_TAG_L_BOX));

    if (!channel->left_us)
        return true;
    switch ((int)frame->type) {
    case COTO_FRAME_HELD: /* first of all, of an execution that had just begun */
    case COTO_FRAME_USE:
        return may_use(channel, box);
    case COTO_FRAME_CREATE:
        return channel->stays && !channel->has_asked;
    case COTO_FRAME_USAGE:
    case COTO_FRAME_BOX_KILL:
    case COTO_FRAME_DESTROY:
        return channel->stays && (!box || box->user == channel);
    default:
        return false;
    }
}

void launcher_close_left(struct launcher *l, int64_t now)
{
    for (int i = 0; i < LAUNCHER_CHANNELS; i++) {
        struct channel *it = l->channels[i];
        if (it && it->left_us && !it->gone && now - it->left_us > LEFT_US && !it->boxes &&
            !(it->stays && it->waits))
            launcher_close_channel(l, it);
    }
}

/* However many there were: a new front has room for its own. Those that have a box go last. */
static void close_many(struct launcher *l)
{
    unsigned left = 0;

    for (int i = 0; i < LAUNCHER_CHANNELS; i++)
        left += l->channels[i] && l->channels[i]->left_us && !l->channels[i]->gone;
    for (int i = 0; i < 2 * LAUNCHER_CHANNELS && left > LAUNCHER_LEFT; i++) {
        struct channel *it = l->channels[i % LAUNCHER_CHANNELS];
        if (!it || !it->left_us || it->gone || (it->boxes && i < LAUNCHER_CHANNELS))
            continue;
        launcher_close_channel(l, it);
        left--;
    }
}

void launcher_front_gone(struct launcher *l)
{
    const int64_t now = coto_clock_us();

    for (int i = 0; i < LAUNCHER_CHANNELS; i++)
        if (l->channels[i] && !l->channels[i]->is_keeper && !l->channels[i]->left_us)
            l->channels[i]->left_us = now;
    l->control = NULL;
    l->front++;
    for (int i = 0; i < LAUNCHER_BOXES && !l->ending; i++)
        if (l->boxes[i] && l->boxes[i]->state == BOX_IN_USE && !is_used(l->boxes[i]))
            leave(l, l->boxes[i]);
}

/* As long as its front lives, that one knows what to do with a box it holds. */
void launcher_user_gone(struct launcher *l, struct channel *channel)
{
    for (int i = 0; i < LAUNCHER_BOXES && channel->boxes; i++) {
        struct box *box = l->boxes[i];
        if (!box || box->user != channel)
            continue;
        launcher_set_user(box, NULL);
        if (box->state != BOX_IN_USE || l->ending)
            continue;
        if (box->hold.len == 0 || channel->front != l->front)
            leave(l, box);
    }
}

void launcher_use(struct launcher *l, struct channel *channel, uint64_t number)
{
    struct box *box = launcher_find_box(l, number);

    channel->stays = true;
    if (box && box->state == BOX_IN_USE)
        launcher_set_user(box, channel);
}

/* ---- the next front ---- */

/* Here is the control channel of a front; or, without one: are you there? */
void launcher_keeper_says(struct launcher *l, struct channel *keeper)
{
    char byte;
    int fd = -1;
    int got = coto_fd_receive(keeper->fd, &byte, &fd, 1);

    if (got < 0) {
        launcher_close_channel(l, keeper);
        return;
    }
    if (byte == THERE) {
        coto_own_close(&fd);
        coto_fd_send(keeper->fd, THERE, NULL, 0);
        return;
    }
    if (l->control)
        launcher_close_channel(l, l->control);
    close_many(l);
    l->control = fd >= 0 ? launcher_add_channel(l, fd) : NULL;
    if (l->control)
        l->control->is_control = true;
    else
        coto_own_close(&fd); /* the front sees it and says so */
}

static bool is_held(const struct box *box)
{
    return box && box->state == BOX_IN_USE && box->hold.len;
}

struct box *launcher_held(struct launcher *l, const struct channel *channel, uint64_t from)
{
    struct box *first = NULL;

    if (channel->left_us) {
        first = launcher_find_box(l, from);
        return is_held(first) ? first : NULL;
    }

    for (int i = 0; i < LAUNCHER_BOXES; i++) {
        struct box *box = l->boxes[i];
        if (is_held(box) && box->number >= from && (!first || box->number < first->number))
            first = box;
    }
    return first;
}
