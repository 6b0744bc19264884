#include "launcher/launcher.h"

#include "base/fd.h"
#include "base/clock.h"
#include "drivers/initbin.h"
#include "drivers/launcher/talk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int slot_for_box(struct launcher *l, struct coto_err *err)
{
    if (l->box_count >= l->max_boxes) {
        coto_err_set(err, COTO_ERR_LIMIT, 0, "%u sandboxes exist already", l->box_count);
        return coto_err_remedy(err, "destroy some, or raise max-sandboxes");
    }
    while (l->boxes[l->next_number % LAUNCHER_BOXES])
        l->next_number++;
    return 0;
}

static void drop_reader(struct launcher *l, struct box *box)
{
    if (!l->spare.data && !box->reader.buf.failed) {
        l->spare = box->reader.buf;
        l->spare.len = 0;
        box->reader = (struct coto_frame_reader){0};
    }
    coto_frame_reader_fini(&box->reader);
}

static void free_box(struct launcher *l, struct box *box)
{
    if (l->boxes[box->number % LAUNCHER_BOXES] == box) {
        l->boxes[box->number % LAUNCHER_BOXES] = NULL;
        l->box_count--;
    }
    launcher_set_user(box, NULL);
    drop_reader(l, box);
    coto_plan_fini(&box->plan);
    coto_buf_fini(&box->hold);
    free(box);
}

static int begin(struct launcher *l, struct box *box, struct coto_err *err)
{
    if (launcher_check_most(l, &box->plan, err) || coto_plan_new_id(box->plan.id, err))
        return -1;
    if (box->plan.isolation != COTO_ISOLATION_PROCESS)
        return launcher_apart_start(l, box, err);
    if (l->driver->create(&box->plan, false, &box->sandbox, err))
        return -1;
    if (launcher_watch(l, box->sandbox->stream_fd, &box->stream) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_LIMIT, errno, "watch a sandbox");
    l->driver->kill(box->sandbox);
    l->driver->destroy(box->sandbox, NULL);
    return -1;
}

static struct box *start(struct launcher *l, const struct coto_frame *plan, const struct box *as,
                         struct coto_err *err)
{
    if (slot_for_box(l, err))
        return NULL;
    struct box *box = calloc(1, sizeof *box);
    if (!box) {
        coto_err_set(err, COTO_ERR_LIMIT, errno, "create a sandbox");
        return NULL;
    }
    *box = *as;
    box->stream = (struct source){SOURCE_STREAM, box};
    box->alive = (struct source){SOURCE_ALIVE, box};
    box->late = (struct source){SOURCE_LATE, box};
    if (coto_launch_take_plan(plan, &box->plan, err)) {
        free(box);
        return NULL;
    }
    box->parks = box->parks && box->plan.parked;
    box->plan.parked_late = box->parks && !box->shelf && box->plan.isolation == COTO_ISOLATION_PROCESS;
    if (begin(l, box, err)) {
        coto_plan_fini(&box->plan);
        free(box);
        return NULL;
    }
    box->number = l->next_number++;
    box->made_us = coto_clock_us();
    l->boxes[box->number % LAUNCHER_BOXES] = box;
    l->box_count++;
    l->status.created++;
    l->status.starting++;
    box->is_waited = !box->shelf && !box->is_apart;
    l->waited += box->is_waited;
    return box;
}

/* In a container an interpreter that waits is worth its start where it has time for it, or where
 * it is to keep its state from one program to the next. */
struct box *launcher_start_box(struct launcher *l, const struct coto_frame *plan,
                               struct shelf *shelf, struct channel *waiter, struct coto_err *err)
{
    const struct box as = {
        .shelf = shelf, .waiter = waiter, .parks = shelf || (waiter && waiter->hold.len)};

    return start(l, plan, &as, err);
}

int launcher_start_check(struct launcher *l, const struct coto_frame *plan, struct channel *waiter,
                         struct coto_err *err)
{
    const struct box as = {.waiter = waiter, .is_check = true};
    struct coto_plan asked;

    if (coto_launch_take_plan(plan, &asked, err))
        return -1;
    bool is_apart = asked.isolation != COTO_ISOLATION_PROCESS;
    coto_plan_fini(&asked);
    if (!is_apart)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "launcher: that level is always there");
    return start(l, plan, &as, err) ? 0 : -1;
}

struct box *launcher_find_box(struct launcher *l, uint64_t number)
{
    struct box *box = l->boxes[number % LAUNCHER_BOXES];

    return box && box->number == number ? box : NULL;
}

/* ---- until READY ---- */

static void is_made(struct launcher *l, struct box *box)
{
    l->waited -= box->is_waited;
    box->is_waited = false;
}

static void fail(struct launcher *l, struct box *box, const struct coto_err *err)
{
    launcher_box_failed(l, box, err);
    launcher_end_box(l, box, NULL);
}

/* Of those that are kept ready, which are the operator's own. Told once: requests are told every time. */
static void tell_missing(const struct box *box)
{
    static bool is_told;
    coto_auto_buf names = {0};

    for (int i = 0; i < COTO_WALL_COUNT && box->shelf && !is_told; i++)
        if (box->sandbox->walls[i].wanted && !box->sandbox->walls[i].up)
            coto_buf_addf(&names, "%s%s", names.len ? ", " : "", coto_walls[i].name);
    is_told |= box->shelf != NULL;
    if (names.len)
        fprintf(stderr, "coto serve: sandboxes do without %s; results say so\n  remedy: `coto doctor` tells what this host lacks\n",
                coto_buf_str(&names));
}

