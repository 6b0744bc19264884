#include "drivers/launcher/client.h"

#include "base/fd.h"
#include "drivers/launcher/talk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_US 64000 /* the last pause; all of them are twice as long */

struct box {
    struct coto_sandbox base; /* first */
    int channel_fd;
    uint64_t number;
    char guest[64]; /* name of the kernel it has of its own */
};

/* ---- one question, one answer ---- */

static int gone(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_UNAVAILABLE, errno, "the launcher does not answer");
    return coto_err_remedy(err, "it is started again at once: try again");
}

/* What was not sent has not happened, and a kernel that had no memory for it may have some in a moment: a sandbox
 * that nobody could ask to end would stay. Whoever calls is a thread that may wait. */
static int send_patiently(int fd, const struct coto_buf *buf, int attach_fd)
{
    int failed = coto_launch_send(fd, buf, attach_fd);

    for (unsigned us = 1000; failed && errno != EPIPE && errno != ECONNRESET && us <= PATIENCE_US; us *= 2) {
        usleep(us);
        failed = coto_launch_send(fd, buf, attach_fd);
    }
    return failed;
}

/* The answer stays in *buf. */
static int ask(int fd, struct coto_buf *buf, int attach_fd, struct coto_frame *ret_answer,
               int *ret_fd, struct coto_err *err)
{
    int got_fd = -1;

    if (buf->failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "talk to the launcher");
    if (send_patiently(fd, buf, attach_fd))
        return gone(err);
    errno = 0;
    if (coto_launch_receive(fd, buf, ret_answer, &got_fd) != 1)
        return gone(err);
    if (ret_answer->type == COTO_FRAME_ERROR) {
        coto_own_close(&got_fd);
        coto_field_error(ret_answer, err);
        return -1;
    }
    if (ret_fd)
        *ret_fd = got_fd;
    else
        coto_own_close(&got_fd);
    return 0;
}

static int ask_of_box(struct box *box, enum coto_frame_type type, struct coto_usage *ret_usage)
{
    coto_auto_buf buf = {0};
    struct coto_frame answer;
    struct coto_err err = {0};
    size_t at = coto_frame_begin(&buf, type, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_BOX, box->number);
    coto_frame_add_num(&buf, COTO_TAG_L_USAGE, ret_usage != NULL);
    coto_frame_end(&buf, at);
    if (ret_usage)
        *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    if (ask(box->channel_fd, &buf, -1, &answer, NULL, &err))
        return -1;
    if (ret_usage)
        coto_launch_take_usage(&answer, ret_usage);
    return 0;
}

/* ---- the driver's slots ---- */

static int box_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    return ask_of_box((struct box *)sandbox, COTO_FRAME_USAGE, ret_usage);
}

static void box_kill(struct coto_sandbox *sandbox)
{
    struct box *box = (struct box *)sandbox;
    coto_auto_buf buf = {0};
    size_t at = coto_frame_begin(&buf, COTO_FRAME_BOX_KILL, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_BOX, box->number);
    coto_frame_end(&buf, at);
    send_patiently(box->channel_fd, &buf, -1);
}

static void box_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct box *box = (struct box *)sandbox;

    if (!box)
        return;
    ask_of_box(box, COTO_FRAME_DESTROY, ret_usage);
    coto_own_close(&box->base.stream_fd);
    free(box);
}

/* Whichever it is that the launcher runs: from here all are alike. */
#define LAUNCHED(driver, level)                                                                    \
    {                                                                                              \
        .name = driver, .isolation = level, .doc = "run by the service's launcher",                \
        .usage = box_usage, .kill = box_kill, .destroy = box_destroy,                              \
    }
static const struct coto_driver drivers[] = {LAUNCHED("native", COTO_ISOLATION_PROCESS),
                                             LAUNCHED("oci", COTO_ISOLATION_CONTAINER),
                                             LAUNCHED("docker", COTO_ISOLATION_DOCKER)};

static const struct coto_driver *driver_of(const struct coto_frame *answer)
{
    coto_auto_free char *name = coto_field_text(answer, COTO_TAG_L_DRIVER);

    for (size_t i = 0; name && i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(drivers[i].name, name) == 0)
            return &drivers[i];
    return NULL;
}

/* ---- from outside ---- */

const char *coto_launch_driver(int isolation)
{
    size_t i = sizeof drivers / sizeof drivers[0] - 1;

    while (i > 0 && drivers[i].isolation != isolation)
        i--;
    return drivers[i].name;
}

