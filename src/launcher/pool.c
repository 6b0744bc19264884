#include "launcher/launcher.h"

#include "base/clock.h"
#include "drivers/launcher/talk.h"
#include "launcher/share.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STARTING_MAX 4            /* per shelf: more at once only slows each of them */
#define STARTING_APART 2          /* a container takes a processor for half a second */
#define FILL_US 50000             /* between two that nobody waits for, while others are waited for */
#define RETRY_US 5000000          /* a shelf whose boxes fail */
#define TICK_MS 250
#define APART_KEEP_US 300000000LL /* a container is kept ready this long after the last request */
#define APART_HOLD_US 30000000LL  /* and no fewer than now: making one costs more than keeping it */
#define SWEEP_US 15000000
#define SWEEP_EARLY_US 2000000 /* while what an earlier launcher has left may still be dying */
#define EARLY_US 20000000

/* ---- shelves ---- */

/* Plans are compared as they travel; what else is in the frame comes before, and is no part of what
 * a shelf's sandboxes are made of. */
static void plan_key(const struct coto_frame *frame, const unsigned char **ret_data, size_t *ret_len)
{
    struct coto_field field = {0};
    size_t from = 0;

    *ret_data = frame->payload;
    *ret_len = 0;
    for (; coto_field_next(frame, &field) == 1; from = field.next)
        if (field.tag == COTO_TAG_L_NUMBERS) {
            *ret_data = frame->payload + from;
            *ret_len = frame->len - from;
            return;
        }
}

struct shelf *launcher_find_shelf(struct launcher *l, const struct coto_frame *plan)
{
    const unsigned char *key;
    size_t len;

    plan_key(plan, &key, &len);
    for (unsigned i = 0; i < l->shelf_count; i++) {
        struct shelf *shelf = &l->shelves[i];
        const unsigned char *have;
        size_t have_len;
        struct coto_frame own = {.payload = (const unsigned char *)shelf->key.data,
                                 .len = shelf->key.len};
        plan_key(&own, &have, &have_len);
        if (len && have_len == len && memcmp(have, key, len) == 0)
            return shelf;
    }
    return NULL;
}

struct shelf *launcher_add_shelf(struct launcher *l, const struct coto_frame *plan,
                                 struct coto_err *err)
{
    if (l->shelf_count == LAUNCHER_SHELVES) {
        coto_err_set(err, COTO_ERR_LIMIT, 0, "more than %d kinds of sandboxes kept ready",
                     LAUNCHER_SHELVES);
        return NULL;
    }
    struct shelf *shelf = &l->shelves[l->shelf_count];
    struct coto_plan asked;
    const unsigned char *key;
    size_t len;
    if (coto_launch_take_plan(plan, &asked, err))
        return NULL;
    plan_key(plan, &key, &len);
    *shelf = (struct shelf){.is_apart = asked.isolation != COTO_ISOLATION_PROCESS,
                            .is_parked = asked.parked};
    coto_plan_fini(&asked);
    char *profile = coto_field_text(plan, COTO_TAG_L_PROFILE);
    snprintf(shelf->profile, sizeof shelf->profile, "%s", profile ? profile : "");
    free(profile);
    shelf->queue_end = &shelf->queue;
    coto_buf_add(&shelf->key, key, len);
    if (shelf->key.failed) {
        coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "pool");
        return NULL;
    }
    l->shelf_count++;
    return shelf;
}

static bool is_dead(const struct box *box)
{
    struct pollfd pfd = {box->sandbox->alive_fd, POLLIN, 0};

    return poll(&pfd, 1, 0) != 0 || (box->is_apart && launcher_apart_is_dead(box));
}

static struct box *take_ready(struct launcher *l, struct shelf *shelf)
{
    struct box *box = shelf->ready;

    if (box) {
        shelf->ready = box->next;
        box->next = NULL;
        shelf->ready_count--;
        l->status.ready--;
    }
    return box;
}

static void put_ready(struct launcher *l, struct shelf *shelf, struct box *box)
{
    struct box **end = &shelf->ready;

    while (*end)
        end = &(*end)->next;
    *end = box;
    box->next = NULL;
    box->ready_us = coto_clock_us();
    shelf->ready_count++;
    l->status.ready++;
}

