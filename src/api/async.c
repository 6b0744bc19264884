/* Async executions: each in a process of its own, so that it outlives the front.
 *
 * Theory of operation. A worker forks. The child keeps, of all descriptors, a channel to the
 * launcher that it alone has, the stream of its sandbox and the three files below; it runs the job
 * as the worker would have, writes down what became of it and ends. The worker waits for that, and
 * has it recorded. When the front dies meanwhile the child goes on, the launcher knows that it does
 * (launcher/hold.c), and the next front finds it:
 *
 *   async/ID.lock    locked by the child as long as it lives; not empty once it has begun
 *   async/ID.cancel  a FIFO: a byte in it ends the execution
 *   async/ID.out     what became of it; whole or not there
 *
 * Only this thread exists in the child, with a copy of the memory: it touches nothing that
 * another thread may have locked (records, the loop). */
#include "api/api.h"

#include "base/fd.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define PATH 4200

/* Read by this build, or one that was compiled from the same lines, and by nobody else. */
struct outcome {
    char build[32];
    struct coto_err err;
    char field[64];
    int status;
    bool has_result, lost;
    unsigned next_proc;
    enum coto_verdict verdict;
    struct coto_facts facts;
    int exit_code;
    int64_t duration_us;
    char started_at[COTO_TIME_TEXT];
    char code_hash[COTO_SHA256_HEX], policy_hash[COTO_SHA256_HEX];
};
static const char build[32] = __DATE__ " " __TIME__;

static const char *path_of(const struct coto_api *api, const char *id, const char *what,
                           char to[PATH])
{
    snprintf(to, PATH, "%s/async/%s%s%s", api->config.state_dir, id, *what ? "." : "", what);
    return to;
}

/* ---- files ---- */

/* Without a FIFO it can be cancelled by this front only, through the descriptor it has. */
void api_async_prepare(struct api_job *job)
{
    char path[PATH];

    if (mkdir(path_of(job->api, "", "", path), 0700) && errno != EEXIST)
        return;
    int fd = mkfifo(path_of(job->api, job->id, "cancel", path), 0600)
                 ? -1
                 : open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        coto_own_close(&job->cancel_fd);
        job->cancel_fd = fd;
    }
}

void api_async_forget(const struct api_job *job)
{
    static const char *const files[] = {"cancel", "out", "lock"};
    char path[PATH];

    for (int i = 0; i < 3; i++)
        unlink(path_of(job->api, job->id, files[i], path));
}

void api_async_sweep(const struct coto_api *api, const struct coto_strv *ids)
{
    char path[PATH];
    DIR *dir = opendir(path_of(api, "", "", path));
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        bool is_known = entry->d_name[0] == '.';
        for (size_t i = 0; i < ids->count && !is_known; i++)
            is_known = strncmp(entry->d_name, ids->items[i], COTO_ID_TEXT - 1) == 0;
        if (!is_known)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* ---- in the child ---- */

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void close_between(int first, int last)
{
    struct rlimit limit;

    if (first > last || syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0) == 0)
        return;
    if (last == INT32_MAX)
        last = getrlimit(RLIMIT_NOFILE, &limit) ? 65536 : (int)limit.rlim_cur;
    for (int fd = first; fd <= last; fd++)
        close(fd);
}

/* Connections of others, listening sockets, the records: none of it is the child's. */
static void keep_only(int *fds, int count)
{
    int next = 3;

    qsort(fds, (size_t)count, sizeof *fds, compare);
    for (int i = 0; i < count; i++) {
        if (fds[i] < next)
            continue;
        close_between(next, fds[i] - 1);
        next = fds[i] + 1;
    }
    close_between(next, INT32_MAX);
}

static void fill(struct outcome *o, const struct api_job *job)
{
    const struct coto_result *r = &job->result;

    memcpy(o->build, build, sizeof build);
    o->err = job->err;
    memcpy(o->field, job->field, sizeof o->field);
    o->status = job->status;
    o->has_result = job->has_result;
    o->lost = job->lost;
    o->next_proc = job->sandbox ? job->sandbox->next_proc : 0;
    memcpy(o->code_hash, job->plan.code_hash, sizeof o->code_hash);
    memcpy(o->policy_hash, job->plan.policy_hash, sizeof o->policy_hash);
    if (!job->has_result)
        return;
    o->verdict = r->verdict;
    o->facts = r->facts;
    o->exit_code = r->exit_code;
    o->duration_us = r->duration_us;
    memcpy(o->started_at, r->started_at, sizeof o->started_at);
}

static void write_outcome(const struct api_job *job)
{
    static struct outcome o;
    char path[PATH];
    char whole[PATH];

    fill(&o, job);
    path_of(job->api, job->id, "new", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && coto_fd_write_all(fd, &o, sizeof o) == 0 &&
        coto_fd_write_all(fd, job->reply.data, job->reply.len) == 0 && close(fd) == 0)
        rename(path, path_of(job->api, job->id, "out", whole));
    else
        unlink(path);
}

