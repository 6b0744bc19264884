/* answer PORT: the least an HTTP server can do on this machine. Whatever is read is answered with
 * the same bytes; nothing is parsed, nobody is asked for a token. What this costs for each
 * request is the kernel's and the virtual machine's, not coto's. Ends when its input does. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char reply[] = "HTTP/1.1 200 OK\r\n"
                            "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                            "Content-Type: application/json\r\n"
                            "Cache-Control: no-store\r\n"
                            "Content-Length: 16\r\n\r\n"
                            "{\"status\":\"ok\"}\n";

static int watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int listen_on(const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 64)) {
        perror("answer");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    static char request[65536];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on(argc > 1 ? argv[1] : "0");

    if (epoll_fd < 0 || watch(epoll_fd, listener) || watch(epoll_fd, STDIN_FILENO))
        return 1;
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll_fd, events, 64, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == STDIN_FILENO)
                return 0;
            if (fd == listener)
                watch(epoll_fd, accept(listener, NULL, NULL));
            else if (recv(fd, request, sizeof request, 0) <= 0)
                close(fd);
            else
                send(fd, reply, sizeof reply - 1, MSG_NOSIGNAL);
        }
    }
}
