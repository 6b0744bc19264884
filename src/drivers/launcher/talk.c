#include "drivers/launcher/talk.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/units.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- packets ---- */

static int send_packet(int fd, const struct coto_buf *frame, int attach_fd, int flags)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {frame->data, frame->len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (frame->failed) {
        errno = ENOMEM;
        return -1;
    }
    if (attach_fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control.space;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &attach_fd, sizeof attach_fd);
    }
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

int coto_launch_send(int fd, const struct coto_buf *frame, int attach_fd)
{
    return send_packet(fd, frame, attach_fd, 0);
}

int coto_launch_send_now(int fd, const struct coto_buf *frame, int attach_fd)
{
    return send_packet(fd, frame, attach_fd, MSG_DONTWAIT);
}

/* The first; space for one has room for two, and who sends more is not ours. */
static int attached_fd(struct msghdr *msg)
{
    int fd = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
            int next;
            memcpy(&next, (char *)c + at, sizeof next);
            if (fd < 0)
                fd = next;
            else
                coto_fd_drop(next);
        }
    }
    return fd;
}

static int receive_packet(int fd, struct coto_buf *buf, struct coto_frame *ret_frame, int *ret_fd,
                          int flags)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    coto_buf_clear(buf);
    char *to = coto_buf_reserve(buf, COTO_LAUNCH_MAX + 1);
    struct iovec iov = {to, COTO_LAUNCH_MAX};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control.space};
    ssize_t n;

    *ret_fd = -1;
    if (!to) {
        errno = ENOMEM;
        return -1;
    }
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return (int)n;
    *ret_fd = attached_fd(&msg);
    buf->len = (size_t)n;
    struct coto_frame_reader reader = {.buf = *buf};
    if (msg.msg_flags & MSG_TRUNC || coto_frame_next(&reader, ret_frame, NULL) != 1 ||
        reader.pos != buf->len) {
        if (*ret_fd >= 0)
            coto_fd_drop(coto_take_fd(ret_fd));
        errno = EBADMSG;
        return -1;
    }
    return 1;
}

int coto_launch_receive(int fd, struct coto_buf *buf, struct coto_frame *ret_frame, int *ret_fd)
{
    return receive_packet(fd, buf, ret_frame, ret_fd, 0);
}

int coto_launch_receive_now(int fd, struct coto_buf *buf, struct coto_frame *ret_frame, int *ret_fd)
{
    return receive_packet(fd, buf, ret_frame, ret_fd, MSG_DONTWAIT);
}

/* ---- plans ---- */

/* In the order of the wire. */
#define NUMBERS(X)                                                                                 \
    X(uid) X(gid) X(caps) X(memory_bytes) X(swap_bytes) X(cpus_milli) X(pids) X(disk_bytes)         \
    X(tmp_bytes) X(inodes) X(iops) X(cpu_time_ms) X(writable_output_only) X(noexec) X(isolation)    \
    X(idmap) X(need) X(want) X(parked) X(seccomp_tier) X(ptys)

enum {
#define X(name) NUMBER_##name,
    NUMBERS(X)
#undef X
        NUMBER_COUNT
};

int coto_launch_add_plan(struct coto_buf *out, const struct coto_plan *plan, struct coto_err *err)
{
    uint64_t numbers[NUMBER_COUNT];

    if (plan->mount_count || plan->rootfs.source || plan->copy_count) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "mount, copy and rootfs name paths of the host");
        return coto_err_remedy(err, "the service has no access to them: upload files instead");
    }
#define X(name) numbers[NUMBER_##name] = (uint64_t)plan->name;
    NUMBERS(X)
#undef X
    coto_frame_add(out, COTO_TAG_L_NUMBERS, numbers, sizeof numbers);
    coto_frame_add_text(out, COTO_TAG_S_USER, plan->user_name);
    coto_frame_add_text(out, COTO_TAG_S_HOST, plan->hostname);
    coto_frame_add_text(out, COTO_TAG_CWD, plan->workdir);
    if (plan->parked && plan->modules && *plan->modules)
        coto_frame_add_text(out, COTO_TAG_L_MODULES, plan->modules);
    for (size_t i = 0; i < plan->tmpfs_count; i++) {
        coto_frame_add_text(out, COTO_TAG_S_TMPFS, plan->tmpfs[i].target);
        coto_frame_add_num(out, COTO_TAG_S_TMPFS_SIZE, (uint64_t)plan->tmpfs[i].size);
    }
    return 0;
}

static int take_numbers(struct coto_plan *plan, const struct coto_field *field)
{
    uint64_t numbers[NUMBER_COUNT];

    if (field->len != sizeof numbers)
        return -1;
    memcpy(numbers, field->data, sizeof numbers);
#define X(name) plan->name = (__typeof__(plan->name))numbers[NUMBER_##name];
    NUMBERS(X)
#undef X
    return 0;
}

