#include "api/api.h"

#include "api/flow.h"
#include "base/own.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (256 * 1024)
#define STACK_IN_USE 1024
#define IDLE_SECONDS 1
#define QUICK 32
#define QUICK_QUEUE 1024

/* ---- on the loop ---- */

static void on_gone(struct coto_http_request *request, void *arg)
{
    struct api_job *job = arg;

    (void)request;
    job->request = NULL;
    api_flow_gone(job);
    if (!job->is_dropped && !job->is_async && !job->key) /* who has a key comes back for the answer */
        eventfd_write(job->cancel_fd, 1);
}

struct api_job *api_job_new(struct api_call *call)
{
    struct coto_err err = {0};
    struct api_job *job = calloc(1, sizeof *job);

    if (!job) {
        coto_err_set(&err, COTO_ERR_LIMIT, ENOMEM, "take the request");
        api_reply_error(call->request, 0, &err, "");
        return NULL;
    }
    job->api = call->api;
    job->request = call->request;
    api_tenant_begin(job);
    job->caller = call->caller;
    job->in_fd = -1;
    job->plan.rootfs.fd = -1;
    job->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->cancel_fd < 0)
        coto_err_set(&job->err, COTO_ERR_LIMIT, errno, "take the request");
    if (job->cancel_fd < 0 || coto_plan_new_id(job->id, &job->err) || api_parse_body(job, call)) {
        api_reply_job(job);
        api_job_free(job);
        return NULL;
    }
    job->key = call->key;
    call->key = NULL;
    coto_http_on_gone(call->request, on_gone, job);
    return job;
}

void api_job_free(struct api_job *job)
{
    json_decref(job->body);
    coto_policy_fini(&job->policy);
    coto_plan_fini(&job->plan);
    coto_buf_fini(&job->code);
    coto_buf_fini(&job->input);
    coto_buf_fini(&job->reply);
    if (job->has_result)
        coto_result_fini(&job->result);
    coto_own_close(&job->in_fd);
    coto_own_close(&job->cancel_fd);
    coto_record_free(job->record);
    api_key_free(job->api, job->key);
    api_flow_free(job);
    api_tenant_end(job);
    api_running_remove(job);
    free(job);
}

void api_finish(void *arg)
{
    struct api_job *job = arg;

    if (job->is_async) {
        api_callback_send(job);
        if (!job->is_unrecorded)
            api_async_forget(job);
    }
    job->done(job);
    api_reply_job(job);
    api_job_free(job);
}

/* ---- on a worker ---- */

/* The answer first: nobody waits for the end of a sandbox. */
static void serve(struct api_job *job, int *channel)
{
    struct coto_sandbox *box = NULL;

    job->channel = channel;
    if (job->is_unbegun)
        api_execute_none(job);
    else if (job->is_async)
        api_async_run(job, *channel);
    else if (!job->retry_s) /* else it was refused just now */
        job->run(job, *channel);
    if (!job->needs_no_launcher)
        api_note_lost(job, *channel);
    if (job->is_execution) /* may be many values, which the loop need not free */
        json_object_del(job->body, "input");
    if (job->destroy_box) {
        box = job->box;
        job->box = NULL;
    }
    api_record_and_finish(job);
    if (box)
        box->driver->destroy(box, NULL);
}

/* What jobs have used of a stack is not needed while none is there. Some way below this frame: what
 * is called from here still lies on it. */
static void give_stack_back(void)
{
    pthread_attr_t attr;
    void *low;
    size_t size;

    if (pthread_getattr_np(pthread_self(), &attr))
        return;
    if (pthread_attr_getstack(&attr, &low, &size) == 0) {
        uintptr_t end = ((uintptr_t)&attr - STACK_IN_USE) / 4096 * 4096;
        if (end > (uintptr_t)low)
            madvise(low, end - (uintptr_t)low, MADV_DONTNEED);
    }
    pthread_attr_destroy(&attr);
}

/* At first for a second. */
static void wait_for_job(struct api_workers *w, bool *is_rested)
{
    struct timespec until;

    if (*is_rested) {
        pthread_cond_wait(&w->wake, &w->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    if (pthread_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT)
        return;
    give_stack_back();
    *is_rested = true;
}

/* The next job, once the last one, which was of that lane, is done with. NULL: it is the end. */
static struct api_job *take(struct api_workers *w, struct api_lane *last)
{
    bool is_rested = false;
    struct api_job *job;

    pthread_mutex_lock(&w->lock);
    if (last)
        api_queue_done(w, last);
    w->idle++;
    while (!(job = api_queue_take(w)) && !(w->ending && !w->queued))
        wait_for_job(w, &is_rested);
    w->idle--;
    bool wakes = w->idle && api_queue_has_next(w); /* the end of one may have been what several waited for */
    pthread_mutex_unlock(&w->lock);
    if (wakes)
        pthread_cond_signal(&w->wake);
    return job;
}

static void *work(void *arg)
{
    struct api_workers *w = arg;
    struct coto_err err = {0};
    struct api_lane *lane = NULL;
    struct api_job *job;
    sigset_t all;
    int channel = -1;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while ((job = take(w, lane))) {
        lane = job->lane;
        struct api_tenant *owner = api_tenant_take_box(job);
        if (!job->needs_no_launcher && api_channel(w->api, &channel, &job->life, &err)) {
            job->err = err;
            job->status = 503;
            api_record_and_finish(job);
        } else {
            serve(job, &channel);
        }
        api_tenant_drop_box(owner); /* it is destroyed by now */
    }
    coto_own_close(&channel);
    return NULL;
}

static void add_worker(struct api_workers *w)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&w->threads[w->count], &attr, work, w) == 0)
        w->count++;
    pthread_attr_destroy(&attr);
}

