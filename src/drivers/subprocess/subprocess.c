/* Level 0: no isolation. A temporary directory, a timeout, output cut; the same
 * coto-init, but as an ordinary child process of the caller's uid. Only by name,
 * and the result says that no wall was up.
 */
#include "drivers/driver.h"
#include "drivers/guard.h"
#include "drivers/initbin.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/weak.h"
#include "kernel/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* For its directory, on a busy disk too; whoever goes on filling it keeps what is left. */
#define REMOVE_US 60000000

extern const struct coto_driver coto_driver_subprocess;

struct subprocess {
    struct coto_sandbox base; /* first */
    const struct coto_plan *plan;
    pid_t pid;
    int pidfd;
    int work_fd;
    bool made_dir;
    struct coto_guard guard;
};

static int remove_now(const struct subprocess *sp, int64_t until_us)
{
    const char *name = strrchr(sp->plan->workdir, '/') + 1;
    coto_auto_fd tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return tmp < 0 ? -1 : coto_path_remove_tree_until(tmp, name, until_us);
}

static void remove_work(const void *arg)
{
    int64_t until = coto_clock_us() + REMOVE_US;

    /* init ends its children when the stream closes; give it a moment. */
    while (remove_now(arg, until) && errno != ENOENT && coto_clock_us() < until)
        usleep(10000);
}

static int make_directories(struct subprocess *sp, struct coto_err *err)
{
    const char *dir = sp->plan->workdir;

    if (mkdir(dir, 0700))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make temporary directory '%s'", dir);
    sp->made_dir = true;
    sp->work_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (sp->work_fd < 0 || mkdirat(sp->work_fd, "output", 0700))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "temporary directory '%s'", dir);
    return 0;
}

static int make_work(struct subprocess *sp, struct coto_err *err)
{
    if (coto_guard_start(&sp->guard, remove_work, sp, err))
        return -1;
    mode_t mask = umask(077); /* the caller's may be one that keeps itself out */
    int failed = make_directories(sp, err);
    umask(mask);
    return failed;
}

static _Noreturn void child_main(int init_fd, const int stdio[3], int stream_fd, int work_fd)
{
    char *argv[] = {"coto-init", "--in=3", "--out=3", "--work=4", NULL};
    char *envp[] = {coto_weak_env(), NULL}; /* empty in the product */
    int from[] = {stdio[0], stdio[1], stdio[2], stream_fd, work_fd};

    setpgid(0, 0); /* it ends what it has started also where all of the supervisor's group is killed */
    init_fd = fcntl(init_fd, F_DUPFD_CLOEXEC, 32);
    for (int i = 0; i < 5; i++)
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 32);
    for (int i = 0; i < 5; i++)
        dup2(from[i], i);
    syscall(SYS_close_range, 5u, ~0u, 4u /* CLOEXEC */);
    syscall(SYS_execveat, init_fd, "", argv, envp, AT_EMPTY_PATH);
    _exit(127);
}

static int start(struct subprocess *sp, struct coto_err *err)
{
    int sv[2];
    int theirs[3] = {-1, -1, -1};
    coto_auto_fd init_fd = coto_initbin_open(err);

    if (init_fd < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "stream to the process");
    sp->base.stream_fd = sv[0];
    coto_auto_fd stream = sv[1];
    for (int i = 0; i < 3; i++) {
        int p[2];
        if (pipe2(p, O_CLOEXEC))
            return coto_err_set(err, COTO_ERR_LIMIT, errno, "pipes to the process");
        sp->base.stdio_fd[i] = i == 0 ? p[1] : p[0];
        theirs[i] = i == 0 ? p[0] : p[1];
    }
    sp->pid = coto_ns_clone(0, -1, &sp->pidfd);
    if (sp->pid == 0)
        child_main(init_fd, theirs, stream, sp->work_fd);
    int saved = errno;
    for (int i = 0; i < 3; i++)
        close(theirs[i]);
    if (sp->pid < 0) {
        sp->pid = 0;
        return coto_err_set(err, COTO_ERR_LIMIT, saved, "start a process");
    }
    sp->base.alive_fd = sp->pidfd;
    coto_fd_set_nonblock(sp->base.stream_fd, 1);
    return 0;
}

static void subprocess_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);

/* Everything the policy wants and this level does not have is said, and refused
 * before anything runs when it is required. */
