"""A program that makes the kernel hold memory: HOLD KIND MIB. It tells how much it got."""
HOLD = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char block[65536];
static long held; /* bytes, by what was accepted */

static int large(int fd)
{
    int size = 4 << 20;

    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    return fd;
}

/* Each adds one object and what it holds; 0 when there is no more to be had. */

static int one_pipe(void)
{
    int p[2];
    ssize_t n;

    if (pipe2(p, O_NONBLOCK))
        return 0;
    fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
    while ((n = write(p[1], block, sizeof block)) > 0)
        held += n;
    return 1;
}

static int fill(int fd)
{
    ssize_t n;

    while ((n = send(fd, block, 32768, MSG_DONTWAIT)) > 0)
        held += n;
    return 1;
}

static int one_unix(void)
{
    int p[2];

    return socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && fill(large(p[0]));
}

static int one_unix_dgram(void)
{
    int p[2];

    return socketpair(AF_UNIX, SOCK_DGRAM, 0, p) == 0 && fill(large(p[0]));
}

/* Sockets that are on their way in the queue of another: no table of descriptors has them. One
 * that nobody holds would be freed when any socket on the host is closed; so the last is held. */
static int one_in_flight(void)
{
    static int road[2] = {-1, -1};
    int p[2];

    if ((road[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, road)) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, p))
        return 0;
    fill(large(p[0]));
    struct iovec io = {"x", 1};
    union {
        char bytes[CMSG_SPACE(sizeof p)];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    *c = (struct cmsghdr){CMSG_LEN(sizeof p), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(c), p, sizeof p);
    if (sendmsg(road[1], &message, MSG_DONTWAIT) != 1)
        return 0;
    close(p[0]);
    close(p[1]);
    return 1;
}

static struct sockaddr_in bound(int fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    bind(fd, (struct sockaddr *)&at, sizeof at);
    getsockname(fd, (struct sockaddr *)&at, &size);
    return at;
}

static int one_tcp(void)
{
    int server = large(socket(AF_INET, SOCK_STREAM, 0));
    int client = large(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in at = bound(server);

    if (server < 0 || client < 0 || listen(server, 1) || connect(client, (struct sockaddr *)&at, sizeof at))
        return 0;
    int peer = accept(server, NULL, NULL);
    close(server);
    return peer >= 0 && fill(client);
}

static long queued(int fd)
{
    unsigned info[9] = {0};
    socklen_t size = sizeof info;

    getsockopt(fd, SOL_SOCKET, 55 /* SO_MEMINFO */, info, &size);
    return info[0];
}

static int one_udp(void)
{
    int in = large(socket(AF_INET, SOCK_DGRAM, 0));
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = bound(in);

    if (in < 0 || out < 0)
        return 0;
    for (int i = 0; i < 200; i++)
        sendto(out, block, 60000, MSG_DONTWAIT, (struct sockaddr *)&at, sizeof at);
    close(out);
    held += queued(in);
    return queued(in) > 0;
}

static int corked(int option, int flags)
{
    int fd = large(socket(AF_INET, SOCK_DGRAM, 0));
    int one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) ||
        (option && setsockopt(fd, IPPROTO_UDP, UDP_CORK, &one, sizeof one)))
        return 0;
    ssize_t n = send(fd, block, 65000, flags);
    held += n > 0 ? n : 0;
    return n > 0;
}

static int one_udp_cork(void)
{
    return corked(1, 0);
}

static int one_udp_msg_more(void)
{
    return corked(0, MSG_MORE);
}

static int one_netlink(void)
{
    int fd = large(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    struct {
        struct nlmsghdr head;
        struct ifinfomsg link;
    } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST, 1, 0}, {.ifi_index = 1}};

    long before = -1, now = 0;

    /* Past its buffer's end a socket is still asked, and answers nothing. */
    while (fd >= 0 && now > before) {
        before = now;
        for (int i = 0; i < 50 && send(fd, &ask, sizeof ask, MSG_DONTWAIT) >= 0; i++)
            ;
        now = queued(fd);
    }
    held += now;
    return now > 0;
}

static int one_filter(void)
{
    static struct sock_filter code[4096];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    for (int i = 0; i < 4096; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xffff);
    struct sock_fprog program = {4096, code};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program))
        return 0;
    held += sizeof code;
    return 1;
}

/* What is sent along with every packet: a message of somebody else's level is kept unread. In Linux 6.1 a
 * socket may keep 20 KB of options (net.core.optmem_max). */
static int one_packet_options(void)
{
    static union {
        struct cmsghdr head;
        char bytes[16000];
    } options = {{.cmsg_len = 16000, .cmsg_level = 0xffff}};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);

    if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, 6 /* IPV6_2292PKTOPTIONS */, &options, sizeof options))
        return 0;
    held += sizeof options;
    return 1;
}

