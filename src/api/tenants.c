/* What one tenant may take of the service: requests in flight, their bodies, replies that are not read, and a rate. Belongs to the
 * loop. Requests that only look are counted apart: who is at its limit can still see why. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORGET_US 15000000 /* longer than queue.c knows who was there */
#define SMALL (1024 * 1024) /* bytes that are never too many */
#define OWN "destroy one of yours (DELETE), or "

struct api_tenant {
    char name[COTO_API_TENANT];
    unsigned in_flight[2]; /* that do something, that only look */
    unsigned sandboxes; /* also those being made */
    atomic_uint boxes;  /* with those of executions; of workers too */
    unsigned transfers;
    int64_t sent;           /* bytes of bodies that are collected, with those still to come */
    _Atomic int64_t unread; /* bytes of replies that are being written or sent; of workers too */
    double tokens;      /* requests that may be made at once */
    int64_t seen_us;
    struct api_tenant *next;
};

static struct api_tenant *find(struct coto_api *api, const char *name)
{
    struct api_tenant **at = &api->tenants[api_bucket(name)];

    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    if (!*at && (*at = calloc(1, sizeof **at))) {
        snprintf((*at)->name, sizeof(*at)->name, "%s", name);
        (*at)->tokens = api->config.tenant_burst;
        (*at)->seen_us = coto_loop_now_us(api->loop);
    }
    return *at;
}

static int refuse(struct api_call *call, unsigned seconds, const char *why, const char *setting)
{
    struct coto_err err = {0};
    char text[16];

    snprintf(text, sizeof text, "%u", seconds);
    coto_http_add_header(call->request, "Retry-After", text);
    coto_err_set(&err, COTO_ERR_LIMIT, 0, "%s", why);
    bool is_own = strstr(setting, "-sandboxes") != NULL;
    coto_err_remedy(&err, "%stry again in %u s; an operator can raise `%s`", is_own ? OWN : "", seconds, setting);
    call->api->counters.refused++;
    api_reply_error(call->request, 429, &err, "");
    return -1;
}

/* ---- rate ---- */

static double tokens_at(const struct coto_api_config *config, const struct api_tenant *tenant, int64_t now_us)
{
    double tokens = tenant->tokens + (double)(now_us - tenant->seen_us) * config->tenant_rate / 1e6;

    return tokens > config->tenant_burst ? config->tenant_burst : tokens;
}

static int check_rate(struct api_call *call, struct api_tenant *tenant)
{
    const struct coto_api_config *config = &call->api->config;

    if (!config->tenant_rate)
        return 0;
    tenant->tokens = tokens_at(config, tenant, coto_loop_now_us(call->api->loop));
    if (tenant->tokens < 1)
        return refuse(call, 1 + (unsigned)((1 - tenant->tokens) / config->tenant_rate),
                      "too many requests of this tenant", "tenant-rate");
    tenant->tokens -= 1;
    return 0;
}

/* ---- requests in flight ---- */

struct api_flight {
    struct coto_http_end end;
    struct api_tenant *tenant;
    unsigned holders; /* the request, jobs */
    bool looks;
    int64_t sent, unread;
};

static void drop(struct api_flight *flight)
{
    if (--flight->holders > 0)
        return;
    flight->tenant->in_flight[flight->looks]--;
    flight->tenant->sent -= flight->sent;
    flight->tenant->unread -= flight->unread;
    free(flight);
}

static void on_end(struct coto_http_end *end)
{
    drop((struct api_flight *)end);
}

/* Without memory it is not counted: nothing else will come of it either. */
static struct api_flight *take_off(struct api_tenant *tenant, bool looks)
{
    struct api_flight *flight = calloc(1, sizeof *flight);

    if (!flight)
        return NULL;
    *flight = (struct api_flight){{on_end, NULL}, tenant, 1, looks, 0, 0};
    tenant->in_flight[looks]++;
    return flight;
}

/* What will be kept of its body: an upload goes through. */
static int64_t collected(const struct api_call *call)
{
    int64_t length = coto_http_body_length(call->request);

    if (call->endpoint->how == COTO_HOW_UPLOAD)
        return 0;
    return length < 0 || length > COTO_API_BODY ? COTO_API_BODY : length;
}

int api_tenant_admit(struct api_call *call)
{
    const struct coto_api_config *config = &call->api->config;
    struct api_tenant *tenant = find(call->api, call->caller.tenant);
    bool looks = strcmp(call->endpoint->method, "GET") == 0;
    bool gives_back = strcmp(call->endpoint->method, "DELETE") == 0; /* never refused for their number */

    if (!tenant)
        return 0;
    int refused = check_rate(call, tenant);
    tenant->seen_us = coto_loop_now_us(call->api->loop);
    if (refused)
        return -1;
    if (tenant->in_flight[looks] >= config->tenant_requests && !gives_back)
        return refuse(call, 1, "too many requests of this tenant are being worked on",
                      "tenant-requests");
    int64_t bytes = collected(call);
    /* A small one is counted by tenant-requests, which hold for no DELETE. */
    if (bytes > (gives_back ? 0 : SMALL) && tenant->sent > 0 && tenant->sent + bytes > config->tenant_bodies)
        return refuse(call, 1, "too many large requests of this tenant are being worked on",
                      "tenant-bodies");
    struct api_flight *flight = take_off(tenant, looks);
    if (!flight)
        return 0;
    flight->sent = bytes;
    tenant->sent += bytes;
    coto_http_on_end(call->request, &flight->end);
    return 0;
}

