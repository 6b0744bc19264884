/* What one tenant may take of the service: requests in flight, their bodies, replies that are not read, and a rate. Belongs to the
 * loop. Requests that only look are counted apart: who is at its limit can still see why.
 *
 * Who has the token of a sandbox only is a guest. It is whoever the tenant gave it to, maybe the program inside: guests have a
 * share of what the tenant has, each of them a small one, and what they do never keeps the tenant itself from anything. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORGET_US 15000000 /* longer than queue.c knows who was there */
#define SMALL (1024 * 1024) /* bytes that are never too many */
#define SCANT (16 * 1024) /* nor are these of what gives back: a token to revoke */
#define GUEST_REQUESTS 8 /* of each kind; a sandbox takes one execution or transfer at a time */
#define OWN "destroy one of yours (DELETE), or "

enum kind { DOES, LOOKS, GIVES_BACK, KINDS };

/* With the token of one sandbox; kept by that and by its requests. */
struct api_guest {
    unsigned holders;
    unsigned in_flight[KINDS];
    int64_t sent;
};

/* [0] is the tenant's own, [1] its guests'. */
struct api_tenant {
    char name[COTO_API_TENANT];
    unsigned in_flight[2][KINDS];
    unsigned sandboxes; /* also those being made */
    atomic_uint boxes;  /* with those of executions; of workers too */
    unsigned transfers[2];
    int64_t sent[2];           /* bytes of bodies that are collected, with those still to come */
    _Atomic int64_t unread[2]; /* bytes of replies that are being written or sent; of workers too */
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
    if (*setting)
        coto_err_remedy(&err, "%stry again in %u s; an operator can raise `%s`", is_own ? OWN : "", seconds, setting);
    else
        coto_err_remedy(&err, "try again in %u s", seconds);
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
    unsigned least = 1; /* a guest leaves some */

    if (!config->tenant_rate)
        return 0;
    if (call->caller.sandbox[0])
        least += config->tenant_burst - api_share_of(config->tenant_burst);
    tenant->tokens = tokens_at(config, tenant, coto_loop_now_us(call->api->loop));
    if (tenant->tokens < least)
        return refuse(call, 1 + (unsigned)((least - tenant->tokens) / config->tenant_rate),
                      "too many requests of this tenant", "tenant-rate");
    tenant->tokens -= 1;
    return 0;
}

/* ---- requests in flight ---- */

struct api_flight {
    struct coto_http_end end;
    struct api_tenant *tenant;
    struct api_guest *guest; /* NULL: the tenant's own */
    unsigned holders;        /* the request, jobs */
    enum kind kind;
    int64_t sent, unread;
};

static void drop_guest(struct api_guest *guest)
{
    if (guest && --guest->holders == 0)
        free(guest);
}

static void drop(struct api_flight *flight)
{
    bool is_guests = flight->guest != NULL;

    if (--flight->holders > 0)
        return;
    flight->tenant->in_flight[is_guests][flight->kind]--;
    flight->tenant->sent[is_guests] -= flight->sent;
    flight->tenant->unread[is_guests] -= flight->unread;
    if (is_guests) {
        flight->guest->in_flight[flight->kind]--;
        flight->guest->sent -= flight->sent;
    }
    drop_guest(flight->guest);
    free(flight);
}

static void on_end(struct coto_http_end *end)
{
    drop((struct api_flight *)end);
}

/* Without memory it is not counted: nothing else will come of it either. */
static struct api_flight *take_off(struct api_tenant *tenant, struct api_guest *guest, enum kind kind)
{
    struct api_flight *flight = calloc(1, sizeof *flight);

    if (!flight)
        return NULL;
    *flight = (struct api_flight){{on_end, NULL}, tenant, guest, 1, kind, 0, 0};
    tenant->in_flight[guest != NULL][kind]++;
    if (guest) {
        guest->holders++;
        guest->in_flight[kind]++;
    }
    return flight;
}

/* NULL: the tenant itself calls, or there is no memory. */
static struct api_guest *guest_of(struct coto_api *api, const struct coto_caller *caller)
{
    struct api_sandbox *s = caller->sandbox[0] ? api_sandbox_find(api, caller->sandbox) : NULL;

    if (s && !s->guest && (s->guest = calloc(1, sizeof *s->guest)))
        s->guest->holders = 1;
    return s ? s->guest : NULL;
}

/* What gives back is never refused for the number of it, but to a guest. */
static enum kind kind_of(const struct coto_endpoint *endpoint)
{
    if (strcmp(endpoint->method, "DELETE") == 0 || endpoint == &coto_endpoints[COTO_ENDPOINT_revoke])
        return GIVES_BACK;
    return strcmp(endpoint->method, "GET") == 0 ? LOOKS : DOES;
}

static int check_number(struct api_call *call, const struct api_tenant *tenant, const struct api_guest *guest, enum kind kind)
{
    unsigned most = call->api->config.tenant_requests;
    unsigned share = api_share_of(most);
    unsigned guests = tenant->in_flight[1][kind];
    unsigned all = tenant->in_flight[0][kind] + (guests < share ? guests : share);

    if (guest && guest->in_flight[kind] >= GUEST_REQUESTS)
        return refuse(call, 1, "too many requests with this sandbox's token are being worked on", "");
    if (kind != GIVES_BACK && (all >= most || (guest && guests >= share)))
        return refuse(call, 1, "too many requests of this tenant are being worked on",
                      "tenant-requests");
    return 0;
}

