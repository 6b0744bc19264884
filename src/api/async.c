/* Async executions: each in a process of its own, so that it outlives the front.
 *
 * Theory of operation. The starter (apart.c), a process without threads, forks for each. A worker
 * gives it the request as text, a channel to the launcher that nobody else has, the two files
 * below that are open, and some memory; it waits until the lock is free, and has recorded what became of it.
 * When the front dies meanwhile the process goes on, the launcher knows that it does
 * (launcher/hold.c), and the next front finds it:
 *
 *   async/ID.lock    locked by the process as long as it lives; not empty once it has begun
 *   async/ID.cancel  a FIFO: a byte in it ends the execution
 *   async/ID.out     what became of it; whole or not there: then, as on a full disk, this front finds it in
 *                    memory that both have */
#include "api/async.h"

#include "base/fd.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH API_ASYNC_PATH

/* ---- files ---- */

/* Without a FIFO it can be cancelled by this front only, through the descriptor it has. */
void api_async_prepare(struct api_job *job)
{
    char path[PATH];

    if (mkdir(api_async_path(job->api, "", "", path), 0700) && errno != EEXIST)
        return;
    int fd = mkfifo(api_async_path(job->api, job->id, "cancel", path), 0600)
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
        unlink(api_async_path(job->api, job->id, files[i], path));
}

void api_async_sweep(const struct coto_api *api, const struct coto_strv *ids)
{
    char path[PATH];
    DIR *dir = opendir(api_async_path(api, "", "", path));
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

/* ---- in the worker ---- */

static void lose(struct api_job *job)
{
    coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0, "lost: what ran it was ended");
    coto_err_remedy(&job->err, "send the request again");
    job->status = 503;
    job->lost = true;
}

/* Results wait in memory until they are recorded, as replies do until they are read. */
static bool may_hold(struct api_job *job, size_t bytes, struct api_outcome *o)
{
    if (api_tenant_hold(job, (int64_t)bytes) == 0)
        return true;
    o->status = job->status;
    coto_err_set(&o->err, COTO_ERR_LIMIT, 0, "its output is not kept: too much of this tenant's waits already");
    coto_err_remedy(&o->err, "write less, or have fewer run at once; an operator can raise `tenant-unread`");
    return false;
}

static int read_outcome(struct api_job *job, int fd, struct api_outcome *o)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < sizeof *o || lseek(fd, 0, SEEK_SET) ||
        coto_fd_read_exact(fd, o, sizeof *o) || memcmp(o->build, api_build, sizeof api_build) != 0)
        return -1;
    size_t rest = (size_t)st.st_size - sizeof *o;
    if (!may_hold(job, rest, o))
        return 0;
    char *to = coto_buf_reserve(&job->reply, rest + 1);
    if (!to || coto_fd_read_exact(fd, to, rest))
        return -1;
    job->reply.len += rest;
    to[rest] = '\0';
    return 0;
}

