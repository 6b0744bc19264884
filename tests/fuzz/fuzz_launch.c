/* The privileged launcher under a front that has been taken over: any requests on any channels, in
 * any order, between what its sandboxes do. Its own code does all of it; the driver below makes
 * no sandboxes but looks at every plan that it is given. The input is a list of turns: a byte what,
 * a byte of whom, and for a request two bytes of length and the packet. */
#include "base/own.h"
#include "drivers/launcher/talk.h"
#include "launcher/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHANNELS 4
#define TURNS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct launcher l;
static int theirs[CHANNELS]; /* the front's ends */
static unsigned living;

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Instead of main.c's: the turns say when something is ready. */
int launcher_watch(struct launcher *of, int fd, struct source *source)
{
    (void)of, (void)source;
    must(fd >= 0);
    return 0;
}

void launcher_unwatch(struct launcher *of, int fd)
{
    (void)of, (void)fd;
}

/* ---- the driver ---- */

struct fake {
    struct coto_sandbox base; /* first */
    int init_fd;
    bool is_killed;
};

static void check_text(const char *text)
{
    must(text && *text && strlen(text) < COTO_LAUNCH_MAX);
}

static void check_plan(const struct coto_plan *plan)
{
    const struct launcher_most *most = &l.most;
    const coto_wallset core = coto_plan_core(plan);

    must(plan->memory_bytes >= 0 && plan->memory_bytes <= most->memory);
    must(plan->swap_bytes >= 0 && plan->swap_bytes <= most->swap);
    must(plan->cpus_milli >= 0 && plan->cpus_milli <= most->cpus);
    must(plan->pids >= 0 && plan->pids <= most->pids);
    must(plan->disk_bytes > 0 && plan->disk_bytes <= most->disk);
    must(plan->tmp_bytes > 0 && plan->tmp_bytes <= most->tmp);
    must(plan->inodes > 0 && plan->inodes <= most->inodes);
    must(plan->uid == 1000 && plan->gid == 1000 && !(plan->caps & ~most->caps));
    must(plan->seccomp_tier >= COTO_SECCOMP_STRICT && plan->seccomp_tier <= most->seccomp);
    must(plan->idmap == COTO_IDMAP_AUTO && plan->isolation == COTO_ISOLATION_PROCESS);
    must((plan->need & core) == core && (plan->want & core) == core);
    must(!plan->mount_count && !plan->copy_count && !plan->file_count && !plan->rootfs.source);
    must(!plan->image && !plan->runtime && plan->workdir[0] == '/');
    check_text(plan->user_name);
    check_text(plan->hostname);
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        must(plan->tmpfs[i].target[0] == '/' && plan->tmpfs[i].size > 0 &&
             plan->tmpfs[i].size <= most->tmp);
}

static void take(const struct coto_buf *text, struct coto_plan *ret_plan)
{
    struct coto_frame_reader reader = {.buf = *text};
    struct coto_frame frame;
    struct coto_err err = {0};

    must(coto_frame_next(&reader, &frame, &err) == 1);
    must(coto_launch_take_plan(&frame, ret_plan, &err) == 0);
}

static void add(struct coto_buf *text, const struct coto_plan *plan)
{
    struct coto_err err = {0};
    size_t at = coto_frame_begin(text, COTO_FRAME_CREATE, 0);

    must(coto_launch_add_plan(text, plan, &err) == 0);
    coto_frame_end(text, at);
}

/* What the launcher has understood, said again, is understood as the same. */
static void check_stable(const struct coto_plan *plan)
{
    coto_auto_buf one = {0}, two = {0};
    struct coto_plan again;

    add(&one, plan);
    take(&one, &again);
    add(&two, &again);
    must(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    coto_plan_fini(&again);
}

static const struct coto_driver driver;

static int fake_create(const struct coto_plan *plan, bool verbose, struct coto_sandbox **ret_sandbox,
                       struct coto_err *err)
{
    struct fake *fake = calloc(1, sizeof *fake);
    int sv[2];

    must(fake && !verbose && !err->kind);
    check_plan(plan);
    check_stable(plan);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) == 0);
    fake->init_fd = sv[1];
    fake->base = (struct coto_sandbox){
        .driver = &driver, .stream_fd = sv[0], .parked_fd = -1, .stdio_fd = {-1, -1, -1}};
    fake->base.alive_fd = fcntl(sv[1], F_DUPFD_CLOEXEC, 3); /* not readable: it lives */
    *ret_sandbox = &fake->base;
    living++;
    return 0;
}

