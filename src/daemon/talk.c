#include "daemon/talk.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
    struct cmsghdr head;
    char space[CMSG_SPACE(COTO_TALK_FDS * sizeof(int))];
};

int coto_talk_send(int fd, const struct coto_message *message)
{
    union control control = {0};
    char what = message->what;
    struct iovec parts[2] = {{&what, 1}, {(void *)message->data, message->len}};
    struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};
    size_t bytes = (size_t)message->fd_count * sizeof(int);
    ssize_t n;

    if (bytes) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(bytes);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(&control.head), message->fds, bytes);
    }
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

int coto_talk_receive(int fd, struct coto_message *ret_message)
{
    union control control = {0};
    struct iovec parts[2] = {{&ret_message->what, 1},
                             {ret_message->data, sizeof ret_message->data}};
    struct msghdr msg = {.msg_iov = parts,
                         .msg_iovlen = 2,
                         .msg_control = &control,
                         .msg_controllen = sizeof control};
    ssize_t n;

    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return (int)n;
    ret_message->len = (size_t)n - 1;
    ret_message->fd_count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = c->cmsg_len - CMSG_LEN(0);
        memcpy(ret_message->fds, CMSG_DATA(c), bytes);
        ret_message->fd_count = (int)(bytes / sizeof(int));
    }
    return 1;
}
