/* Jobs that wait for a worker. Each tenant has a lane, and lanes are served in turn: who sends a
 * thousand requests waits for them, others do not. No tenant ever has all workers, nor all places
 * in the queue: an eighth stays for those who come next, who may have to be there within
 * milliseconds of somebody whose jobs last for minutes. What comes with the token of a sandbox only has a lane of its own, with
 * a share of the tenant's.
 *
 * All of it with the workers' lock held. */
#include "api/api.h"

#include <limits.h>
#include <stdlib.h>

unsigned api_share_of(unsigned n)
{
    return n > 1 ? n - (n + 7) / 8 : n;
}

/* ---- lanes ---- */

/* In the list are those with something queued or running; whose turn it is comes first. */
static struct api_lane *find(const struct api_workers *w, const struct api_tenant *owner, bool is_guests)
{
    struct api_lane *lane = w->lanes;

    while (lane && (lane->owner != owner || lane->is_guests != is_guests))
        lane = lane->next;
    return lane;
}

static void append(struct api_workers *w, struct api_lane *lane)
{
    struct api_lane **at = &w->lanes;

    while (*at)
        at = &(*at)->next;
    *at = lane;
    lane->next = NULL;
}

static void unlink_lane(struct api_workers *w, const struct api_lane *lane)
{
    struct api_lane **at = &w->lanes;

    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
}

/* Without memory for one there is that of those who are nobody's. */
static struct api_lane *open_lane(struct api_workers *w, const struct api_tenant *owner, bool is_guests)
{
    struct api_lane *lane = find(w, owner, is_guests);

    if (lane)
        return lane;
    lane = owner ? calloc(1, sizeof *lane) : NULL;
    if (!lane) {
        lane = find(w, NULL, false);
        if (lane)
            return lane;
        lane = &w->nobodys;
        owner = NULL;
    }
    *lane = (struct api_lane){.owner = owner, .is_guests = owner && is_guests};
    lane->last = &lane->first;
    append(w, lane);
    return lane;
}

static void close_lane(struct api_workers *w, struct api_lane *lane)
{
    if (lane->queued || lane->running)
        return;
    unlink_lane(w, lane);
    if (lane != &w->nobodys)
        free(lane);
}

/* ---- shares ---- */

static unsigned share_of_guests(unsigned n)
{
    return api_share_of(api_share_of(n));
}

/* Of the eighth who has nothing running gets a worker, and others while twice as many are left as they
 * have: one newcomer cannot take it from the next. */
static bool may_run(const struct api_workers *w, const struct api_lane *lane)
{
    if (!lane->queued || !w->is_shared || w->ending || !lane->owner || lane->running == 0)
        return lane->queued;
    if (lane->is_guests && lane->running >= share_of_guests(w->max))
        return false;
    const struct api_lane *other = find(w, lane->owner, !lane->is_guests);
    unsigned running = lane->running + (other ? other->running : 0);
    return w->running < api_share_of(w->max) || running < (w->max - w->running) / 2;
}

/* ---- from outside ---- */

bool api_queue_is_full(struct api_workers *w, const struct api_job *job, unsigned most)
{
    if (w->queued >= most || most == UINT_MAX || !job->tenant)
        return w->queued >= most;
    const struct api_lane *own = find(w, job->tenant, false);
    const struct api_lane *guests = find(w, job->tenant, true);
    unsigned share = share_of_guests(most);
    unsigned of_guests = guests ? guests->queued : 0;
    if (job->is_guests && of_guests >= share)
        return true;
    return (own ? own->queued : 0) + (of_guests < share ? of_guests : share) >= api_share_of(most);
}

void api_queue_put(struct api_workers *w, struct api_job *job)
{
    struct api_lane *lane = open_lane(w, job->tenant, job->is_guests);

    job->lane = lane;
    job->next = NULL;
    *lane->last = job;
    lane->last = &job->next;
    lane->queued++;
    w->queued++;
}

static void leave(struct api_workers *w, struct api_lane *lane, struct api_job **at)
{
    *at = (*at)->next;
    if (!*at)
        lane->last = at;
    lane->queued--;
    w->queued--;
}

static struct api_lane *next_lane(const struct api_workers *w)
{
    struct api_lane *lane = w->lanes;

    while (lane && !may_run(w, lane))
        lane = lane->next;
    return lane;
}

bool api_queue_has_next(const struct api_workers *w)
{
    return next_lane(w);
}

struct api_job *api_queue_take(struct api_workers *w)
{
    struct api_lane *lane = next_lane(w);

    if (!lane)
        return NULL;
    struct api_job *job = lane->first;
    leave(w, lane, &lane->first);
    lane->running++;
    w->running++;
    unlink_lane(w, lane);
    append(w, lane);
    return job;
}

bool api_queue_remove(struct api_workers *w, struct api_job *job)
{
    struct api_lane *lane = find(w, job->tenant, job->tenant && job->is_guests);
    struct api_job **at = lane ? &lane->first : NULL;

    while (at && *at && *at != job)
        at = &(*at)->next;
    if (!at || !*at)
        return false;
    leave(w, lane, at);
    close_lane(w, lane);
    return true;
}

void api_queue_done(struct api_workers *w, struct api_lane *lane)
{
    lane->running--;
    w->running--;
    close_lane(w, lane);
}