static int fake_inspect(struct coto_sandbox *sandbox, const struct coto_frame *ready, struct coto_err *err)
{
    (void)err;
    must(((struct fake *)sandbox)->init_fd >= 0 && ready->type == COTO_FRAME_READY);
    return 0;
}

static int fake_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    must(((struct fake *)sandbox)->init_fd >= 0);
    *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    return 0;
}

static void fake_kill(struct coto_sandbox *sandbox)
{
    ((struct fake *)sandbox)->is_killed = true;
}

static void fake_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct fake *fake = (struct fake *)sandbox;

    must(fake->is_killed);
    if (ret_usage)
        fake_usage(sandbox, ret_usage);
    coto_own_close(&fake->base.stream_fd);
    coto_own_close(&fake->base.alive_fd);
    coto_own_close(&fake->init_fd);
    free(fake);
    living--;
}

static const struct coto_driver driver = {.name = "native",
                                          .inspect = fake_inspect,
                                          .create = fake_create,
                                          .usage = fake_usage,
                                          .kill = fake_kill,
                                          .destroy = fake_destroy};

/* ---- turns ---- */

static void bring(int which, bool is_front)
{
    int sv[2];

    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) == 0);
    coto_own_close(&theirs[which]);
    theirs[which] = sv[0];
    struct channel *channel = launcher_add_channel(&l, sv[1]);
    must(channel != NULL);
    channel->is_control = is_front;
    if (is_front && l.control)
        launcher_close_channel(&l, l.control);
    if (is_front)
        l.control = channel;
}

/* Whatever has come on any channel; they may come and go meanwhile. */
static void listen_all(void)
{
    for (int i = 0; i < LAUNCHER_CHANNELS; i++) {
        struct pollfd ready = {l.channels[i] && !l.channels[i]->gone ? l.channels[i]->fd : -1, POLLIN, 0};
        if (ready.fd >= 0 && poll(&ready, 1, 0) == 1)
            launcher_take_message(&l, l.channels[i]);
    }
}

static void read_answers(void)
{
    coto_auto_buf buf = {0};
    struct coto_frame frame;
    struct coto_err err = {0};

    for (int i = 0; i < CHANNELS; i++) {
        int fd = -1;
        while (theirs[i] >= 0 && coto_launch_receive_now(theirs[i], &buf, &frame, &fd) == 1) {
            must(frame.type != COTO_FRAME_CREATED || coto_field_num(&frame, COTO_TAG_L_BOX) > 0);
            if (frame.type == COTO_FRAME_ERROR) {
                coto_field_error(&frame, &err);
                must(err.kind != COTO_ERR_NONE && err.text[0]);
            }
            coto_own_close(&fd);
        }
    }
}

static struct box *nth_box(unsigned n)
{
    n = l.box_count ? n % l.box_count : 0;
    for (unsigned i = 0; i < LAUNCHER_BOXES && l.box_count; i++)
        if (l.boxes[i] && n-- == 0)
            return l.boxes[i];
    return NULL;
}

static void init_says(struct box *box, const uint8_t *data, size_t size)
{
    coto_auto_buf ready = {0};
    size_t at = coto_frame_begin(&ready, COTO_FRAME_READY, 0);

    coto_frame_end(&ready, at);
    if (!box || box->state != BOX_STARTING || l.kinds[0].parking)
        return;
    if (size == 0)
        data = (const uint8_t *)ready.data, size = ready.len;
    (void)!write(((struct fake *)box->sandbox)->init_fd, data, size);
    launcher_stream_ready(&l, box);
}

