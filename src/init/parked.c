/* A process that waits in this sandbox for a program to run: a copy of an interpreter that
 * has imported its libraries (template/template.c). It is a child of ours already, since
 * its parent has ended. It is trusted until it gets its program, and not a moment
 * longer: the channel is closed then. */
#include "init/init.h"

#include "base/fd.h"
#include "kernel/sockwatch.h"
#include "template/talk.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MS 300
#define LATE_MS 60000
#define ANSWER_MS 5000
#define FULL_MS 10
#define MESSAGES_MAX 64 /* one says a word or two */

/* ---- a channel whose other end a program may have ---- */

/* It may send descriptors along, and the last close of some waits for as long as it likes (a TCP socket that lingers).
 * So what has any is not taken out, nor a channel closed in which it is: it goes when this process ends, which waits for nothing. */
static bool has_descriptors(int fd)
{
    char byte;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    return recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) >= 0 && msg.msg_flags & MSG_CTRUNC;
}

/* As recv. EPERM: what is there has descriptors. */
static ssize_t take_bytes(int fd, void *bytes, size_t room)
{
    if (has_descriptors(fd)) {
        errno = EPERM;
        return -1;
    }
    return recv(fd, bytes, room, MSG_DONTWAIT);
}

/* Who sent a message comes with it, an empty one too; with the end of all messages nobody, but in gVisor. */
static bool has_message(int fd, bool *ret_has_descriptors)
{
    char byte;
    char control[CMSG_SPACE(3 * sizeof(int))]; /* a struct ucred, and nothing else */
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);

    *ret_has_descriptors = n >= 0 && msg.msg_flags & MSG_CTRUNC;
    return n >= 0 && msg.msg_controllen > 0;
}

static void close_channel(int *fd)
{
    const int one = 1;
    bool has_some = false;
    char byte;
    int left = MESSAGES_MAX;

    if (*fd < 0)
        return;
    setsockopt(*fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one);
    shutdown(*fd, SHUT_RDWR); /* nothing more comes */
    for (; left > 0 && has_message(*fd, &has_some) && !has_some; left--)
        recv(*fd, &byte, 1, MSG_DONTWAIT);
    if (!has_some && left > 0)
        coto_own_close(fd);
    *fd = -1;
}

static void tell(struct init *init, bool is_there)
{
    struct coto_err err = {0};

    if (!init->tells_parked)
        return;
    init->tells_parked = false;
    if (is_there) {
        coto_frame_end(&init->out, coto_frame_begin(&init->out, COTO_FRAME_DONE, 0));
        init_send(init);
        return;
    }
    coto_err_set(&err, COTO_ERR_TOOL, 0, "the interpreter ended instead of waiting");
    init_send_error(init, 0, &err);
}

void init_parked_hello(struct init *init)
{
    struct coto_parked_hello hello;
    ssize_t n = recv(init->parked_fd, &hello, sizeof hello, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof hello && hello.magic == COTO_PARKED_MAGIC && hello.pid > 1)
        init->parked_pid = hello.pid;
    else
        coto_own_close(&init->parked_fd); /* it is gone: programs are started the long way */
    tell(init, init->parked_fd >= 0);
}

/* A program came before it: it was forked a moment ago, or nobody was asked for it yet. Then nothing of the
 * program has run, and nothing will before it is here (launcher/late.c). */
bool init_parked_wait(struct init *init)
{
    int wait_ms = HELLO_MS;

    if (init->late_fd >= 0) {
        const char want = COTO_PARKED_WANTED;
        init->parked_fd = coto_take_fd(&init->late_fd);
        wait_ms = send(init->parked_fd, &want, 1, MSG_NOSIGNAL) == 1 ? LATE_MS : 0;
    }
    struct pollfd pfd = {.fd = init->parked_fd, .events = POLLIN};
    if (init->parked_fd < 0 || init->parked_pid)
        return init->parked_pid > 0;
    if (init_poll(&pfd, wait_ms) == 1)
        init_parked_hello(init);
    else if (wait_ms == LATE_MS)
        _exit(70); /* it may still come, and must not find a program here */
    return init->parked_pid > 0;
}