static int say_walls(struct subprocess *sp, struct coto_err *err)
{
    const coto_wallset ours = COTO_WALL_BIT(TIMEOUT) | COTO_WALL_BIT(OUTPUT);
    coto_wallset missing = sp->plan->need & ~ours;

    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        struct coto_wall_state *wall = &sp->base.walls[i];
        wall->wanted = sp->plan->want >> i & 1;
        if (wall->wanted && !(ours >> i & 1))
            snprintf(wall->note, sizeof wall->note, "subprocess: no isolation");
    }
    if (!missing)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0, "required wall '%s' cannot be had: subprocess has no isolation",
                 coto_walls[__builtin_ctzll(missing)].name);
    return coto_err_remedy(err, "use --isolation process, or drop it from --require");
}

static int subprocess_create(const struct coto_plan *plan, bool verbose,
                             struct coto_sandbox **ret_sandbox, struct coto_err *err)
{
    struct subprocess *sp = calloc(1, sizeof *sp);

    (void)verbose; /* one step only */
    if (!sp)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "create process");
    sp->base = (struct coto_sandbox){.driver = &coto_driver_subprocess,
                                     .stream_fd = -1,
                                     .alive_fd = -1,
                                     .stdio_fd = {-1, -1, -1},
                                     .work_dir = plan->workdir};
    sp->plan = plan;
    sp->pidfd = sp->work_fd = -1;
    if (say_walls(sp, err) || make_work(sp, err) || start(sp, err)) {
        subprocess_destroy(&sp->base, NULL);
        return -1;
    }
    *ret_sandbox = &sp->base;
    return 0;
}

static int subprocess_inspect(struct coto_sandbox *sandbox, const struct coto_frame *ready,
                              struct coto_err *err)
{
    (void)sandbox;
    (void)ready;
    (void)err;
    return 0;
}

static int subprocess_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    (void)sandbox;
    *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    return 0;
}

/* Closing the stream lets init end the whole tree, which only it can walk. */
static void subprocess_kill(struct coto_sandbox *sandbox)
{
    if (sandbox->stream_fd >= 0)
        shutdown(sandbox->stream_fd, SHUT_WR);
}

static void wait_for_init(struct subprocess *sp, struct coto_usage *usage)
{
    struct pollfd pfd = {.fd = sp->pidfd, .events = POLLIN};
    struct rusage ru = {0};
    int status = 0;

    subprocess_kill(&sp->base);
    if (poll(&pfd, 1, 2000) == 0)
        coto_pidfd_signal(sp->pidfd, sp->pid, SIGKILL);
    while (wait4(sp->pid, &status, 0, &ru) < 0 && errno == EINTR)
        ;
    usage->cpu_user_us = (int64_t)ru.ru_utime.tv_sec * 1000000 + ru.ru_utime.tv_usec;
    usage->cpu_system_us = (int64_t)ru.ru_stime.tv_sec * 1000000 + ru.ru_stime.tv_usec;
    usage->memory_peak_bytes = (int64_t)ru.ru_maxrss * 1024;
    usage->init_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    sp->pid = 0;
}

static void subprocess_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct subprocess *sp = (struct subprocess *)sandbox;
    struct coto_usage usage;

    if (!sp)
        return;
    subprocess_usage(sandbox, &usage);
    if (sp->pid > 0)
        wait_for_init(sp, &usage);
    if (ret_usage)
        *ret_usage = usage;
    if (sp->made_dir)
        remove_now(sp, coto_clock_us() + REMOVE_US);
    coto_guard_stop(&sp->guard);
    coto_own_close(&sp->pidfd);
    coto_own_close(&sp->work_fd);
    coto_own_close(&sp->base.stream_fd);
    for (int i = 0; i < 3; i++)
        coto_own_close(&sp->base.stdio_fd[i]);
    free(sp);
}

static int subprocess_probe(struct coto_probe *ret_probe, struct coto_err *err)
{
    (void)err;
    *ret_probe = (struct coto_probe){0};
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        struct coto_wall_state *wall = &ret_probe->walls[i];
        wall->up = i == COTO_WALL_TIMEOUT || i == COTO_WALL_OUTPUT;
        snprintf(wall->note, sizeof wall->note, "%s", wall->up ? "" : "subprocess: no isolation");
        snprintf(wall->mechanism, sizeof wall->mechanism, "%s", wall->up ? "supervisor" : "");
    }
    return 0;
}

const struct coto_driver coto_driver_subprocess = {
    .name = "subprocess",
    .isolation = COTO_ISOLATION_SUBPROCESS,
    .doc = "no isolation: a temporary directory, a timeout, output cut",
    .probe = subprocess_probe,
    .create = subprocess_create,
    .inspect = subprocess_inspect,
    .usage = subprocess_usage,
    .kill = subprocess_kill,
    .destroy = subprocess_destroy,
};
