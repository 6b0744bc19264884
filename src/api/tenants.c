/* What one tenant may take of the service: requests in flight, and a rate. Belongs to the loop. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORGET_US 60000000

struct api_tenant {
    char name[COTO_API_TENANT];
    unsigned in_flight;
    unsigned sandboxes; /* also those being made */
    unsigned transfers;
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
    coto_err_remedy(&err, "try again in %u s; an operator can raise `%s`", seconds, setting);
    call->api->counters.refused++;
    api_reply_error(call->request, 429, &err, "");
    return -1;
}

int api_tenant_admit(struct api_call *call)
{
    const struct coto_api_config *config = &call->api->config;
    struct api_tenant *tenant = config->tenant_rate ? find(call->api, call->caller.tenant) : NULL;
    int64_t now = coto_loop_now_us(call->api->loop);

    if (!tenant)
        return 0;
    tenant->tokens += (double)(now - tenant->seen_us) * config->tenant_rate / 1e6;
    if (tenant->tokens > config->tenant_burst)
        tenant->tokens = config->tenant_burst;
    tenant->seen_us = now;
    if (tenant->tokens < 1)
        return refuse(call, 1 + (unsigned)((1 - tenant->tokens) / config->tenant_rate),
                      "too many requests of this tenant", "tenant-rate");
    tenant->tokens -= 1;
    return 0;
}

int api_tenant_begin(struct api_call *call, struct api_job *job)
{
    struct api_tenant *tenant = find(call->api, call->caller.tenant);

    if (!tenant)
        return 0;
    /* What gives something back is never refused. */
    if (tenant->in_flight >= call->api->config.tenant_requests &&
        strcmp(call->endpoint->method, "DELETE") != 0)
        return refuse(call, 1, "too many requests of this tenant are being worked on",
                      "tenant-requests");
    tenant->in_flight++;
    tenant->seen_us = coto_loop_now_us(call->api->loop);
    job->tenant = tenant;
    return 0;
}

void api_tenant_adopt(struct api_job *job)
{
    job->tenant = find(job->api, job->caller.tenant);
    if (job->tenant)
        job->tenant->in_flight++;
}

void api_tenant_end(struct api_job *job)
{
    if (job->tenant)
        job->tenant->in_flight--;
    job->tenant = NULL;
}

int api_tenant_take_sandbox(struct api_call *call, struct api_sandbox *sandbox)
{
    struct api_tenant *tenant = find(call->api, call->caller.tenant);

    if (!tenant)
        return 0;
    if (tenant->sandboxes >= call->api->config.sandboxes_per_tenant)
        return refuse(call, 60, "too many sandboxes of this tenant exist already",
                      "tenant-sandboxes");
    tenant->sandboxes++;
    sandbox->owner = tenant;
    return 0;
}

void api_tenant_adopt_sandbox(struct coto_api *api, struct api_sandbox *sandbox)
{
    struct api_tenant *tenant = find(api, sandbox->tenant);

    if (tenant)
        tenant->sandboxes++;
    sandbox->owner = tenant;
}

void api_tenant_drop_sandbox(struct api_sandbox *sandbox)
{
    if (sandbox->owner)
        sandbox->owner->sandboxes--;
    sandbox->owner = NULL;
}

/* Slow clients must not take all workers, nor those of one tenant all that are for such. */
int api_tenant_check_transfers(struct api_call *call)
{
    const struct api_tenant *tenant = find(call->api, call->caller.tenant);
    unsigned most = (call->api->config.workers + 3) / 4;

    if (call->api->transfers < most && (!tenant || tenant->transfers < most - most / 8))
        return 0;
    return refuse(call, 1, "too many transfers at once", "workers");
}

void api_tenant_count_transfer(struct api_job *job, int by)
{
    job->api->transfers += (unsigned)by;
    if (job->tenant)
        job->tenant->transfers += (unsigned)by;
}

void api_tenants_expire(struct coto_api *api, int64_t now_us)
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_tenant **at = &api->tenants[i]; *at;) {
            struct api_tenant *old = *at;
            if (old->in_flight || old->sandboxes || now_us - old->seen_us < FORGET_US) {
                at = &old->next;
                continue;
            }
            *at = old->next;
            free(old);
        }
}
