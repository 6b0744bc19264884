/* coto-box: one sandbox of a container level, from its making to its end. See apart.c for the talk.
 * It blocks as long as the runtime or the engine does. What runtime and which image is the
 * operator's word alone, given on the command line; the plan says the rest. */
#include "launcher/launcher.h"

#include "base/clock.h"
#include "base/fd.h"
#include "drivers/initbin.h"
#include "drivers/launcher/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define READY_MS 60000

struct coto_box {
    int fd; /* to the launcher */
    struct coto_plan plan;
    struct coto_sandbox *sandbox;
    struct coto_frame_reader reader;
    struct coto_buf in, out;
};

/* ---- what init says before there is a program ---- */

int launcher_await_frame(struct coto_sandbox *sandbox, struct coto_frame_reader *reader,
                         int timeout_ms, struct coto_frame *ret_frame, struct coto_err *err)
{
    int64_t until = coto_clock_us() + (int64_t)timeout_ms * 1000;
    int got;

    while ((got = coto_frame_next(reader, ret_frame, err)) == 0) {
        struct pollfd pfd = {.fd = sandbox->stream_fd, .events = POLLIN};
        int64_t left = (until - coto_clock_us()) / 1000;
        if (left <= 0)
            return coto_err_set(err, COTO_ERR_LIMIT, 0, "coto-init says nothing");
        if (poll(&pfd, 1, (int)left) <= 0)
            continue;
        size_t room;
        char *to = coto_frame_reader_space(reader, &room);
        ssize_t n = to ? read(sandbox->stream_fd, to, room) : 0;
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return coto_initbin_died(err);
        reader->buf.len += (size_t)n;
    }
    return got == 1 ? 0 : -1;
}

static int await_ready(struct coto_box *box, struct coto_err *err)
{
    struct coto_frame frame;

    if (launcher_await_frame(box->sandbox, &box->reader, READY_MS, &frame, err))
        return -1;
    if (frame.type == COTO_FRAME_ERROR) {
        coto_field_error(&frame, err);
        return -1;
    }
    if (frame.type != COTO_FRAME_READY ||
        coto_field_num(&frame, COTO_TAG_VERSION) != COTO_WIRE_VERSION)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "init said %d before READY",
                            (int)frame.type);
    return box->sandbox->driver->inspect(box->sandbox, &frame, err);
}

/* ---- making ---- */

static int take_high(const struct launcher_high *high, struct coto_plan *plan, struct coto_err *err)
{
    if (plan->isolation != high->isolation)
        return coto_err_set(err, COTO_ERR_POLICY, 0, "launcher: not the level that is set up");
    if (*high->runtime)
        plan->runtime = strdup(high->runtime);
    for (int i = 0; i < high->allowed_count; i++)
        if (coto_strv_add(&plan->allow_runtime, high->allowed[i]))
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "launcher");
    plan->image_is_default = !*high->image.name;
    if (plan->isolation == COTO_ISOLATION_CONTAINER)
        return *high->image.name ? coto_plan_use_image(plan, &high->image, err) : 0;
    plan->image = strdup(*high->image.name ? high->image.name : coto_options[COTO_OPT_IMAGE].fallback);
    return plan->image ? 0 : coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "launcher");
}

static int make(struct coto_box *box, const struct coto_frame *order,
                const struct launcher_high *high, struct coto_err *err)
{
    const struct coto_driver *driver;
    bool parks = coto_field_num(order, COTO_TAG_L_PARK);
    bool is_check = order->type == COTO_FRAME_CHECK;

    if (coto_launch_take_plan(order, &box->plan, err) || take_high(high, &box->plan, err) ||
        coto_plan_new_id(box->plan.id, err) ||
        coto_driver_choose(box->plan.isolation, &driver, err))
        return -1;
    if (is_check)
        return driver->check(&box->plan, err);
    if (driver->create(&box->plan, false, &box->sandbox, err) || await_ready(box, err))
        return -1;
    box->sandbox->stays = true; /* its account is read while it is there */
    int parked = parks ? launcher_park_inside(box->sandbox, &box->plan, &box->reader, err) : 1;
    box->plan.parked = parked == 0;
    return parked < 0 ? -1 : 0;
}

static int answer_made(struct coto_box *box, bool is_check, const struct coto_err *err)
{
    coto_buf_clear(&box->out);
    if (err->kind) {
        coto_frame_add_error(&box->out, 0, err);
        return coto_launch_send(box->fd, &box->out, -1);
    }
    size_t at = coto_frame_begin(&box->out, is_check ? COTO_FRAME_DONE : COTO_FRAME_CREATED, 0);
    coto_frame_add_num(&box->out, COTO_TAG_L_PARK, box->plan.parked);
    if (!is_check)
        coto_launch_add_sandbox(&box->out, box->sandbox);
    coto_frame_end(&box->out, at);
    return coto_launch_send(box->fd, &box->out, is_check ? -1 : box->sandbox->stream_fd);
}

/* ---- keeping ---- */

static void answer_usage(struct coto_box *box, const struct coto_usage *usage)
{
    coto_buf_clear(&box->out);
    size_t at = coto_frame_begin(&box->out, COTO_FRAME_USED, 0);
    coto_launch_add_usage(&box->out, usage);
    coto_frame_end(&box->out, at);
    coto_launch_send(box->fd, &box->out, -1);
}

static void keep(struct coto_box *box)
{
    const struct coto_driver *driver = box->sandbox->driver;
    struct coto_usage usage = COTO_USAGE_NONE;
    struct coto_frame frame;
    int fd = -1;

    while (coto_launch_receive(box->fd, &box->in, &frame, &fd) == 1 &&
           frame.type != COTO_FRAME_DESTROY) {
        coto_own_close(&fd);
        if (frame.type == COTO_FRAME_BOX_KILL)
            driver->kill(box->sandbox);
        if (frame.type != COTO_FRAME_USAGE)
            continue;
        driver->usage(box->sandbox, &usage);
        answer_usage(box, &usage);
    }
}

int launcher_apart_main(int fd, const struct launcher_high *high)
{
    struct coto_box box = {.fd = fd, .plan = {.rootfs = {.fd = -1}}};
    struct coto_usage usage = COTO_USAGE_NONE;
    struct coto_frame order;
    struct coto_err err = {0};
    int none = -1;

    prctl(PR_SET_NAME, "coto-box");
    if (coto_launch_receive(fd, &box.in, &order, &none) != 1)
        return 64;
    coto_own_close(&none);
    bool is_check = order.type == COTO_FRAME_CHECK;
    if (make(&box, &order, high, &err) && !err.kind)
        coto_err_set(&err, COTO_ERR_INTERNAL, 0, "coto-box: no sandbox, and no reason");
    coto_frame_reader_fini(&box.reader);
    if (answer_made(&box, is_check, &err) == 0 && !err.kind && !is_check)
        keep(&box);
    if (box.sandbox) {
        box.sandbox->driver->destroy(box.sandbox, &usage);
        answer_usage(&box, &usage);
    }
    coto_driver_discard();
    coto_plan_fini(&box.plan);
    coto_buf_fini(&box.in);
    coto_buf_fini(&box.out);
    return 0;
}
