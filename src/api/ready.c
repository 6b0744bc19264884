/* Whether the pool has what it should have at the least: who is told that the service is ready is not
 * to wait for the first sandboxes. Asked of the launcher until it has, or for as long as it cannot. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#define ASK_MS 20
#define ASK_FAILING_MS 500

/* On a worker. */
static void ask(struct api_job *job, int channel_fd)
{
    struct coto_launch_pool pool;
    const struct coto_launch_status *s = &pool.status;

    job->pool = API_POOL_WARMING;
    if (coto_launch_get_pool(channel_fd, 0, &pool, &job->err))
        return;
    if (s->ready + s->in_use >= job->api->config.pool_ready)
        job->pool = API_POOL_READY;
    else if (s->failed && !s->starting)
        job->pool = API_POOL_FAILING;
}

static void asked(struct api_job *job)
{
    struct coto_api *api = job->api;

    if (job->pool == API_POOL_FAILING && api->pool != API_POOL_FAILING)
        fprintf(stderr, "coto serve: the pool does not reach its minimum of %u sandboxes\n"
                        "  remedy: GET /api/v1/capabilities, or coto doctor, tells what is missing\n",
                api->config.pool_ready);
    api->pool = job->pool;
    if (api->pool != API_POOL_READY)
        coto_loop_timer(api->loop, api->pool == API_POOL_FAILING ? ASK_FAILING_MS : ASK_MS,
                        coto_api_watch_pool, api);
}

void coto_api_watch_pool(void *arg)
{
    struct coto_api *api = arg;

    if (api->draining || api->quick.ending)
        return;
    struct api_job *job = api_job_blank(api);
    job->run = ask;
    job->done = asked;
    job->is_quick = job->must_run = true;
    api_submit(job);
}