int coto_launch_channel(int control_fd, struct coto_err *err)
{
    coto_auto_buf buf = {0};
    struct coto_frame answer;
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "channel to the launcher");
    coto_auto_fd theirs = sv[1];
    coto_auto_fd ours = sv[0];
    size_t at = coto_frame_begin(&buf, COTO_FRAME_CHANNEL, 0);
    coto_frame_end(&buf, at);
    if (ask(control_fd, &buf, theirs, &answer, NULL, err))
        return -1;
    return coto_take_fd(&ours);
}

/* Takes the stream. */
static struct box *new_box(const struct coto_frame *answer, int *stream, struct coto_err *err)
{
    coto_auto_free struct box *box = calloc(1, sizeof *box);
    struct box *made;

    if (!box || *stream < 0) {
        coto_err_set(err, COTO_ERR_LIMIT, box ? EMFILE : ENOMEM, "take over a sandbox");
        return NULL;
    }
    if (coto_launch_take_sandbox(answer, &box->base, box->guest) || !(box->base.driver = driver_of(answer))) {
        coto_err_set(err, COTO_ERR_INTERNAL, 0, "launcher: an answer that makes no sense");
        return NULL;
    }
    box->number = coto_field_num(answer, COTO_TAG_L_BOX);
    box->base.alive_fd = box->base.parked_fd = -1;
    for (int i = 0; i < 3; i++)
        box->base.stdio_fd[i] = -1;
    coto_fd_set_nonblock(*stream, 1);
    box->base.stream_fd = coto_take_fd(stream);
    made = box;
    box = NULL;
    return made;
}

/* There is one that we cannot use: its stream does not come to who has no descriptor left for it. */
static void give_back(int channel_fd, uint64_t number)
{
    struct box box = {.channel_fd = channel_fd, .number = number};

    if (number)
        ask_of_box(&box, COTO_FRAME_DESTROY, NULL);
}

static int create(int channel_fd, const struct coto_plan *plan, struct coto_buf *buf, size_t at,
                  struct coto_sandbox **ret_sandbox, struct coto_err *err)
{
    struct coto_frame answer;
    coto_auto_fd stream = -1;

    if (coto_launch_add_plan(buf, plan, err))
        return -1;
    coto_frame_end(buf, at);
    if (ask(channel_fd, buf, -1, &answer, &stream, err))
        return -1;
    struct box *box = new_box(&answer, &stream, err);
    if (!box) {
        give_back(channel_fd, coto_field_num(&answer, COTO_TAG_L_BOX));
        return -1;
    }
    coto_launch_use(&box->base, channel_fd, plan);
    *ret_sandbox = &box->base;
    return 0;
}

int coto_launch_create(int channel_fd, const struct coto_plan *plan, unsigned waiting,
                       struct coto_sandbox **ret_sandbox, struct coto_err *err)
{
    coto_auto_buf buf = {0};
    size_t at = coto_frame_begin(&buf, COTO_FRAME_CREATE, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_WAITING, waiting);
    return create(channel_fd, plan, &buf, at, ret_sandbox, err);
}

int coto_launch_create_held(int channel_fd, const struct coto_plan *plan, unsigned waiting,
                            const struct coto_buf *hold, struct coto_sandbox **ret_sandbox,
                            struct coto_err *err)
{
    coto_auto_buf buf = {0};
    size_t at = coto_frame_begin(&buf, COTO_FRAME_CREATE, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_WAITING, waiting);
    if (hold->len && hold->len <= COTO_LAUNCH_HOLD)
        coto_frame_add(&buf, COTO_TAG_L_HOLD, hold->data, hold->len);
    return create(channel_fd, plan, &buf, at, ret_sandbox, err);
}

int coto_launch_get_held(int channel_fd, uint64_t from, struct coto_launch_held *ret_held,
                         struct coto_err *err)
{
    coto_auto_buf buf = {0};
    struct coto_frame answer;
    struct coto_field field = {0};
    struct coto_launch_held held = {0};
    coto_auto_fd stream = -1;
    size_t at = coto_frame_begin(&buf, COTO_FRAME_HELD, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_BOX, from);
    coto_frame_end(&buf, at);
    if (ask(channel_fd, &buf, -1, &answer, &stream, err))
        return -1;
    if (answer.type == COTO_FRAME_CREATED) {
        held.number = coto_field_num(&answer, COTO_TAG_L_BOX);
        held.is_busy = coto_field_num(&answer, COTO_TAG_L_BUSY);
        struct box *box = held.is_busy ? NULL : new_box(&answer, &stream, err);
        if (!box && !held.is_busy)
            return -1;
        held.sandbox = box ? &box->base : NULL;
        while (coto_field_next(&answer, &field) == 1)
            if (field.tag == COTO_TAG_L_HOLD)
                coto_buf_add(&held.text, field.data, field.len);
    }
    *ret_held = held;
    return 0;
}