/* All but RESIDENT, which stands last: an interpreter that is there has no use for it. */
static size_t len_of_program(const struct coto_frame *frame)
{
    struct coto_field field = {0};
    const unsigned char *before = frame->payload;

    while (coto_field_next(frame, &field) == 1 && field.tag != COTO_TAG_RESIDENT)
        before = field.data + field.len;
    return (size_t)(before - frame->payload);
}

/* Its stdio and, with the first, a /proc to ask for its AppArmor profile in: by the second it has
 * run user code, which must not get hold of that. */
static int send_program(const struct init *init, const struct coto_frame *frame, const int stdio[3])
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    const int fds[4] = {stdio[0], stdio[1], stdio[2], init->labels_fd};
    const size_t size = (init->labels_fd < 0 || init->has_answered ? 3 : 4) * sizeof(int);
    const struct coto_frame program = {.type = frame->type, .proc = frame->proc, .len = len_of_program(frame)};
    unsigned char head[COTO_FRAME_HEADER];
    struct iovec iov[2] = {{head, sizeof head}, {(void *)frame->payload, program.len}};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = 2,
                         .msg_control = &control,
                         .msg_controllen = CMSG_SPACE(size)};

    coto_frame_head(&program, head);
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(&control.head), fds, size);
    /* A program that has the channel may leave it full for ever. */
    for (int waited = 0; sendmsg(init->parked_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0; waited += FULL_MS) {
        if ((errno != EAGAIN && errno != EINTR) || waited >= ANSWER_MS)
            return -1;
        poll(NULL, 0, FULL_MS);
    }
    return 0;
}

/* ---- sockets ---- */

void init_sockets_used(struct init *init)
{
    const uint64_t one = 1;

    /* The launcher takes the namespace for unused until it reads this: where it cannot be said
     * there must be no socket, so there is no sandbox. */
    if (init->used_fd >= 0 && write(init->used_fd, &one, sizeof one) != (ssize_t)sizeof one)
        _exit(70);
    coto_own_close(&init->used_fd);
}

void init_sockets_wanted(struct init *init)
{
    uint64_t id;

    if (coto_sockwatch_take(init->sockets_fd, &id)) {
        if (errno != EINTR && errno != ENOENT) /* ENOENT: it was killed meanwhile */
            coto_own_close(&init->sockets_fd);
        return;
    }
    init_sockets_used(init);
    coto_sockwatch_allow(init->sockets_fd, id);
}

/* ---- programs ---- */

/* With the first answer come a channel that the program may have, where its state is kept, and the
 * listener of the interpreter's watch over sockets: by then it has run nothing of its program. */
static ssize_t receive_answer(struct init *init, bool context, char *bytes, size_t room)
{
    int fds[2] = {-1, -1};
    int count;

    if (init->has_answered) /* later ones may be the program's */
        return take_bytes(init->parked_fd, bytes, room);
    ssize_t n = coto_fd_receive_with(init->parked_fd, bytes, room, fds, 2, &count);
    if (context && fds[0] >= 0) {
        coto_own_close(&init->parked_fd);
        init->parked_fd = coto_take_fd(&fds[0]);
    }
    init->sockets_fd = coto_take_fd(&fds[context]);
    coto_own_close(&fds[0]);
    coto_own_close(&fds[1]);
    init->has_answered = true;
    return n;
}

/* The same walls are up for each of its programs: only what it said of them before the first is
 * believed, and nothing that a program has it say goes on to the host. */
static int pass_on(struct init *init, unsigned proc)
{
    size_t at = init->out.len;

    coto_buf_add(&init->out, init->told.data, init->told.len);
    init->out.failed = init->out.failed || init->told.failed;
    if (!init->out.failed) {
        init->out.data[at + 6] = (char)proc; /* of the header */
        init->out.data[at + 7] = (char)(proc >> 8);
    }
    return init_send(init);
}

/* Its first STARTED frame goes on to the host as it is, and so does its ERROR; later ones may be the
 * program's, whose words are not ours. 1: it has died before it could say either, and so before it ran
 * anything. */