static int take_tmpfs(struct coto_plan *plan, const struct coto_field *field)
{
    struct coto_plan_tmpfs *more =
        plan->tmpfs_count < 16 ? realloc(plan->tmpfs, (plan->tmpfs_count + 1) * sizeof *more) : NULL;

    if (!more)
        return -1;
    plan->tmpfs = more;
    more[plan->tmpfs_count] = (struct coto_plan_tmpfs){
        strndup((const char *)field->data, field->len), 0};
    return more[plan->tmpfs_count++].target ? 0 : -1;
}

static int take_field(struct coto_plan *plan, const struct coto_field *field)
{
    switch (field->tag) {
    case COTO_TAG_L_NUMBERS:
        return take_numbers(plan, field);
    case COTO_TAG_S_TMPFS:
        return take_tmpfs(plan, field);
    case COTO_TAG_S_TMPFS_SIZE:
        if (plan->tmpfs_count == 0)
            return -1;
        plan->tmpfs[plan->tmpfs_count - 1].size = (int64_t)coto_field_value(field);
        return 0;
    default:
        return 0;
    }
}

bool coto_launch_is_known(int isolation)
{
    return isolation == COTO_ISOLATION_PROCESS || isolation == COTO_ISOLATION_CONTAINER ||
           isolation == COTO_ISOLATION_DOCKER;
}

static bool is_number_or_none(int64_t value)
{
    return value >= 0 || value == COTO_UNIT_NONE;
}

static bool is_name(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return len > 0 && len <= NAME_MAX && coto_utf8_is_plain(text, len);
}

static bool has_sound_tmpfs(const struct coto_plan *plan)
{
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        if (plan->tmpfs[i].target[0] != '/' || plan->tmpfs[i].size <= 0) /* 0 would be no limit */
            return false;
    return true;
}

/* What the driver and init rely on. The front has checked all of it; it may have been
 * taken over since. */
static bool is_sound(const struct coto_plan *plan)
{
    return is_name(plan->user_name) && is_name(plan->hostname) && plan->workdir &&
           plan->workdir[0] == '/' && has_sound_tmpfs(plan) &&
           plan->seccomp_tier >= COTO_SECCOMP_STRICT && plan->seccomp_tier <= COTO_SECCOMP_DEBUG &&
           plan->idmap >= COTO_IDMAP_AUTO && plan->idmap <= COTO_IDMAP_SUBUID &&
           coto_launch_is_known(plan->isolation) && plan->uid > 0 && plan->gid > 0 &&
           is_number_or_none(plan->memory_bytes) && is_number_or_none(plan->swap_bytes) &&
           is_number_or_none(plan->cpus_milli) && is_number_or_none(plan->pids) &&
           is_number_or_none(plan->iops) && plan->disk_bytes > 0 && plan->tmp_bytes > 0 &&
           plan->inodes > 0 && plan->ptys >= 0;
}

int coto_launch_take_plan(const struct coto_frame *frame, struct coto_plan *ret_plan,
                          struct coto_err *err)
{
    struct coto_field field = {0};
    int got;
    int bad = 0;

    *ret_plan = (struct coto_plan){.rootfs = {.fd = -1}};
    while (!bad && (got = coto_field_next(frame, &field)) != 0)
        bad = got < 0 || take_field(ret_plan, &field);
    ret_plan->user_name = coto_field_text(frame, COTO_TAG_S_USER);
    ret_plan->hostname = coto_field_text(frame, COTO_TAG_S_HOST);
    ret_plan->workdir = coto_field_text(frame, COTO_TAG_CWD);
    ret_plan->modules = coto_field_text(frame, COTO_TAG_L_MODULES); /* NULL: none */
    if (!bad && is_sound(ret_plan))
        return 0;
    coto_plan_fini(ret_plan);
    return coto_err_set(err, COTO_ERR_INTERNAL, 0, "launcher: a plan that makes no sense");
}

/* ---- what comes back ---- */

struct sandbox_numbers {
    uint64_t landlock_abi, apply_seccomp, apply_landlock, cpu_time_by_usage, stays, labelled,
        watches_memory;
    int64_t rlimit_nproc, rlimit_data;
};

static void add_wall(struct coto_buf *out, int index, const struct coto_wall_state *wall)
{
    unsigned char bytes[2 + sizeof wall->mechanism + sizeof wall->value + sizeof wall->note];
    unsigned char *p = bytes + 2;

    bytes[0] = (unsigned char)index;
    bytes[1] = (unsigned char)((wall->wanted ? 1 : 0) | (wall->up ? 2 : 0));
    p = (unsigned char *)stpcpy((char *)p, wall->mechanism) + 1;
    p = (unsigned char *)stpcpy((char *)p, wall->value) + 1;
    p = (unsigned char *)stpcpy((char *)p, wall->note) + 1;
    coto_frame_add(out, COTO_TAG_L_WALL, bytes, (size_t)(p - bytes));
}