void launcher_end_ready(struct launcher *l, struct shelf *shelf)
{
    struct box *oldest = take_ready(l, shelf);

    if (oldest)
        launcher_end_box(l, oldest, NULL);
}

static void start_for_shelf(struct launcher *l, struct shelf *shelf)
{
    struct coto_err err = {0};
    struct coto_frame plan = {.payload = (const unsigned char *)shelf->key.data,
                              .len = shelf->key.len};
    struct box *box = launcher_start_box(l, &plan, shelf, NULL, &err);

    if (box) {
        shelf->filled_us = box->made_us;
        shelf->starting++;
        return;
    }
    /* Whoever waits is told why; without anybody it is tried again later. */
    l->status.failed++;
    struct channel *channel = shelf->queue;
    if (!channel)
        shelf->retry_us = coto_clock_us() + RETRY_US;
    if (channel && shelf->starting == 0) {
        shelf->queue = channel->next;
        if (!shelf->queue)
            shelf->queue_end = &shelf->queue;
        shelf->queued--;
        channel->waits = false;
        launcher_answer_error(l, channel, &err);
    }
}

/* ---- handing out ---- */

static void hand_over(struct launcher *l, struct channel *channel, struct box *box)
{
    launcher_hold(box, channel);
    box->state = BOX_IN_USE;
    l->status.in_use++;
    channel->waits = false;
    launcher_answer_created(l, channel, box);
}

static void enqueue(struct shelf *shelf, struct channel *channel)
{
    channel->next = NULL;
    *shelf->queue_end = channel;
    shelf->queue_end = &channel->next;
    shelf->queued++;
    channel->waits = true;
}

static void raise_target(struct launcher *l, struct shelf *shelf, unsigned waiting)
{
    unsigned want = shelf->min + waiting + shelf->rate / 16;

    if (want > shelf->max)
        want = shelf->max;
    if (want <= shelf->target)
        return;
    shelf->target = want;
    launcher_share(l, shelf->is_apart);
}

void launcher_create(struct launcher *l, struct channel *channel, const struct coto_frame *frame)
{
    struct shelf *shelf = launcher_find_shelf(l, frame);
    unsigned waiting = (unsigned)coto_field_num(frame, COTO_TAG_L_WAITING);
    bool is_request = waiting != COTO_LAUNCH_AHEAD;
    struct coto_err err = {0};

    channel->has_asked = true;
    if (launcher_take_hold(channel, frame, &err)) {
        launcher_answer_error(l, channel, &err);
        return;
    }
    if (shelf) {
        struct box *box = take_ready(l, shelf);
        for (; box && is_dead(box); box = take_ready(l, shelf))
            launcher_end_box(l, box, NULL); /* somebody has killed it */
        shelf->taken++;
        shelf->used_us = coto_clock_us();
        raise_target(l, shelf, is_request ? waiting : 0);
        if (box) {
            l->status.from_pool += is_request;
            shelf->hits += is_request;
            hand_over(l, channel, box);
            return;
        }
        shelf->misses += is_request;
        /* Where there is no room for another it gets one of those that are on their way. */
        bool is_full = l->box_count >= l->max_boxes && shelf->starting > shelf->queued;
        if (shelf->is_apart || channel->hold.len == 0 || is_full) {
            l->status.cold += is_request;
            enqueue(shelf, channel);
            return;
        }
    }
    l->status.cold += is_request;
    channel->waits = true;
    if (!launcher_start_box(l, frame, NULL, channel, &err)) {
        l->status.failed++;
        launcher_answer_error(l, channel, &err);
    }
}

void launcher_box_ready(struct launcher *l, struct box *box)
{
    struct shelf *shelf = box->shelf;
    struct channel *channel = box->waiter;

    box->waiter = NULL;
    box->state = BOX_READY;
    if (!shelf) {
        if (channel)
            hand_over(l, channel, box);
        else
            launcher_end_box(l, box, NULL);
        return;
    }
    shelf->starting--;
    shelf->retry_us = 0; /* whatever it was, it is over */
    channel = shelf->queue;
    if (!channel && launcher_has_place(l, shelf)) {
        put_ready(l, shelf, box);
        return;
    }
    if (!channel) { /* who it was for has gone, or the operator wants fewer */
        launcher_end_box(l, box, NULL);
        return;
    }
    shelf->queue = channel->next;
    if (!shelf->queue)
        shelf->queue_end = &shelf->queue;
    shelf->queued--;
    hand_over(l, channel, box);
}

