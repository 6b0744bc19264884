/* The processes beside the front that run async executions.
 *
 * The starter is forked when the front has confined itself and has no thread yet, so that what it
 * forks in turn is an ordinary process: nothing in its memory is locked by a thread that it does not
 * have. It knows the settings, and one descriptor. A child of it runs one job as a worker would,
 * writes down what became of it and ends. It ends itself when the front is gone; they go on. */
#include "api/async.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

const char api_build[32] = __DATE__ " " __TIME__;

/* ---- one execution ---- */

static void fill(struct api_outcome *o, const struct api_job *job)
{
    const struct coto_result *r = &job->result;

    memcpy(o->build, api_build, sizeof api_build);
    o->err = job->err;
    memcpy(o->field, job->field, sizeof o->field);
    o->status = job->status;
    o->has_result = job->has_result;
    o->lost = job->lost;
    if (job->sandbox && job->sandbox->box) {
        o->next_proc = job->sandbox->next_proc;
        o->before = job->sandbox->box->before;
    }
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

/* Its head last: what was cut has none. */
static bool write_to(int fd, const struct api_outcome *o, const struct api_job *job)
{
    return fd >= 0 && lseek(fd, sizeof *o, SEEK_SET) == sizeof *o &&
           coto_fd_write_all(fd, job->reply.data, job->reply.len) == 0 && pwrite(fd, o, sizeof *o, 0) == sizeof *o;
}

/* Where no file can be written the front has it all the same, as long as it lives. */
static void write_outcome(const struct api_job *job, int spare)
{
    static struct api_outcome o;
    char path[API_ASYNC_PATH];
    char whole[API_ASYNC_PATH];

    fill(&o, job);
    api_async_path(job->api, job->id, "new", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (write_to(fd, &o, job) && close(fd) == 0 && rename(path, api_async_path(job->api, job->id, "out", whole)) == 0)
        return;
    unlink(path);
    write_to(spare, &o, job);
}

struct request {
    uint64_t number; /* of the sandbox; 0: it gets one of its own */
    unsigned next_proc;
    struct coto_met before;
};

/* The sandbox as the launcher holds it for the front, which leaves it alone meanwhile. */
static int take_sandbox(struct api_job *job, int channel, const struct request *request)
{
    struct coto_launch_held held = {0};

    if (coto_launch_get_held(channel, request->number, &held, &job->err))
        return -1;
    if (held.number != request->number || !held.sandbox)
        return coto_err_set(&job->err, COTO_ERR_NOTFOUND, 0, "the sandbox it was for is gone");
    job->sandbox = api_read_held(job->api, &held);
    if (!job->sandbox)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "no memory");
    job->sandbox->box = held.sandbox;
    job->sandbox->box->before = request->before;
    job->sandbox->next_proc = request->next_proc;
    return 0;
}

static int read_request(struct api_job *job, int fd, struct request *ret_request)
{
    json_t *all = json_loadfd(fd, 0, NULL);
    const char *id, *tenant;
    json_int_t number, kills, refused, cpu_us;
    int next_proc;

    if (!all || json_unpack(all, "{s:s, s:s, s:I, s:i, s:[I,I,I], s:O}", "id", &id, "tenant", &tenant, "box", &number, "next_proc",
                            &next_proc, "before", &kills, &refused, &cpu_us, "body", &job->body))
        return -1;
    snprintf(job->id, sizeof job->id, "%s", id);
    snprintf(job->caller.tenant, sizeof job->caller.tenant, "%s", tenant);
    *ret_request = (struct request){(uint64_t)number, (unsigned)next_proc, {kills, refused, cpu_us}};
    json_decref(all);
    return 0;
}

static _Noreturn void run_apart(struct coto_api *api, const int fds[API_ASYNC_FDS])
{
    struct api_job *job = api_job_blank(api);
    int channel = fds[API_ASYNC_CHANNEL];
    struct request request = {0};

    job->channel = &channel;
    signal(SIGCHLD, SIG_DFL);
    if (read_request(job, fds[API_ASYNC_REQUEST], &request) ||
        ftruncate(fds[API_ASYNC_LOCK], 1)) /* a byte that takes no room on a full disk */
        _exit(1);
    coto_own_close(&job->cancel_fd);
    job->cancel_fd = fds[API_ASYNC_CANCEL];
    job->is_async = job->is_execution = true;
    if ((request.number == 0 || take_sandbox(job, channel, &request) == 0) &&
        coto_launch_stay(channel, request.number ? job->sandbox->box : NULL, &job->err) == 0) {
        api_execution_set(job);
        job->run(job, channel);
    }
    api_note_lost(job, channel);
    write_outcome(job, fds[API_ASYNC_SPARE]);
    if (job->destroy_box && job->box)
        job->box->driver->destroy(job->box, NULL);
    _exit(0);
}

/* ---- the starter ---- */

/* The child has its name from its first moment on. */
static pid_t fork_as(const char *name)
{
    char own[16] = "";

    prctl(PR_GET_NAME, own);
    prctl(PR_SET_NAME, name);
    pid_t pid = fork();
    if (pid != 0)
        prctl(PR_SET_NAME, own);
    return pid;
}

static void close_from(int first)
{
    struct rlimit limit;

    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0) == 0)
        return;
    int last = getrlimit(RLIMIT_NOFILE, &limit) ? 65536 : (int)limit.rlim_cur;
    for (int fd = first; fd < last; fd++)
        close(fd);
}

static _Noreturn void start_forever(struct coto_api *api, int front)
{
    int fds[API_ASYNC_FDS];
    char byte;

    signal(SIGCHLD, SIG_IGN); /* nobody waits for them: the lock tells */
    signal(SIGTERM, SIG_DFL);
    if (dup3(front, 3, O_CLOEXEC) != 3)
        _exit(1);
    /* Connections of others, listening sockets, the control channel: none of it is ours. */
    close_from(4);
    api->control_fd = -1;
    api->config.node_ahead = 0; /* their streams are the front's */
    for (int got; (got = coto_fd_receive(3, &byte, fds, API_ASYNC_FDS)) >= 0;) {
        if (got == API_ASYNC_FDS && fork_as("coto-async") == 0) {
            close(3);
            run_apart(api, fds);
        }
        for (int i = 0; i < got; i++)
            close(fds[i]);
    }
    _exit(0);
}

/* Without it no async execution could begin: the keeper starts another front, which has one. */
static void on_starter(void *arg, uint32_t events)
{
    (void)arg, (void)events;
    fprintf(stderr, "coto serve: what starts async executions has ended; the front begins anew\n");
    _exit(70);
}

int api_starter_new(struct coto_api *api, struct coto_err *err)
{
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the starter");
    fflush(NULL);
    pid_t pid = fork_as("coto-starter");
    if (pid == 0)
        start_forever(api, sv[1]);
    close(sv[1]);
    api->starter_fd = sv[0];
    if (pid < 0 || coto_loop_add(api->loop, sv[0], EPOLLIN, on_starter, api))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the starter");
    return 0;
}