static _Noreturn void run_apart(struct api_job *job, int channel, int lock)
{
    int fds[] = {channel, lock, job->cancel_fd, job->sandbox ? job->sandbox->box->stream_fd : lock};

    prctl(PR_SET_NAME, "coto-async");
    keep_only(fds, 4);
    job->api->records = NULL;
    job->api->config.node_ahead = 0; /* their streams are the front's */
    if (write(lock, "1", 1) != 1)
        _exit(1);
    if (coto_launch_stay(channel, job->sandbox ? job->sandbox->box : NULL, &job->err) == 0)
        job->run(job, channel);
    api_note_lost(job, channel);
    write_outcome(job);
    if (job->destroy_box && job->box)
        job->box->driver->destroy(job->box, NULL);
    _exit(0);
}

/* ---- in the worker ---- */

static void lose(struct api_job *job)
{
    coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0, "lost: what ran it was ended");
    coto_err_remedy(&job->err, "send the request again");
    job->status = 503;
    job->lost = true;
}

static int read_outcome(struct api_job *job, struct outcome *o)
{
    char path[PATH];
    coto_auto_fd fd = open(path_of(job->api, job->id, "out", path), O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < sizeof *o ||
        coto_fd_read_exact(fd, o, sizeof *o) || memcmp(o->build, build, sizeof build) != 0)
        return -1;
    size_t rest = (size_t)st.st_size - sizeof *o;
    char *to = coto_buf_reserve(&job->reply, rest + 1);
    if (!to || coto_fd_read_exact(fd, to, rest))
        return -1;
    job->reply.len += rest;
    to[rest] = '\0';
    return 0;
}

static void take_outcome(struct api_job *job)
{
    struct outcome *o = calloc(1, sizeof *o);

    if (!o || read_outcome(job, o)) {
        lose(job);
        free(o);
        return;
    }
    job->err = o->err;
    memcpy(job->field, o->field, sizeof job->field);
    job->status = o->status;
    job->has_result = o->has_result;
    job->lost = o->lost;
    memcpy(job->plan.code_hash, o->code_hash, sizeof o->code_hash);
    memcpy(job->plan.policy_hash, o->policy_hash, sizeof o->policy_hash);
    job->result.verdict = o->verdict;
    job->result.facts = o->facts;
    job->result.exit_code = o->exit_code;
    job->result.duration_us = o->duration_us;
    memcpy(job->result.started_at, o->started_at, sizeof o->started_at);
    if (job->sandbox && !job->is_apart)
        job->sandbox->next_proc = o->next_proc;
    free(o);
}

/* A channel for the child alone. */
static int open_channel(struct coto_api *api, struct coto_err *err)
{
    pthread_mutex_lock(&api->control_lock);
    int fd = coto_launch_channel(api->control_fd, err);
    pthread_mutex_unlock(&api->control_lock);
    return fd;
}

static int start(struct api_job *job, pid_t *ret_pid)
{
    char path[PATH];
    coto_auto_fd lock =
        open(path_of(job->api, job->id, "lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (lock < 0 || flock(lock, LOCK_EX))
        return coto_err_set(&job->err, COTO_ERR_SYSTEM, errno, "begin the execution");
    coto_auto_fd channel = open_channel(job->api, &job->err);
    if (channel < 0)
        return -1;
    *ret_pid = fork();
    if (*ret_pid == 0)
        run_apart(job, channel, lock);
    return *ret_pid < 0 ? coto_err_set(&job->err, COTO_ERR_LIMIT, errno, "begin the execution") : 0;
}

/* Of the front before this one: not our child. */
static void wait_apart(struct api_job *job)
{
    char path[PATH];
    coto_auto_fd lock = open(path_of(job->api, job->id, "lock", path), O_RDONLY | O_CLOEXEC);

    while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR)
        ;
}

void api_async_run(struct api_job *job, int channel_fd)
{
    pid_t pid = 0;

    if (job->err.kind) {
        api_record_end(job);
        return;
    }
    if (job->is_apart) {
        wait_apart(job);
    } else {
        api_record_start(job);
        if (start(job, &pid)) {
            api_record_end(job);
            return;
        }
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    take_outcome(job);
    if (job->is_apart && job->sandbox && api_adopt_stream(job, channel_fd))
        job->lost = true;
    api_record_end(job);
}

bool api_async_find(struct api_job *job)
{
    char path[PATH];
    struct stat st;
    coto_auto_fd lock = open(path_of(job->api, job->id, "lock", path), O_RDONLY | O_CLOEXEC);

    if (lock < 0 ||
        (flock(lock, LOCK_EX | LOCK_NB) == 0 && fstat(lock, &st) == 0 && st.st_size == 0)) {
        unlink(path_of(job->api, job->id, "cancel", path));
        return false;
    }
    coto_own_close(&job->cancel_fd);
    job->cancel_fd =
        open(path_of(job->api, job->id, "cancel", path), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    job->is_apart = true;
    return true;
}