void launcher_box_failed(struct launcher *l, struct box *box, const struct coto_err *err)
{
    struct channel *channel = box->waiter;

    l->status.failed++;
    if (box->shelf) {
        struct shelf *shelf = box->shelf;
        channel = shelf->queue;
        shelf->retry_us = channel ? 0 : coto_clock_us() + RETRY_US;
        if (channel) {
            shelf->queue = channel->next;
            if (!shelf->queue)
                shelf->queue_end = &shelf->queue;
            shelf->queued--;
        }
    }
    box->waiter = NULL;
    if (channel) {
        channel->waits = false;
        launcher_answer_error(l, channel, err);
    }
}

/* ---- keeping shelves full ---- */

/* What nobody waits for comes slowly while somebody waits for something else. */
static unsigned most_at_once(const struct launcher *l, const struct shelf *shelf)
{
    if (shelf->is_apart)
        return STARTING_APART;
    if (shelf->queued || l->waited == 0)
        return STARTING_MAX;
    return coto_clock_us() - shelf->filled_us < FILL_US ? 0 : 1;
}

void launcher_refill(struct launcher *l)
{
    if (l->ending)
        return;
    for (unsigned i = 0; i < l->shelf_count; i++) {
        struct shelf *shelf = &l->shelves[i];
        unsigned want = shelf->target + shelf->queued;
        unsigned failed = (unsigned)l->status.failed;
        unsigned most = most_at_once(l, shelf);
        if (shelf->retry_us && !shelf->queued && coto_clock_us() < shelf->retry_us)
            continue;
        while (shelf->starting < most && shelf->ready_count + shelf->starting < want &&
               failed == (unsigned)l->status.failed && launcher_make_room(l, shelf))
            start_for_shelf(l, shelf);
    }
}

static unsigned wanted(const struct shelf *shelf, int64_t now)
{
    unsigned want = shelf->min + shelf->rate / 16;

    if (shelf->is_apart && want == 0 && now - shelf->used_us < APART_KEEP_US)
        want = 1;
    if (shelf->is_apart && want < shelf->target && now - shelf->used_us < APART_HOLD_US)
        want = shelf->target;
    return want > shelf->max ? shelf->max : want;
}

/* A quarter of a second has passed: targets follow what is asked for. */
static void aim(struct shelf *shelf, int64_t now)
{
    shelf->rate = (shelf->rate * 3 + shelf->taken * (1000 / TICK_MS)) / 4;
    shelf->taken = 0;
    unsigned want = wanted(shelf, now);
    if (shelf->target > want)
        shelf->target -= (shelf->target - want + 7) / 8;
    else
        shelf->target = want;
}

/* One at a time: those that come instead are not all made at once. */
static void trim(struct launcher *l, struct shelf *shelf, int64_t now)
{
    const struct box *oldest = shelf->ready;

    if (oldest && (shelf->ready_count > shelf->target || now - oldest->ready_us > l->wait_us))
        launcher_end_ready(l, shelf);
}

static void tick_shelves(struct launcher *l, int64_t now)
{
    for (unsigned i = 0; i < l->shelf_count; i++)
        aim(&l->shelves[i], now);
    launcher_share(l, false);
    launcher_share(l, true);
    l->status.target = 0;
    for (unsigned i = 0; i < l->shelf_count; i++) {
        trim(l, &l->shelves[i], now);
        l->status.target += l->shelves[i].target;
    }
}

void launcher_tick(struct launcher *l)
{
    int64_t now = coto_clock_us();

    if (now < l->tick_us || l->ending) /* the boxes on shelves are ending too */
        return;
    l->tick_us = now + TICK_MS * 1000;
    if (!l->began_us)
        l->began_us = now;
    launcher_sweep_look(l);
    launcher_template_look(l);
    launcher_close_left(l, now);
    if (l->driver->look)
        l->driver->look();
    if (now - l->sweep_us > (now - l->began_us < EARLY_US ? SWEEP_EARLY_US : SWEEP_US)) {
        l->sweep_us = now;
        launcher_sweep(l);
    }
    tick_shelves(l, now);
}