void api_tenant_begin(struct api_job *job)
{
    job->flight = (struct api_flight *)coto_http_get_end(job->request);
    if (!job->flight)
        return;
    job->flight->holders++;
    job->tenant = job->flight->tenant;
}

void api_tenant_adopt(struct api_job *job)
{
    job->tenant = find(job->api, job->caller.tenant);
    job->flight = job->tenant ? take_off(job->tenant, false) : NULL;
    if (!job->flight)
        job->tenant = NULL;
}

void api_tenant_end(struct api_job *job)
{
    if (job->flight)
        drop(job->flight);
    job->flight = NULL;
}

int api_tenant_hold(struct api_job *job, int64_t bytes)
{
    if (!job->flight)
        return 0;
    int64_t more = bytes - job->flight->unread;
    int64_t before = job->tenant->unread;
    if (more > SMALL && before > job->flight->unread &&
        before + more > job->api->config.tenant_unread) {
        job->status = 503;
        coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "the answer cannot be kept until it is read: too many of this tenant's wait");
        return coto_err_remedy(&job->err, "read answers as they come, or ask for less (output_limit); GET /api/v1/executions "
                                          "tells how it ended; an operator can raise `tenant-unread`");
    }
    job->flight->unread += more;
    job->tenant->unread += more;
    return 0;
}

/* ---- sandboxes, transfers ---- */

static const char too_many[] = "too many sandboxes of this tenant exist already, with those of its executions";

static bool take_box(const struct coto_api *api, struct api_tenant *tenant)
{
    if (atomic_fetch_add(&tenant->boxes, 1) < api->config.boxes_per_tenant)
        return true;
    tenant->boxes--;
    return false;
}

int api_tenant_take_sandbox(struct api_call *call, struct api_sandbox *sandbox)
{
    struct api_tenant *tenant = find(call->api, call->caller.tenant);

    if (!tenant)
        return 0;
    if (tenant->sandboxes >= call->api->config.sandboxes_per_tenant)
        return refuse(call, 60, "too many sandboxes of this tenant exist already",
                      "tenant-sandboxes");
    if (!take_box(call->api, tenant))
        return refuse(call, 1, too_many, "max-sandboxes");
    tenant->sandboxes++;
    sandbox->owner = tenant;
    return 0;
}

void api_tenant_adopt_sandbox(struct coto_api *api, struct api_sandbox *sandbox)
{
    struct api_tenant *tenant = find(api, sandbox->tenant);

    if (tenant) {
        tenant->sandboxes++;
        tenant->boxes++;
    }
    sandbox->owner = tenant;
}

void api_tenant_drop_sandbox(struct api_sandbox *sandbox)
{
    if (sandbox->owner) {
        sandbox->owner->sandboxes--;
        sandbox->owner->boxes--;
    }
    sandbox->owner = NULL;
}

int api_tenant_check_box(struct api_call *call)
{
    struct api_tenant *tenant = find(call->api, call->caller.tenant);

    if (!tenant || tenant->boxes < call->api->config.boxes_per_tenant)
        return 0;
    return refuse(call, 1, too_many, "max-sandboxes");
}

struct api_tenant *api_tenant_take_box(struct api_job *job)
{
    if (job->has_box)
        return job->tenant;
    if (!job->tenant || !job->is_execution || job->sandbox || job->is_unbegun)
        return NULL;
    if (take_box(job->api, job->tenant))
        return job->tenant;
    coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "%s", too_many);
    coto_err_remedy(&job->err, OWN "try again in 1 s; an operator can raise `max-sandboxes`");
    job->status = 429;
    job->retry_s = 1;
    return NULL;
}

void api_tenant_adopt_box(struct api_job *job)
{
    if (!job->tenant)
        return;
    job->has_box = true;
    job->tenant->boxes++;
}

void api_tenant_drop_box(struct api_tenant *tenant)
{
    if (tenant)
        tenant->boxes--;
}

/* Slow clients must not take all workers, nor those of one tenant all that are for such. */
int api_tenant_check_transfers(struct api_call *call)
{
    const struct api_tenant *tenant = find(call->api, call->caller.tenant);
    unsigned most = (call->api->config.workers + 3) / 4;

    if (call->api->transfers < most && (!tenant || tenant->transfers < api_share_of(most)))
        return 0;
    return refuse(call, 1, "too many transfers at once", "workers");
}

void api_tenant_count_transfer(struct api_job *job, int by)
{
    job->api->transfers += (unsigned)by;
    if (job->tenant)
        job->tenant->transfers += (unsigned)by;
}

/* Whoever is forgotten begins with a whole burst: only who would have that anyway. */
static bool is_forgettable(const struct coto_api *api, const struct api_tenant *tenant, int64_t now_us)
{
    const struct coto_api_config *config = &api->config;

    if (tenant->in_flight[0] || tenant->in_flight[1] || tenant->boxes ||
        now_us - tenant->seen_us < FORGET_US)
        return false;
    return !config->tenant_rate || tokens_at(config, tenant, now_us) >= config->tenant_burst;
}

void api_tenants_expire(struct coto_api *api, int64_t now_us)
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_tenant **at = &api->tenants[i]; *at;) {
            struct api_tenant *old = *at;
            if (!is_forgettable(api, old, now_us)) {
                at = &old->next;
                continue;
            }
            *at = old->next;
            free(old);
        }
}
