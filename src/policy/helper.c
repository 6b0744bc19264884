#include "policy/helper.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)8 << 20)
#define COMPLAINT_MAX ((size_t)4096)

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#ifndef COTO_LIBEXECDIR
#define COTO_LIBEXECDIR "/usr/local/libexec/coto"
#endif

const char *coto_helper_dir;

/* Directory of the running program; "" when it cannot be told. */
static void own_dir(char *ret_dir, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret_dir, size - 1);

    ret_dir[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(ret_dir, '/');
    if (slash)
        *slash = '\0';
}

static int try_dir(const char *dir, const char *name, char *ret_path, size_t size)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);

    if (!*dir || n < 0 || (size_t)n >= sizeof path || (size_t)n >= size || access(path, X_OK))
        return -1;
    memcpy(ret_path, path, (size_t)n + 1);
    return 0;
}

int coto_helper_find(const char *name, char *ret_path, size_t size)
{
    char dir[4096];

    if (coto_helper_dir && try_dir(coto_helper_dir, name, ret_path, size) == 0)
        return 0;
    own_dir(dir, sizeof dir);
    if (try_dir(dir, name, ret_path, size) == 0)
        return 0;
    size_t len = strlen(dir);
    if (len > 0 && snprintf(dir + len, sizeof dir - len, "/" COTO_LIBEXEC_FROM_BIN) > 0 &&
        try_dir(dir, name, ret_path, size) == 0)
        return 0;
    return try_dir(COTO_LIBEXECDIR, name, ret_path, size);
}

void coto_helper_places(char *ret_text, size_t size)
{
    char dir[4096];

    own_dir(dir, sizeof dir);
    snprintf(ret_text, size, "%s%s%s", dir, *dir ? ", " : "", COTO_LIBEXECDIR);
}

/* ---- running one ---- */

struct stdio_fds {
    int in, out, err;
};

static _Noreturn void exec_helper(const struct coto_helper_call *call, const struct stdio_fds *fds)
{
    struct rlimit cpu = {call->cpu_seconds, call->cpu_seconds};
    struct rlimit core = {0, 0};

    /* None of the three is below 3 (see open_pipe), so no copy hits another. */
    if (dup2(fds->in, 0) < 0 || dup2(fds->out, 1) < 0 || dup2(fds->err, 2) < 0)
        _exit(126);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
    execve(call->path, call->argv, call->envp);
    _exit(127);
}

int coto_helper_lift(int *fd)
{
    if (*fd > 2)
        return 0;
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
    if (high < 0)
        return -1;
    close(*fd);
    *fd = high;
    return 0;
}

static int open_pipe(int *ret_read, int *ret_write)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        return -1;
    *ret_read = ends[0];
    *ret_write = ends[1];
    return coto_helper_lift(ret_read) || coto_helper_lift(ret_write) ? -1 : 0;
}

static int wait_for(pid_t pid, int *ret_status)
{
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return 0;
}

int coto_helper_run(const struct coto_helper_call *call, struct coto_buf *answer,
                    struct coto_buf *complaint, int *ret_status)
{
    coto_auto_fd out_read = -1;
    coto_auto_fd out_write = -1;
    coto_auto_fd err_read = -1;
    coto_auto_fd err_write = -1;

    if (open_pipe(&out_read, &out_write) || open_pipe(&err_read, &err_write))
        return -1;
    struct stdio_fds fds = {call->in_fd, out_write, err_write};
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        exec_helper(call, &fds);
    coto_own_close(&out_write);
    coto_own_close(&err_write);
    int failed = coto_fd_read_all(out_read, ANSWER_MAX, answer) ||
                 coto_fd_read_all(err_read, COMPLAINT_MAX, complaint);
    int saved = errno;
    coto_own_close(&out_read); /* a helper that still writes gets SIGPIPE */
    coto_own_close(&err_read);
    if (wait_for(pid, ret_status))
        return -1;
    errno = saved;
    return failed ? -1 : 0;
}