/* A limit that the host cannot give is left out, and said so. What a group of it has given before it can give: somebody is short of
 * something now, and a sandbox without is no answer to that. Other ways depend on how much is asked for. */
static int check_walls(const struct box *box, struct coto_err *err)
{
    static const enum coto_wall limits[] = {COTO_WALL_MEMORY, COTO_WALL_SWAP, COTO_WALL_PIDS};
    static struct coto_wall_state had[sizeof limits / sizeof limits[0]];

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct coto_wall_state *wall = &box->sandbox->walls[limits[i]];
        bool is_as_before = wall->up && strcmp(wall->mechanism, had[i].mechanism) == 0;
        if (wall->wanted && had[i].up && !is_as_before) {
            coto_err_set(err, COTO_ERR_LIMIT, 0, "%s: cannot be had now as before, by %s: %.150s", coto_walls[limits[i]].name,
                         had[i].mechanism, wall->note);
            return coto_err_remedy(err, "try again; where it stays so, `coto doctor` tells what the host lacks");
        }
        if (wall->wanted && wall->up && strncmp(wall->mechanism, "cgroup", 6) == 0)
            had[i] = *wall;
    }
    return 0;
}

static void on_frame(struct launcher *l, struct box *box, const struct coto_frame *frame)
{
    struct coto_err err = {0};

    if (frame->type == COTO_FRAME_ERROR)
        coto_field_error(frame, &err);
    else if (frame->type != COTO_FRAME_READY)
        coto_err_set(&err, COTO_ERR_INTERNAL, 0, "init said %d before READY", (int)frame->type);
    else if (l->driver->inspect(box->sandbox, frame, &err) == 0)
        check_walls(box, &err);
    if (err.kind) {
        fail(l, box, &err);
        return;
    }
    launcher_unwatch(l, box->sandbox->stream_fd);
    drop_reader(l, box);
    is_made(l, box);
    tell_missing(box);
    if (box->plan.parked_late) {
        launcher_await_want(l, box);
    } else if (box->plan.parked) {
        launcher_park(l, box);
        return;
    }
    l->status.starting--;
    launcher_box_ready(l, box);
}

void launcher_stream_ready(struct launcher *l, struct box *box)
{
    size_t room;

    if (!box->reader.buf.data) {
        box->reader.buf = l->spare;
        l->spare = (struct coto_buf){0};
    }
    char *to = coto_frame_reader_space(&box->reader, &room);
    ssize_t n = to ? read(box->sandbox->stream_fd, to, room) : -1;
    struct coto_frame frame;
    struct coto_err err = {0};

    if (box->state != BOX_STARTING || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    if (n <= 0) {
        coto_initbin_died(&err);
        fail(l, box, &err);
        return;
    }
    box->reader.buf.len += (size_t)n;
    int got = coto_frame_next(&box->reader, &frame, &err);
    if (got < 0)
        fail(l, box, &err);
    else if (got == 1)
        on_frame(l, box, &frame);
}

/* ---- the end ---- */

void launcher_end_box(struct launcher *l, struct box *box, struct channel *waiter)
{
    if (box->state == BOX_ENDING)
        return;
    is_made(l, box);
    if (box->state == BOX_STARTING) {
        launcher_unpark(l, box);
        if (!box->is_apart)
            launcher_unwatch(l, box->sandbox->stream_fd);
        l->status.starting--;
        if (box->shelf)
            box->shelf->starting--;
    } else if (box->state == BOX_IN_USE) {
        l->status.in_use--;
    }
    launcher_forget_want(l, box);
    box->state = BOX_ENDING;
    box->waiter = waiter;
    l->status.ending++;
    if (box->is_apart)
        launcher_apart_tell(l, box, COTO_FRAME_DESTROY);
    else
        l->driver->kill(box->sandbox);
    box->is_unwatched = launcher_watch(l, box->sandbox->alive_fd, &box->alive) != 0;
    l->unwatched += box->is_unwatched;
}

/* The kernel had no memory to tell of their ends. */
void launcher_watch_again(struct launcher *l)
{
    for (int i = 0; i < LAUNCHER_BOXES && l->unwatched; i++) {
        struct box *box = l->boxes[i];
        if (!box || !box->is_unwatched || launcher_watch(l, box->sandbox->alive_fd, &box->alive))
            continue;
        box->is_unwatched = false;
        l->unwatched--;
    }
}

void launcher_box_dead(struct launcher *l, struct box *box)
{
    struct coto_usage usage = COTO_USAGE_NONE;
    struct channel *waiter = box->waiter;

    launcher_unwatch(l, box->sandbox->alive_fd);
    if (box->is_apart)
        launcher_apart_gone(l, box, &usage);
    else
        l->driver->destroy(box->sandbox, box->wants_usage ? &usage : NULL);
    l->status.ending--;
    l->status.destroyed++;
    free_box(l, box);
    if (waiter)
        launcher_answer_usage(l, waiter, &usage);
}