void coto_launch_add_sandbox(struct coto_buf *out, const struct coto_sandbox *sandbox)
{
    struct sandbox_numbers numbers = {sandbox->landlock_abi,   sandbox->apply_seccomp,
                                      sandbox->apply_landlock, sandbox->cpu_time_by_usage,
                                      sandbox->stays,          sandbox->labelled,
                                      sandbox->watches_memory,
                                      sandbox->rlimit_nproc,   sandbox->rlimit_data};

    coto_frame_add(out, COTO_TAG_L_SANDBOX, &numbers, sizeof numbers);
    coto_frame_add_text(out, COTO_TAG_L_DRIVER, sandbox->driver->name);
    if (sandbox->runtime[0])
        coto_frame_add_text(out, COTO_TAG_L_RUNTIME, sandbox->runtime);
    if (sandbox->guest_kernel)
        coto_frame_add_text(out, COTO_TAG_L_GUEST, sandbox->guest_kernel);
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (sandbox->walls[i].wanted || sandbox->walls[i].up || sandbox->walls[i].note[0])
            add_wall(out, i, &sandbox->walls[i]);
}

/* The next NUL-terminated text of a field into a fixed buffer. */
static void take_text(const unsigned char **p, const unsigned char *end, char *to, size_t size)
{
    size_t n = strnlen((const char *)*p, (size_t)(end - *p));

    snprintf(to, size, "%.*s", (int)n, (const char *)*p);
    *p += n + (*p + n < end);
}

static int take_wall(const struct coto_field *field, struct coto_sandbox *sandbox)
{
    const unsigned char *p = field->data + 2;
    const unsigned char *end = field->data + field->len;

    if (field->len < 5 || field->data[0] >= COTO_WALL_COUNT)
        return -1;
    struct coto_wall_state *wall = &sandbox->walls[field->data[0]];
    wall->wanted = field->data[1] & 1;
    wall->up = field->data[1] & 2;
    take_text(&p, end, wall->mechanism, sizeof wall->mechanism);
    take_text(&p, end, wall->value, sizeof wall->value);
    take_text(&p, end, wall->note, sizeof wall->note);
    return 0;
}

static void take_names(const struct coto_field *field, struct coto_sandbox *sandbox, char guest[64])
{
    const unsigned char *p = field->data;

    if (field->tag == COTO_TAG_L_RUNTIME)
        take_text(&p, p + field->len, sandbox->runtime, sizeof sandbox->runtime);
    if (field->tag == COTO_TAG_L_GUEST) {
        take_text(&p, p + field->len, guest, 64);
        sandbox->guest_kernel = guest;
    }
}

int coto_launch_take_sandbox(const struct coto_frame *frame, struct coto_sandbox *sandbox,
                             char ret_guest[64])
{
    struct coto_field field = {0};
    struct sandbox_numbers numbers;
    bool found = false;

    while (coto_field_next(frame, &field) == 1) {
        if (field.tag == COTO_TAG_L_WALL && take_wall(&field, sandbox))
            return -1;
        take_names(&field, sandbox, ret_guest);
        if (field.tag != COTO_TAG_L_SANDBOX || field.len != sizeof numbers)
            continue;
        memcpy(&numbers, field.data, sizeof numbers);
        sandbox->landlock_abi = numbers.landlock_abi;
        sandbox->apply_seccomp = numbers.apply_seccomp;
        sandbox->apply_landlock = numbers.apply_landlock;
        sandbox->cpu_time_by_usage = numbers.cpu_time_by_usage;
        sandbox->stays = numbers.stays;
        sandbox->labelled = numbers.labelled;
        sandbox->watches_memory = numbers.watches_memory;
        sandbox->rlimit_nproc = numbers.rlimit_nproc;
        sandbox->rlimit_data = numbers.rlimit_data;
        found = true;
    }
    return found ? 0 : -1;
}

void coto_launch_add_usage(struct coto_buf *out, const struct coto_usage *usage)
{
    coto_frame_add(out, COTO_TAG_L_USAGE, usage, sizeof *usage);
}

void coto_launch_take_usage(const struct coto_frame *frame, struct coto_usage *ret_usage)
{
    struct coto_field field = {0};

    *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    while (coto_field_next(frame, &field) == 1)
        if (field.tag == COTO_TAG_L_USAGE && field.len == sizeof *ret_usage)
            memcpy(ret_usage, field.data, sizeof *ret_usage);
}
