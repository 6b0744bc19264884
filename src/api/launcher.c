/* The launcher may end at any time, and a new one takes its place: how workers get from one
 * to the other, and what becomes of the sandboxes it had. */
#include "api/api.h"

#include "base/own.h"

#include <poll.h>
#include <time.h>

#define WAIT_S 3 /* for a new launcher */

static bool is_gone(int channel_fd)
{
    struct pollfd fd = {channel_fd, POLLIN, 0};

    return poll(&fd, 1, 0) == 1 && fd.revents & (POLLHUP | POLLERR);
}

/* With the lock held: false when the time is up. */
static bool wait_for_new(struct coto_api *api, unsigned life)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    while (api->life == life)
        if (pthread_cond_timedwait(&api->control_changed, &api->control_lock, &until))
            return false;
    return true;
}

int api_channel(struct coto_api *api, int *channel_fd, unsigned *life, struct coto_err *err)
{
    static _Thread_local unsigned opened_in;

    if (*channel_fd >= 0 && (opened_in != api->life || is_gone(*channel_fd)))
        coto_own_close(channel_fd);
    if (*channel_fd < 0) {
        pthread_mutex_lock(&api->control_lock);
        do {
            opened_in = api->life;
            *channel_fd = coto_launch_channel(api->control_fd, err);
        } while (*channel_fd < 0 && wait_for_new(api, opened_in));
        pthread_mutex_unlock(&api->control_lock);
    }
    *life = opened_in;
    return *channel_fd < 0 ? -1 : 0;
}

int api_box_new(struct api_job *job, const struct coto_plan *plan, const struct coto_buf *hold,
                struct coto_sandbox **ret_box)
{
    const struct coto_buf none = {0};

    for (bool is_first = true;; is_first = false) {
        if (coto_launch_create_held(*job->channel, plan, job->api->workers.queued,
                                    hold ? hold : &none, ret_box, &job->err) == 0)
            return 0;
        /* It ended before it has answered: what it may have begun ends with it, and the next one
         * knows nothing of it. */
        if (!is_first || job->api->control_fd < 0 || !is_gone(*job->channel))
            return -1;
        if (api_channel(job->api, job->channel, &job->life, &(struct coto_err){0}))
            return -1;
        job->err = (struct coto_err){0};
    }
}

void api_note_lost(struct api_job *job, int channel_fd)
{
    if (!job->err.kind || job->has_result || !is_gone(channel_fd))
        return;
    coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0,
                 "lost: the service's launcher ended meanwhile");
    coto_err_remedy(&job->err, "it is started again at once: send the request again");
    job->status = 503;
    job->lost = true;
}

/* Those that run something end when that has ended, which is now. */
static void lose_sandboxes(struct coto_api *api)
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_sandbox *s = api->buckets[i], *next; s; s = next) {
            next = s->next;
            if (s->state == API_IDLE) {
                api_sandbox_drop(api, s, "lost");
            } else {
                s->state = API_ENDING;
                s->ended_as = "lost";
            }
        }
}

void coto_api_set_launcher(struct coto_api *api, int control_fd)
{
    pthread_mutex_lock(&api->control_lock);
    coto_own_close(&api->control_fd);
    api->control_fd = control_fd;
    api->life++;
    pthread_cond_broadcast(&api->control_changed);
    pthread_mutex_unlock(&api->control_lock);
    lose_sandboxes(api);
}