int coto_launch_stay(int channel_fd, const struct coto_sandbox *sandbox, struct coto_err *err)
{
    coto_auto_buf buf = {0};
    struct coto_frame answer;
    size_t at = coto_frame_begin(&buf, COTO_FRAME_USE, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_BOX, sandbox ? coto_launch_number(sandbox) : 0);
    coto_frame_end(&buf, at);
    return ask(channel_fd, &buf, -1, &answer, NULL, err);
}

void coto_launch_use(struct coto_sandbox *sandbox, int channel_fd, const struct coto_plan *plan)
{
    ((struct box *)sandbox)->channel_fd = channel_fd;
    sandbox->work_dir = plan->workdir;
}

uint64_t coto_launch_number(const struct coto_sandbox *sandbox)
{
    return ((const struct box *)sandbox)->number;
}

int coto_launch_warm(int control_fd, const struct coto_plan *plan, const struct coto_launch_keep *keep,
                     struct coto_err *err)
{
    coto_auto_buf buf = {0};
    size_t at = coto_frame_begin(&buf, COTO_FRAME_WARM, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_MIN, keep->min);
    coto_frame_add_num(&buf, COTO_TAG_L_MAX, keep->max);
    coto_frame_add_num(&buf, COTO_TAG_L_WAIT, (uint64_t)keep->wait_ms);
    coto_frame_add_text(&buf, COTO_TAG_L_PROFILE, plan->profile);
    if (coto_launch_add_plan(&buf, plan, err))
        return -1;
    coto_frame_end(&buf, at);
    return coto_launch_send_now(control_fd, &buf, -1) ? gone(err) : 0;
}

int coto_launch_check(int channel_fd, const struct coto_plan *plan, struct coto_err *err)
{
    coto_auto_buf buf = {0};
    struct coto_frame answer;
    size_t at = coto_frame_begin(&buf, COTO_FRAME_CHECK, 0);

    if (coto_launch_add_plan(&buf, plan, err))
        return -1;
    coto_frame_end(&buf, at);
    return ask(channel_fd, &buf, -1, &answer, NULL, err);
}

static void take_shelf(struct coto_launch_pool *pool, const struct coto_field *field)
{
    struct coto_launch_shelf *shelf = &pool->shelves[pool->shelf_count];

    if (pool->shelf_count == COTO_LAUNCH_SHELVES || field->len != sizeof *shelf)
        return;
    memcpy(shelf, field->data, sizeof *shelf);
    shelf->profile[sizeof shelf->profile - 1] = '\0';
    pool->shelf_count++;
}

int coto_launch_get_pool(int channel_fd, uint64_t more_hits, struct coto_launch_pool *ret_pool, struct coto_err *err)
{
    coto_auto_buf buf = {0};
    struct coto_frame answer;
    struct coto_field field = {0};
    size_t at = coto_frame_begin(&buf, COTO_FRAME_STATUS, 0);

    coto_frame_add_num(&buf, COTO_TAG_L_HITS, more_hits);
    coto_frame_end(&buf, at);
    if (ask(channel_fd, &buf, -1, &answer, NULL, err))
        return -1;
    *ret_pool = (struct coto_launch_pool){0};
    while (coto_field_next(&answer, &field) == 1)
        if (field.tag == COTO_TAG_L_POOL && field.len == sizeof ret_pool->status)
            memcpy(&ret_pool->status, field.data, sizeof ret_pool->status);
        else if (field.tag == COTO_TAG_L_SELF && field.len == sizeof ret_pool->self)
            memcpy(&ret_pool->self, field.data, sizeof ret_pool->self);
        else if (field.tag == COTO_TAG_L_SHELF)
            take_shelf(ret_pool, &field);
    ret_pool->self.filter_hash[sizeof ret_pool->self.filter_hash - 1] = '\0';
    return 0;
}

int coto_launch_get_self(int channel_fd, struct coto_self *ret_self, struct coto_err *err)
{
    struct coto_launch_pool pool;

    if (coto_launch_get_pool(channel_fd, 0, &pool, err))
        return -1;
    *ret_self = pool.self;
    return 0;
}