static int take_answer(struct init *init, unsigned proc, bool context, struct coto_err *err)
{
    bool is_first = !init->has_answered;
    char bytes[4096];
    struct pollfd pfd = {.fd = init->parked_fd, .events = POLLIN};
    struct coto_frame frame;
    int ready = init_poll(&pfd, ANSWER_MS);
    ssize_t n = ready == 1 ? receive_answer(init, context, bytes, sizeof bytes) : -1;
    struct coto_frame_reader reader = {.buf = {.data = bytes, .len = n > 0 ? (size_t)n : 0}};

    if (ready == 1 && n <= 0)
        return 1;
    bool is_answer = n > 0 && coto_frame_next(&reader, &frame, err) == 1 && reader.pos == (size_t)n;
    if (!is_first && (!is_answer || frame.type != COTO_FRAME_STARTED))
        return 1; /* an earlier program has it say that, or be silent */
    if (init->sockets_fd < 0)
        init_sockets_used(init); /* nobody watches what it does */
    if (!is_answer)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "the parked interpreter does not answer");
    if (frame.type != COTO_FRAME_STARTED) {
        coto_field_error(&frame, err);
        return -1;
    }
    if (is_first)
        coto_buf_add(&init->told, bytes, (size_t)n);
    return pass_on(init, proc);
}

/* It was told when it was started, by init's own code, and no wall has come down since. */
static int answer_for(struct init *init, const struct coto_frame *frame)
{
    init_walls_add_started(&init->out, frame->proc, init->parked_pid, &init->resident);
    return init_send(init);
}

int init_parked_adopt(struct init *init, const struct coto_frame *frame, const int theirs[3],
                      int channel_fd, struct coto_err *err)
{
    int stdio[3];

    for (int i = 0; i < 3; i++)
        stdio[i] = theirs[i] >= 0 ? theirs[i] : i;
    init->parked_fd = channel_fd;
    init->has_answered = init->is_resident = true;
    /* One that would not start has ended by now, and that is what becomes of the program. */
    if (send_program(init, frame, stdio) && errno != EPIPE)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "hand a program to its interpreter");
    init->context = frame->proc;
    return 0;
}

pid_t init_parked_start(struct init *init, const struct coto_frame *frame, const int theirs[3],
                        bool context, struct coto_err *err)
{
    int stdio[3];
    pid_t pid = init->parked_pid;
    const bool has_state = init->has_answered;

    for (int i = 0; i < 3; i++)
        stdio[i] = theirs[i] >= 0 ? theirs[i] : i;
    if (context)
        init_sockets_used(init); /* the channel that it makes is one */
    int failed = send_program(init, frame, stdio) ? 1 : init->is_resident ? answer_for(init, frame) : take_answer(init, frame->proc, context, err);
    /* It has died meanwhile: the program is started anew. Where state is expected of it the
     * sandbox is lost instead: nothing may look as if it was kept. Its first program expects none, and one
     * that cannot answer may be no fault of it: others of its user have as many descriptors under way as it may have. */
    if (failed > 0 && context && has_state)
        _exit(1);
    if (!context)
        coto_own_close(&init->parked_fd); /* its program has no other end of it */
    if (failed || !context)
        init_parked_gone(init, pid);
    else
        init->context = frame->proc;
    return failed > 0 ? 0 : failed ? -1 : pid;
}

void init_parked_gone(struct init *init, pid_t pid)
{
    if (pid != init->parked_pid)
        return;
    close_channel(&init->parked_fd);
    init->parked_pid = 0;
    init->context = 0;
    init->has_state = false;
}

/* By now user code may have written it: one answer, of the right form, to what was asked. */
void init_parked_says(struct init *init)
{
    struct coto_parked_done done;
    unsigned proc = init->context;

    if (!init->parked_pid) {
        init_parked_hello(init);
        return;
    }
    ssize_t n = take_bytes(init->parked_fd, &done, sizeof done);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof done || done.magic != COTO_PARKED_MAGIC || !proc) {
        init_parked_gone(init, init->parked_pid); /* its death will tell */
        return;
    }
    init->context = 0;
    init_context_exit(init, proc, (done.status & 0xff) << 8);
}
