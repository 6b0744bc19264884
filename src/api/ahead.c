/* Node processes that were started before there is code for them, each in a sandbox of its own of
 * the service's ordinary plan. Kept once a node program was asked for, and for as long as the next
 * one comes within KEEP_US; a request that changes more than code, arguments, files or time, or
 * says cold, gets a new one. */
#include "api/api.h"

#include "base/own.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_US ((int64_t)300 * 1000000)

struct api_ahead {
    struct coto_sandbox *box;
    unsigned life; /* of its launcher */
    struct api_ahead *next;
};

/* What would make another sandbox, or another environment, of it. */
static bool is_ordinary(const struct api_job *job)
{
    static const char *const changes[] = {"resource_limits", "env", "profile", "isolation_level"};

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (json_object_get(job->body, changes[i]))
            return false;
    return !job->cold && coto_core_can_start_ahead(&job->plan);
}

static bool is_alive(const struct coto_sandbox *box)
{
    struct pollfd pfd = {box->stream_fd, POLLIN, 0};

    return poll(&pfd, 1, 0) == 0; /* it has nothing to say before it has code */
}

static struct api_ahead *pop(struct coto_api *api)
{
    pthread_mutex_lock(&api->ahead_lock);
    struct api_ahead *it = api->ahead;
    if (it) {
        api->ahead = it->next;
        api->ahead_count--;
    }
    pthread_mutex_unlock(&api->ahead_lock);
    return it;
}

static void drop(struct coto_api *api, struct api_ahead *it, int channel_fd)
{
    if (it->life == api->life && channel_fd >= 0) {
        coto_launch_use(it->box, channel_fd, &(struct coto_plan){0});
        it->box->driver->destroy(it->box, NULL);
    } else { /* it ended with its launcher, or does with us */
        coto_own_close(&it->box->stream_fd);
        free(it->box);
    }
    free(it);
}

bool api_ahead_take(struct api_job *job, int channel_fd)
{
    struct coto_api *api = job->api;
    struct api_ahead *it;

    if (!api->config.node_ahead || !is_ordinary(job))
        return false;
    api->ahead_used_us = coto_clock_us();
    while ((it = pop(api))) {
        if (it->life == job->life && is_alive(it->box)) {
            job->box = it->box;
            coto_launch_use(job->box, channel_fd, &job->plan);
            free(it);
            pthread_mutex_lock(&api->ahead_lock);
            api->ahead_hits++;
            api->ahead_untold++;
            pthread_mutex_unlock(&api->ahead_lock);
            return true;
        }
        drop(api, it, channel_fd);
    }
    return false;
}

/* ---- keeping some ---- */

static void fill(struct api_job *job, int channel_fd)
{
    struct coto_api *api = job->api;
    struct api_ahead *it = calloc(1, sizeof *it);

    job->body = json_pack("{s:s, s:s}", "code", "", "language", "node");
    if (!it || !job->body || api_body_policy(job, NULL) || api_body_code(job) ||
        coto_launch_create(channel_fd, &job->plan, COTO_LAUNCH_AHEAD, &it->box, &job->err)) {
        free(it);
        return;
    }
    it->life = job->life;
    if (coto_core_start_ahead(it->box, &job->plan, &job->err)) {
        drop(api, it, channel_fd);
        return;
    }
    pthread_mutex_lock(&api->ahead_lock);
    it->next = api->ahead;
    api->ahead = it;
    api->ahead_count++;
    pthread_mutex_unlock(&api->ahead_lock);
}

static void filled(struct api_job *job)
{
    struct coto_api *api = job->api;

    api->ahead_starting--;
    if (job->err.kind) /* no node here, or no room: asked again by the next program */
        api->ahead_used_us = 0;
    else
        api_ahead_refill(api);
}

static void shrink(struct api_job *job, int channel_fd)
{
    struct api_ahead *it = pop(job->api);

    if (it)
        drop(job->api, it, channel_fd);
}

static void nothing(struct api_job *job)
{
    (void)job;
}

static void submit(struct coto_api *api, void (*run)(struct api_job *job, int channel_fd),
                   void (*done)(struct api_job *job))
{
    struct api_job *job = calloc(1, sizeof *job);

    if (!job)
        return;
    job->api = api;
    job->cancel_fd = job->in_fd = -1;
    job->plan.rootfs.fd = -1;
    job->run = run;
    job->done = done;
    job->is_quick = job->must_run = true;
    api_submit(job);
}

static bool is_wanted(const struct coto_api *api)
{
    int64_t used_us = api->ahead_used_us;

    return used_us && coto_clock_us() - used_us < KEEP_US;
}

void api_ahead_refill(struct coto_api *api)
{
    bool wanted = is_wanted(api);

    if (wanted && !api->draining && api->ahead_starting == 0 &&
        api->ahead_count < api->config.node_ahead) {
        api->ahead_starting++; /* one at a time: programs that run come first */
        submit(api, fill, filled);
    } else if (!wanted && api->ahead_count > 0) {
        submit(api, shrink, nothing);
    }
}

void api_ahead_count(struct coto_api *api, struct api_ahead_counts *ret_counts)
{
    pthread_mutex_lock(&api->ahead_lock);
    *ret_counts = (struct api_ahead_counts){
        .ready = api->ahead_count, .target = is_wanted(api) ? api->config.node_ahead : 0, .hits = api->ahead_hits};
    pthread_mutex_unlock(&api->ahead_lock);
}

uint64_t api_ahead_take_untold(struct coto_api *api)
{
    pthread_mutex_lock(&api->ahead_lock);
    uint64_t hits = api->ahead_untold;
    api->ahead_untold = 0;
    pthread_mutex_unlock(&api->ahead_lock);
    return hits;
}

void api_ahead_put_untold(struct coto_api *api, uint64_t hits)
{
    pthread_mutex_lock(&api->ahead_lock);
    api->ahead_untold += hits;
    pthread_mutex_unlock(&api->ahead_lock);
}

void api_ahead_free(struct coto_api *api)
{
    struct api_ahead *it;

    while ((it = pop(api)))
        drop(api, it, -1);
}