static void turn(unsigned what, unsigned whom, const uint8_t *data, size_t size)
{
    int *their = &theirs[whom % CHANNELS];
    struct box *box = what % 8 > 2 ? nth_box(whom) : NULL;
    int sv[2];

    switch (what % 8) {
    case 0: /* a request, with a descriptor every other time */
        must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) == 0);
        const struct coto_buf packet = {.data = (char *)(uintptr_t)data, .len = size};
        if (*their >= 0 && size)
            coto_launch_send_now(*their, &packet, whom & 64 ? sv[0] : -1);
        close(sv[0]);
        close(sv[1]);
        break;
    case 1:
        coto_own_close(their);
        break;
    case 2:
        bring((int)(whom % CHANNELS), whom & 64);
        break;
    case 3:
    case 4:
        init_says(box, data, what % 8 == 3 ? 0 : size);
        break;
    case 5: /* somebody has killed it; nobody looks before it is ended */
        if (box && box->state == BOX_ENDING)
            launcher_box_dead(&l, box);
        break;
    case 6:
        l.tick_us = 0;
        launcher_tick(&l);
        break;
    default:
        read_answers();
    }
    listen_all();
    launcher_refill(&l);
}

/* ---- the beginning and the end ---- */

static void check_counts(void)
{
    const unsigned boxes = l.box_count;

    must(boxes == living && boxes <= l.max_boxes);
    must(l.status.ready + l.status.starting + l.status.in_use + l.status.ending == boxes);
    must(l.status.created == l.status.destroyed + boxes && l.shelf_count <= LAUNCHER_SHELVES);
}

static void begin(void)
{
    memset(&l, 0, sizeof l);
    l.max_boxes = 6;
    l.next_number = 1;
    l.driver = &driver;
    l.high = (struct launcher_high){.runtime = "", .image = {"", "", ""}};
    l.most = (struct launcher_most){.memory = 1 << 30, .cpus = 4000, .pids = 256, .disk = 1 << 30,
                                    .swap = 0, .tmp = 1 << 26, .inodes = 100000, .caps = 1 << 10,
                                    .seccomp = COTO_SECCOMP_DEFAULT, .idmaps = 1 << COTO_IDMAP_AUTO,
                                    .ids = {{1000, 1000}}, .id_count = 1};
    l.kinds[0].templates[0].retry_us = INT64_MAX; /* no interpreter */
    l.sweep_us = INT64_MAX;
    for (int i = 0; i < CHANNELS; i++)
        theirs[i] = -1;
    for (int i = 0; i < CHANNELS; i++)
        bring(i, i == 0);
}

static void end(void)
{
    l.ending = true;
    for (int i = 0; i < CHANNELS; i++)
        coto_own_close(&theirs[i]);
    for (int i = 0; i < LAUNCHER_BOXES && l.box_count; i++)
        if (l.boxes[i])
            launcher_end_box(&l, l.boxes[i], NULL);
    for (int i = 0; i < LAUNCHER_BOXES && l.box_count; i++)
        if (l.boxes[i])
            launcher_box_dead(&l, l.boxes[i]);
    for (unsigned i = 0; i < l.shelf_count; i++) {
        for (struct channel *c = l.shelves[i].queue; c; c = c->next)
            must(c->waits);
        for (struct channel *c = l.shelves[i].queue, *next; c; c = next) {
            next = c->next;
            c->waits = false;
            if (c->gone)
                launcher_close_channel(&l, c);
        }
        coto_buf_fini(&l.shelves[i].key);
    }
    for (int i = 0; i < LAUNCHER_CHANNELS; i++)
        if (l.channels[i]) {
            l.channels[i]->waits = false;
            launcher_close_channel(&l, l.channels[i]);
        }
    must(living == 0 && l.box_count == 0);
    coto_buf_fini(&l.in);
    coto_buf_fini(&l.out);
    coto_buf_fini(&l.spare);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    for (unsigned i = 0; i < TURNS && size >= 2; i++) {
        unsigned what = data[0], whom = data[1];
        size_t len = 0;
        data += 2, size -= 2;
        if ((what % 8 == 0 || what % 8 == 4) && size >= 2) {
            len = data[0] | (size_t)data[1] << 8;
            data += 2, size -= 2;
            len = len < size ? len : size;
        }
        turn(what, whom, data, len);
        data += len, size -= len;
        check_counts();
    }
    end();
    return 0;
}
