#include "api/flow.h"

#include "api/api.h"

#include <stdlib.h>
#include <time.h>

#define HIGH (256 * 1024)
#define HIGH_LIVE (64 * 1024)
#define DROP (1024 * 1024)
#define PIECE (64 * 1024)
#define STALL_US 5000000

struct api_flow {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct coto_buf bytes;
    struct coto_buf held; /* the last piece; see api_flow_send */
    const char *type;
    int64_t length;
    bool is_live;
    bool is_impatient; /* the worker does not wait any more */
    bool is_too_much;  /* and there is no room for more: the client is dropped */
    size_t high;
    int64_t until_us;
    bool is_begun, is_ended, is_gone;
    bool is_posted;  /* the loop will look */
    bool is_paused;  /* the client is not read from */
    bool is_on_wire; /* loop: the head of the reply was sent */
};

int api_flow_new(struct api_job *job, bool live)
{
    struct api_flow *flow = calloc(1, sizeof *flow);
    pthread_condattr_t attr;

    if (!flow)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "no memory");
    pthread_mutex_init(&flow->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&flow->wake, &attr);
    pthread_condattr_destroy(&attr);
    flow->is_live = live;
    flow->high = live ? HIGH_LIVE : HIGH;
    flow->until_us = INT64_MAX;
    job->flow = flow;
    return 0;
}

void api_flow_free(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (!flow)
        return;
    coto_buf_fini(&flow->bytes);
    coto_buf_fini(&flow->held);
    pthread_mutex_destroy(&flow->lock);
    pthread_cond_destroy(&flow->wake);
    free(flow);
    job->flow = NULL;
}

void api_flow_gone(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (!flow)
        return;
    pthread_mutex_lock(&flow->lock);
    flow->is_gone = true;
    coto_buf_clear(&flow->bytes);
    pthread_cond_broadcast(&flow->wake);
    pthread_mutex_unlock(&flow->lock);
}

void api_flow_cancel(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (!flow)
        return;
    if (!flow->is_live) {
        api_flow_gone(job);
        return;
    }
    pthread_mutex_lock(&flow->lock);
    flow->is_impatient = true;
    pthread_cond_broadcast(&flow->wake);
    pthread_mutex_unlock(&flow->lock);
}

/* ---- out, on the loop ---- */

static void drain(void *arg);

static void on_sent(struct coto_http_request *request, void *arg)
{
    (void)request;
    drain(arg);
}

static bool must_wait(struct api_job *job)
{
    if (coto_http_unsent(job->request) < job->flow->high)
        return false;
    coto_http_on_sent(job->request, on_sent, job);
    return true;
}

static void send_head(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (flow->is_on_wire)
        return;
    flow->is_on_wire = true;
    if (!flow->is_live)
        coto_http_add_header(job->request, "Content-Disposition", "attachment");
    coto_http_stream(job->request, 200, flow->type, flow->length);
}

/* A client that does not read loses its stream; what runs goes on. */
static void drop(struct api_job *job)
{
    struct coto_http_request *request = job->request;

    job->is_dropped = true;
    job->request = NULL;
    api_flow_gone(job);
    coto_http_break(request);
}

static void drain(void *arg)
{
    struct api_job *job = arg;
    struct api_flow *flow = job->flow;
    coto_auto_buf bytes = {0};

    if (!job->request)
        return;
    if (flow->is_too_much) {
        drop(job);
        return;
    }
    if (must_wait(job))
        return;
    send_head(job);
    pthread_mutex_lock(&flow->lock);
    flow->is_posted = false;
    bytes = flow->bytes;
    flow->bytes = (struct coto_buf){0};
    pthread_cond_broadcast(&flow->wake);
    pthread_mutex_unlock(&flow->lock);
    if (bytes.len > 0 && coto_http_write(job->request, bytes.data, bytes.len))
        job->is_dropped = flow->is_live; /* the server drops it: it is gone in a moment */
}

bool api_flow_is_begun(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (!flow || !flow->is_begun)
        return false;
    if (!job->request)
        return true;
    send_head(job);          /* of an empty body */
    if (flow->bytes.len > 0) /* nobody waited for it */
        coto_http_write(job->request, flow->bytes.data, flow->bytes.len);
    if (flow->held.len > 0)
        coto_http_write(job->request, flow->held.data, flow->held.len);
    return true;
}

/* ---- out, on the worker ---- */