/* A key per peer (TCP_MD5SIG), of peers that nobody is. */
static int one_tcp_key(void)
{
    static unsigned peer = 0x0a000000;
    int fd = socket(AF_INET, SOCK_STREAM, 0), n = 0;

    for (; fd >= 0 && n < 500; n++) {
        struct tcp_md5sig key = {.tcpm_keylen = 16};
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(peer++)};
        memcpy(&key.tcpm_addr, &at, sizeof at);
        if (setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof key))
            break;
        held += 192;
    }
    return n > 0;
}

/* A group that the interface has to know of, as well as the socket. */
static int one_membership(void)
{
    static unsigned group;
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), n = 0;

    for (; fd >= 0 && n < 2000; n++, group++) {
        struct ipv6_mreq at = {.ipv6mr_interface = 1};
        unsigned char *byte = at.ipv6mr_multiaddr.s6_addr;
        byte[0] = 0xff, byte[1] = 2, byte[13] = group >> 16, byte[14] = group >> 8, byte[15] = group;
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &at, sizeof at))
            break;
        held += 256;
    }
    return n > 0;
}

static int one_seccomp(void)
{
    static struct sock_filter code[4000];

    for (int i = 0; i < 4000; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {4000, code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 0;
    held += sizeof code;
    return 1;
}

static int one_epoll(void)
{
    static int target = -1;
    struct epoll_event event = {.events = EPOLLIN};

    if (target < 0)
        target = socket(AF_UNIX, SOCK_DGRAM, 0);
    int fd = epoll_create1(0);
    for (int i = 100; fd >= 0 && i < 900; i++) {
        if (fcntl(i, F_GETFD) < 0)
            dup2(target, i);
        if (epoll_ctl(fd, EPOLL_CTL_ADD, i, &event))
            return 0;
        held += 128;
    }
    return fd >= 0;
}

static int one_inotify(void)
{
    static int fd = -1;
    static int n;
    char name[64];

    if (fd < 0)
        fd = inotify_init1(0);
    snprintf(name, sizeof name, "/tmp/%d-%d", getpid(), n++);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    if (fd < 0 || inotify_add_watch(fd, name, IN_MODIFY) < 0)
        return 0;
    held += 1024;
    return 1;
}

static int one_timer(void)
{
    timer_t id;
    struct sigevent quiet = {.sigev_notify = SIGEV_NONE};

    if (timer_create(CLOCK_MONOTONIC, &quiet, &id))
        return 0;
    held += 256;
    return 1;
}

static int one_msg(void)
{
    struct {
        long type;
        char text[8000];
    } message = {1, ""};
    int id = msgget(IPC_PRIVATE, 0600);

    while (id >= 0 && msgsnd(id, &message, sizeof message.text, IPC_NOWAIT) == 0)
        held += sizeof message.text;
    return id >= 0;
}

static const struct {
    const char *name;
    int (*one)(void);
} kinds[] = {
    {"pipe", one_pipe},       {"unix", one_unix},           {"unix_dgram", one_unix_dgram},
    {"in_flight", one_in_flight}, {"tcp", one_tcp},         {"udp", one_udp},
    {"udp_cork", one_udp_cork}, {"udp_msg_more", one_udp_msg_more}, {"netlink", one_netlink},
    {"packet_options", one_packet_options}, {"tcp_key", one_tcp_key}, {"membership", one_membership},
    {"filter", one_filter},   {"seccomp", one_seccomp},     {"epoll", one_epoll},
    {"inotify", one_inotify}, {"timer", one_timer},         {"msg", one_msg},
};

/* One child's share: it tells what it holds and keeps it until we end. */
static void child(int (*one)(void), long most, int tell, int wait_fd)
{
    char byte;

    while (held < most && one())
        ;
    struct {
        long held;
        int why;
    } report = {held, errno};
    if (write(tell, &report, sizeof report) != sizeof report)
        _exit(1);
    _exit((int)read(wait_fd, &byte, 1));
}

int main(int argc, char **argv)
{
    long most = atol(argv[2]) << 20, total = 0;
    int why = 0, hold[2], (*one)(void) = NULL;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            one = kinds[i].one;
    if (!one || pipe(hold))
        return 64;
    for (int i = 0; i < 30 && total < most; i++) {
        struct {
            long held;
            int why;
        } report;
        int tell[2];
        if (pipe(tell))
            break;
        if (fork() == 0) {
            close(hold[1]);
            close(tell[0]);
            child(one, most - total, tell[1], hold[0]);
        }
        close(tell[1]);
        if (read(tell[0], &report, sizeof report) != sizeof report)
            return 1; /* it was killed */
        close(tell[0]);
        total += report.held;
        why = report.why;
        if (report.held == 0)
            break;
    }
    if (waitpid(-1, NULL, WNOHANG) > 0)
        return 1; /* one that had told was killed since */
    printf("held %ld %s\n", total >> 20, why ? strerrorname_np(why) : "all");
    return 0;
}
"""
