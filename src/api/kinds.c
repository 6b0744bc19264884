/* Kinds of sandboxes that are kept ready: the service's own from the start (daemon/front.c), those
 * of other profiles and of languages without a template from the first request for one on. Requests
 * with limits of their own are of no kind. On a worker. */
#include "api/api.h"

#include <stdio.h>
#include <string.h>

#define READY_MIN 1 /* of a kind that was asked for once; more when it is asked for often. Of
                       containers the launcher keeps one for a while */

static bool is_of_a_kind(const struct api_job *job)
{
    return !json_object_get(job->body, "resource_limits");
}

/* True once for each kind, launcher, and word of the operator. */
static bool is_new(struct coto_api *api, const struct coto_plan *plan)
{
    const unsigned most = sizeof api->kinds / sizeof *api->kinds;
    const unsigned turn = api->pool_turn;

    for (unsigned i = 0; i < api->kind_count; i++) {
        struct api_kind *kind = &api->kinds[i];
        if (strcmp(kind->profile, plan->profile) != 0 || kind->parked != plan->parked ||
            kind->isolation != plan->isolation)
            continue;
        if (kind->life == api->life && kind->turn == turn)
            return false;
        kind->life = api->life;
        kind->turn = turn;
        return true;
    }
    if (api->kind_count == most)
        return false;
    struct api_kind *kind = &api->kinds[api->kind_count++];
    snprintf(kind->profile, sizeof kind->profile, "%s", plan->profile);
    kind->parked = plan->parked;
    kind->isolation = plan->isolation;
    kind->life = api->life;
    kind->turn = turn;
    return true;
}

void api_kind_asked(struct api_job *job, const struct coto_plan *plan)
{
    struct coto_api *api = job->api;
    struct coto_err err = {0};
    bool is_high = plan->isolation != COTO_ISOLATION_PROCESS;
    unsigned most = is_high ? api->config.high.pool_max : api->config.pool_max;
    bool is_own = plan->parked == !api->config.is_cold &&
                  strcmp(plan->profile, api->config.profile) == 0 &&
                  (!is_high || api->config.high.pool_min > 0);

    if (is_own || !most || !is_of_a_kind(job) || job->is_async)
        return;
    pthread_mutex_lock(&api->control_lock);
    if (is_new(api, plan)) /* without it they are made when they are asked for */
        coto_launch_warm(api->control_fd, plan,
                         &(struct coto_launch_keep){is_high ? 0 : READY_MIN, most, api->config.pool_wait_ms}, &err);
    pthread_mutex_unlock(&api->control_lock);
}