void api_flow_begin(struct api_job *job, const char *type, int64_t length)
{
    job->flow->type = type;
    job->flow->length = length;
    job->flow->is_begun = true;
}

void api_flow_wait_until(struct api_job *job, int64_t until_us)
{
    job->flow->until_us = until_us;
}

/* With the lock held: until at most `room` bytes are queued, or nobody waits any more. */
static void wait_for(struct api_flow *flow, size_t room)
{
    int64_t until = INT64_MAX;
    struct timespec time;

    if (flow->is_live) {
        until = coto_clock_us() + STALL_US;
        until = until < flow->until_us ? until : flow->until_us;
    }
    time = (struct timespec){.tv_sec = until / 1000000, .tv_nsec = until % 1000000 * 1000};
    while (flow->bytes.len > room && !flow->is_gone && !flow->is_impatient)
        if (!flow->is_live)
            pthread_cond_wait(&flow->wake, &flow->lock);
        else if (pthread_cond_timedwait(&flow->wake, &flow->lock, &time))
            flow->is_impatient = true;
    if (flow->bytes.len > DROP)
        flow->is_too_much = true;
}

static int send_piece(struct api_job *job, const void *data, size_t len)
{
    struct api_flow *flow = job->flow;
    bool post;

    pthread_mutex_lock(&flow->lock);
    wait_for(flow, flow->high);
    bool failed = flow->is_gone || flow->is_too_much;
    if (!failed)
        coto_buf_add(&flow->bytes, data, len);
    failed = failed || flow->bytes.failed;
    post = !flow->is_gone && (!flow->is_posted || flow->is_too_much);
    flow->is_posted = flow->is_posted || post;
    pthread_mutex_unlock(&flow->lock);
    if (post && coto_loop_post(job->api->loop, drain, job))
        abort(); /* no memory for a pointer: nothing sensible is left to do */
    return failed ? -1 : 0;
}

/* A client that knows the length takes the last byte for the end, and may ask for something else
 * at once: it gets that byte when the sandbox is free again. */
static int send_held(struct api_job *job, const void *data, size_t len)
{
    struct coto_buf *held = &job->flow->held;

    if (held->len > 0 && send_piece(job, held->data, held->len))
        return -1;
    coto_buf_clear(held);
    coto_buf_add(held, data, len);
    return held->failed ? -1 : 0;
}

int api_flow_send(struct api_job *job, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        size_t n = len - done < PIECE ? len - done : PIECE;
        const char *piece = (const char *)data + done;
        if (job->flow->length >= 0 ? send_held(job, piece, n) : send_piece(job, piece, n))
            return -1;
        done += n;
    }
    return 0;
}

void api_flow_wait(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    pthread_mutex_lock(&flow->lock);
    wait_for(flow, 0);
    pthread_mutex_unlock(&flow->lock);
}

/* ---- in ---- */

static int on_piece(struct coto_http_request *request, const void *data, size_t len, void *arg)
{
    struct api_job *job = arg;
    struct api_flow *flow = job->flow;

    pthread_mutex_lock(&flow->lock);
    coto_buf_add(&flow->bytes, data, len);
    flow->is_ended = len == 0;
    flow->is_paused = flow->bytes.len > HIGH;
    bool pause = flow->is_paused;
    bool failed = flow->bytes.failed;
    pthread_cond_broadcast(&flow->wake);
    pthread_mutex_unlock(&flow->lock);
    if (pause)
        coto_http_pause(request, true);
    return failed ? -1 : 0;
}

static void resume(void *arg)
{
    struct api_job *job = arg;

    if (job->request)
        coto_http_pause(job->request, false);
}

void api_flow_receive(struct api_job *job, uint64_t max)
{
    coto_http_sink(job->request, max, on_piece, job);
}

int api_flow_take(struct api_job *job, struct coto_buf *to)
{
    struct api_flow *flow = job->flow;
    struct coto_buf old = *to;

    coto_buf_clear(&old);
    pthread_mutex_lock(&flow->lock);
    while (flow->bytes.len == 0 && !flow->is_ended && !flow->is_gone)
        pthread_cond_wait(&flow->wake, &flow->lock);
    *to = flow->bytes;
    flow->bytes = old; /* the two take turns */
    bool post = flow->is_paused;
    flow->is_paused = false;
    bool gone = flow->is_gone;
    pthread_mutex_unlock(&flow->lock);
    if (post && coto_loop_post(job->api->loop, resume, job))
        abort();
    return gone ? -1 : to->len > 0;
}