/* Guests have half of them. One that is alone is always taken. */
static bool is_past(int64_t own, int64_t guests, int64_t more, int64_t most)
{
    return own > 0 && own + (guests < most / 2 ? guests : most / 2) + more > most;
}

static bool is_past_for_guest(int64_t own, int64_t guests, int64_t more, int64_t most)
{
    return guests > 0 && (guests + more > most / 2 || own + guests + more > most);
}

/* What will be kept of its body: an upload goes through. */
static int64_t collected(const struct api_call *call)
{
    int64_t length = coto_http_body_length(call->request);

    if (call->endpoint->how == COTO_HOW_UPLOAD)
        return 0;
    return length < 0 || length > COTO_API_BODY ? COTO_API_BODY : length;
}

static int check_bytes(struct api_call *call, const struct api_tenant *tenant, const struct api_guest *guest, int64_t bytes)
{
    int64_t most = call->api->config.tenant_bodies;

    /* A small one is counted by tenant-requests, which hold for nothing that gives back. */
    if (bytes <= (kind_of(call->endpoint) == GIVES_BACK ? SCANT : SMALL))
        return 0;
    if (guest && guest->sent > 0 && guest->sent + bytes > COTO_API_BODY)
        return refuse(call, 1, "too many large requests with this sandbox's token are being worked on", "");
    if ((guest ? is_past_for_guest : is_past)(tenant->sent[0], tenant->sent[1], bytes, most))
        return refuse(call, 1, "too many large requests of this tenant are being worked on",
                      "tenant-bodies");
    return 0;
}

int api_tenant_admit(struct api_call *call)
{
    struct api_tenant *tenant = find(call->api, call->caller.tenant);
    struct api_guest *guest = guest_of(call->api, &call->caller);
    enum kind kind = kind_of(call->endpoint);
    int64_t bytes = collected(call);

    if (!tenant)
        return 0;
    int refused = check_rate(call, tenant);
    tenant->seen_us = coto_loop_now_us(call->api->loop);
    if (refused || check_number(call, tenant, guest, kind) || check_bytes(call, tenant, guest, bytes))
        return -1;
    struct api_flight *flight = take_off(tenant, guest, kind);
    if (!flight)
        return 0;
    flight->sent = bytes;
    tenant->sent[guest != NULL] += bytes;
    if (guest)
        guest->sent += bytes;
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
    job->is_guests = job->flight->guest != NULL;
}

void api_tenant_adopt(struct api_job *job)
{
    job->tenant = find(job->api, job->caller.tenant);
    struct api_guest *guest = job->is_guests ? guest_of(job->api, &job->caller) : NULL;
    job->flight = job->tenant ? take_off(job->tenant, guest, DOES) : NULL;
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
    bool is_guests = job->flight->guest != NULL;
    int64_t before = job->flight->unread;
    int64_t more = bytes - before;
    int64_t own = job->tenant->unread[0] - (is_guests ? 0 : before);
    int64_t guests = job->tenant->unread[1] - (is_guests ? before : 0);
    if (more > SMALL &&
        (is_guests ? is_past_for_guest : is_past)(own, guests, bytes, job->api->config.tenant_unread)) {
        job->status = 503;
        coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "the answer cannot be kept until it is read: too many of this tenant's wait");
        return coto_err_remedy(&job->err, "read answers as they come, or ask for less (output_limit); GET /api/v1/executions "
                                          "tells how it ended; an operator can raise `tenant-unread`");
    }
    job->flight->unread += more;
    job->tenant->unread[is_guests] += more;
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
    drop_guest(sandbox->guest);
    sandbox->guest = NULL;
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

/* Slow clients must not take all workers, nor those of one tenant all that are for such, nor a second tenant's what is
 * left for who comes next: as queue.c has it. There one waits for the next worker, here he is refused: so who has none gets
 * his first also past what is for them all. */
int api_tenant_check_transfers(struct api_call *call)
{
    const struct api_tenant *tenant = find(call->api, call->caller.tenant);
    bool is_guests = call->caller.sandbox[0] != '\0';
    unsigned most = (call->api->config.workers + 3) / 4;
    unsigned all = call->api->transfers;
    unsigned its = tenant ? tenant->transfers[0] + tenant->transfers[1] : 0;
    bool is_first = tenant && tenant->transfers[is_guests] == 0;

    if (tenant && is_guests && tenant->transfers[1] >= api_share_of(api_share_of(most)))
        return refuse(call, 1, "too many transfers with tokens of sandboxes at once", "workers");
    if (is_first && all < call->api->config.workers / 2)
        return 0;
    if (all < most && (!tenant || is_first || all < api_share_of(most) || its < (most - all) / 2))
        return 0;
    return refuse(call, 1, "too many transfers at once", "workers");
}

void api_tenant_count_transfer(struct api_job *job, int by)
{
    job->api->transfers += (unsigned)by;
    if (job->tenant)
        job->tenant->transfers[job->is_guests] += (unsigned)by;
}

/* Whoever is forgotten begins with a whole burst: only who would have that anyway. */
static bool is_forgettable(const struct coto_api *api, const struct api_tenant *tenant, int64_t now_us)
{
    const struct coto_api_config *config = &api->config;

    if (tenant->boxes || now_us - tenant->seen_us < FORGET_US)
        return false;
    for (int kind = 0; kind < KINDS; kind++)
        if (tenant->in_flight[0][kind] || tenant->in_flight[1][kind])
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
