/* Starting the runtime on a bundle, and waiting for the first word of coto-init inside. */
#include "drivers/oci/oci.h"

#include "base/clock.h"
#include "base/fd.h"
#include "kernel/sched.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define START_MS 60000

struct line {
    char *argv[20];
    int count;
    char root[256], pid_file[256], platform[40];
};

static void add(struct line *line, const char *word)
{
    line->argv[line->count++] = (char *)word;
    line->argv[line->count] = NULL;
}

static void compose(struct oci *oci, struct line *line)
{
    enum oci_kind kind = oci->chosen.runtime->kind;

    snprintf(line->root, sizeof line->root, "%s/state", oci->dir);
    snprintf(line->pid_file, sizeof line->pid_file, "%s/pid", oci->dir);
    snprintf(line->platform, sizeof line->platform, "--platform=%s", oci->chosen.platform);
    add(line, oci->chosen.path);
    add(line, "--root");
    add(line, line->root);
    if (kind == OCI_RUNSC) {
        add(line, line->platform);
        add(line, "--network=none");
        if (geteuid() != 0)
            add(line, "--rootless");
        if (!oci->has_group)
            add(line, "--ignore-cgroups");
    }
    add(line, "run");
    if (kind == OCI_RUNC)
        add(line, "--keep"); /* the cgroup, for its account */
    if (!oci->chosen.runtime->own_kernel)
        add(line, "--no-new-keyring"); /* it would stay for a while; no filter lets one be used */
    add(line, "--bundle");
    add(line, oci->dir);
    add(line, "--pid-file");
    add(line, line->pid_file);
    add(line, oci->name);
}

static _Noreturn void run_child(const struct line *line, int stream_fd, int message_fd)
{
    char *envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid(); /* Ctrl-C is for the supervisor */
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    umask(022); /* a runtime makes directories that the container must enter */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (coto_sched_leave_real_time(NULL)) /* gVisor's kernel runs the program in the class it has itself */
        _exit(126);
    stream_fd = fcntl(stream_fd, F_DUPFD_CLOEXEC, 32);
    message_fd = fcntl(message_fd, F_DUPFD_CLOEXEC, 32);
    dup2(stream_fd, 0);
    dup2(stream_fd, 1);
    dup2(message_fd, 2);
    syscall(SYS_close_range, 3u, ~0u, 4u /* CLOEXEC */);
    execve(line->argv[0], line->argv, envp);
    _exit(127);
}

static int start(struct oci *oci, struct coto_err *err)
{
    struct line line = {.count = 0};
    int sv[2];
    int p[2];
    int size = 1 << 20;

    compose(oci, &line);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "stream to the container");
    oci->base.stream_fd = sv[0];
    coto_auto_fd theirs = sv[1];
    setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (pipe2(p, O_CLOEXEC))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "pipe from the runtime");
    oci->message_fd = p[0];
    coto_auto_fd message = p[1];
    coto_fd_set_nonblock(oci->message_fd, 1);
    pid_t pid = coto_ns_clone(0, -1, &oci->pidfd);
    if (pid == 0)
        run_child(&line, theirs, message);
    if (pid < 0)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start %s", oci->chosen.path);
    oci->pid = pid;
    oci->base.alive_fd = oci->pidfd;
    return 0;
}

/* The line that tells the cause: the first that is no log line (a helper's, like newuidmap),
 * else the last, of a log line only its message. */
static const char *find_cause(char *text)
{
    char *rest = text;
    char *last = text;

    for (char *line; (line = strsep(&rest, "\n"));) {
        if (!*line)
            continue;
        last = line;
        if (strncmp(line, "time=", 5) != 0 && !strstr(line, " level="))
            return line;
    }
    char *message = strstr(last, "msg=\"");
    if (!message)
        return last;
    message += 5;
    char *end = strrchr(message, '"');
    if (end)
        *end = '\0';
    return message;
}

static int explain(struct oci *oci, struct coto_err *err)
{
    char text[4096];
    const char *name = oci->chosen.runtime->name;
    ssize_t n = read(oci->message_fd, text, sizeof text - 1);

    text[n > 0 ? n : 0] = '\0';
    const char *last = find_cause(text);
    coto_err_set(err, COTO_ERR_WALL, 0, "%s: %.400s", name,
                 *last ? last : "it ended before coto-init was up, and said nothing");
    if (oci->chosen.runtime->kind == OCI_CRUN && strstr(last, "cgroup"))
        return coto_err_remedy(err, "crun needs cgroup v2 alone, or v1 without a v2 hierarchy beside "
                                    "it; use --runtime runc or runsc");
    if (strstr(last, "ermission denied") && geteuid() != 0)
        return coto_err_remedy(err, "run as root, or use --isolation process");
    return coto_err_remedy(err, "see `coto doctor`; or use --isolation process");
}

/* Until init has said something, or all is over. */
static int wait_for_init(struct oci *oci, struct coto_err *err)
{
    struct pollfd pfd[2] = {{.fd = oci->base.stream_fd, .events = POLLIN},
                            {.fd = oci->pidfd, .events = POLLIN}};
    int64_t until = coto_clock_us() + (int64_t)START_MS * 1000;
    char byte;

    for (;;) {
        int64_t left = (until - coto_clock_us()) / 1000;
        if (left <= 0) {
            coto_err_set(err, COTO_ERR_WALL, 0, "%s: no container after %d s",
                         oci->chosen.runtime->name, START_MS / 1000);
            return coto_err_remedy(err, "see `coto doctor`; or use --isolation process");
        }
        if (poll(pfd, 2, (int)left) < 0 && errno != EINTR)
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "poll");
        if (recv(oci->base.stream_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
            return 0;
        if (pfd[1].revents || (pfd[0].revents & POLLHUP))
            return explain(oci, err);
    }
}

/* Runtimes write it when the container has been started, which may be after init's word. */
static void read_pid(struct oci *oci)
{
    struct pollfd pfd = {.fd = oci->pidfd, .events = POLLIN};
    char path[256];
    char text[32];

    snprintf(path, sizeof path, "%s/pid", oci->dir);
    for (int waited_ms = 0; waited_ms < START_MS && oci->init_pid <= 1; waited_ms++) {
        if (coto_file_read_at(AT_FDCWD, path, text, sizeof text) > 0)
            oci->init_pid = (pid_t)strtol(text, NULL, 10);
        else if (poll(&pfd, 1, 1) == 1)
            break; /* it has ended */
    }
}

int oci_launch(struct oci *oci, struct coto_err *err)
{
    if (start(oci, err) || wait_for_init(oci, err))
        return -1;
    read_pid(oci);
    if (oci->init_pid <= 1)
        return coto_err_set(err, COTO_ERR_WALL, 0, "%s: it does not tell the container's process",
                            oci->chosen.runtime->name);
    coto_fd_set_nonblock(oci->base.stream_fd, 1);
    return 0;
}
