#include "api/flow.h"

#include "api/api.h"

#include <stdlib.h>

#define HIGH (256 * 1024)

struct api_flow {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct coto_buf bytes;
    const char *type;
    int64_t length;
    bool is_eager;
    bool is_begun, is_ended, is_gone;
    bool is_posted; /* the loop will look */
    bool is_paused; /* the client is not read from */
    bool is_on_wire; /* loop: the head of the reply was sent */
};

int api_flow_new(struct api_job *job, bool eager)
{
    struct api_flow *flow = calloc(1, sizeof *flow);

    if (!flow)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "no memory");
    pthread_mutex_init(&flow->lock, NULL);
    pthread_cond_init(&flow->wake, NULL);
    flow->is_eager = eager;
    job->flow = flow;
    return 0;
}

void api_flow_free(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (!flow)
        return;
    coto_buf_fini(&flow->bytes);
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

/* ---- out, on the loop ---- */

static void drain(void *arg);

static void on_sent(struct coto_http_request *request, void *arg)
{
    (void)request;
    drain(arg);
}

static bool must_wait(struct api_job *job)
{
    if (job->flow->is_eager || coto_http_unsent(job->request) < HIGH)
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
    if (!flow->is_eager)
        coto_http_add_header(job->request, "Content-Disposition", "attachment");
    coto_http_stream(job->request, 200, flow->type, flow->length);
}

static void drain(void *arg)
{
    struct api_job *job = arg;
    struct api_flow *flow = job->flow;
    coto_auto_buf bytes = {0};

    if (!job->request)
        return;
    if (must_wait(job))
        return;
    send_head(job);
    pthread_mutex_lock(&flow->lock);
    flow->is_posted = false;
    bytes = flow->bytes;
    flow->bytes = (struct coto_buf){0};
    pthread_cond_broadcast(&flow->wake);
    pthread_mutex_unlock(&flow->lock);
    /* A client that does not read loses its stream; what runs goes on. */
    if (bytes.len > 0 && coto_http_write(job->request, bytes.data, bytes.len))
        job->is_dropped = true;
}

bool api_flow_is_begun(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    if (!flow || !flow->is_begun)
        return false;
    if (job->request)
        send_head(job); /* of an empty body */
    return true;
}

/* ---- out, on the worker ---- */

void api_flow_begin(struct api_job *job, const char *type, int64_t length)
{
    job->flow->type = type;
    job->flow->length = length;
    job->flow->is_begun = true;
}

int api_flow_send(struct api_job *job, const void *data, size_t len)
{
    struct api_flow *flow = job->flow;
    bool post;

    pthread_mutex_lock(&flow->lock);
    while (flow->bytes.len > HIGH && !flow->is_gone)
        pthread_cond_wait(&flow->wake, &flow->lock);
    if (!flow->is_gone)
        coto_buf_add(&flow->bytes, data, len);
    bool failed = flow->is_gone || flow->bytes.failed;
    post = !failed && !flow->is_posted;
    flow->is_posted = flow->is_posted || post;
    pthread_mutex_unlock(&flow->lock);
    if (post && coto_loop_post(job->api->loop, drain, job))
        abort(); /* no memory for a pointer: nothing sensible is left to do */
    return failed ? -1 : 0;
}

void api_flow_wait(struct api_job *job)
{
    struct api_flow *flow = job->flow;

    pthread_mutex_lock(&flow->lock);
    while (flow->bytes.len > 0 && !flow->is_gone)
        pthread_cond_wait(&flow->wake, &flow->lock);
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