static void refuse(struct api_job *job)
{
    if (job->is_async)
        api_async_forget(job);
    job->is_async = false;
    coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "too many requests wait already");
    coto_err_remedy(&job->err, "try again in a second; an operator can raise `queue`");
    job->status = 429;
    job->retry_s = 1;
    job->done(job);
    api_reply_job(job);
    api_job_free(job);
}

bool api_refuse_if_full(struct api_job *job)
{
    struct api_workers *w = &job->api->workers;

    pthread_mutex_lock(&w->lock);
    bool full = api_queue_is_full(w, job, job->api->config.queue);
    pthread_mutex_unlock(&w->lock);
    if (full)
        refuse(job);
    return full;
}

/* False: there is no room for it. */
static bool enqueue(struct api_workers *w, struct api_job *job, unsigned most)
{
    pthread_mutex_lock(&w->lock);
    if (w->idle <= w->queued && w->count < w->max && !w->ending)
        add_worker(w);
    bool full = w->ending || w->count == 0 || api_queue_is_full(w, job, most);
    if (!full)
        api_queue_put(w, job);
    bool wakes = !full && api_queue_has_next(w); /* else whoever ends next takes it */
    pthread_mutex_unlock(&w->lock);
    if (wakes) /* not before: it would wait for the lock */
        pthread_cond_signal(&w->wake);
    return !full;
}

/* False: it does not wait there, or not any more. */
static bool unqueue(struct api_workers *w, struct api_job *job)
{
    pthread_mutex_lock(&w->lock);
    bool found = api_queue_remove(w, job);
    pthread_mutex_unlock(&w->lock);
    return found;
}

void api_submit(struct api_job *job)
{
    struct coto_api *api = job->api;
    struct api_workers *w = job->is_quick ? &api->quick : &api->workers;
    unsigned most = job->is_quick ? QUICK_QUEUE : api->config.queue;

    if (enqueue(w, job, job->must_run ? UINT_MAX : most)) {
        if (job->is_execution)
            api_running_add(job);
        if (job->is_async)
            api_accept(job);
        return;
    }
    refuse(job);
}

/* What is written to end a job: whoever runs it reads why, also in a process of its own. */
#define WHY_ASKED 1
#define WHY_EXPIRED ((eventfd_t)1 << 32)

/* An execution whose turn has not come has its end without one. */
static void end_job(struct api_job *job, eventfd_t why)
{
    struct coto_api *api = job->api;

    eventfd_write(job->cancel_fd, why);
    api_flow_cancel(job);
    if (!job->is_execution || !unqueue(&api->workers, job))
        return;
    /* What a front before this one has begun is still waited for. */
    job->is_unbegun = job->needs_no_launcher = !job->is_apart;
    if (!enqueue(&api->quick, job, UINT_MAX))
        enqueue(&api->workers, job, UINT_MAX);
}

void api_job_cancel(struct api_job *job)
{
    end_job(job, WHY_ASKED);
}

void api_job_expire(struct api_job *job)
{
    end_job(job, WHY_EXPIRED);
}

bool api_job_has_expired(const struct api_job *job)
{
    eventfd_t why = 0; /* of a FIFO the first one */

    return eventfd_read(job->cancel_fd, &why) == 0 && why >= WHY_EXPIRED;
}

/* What was promised and has not begun is left to the next service here. */
static void leave(struct api_job *job)
{
    if (job->is_async && !job->is_apart && !job->sandbox && job->api->records &&
        unqueue(&job->api->workers, job))
        api_job_free(job);
}

static void for_each_running(struct coto_api *api, void (*fn)(struct api_job *job))
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_job *job = api->running[i], *next; job; job = next) {
            next = job->next_running;
            fn(job);
        }
}

void api_end_running(struct coto_api *api)
{
    for_each_running(api, leave); /* first: the end of others would make them begin */
    for_each_running(api, api_job_cancel);
}

static void start(struct api_workers *w, struct coto_api *api, unsigned max)
{
    const unsigned most = sizeof w->threads / sizeof w->threads[0];

    w->api = api;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->max = max < most ? max : most;
}

static void end(struct api_workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->count; i++)
        pthread_join(w->threads[i], NULL);
    w->count = 0;
}

int api_workers_start(struct coto_api *api, struct coto_err *err)
{
    (void)err;
    start(&api->workers, api, api->config.workers);
    api->workers.is_shared = true;
    start(&api->quick, api, QUICK);
    return 0;
}

void api_workers_stop(struct coto_api *api)
{
    end(&api->workers);
    end(&api->quick);
}