static void take_outcome(struct api_job *job, int spare)
{
    struct api_outcome *o = calloc(1, sizeof *o);
    char path[PATH];
    coto_auto_fd file = open(api_async_path(job->api, job->id, "out", path), O_RDONLY | O_CLOEXEC);

    if (!o || read_outcome(job, file >= 0 ? file : spare, o)) {
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
    if (job->sandbox && !job->is_apart && o->next_proc) { /* 0: its process never had the sandbox */
        job->sandbox->next_proc = o->next_proc;
        if (job->sandbox->box)
            job->sandbox->box->before = o->before;
    }
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

/* What the process needs to know, in a file without a name: whole before anybody is told of it. */
static int write_request(const struct api_job *job)
{
    const struct api_sandbox *s = job->sandbox;
    const struct coto_met before = s ? s->box->before : (struct coto_met){0};
    json_t *all = json_pack("{s:s, s:s, s:I, s:i, s:[I,I,I], s:O}", "id", job->id, "tenant", job->caller.tenant,
                            "box", (json_int_t)(s ? coto_launch_number(s->box) : 0), "next_proc",
                            s ? (int)s->next_proc : 0, "before", (json_int_t)before.oom_kills,
                            (json_int_t)before.pids_refused, (json_int_t)before.cpu_us, "body", job->body);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    char path[PATH];

    unlink(api_async_path(job->api, job->id, "in", path)); /* of a life that was killed right here */
    coto_auto_fd fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    unlink(path);
    bool written = text && fd >= 0 && coto_fd_write_all(fd, text, strlen(text)) == 0 &&
                   lseek(fd, 0, SEEK_SET) == 0;
    free(text);
    json_decref(all);
    return written ? coto_take_fd(&fd) : -1;
}

/* Needed on a full disk only: without memory for it what is lost there is lost. */
static int make_spare(void)
{
    int fd = memfd_create("coto-outcome", MFD_CLOEXEC);

    return fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int start(struct api_job *job, int spare)
{
    char path[PATH];
    coto_auto_fd lock =
        open(api_async_path(job->api, job->id, "lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (lock < 0 || flock(lock, LOCK_EX))
        return coto_err_set(&job->err, COTO_ERR_SYSTEM, errno, "begin the execution");
    coto_auto_fd request = write_request(job);
    if (request < 0)
        return coto_err_set(&job->err, COTO_ERR_SYSTEM, errno, "begin the execution");
    coto_auto_fd channel = open_channel(job->api, &job->err);
    if (channel < 0)
        return -1;
    const int fds[API_ASYNC_FDS] = {request, channel, lock, job->cancel_fd, spare};
    if (coto_fd_send(job->api->starter_fd, 0, fds, API_ASYNC_FDS))
        return coto_err_set(&job->err, COTO_ERR_LIMIT, errno, "begin the execution");
    return 0;
}

static bool has_begun(const struct api_job *job)
{
    char path[PATH];
    struct stat st;

    return stat(api_async_path(job->api, job->id, "lock", path), &st) == 0 && st.st_size > 0;
}

/* Until its process has ended; it is not our child. */
static void wait_for_end(const struct api_job *job)
{
    char path[PATH];
    coto_auto_fd lock = open(api_async_path(job->api, job->id, "lock", path), O_RDONLY | O_CLOEXEC);

    while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR)
        ;
}

/* The front before this one had given it to its starter, and that died first. */
static void take_back(struct api_job *job, int channel_fd)
{
    job->is_apart = false;
    if (job->sandbox && !job->sandbox->box && api_adopt_stream(job, channel_fd))
        coto_err_set(&job->err, COTO_ERR_NOTFOUND, 0, "the sandbox it was for is gone");
}

void api_async_run(struct api_job *job, int channel_fd)
{
    coto_auto_fd spare = -1;

    if (job->sandbox && job->sandbox->ends_with_front) { /* so does what it runs */
        job->run(job, channel_fd);
        return;
    }
    if (job->is_apart) {
        wait_for_end(job);
        if (!has_begun(job))
            take_back(job, channel_fd);
    }
    if (!job->is_apart) {
        if (!job->err.kind)
            api_record_start(job);
        spare = make_spare();
        if (job->err.kind || start(job, spare)) {
            api_record_end(job);
            return;
        }
        wait_for_end(job);
    }
    take_outcome(job, spare);
    if (job->is_apart && job->sandbox && api_adopt_stream(job, channel_fd))
        job->lost = true;
    api_record_end(job);
}

bool api_async_find(struct api_job *job)
{
    char path[PATH];
    struct stat st;
    coto_auto_fd lock = open(api_async_path(job->api, job->id, "lock", path), O_RDONLY | O_CLOEXEC);

    if (lock < 0 ||
        (flock(lock, LOCK_EX | LOCK_NB) == 0 && fstat(lock, &st) == 0 && st.st_size == 0)) {
        unlink(api_async_path(job->api, job->id, "cancel", path));
        return false;
    }
    coto_own_close(&job->cancel_fd);
    job->cancel_fd =
        open(api_async_path(job->api, job->id, "cancel", path), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    job->is_apart = true;
    return true;
}
