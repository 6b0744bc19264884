/* coto-docker: starting it, talking to it, and its end. */
#include "drivers/docker/docker.h"

#include "base/fd.h"
#include "kernel/ns.h"
#include "policy/helper.h"
#include "wire/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than the engine is given for any single answer. */
#define ANSWER_MS 180000
#define END_MS 20000

static _Noreturn void child_main(const char *path, int control_fd, int stream_fd)
{
    char *argv[] = {"coto-docker", NULL};
    int from[2] = {fcntl(control_fd, F_DUPFD_CLOEXEC, 32), fcntl(stream_fd, F_DUPFD_CLOEXEC, 32)};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < 2; i++) /* its words are frames; nothing of it belongs on the terminal */
        dup2(null, i);
    dup2(from[0], 3);
    dup2(from[1], 4);
    syscall(SYS_close_range, 5u, ~0u, 4u /* CLOEXEC */);
    execve(path, argv, environ);
    _exit(127);
}

static int find_helper(char *ret_path, size_t size, struct coto_err *err)
{
    char places[4096];

    if (coto_helper_find("coto-docker", ret_path, size) == 0)
        return 0;
    coto_helper_places(places, sizeof places);
    coto_err_set(err, COTO_ERR_SYSTEM, 0, "docker: find coto-docker in %.300s", places);
    return coto_err_remedy(err, "install it beside coto: make install");
}

int docker_start_helper(struct docker *d, struct coto_err *err)
{
    char path[4096];
    int control[2], stream[2];

    if (find_helper(path, sizeof path, err))
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "docker: socket");
    d->control_fd = control[0];
    coto_auto_fd theirs = control[1];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "docker: socket");
    d->base.stream_fd = stream[0];
    coto_auto_fd their_stream = stream[1];
    d->helper = coto_ns_clone(0, -1, &d->helper_fd);
    if (d->helper == 0)
        child_main(path, theirs, their_stream);
    if (d->helper < 0) {
        d->helper = 0;
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "docker: start coto-docker");
    }
    d->base.alive_fd = d->helper_fd;
    coto_fd_set_nonblock(d->base.stream_fd, 1);
    return 0;
}

/* It ends by itself once our end is closed, when the container is gone. */
void docker_stop_helper(struct docker *d)
{
    struct pollfd pfd = {.fd = d->helper_fd, .events = POLLIN};

    coto_own_close(&d->control_fd);
    if (d->helper > 0) {
        if (poll(&pfd, 1, END_MS) == 0)
            coto_pidfd_signal(d->helper_fd, d->helper, SIGKILL);
        while (waitpid(d->helper, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    d->helper = 0;
    coto_own_close(&d->helper_fd);
    coto_frame_reader_fini(&d->reader);
    d->reader = (struct coto_frame_reader){0};
}

int docker_send(struct docker *d, const struct coto_buf *frame)
{
    if (frame->failed || d->control_fd < 0)
        return -1;
    size_t sent = 0;
    while (sent < frame->len) {
        ssize_t n = send(d->control_fd, frame->data + sent, frame->len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        sent += (size_t)n;
    }
    return 0;
}

static int helper_gone(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: coto-docker has ended in the middle");
    return coto_err_remedy(err, "run it again; the container is removed");
}

int docker_receive(struct docker *d, struct coto_frame *ret_frame, struct coto_err *err)
{
    int got = coto_frame_next(&d->reader, ret_frame, err);

    while (got == 0) {
        struct pollfd pfd = {.fd = d->control_fd, .events = POLLIN};
        int ready = poll(&pfd, 1, ANSWER_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return coto_err_set(err, COTO_ERR_LIMIT, 0, "docker: no answer from coto-docker");
        size_t room;
        char *to = coto_frame_reader_space(&d->reader, &room);
        ssize_t n = to ? recv(d->control_fd, to, room, 0) : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return helper_gone(err);
        d->reader.buf.len += (size_t)n;
        got = coto_frame_next(&d->reader, ret_frame, err);
    }
    if (got < 0)
        return -1;
    if (ret_frame->type != COTO_FRAME_ERROR)
        return 0;
    coto_field_error(ret_frame, err);
    return -1;
}

int docker_ask(struct docker *d, int type, struct coto_frame *ret_frame, struct coto_err *err)
{
    coto_auto_buf out = {0};

    coto_frame_end(&out, coto_frame_begin(&out, (enum coto_frame_type)type, 0));
    if (docker_send(d, &out))
        return helper_gone(err);
    return ret_frame ? docker_receive(d, ret_frame, err) : 0;
}
