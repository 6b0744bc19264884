/* Tokens that are good no longer: kept in memory by their tenant and jti, and in the records until they
 * would have expired anyway. */
#include "api/api.h"

#include "auth/jwt.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SKEW_S 60     /* clocks may differ by that much */
#define LEAST_S 3600 /* it is kept, also if it has expired: by a clock that may be wrong */
#define REVOKED_MAX 100000
#define TENANT_MAX (REVOKED_MAX / 8) /* whoever makes and revokes tokens of sandboxes leaves room to others */

struct api_revoked {
    char id[COTO_RECORD_NAME];
    char tenant[COTO_API_TENANT]; /* whose: an issuer may count from 1 for each of them */
    int64_t expires;
    int64_t until_us; /* the same by a clock that nobody sets: one that was put ahead for a while must not
                         make it good again */
    struct api_revoked *next;
};

static struct api_revoked **bucket(const struct coto_api *api, const char *id)
{
    unsigned hash = 5381;

    for (; *id; id++)
        hash = hash * 33 + (unsigned char)*id;
    return (struct api_revoked **)&api->revoked[hash % API_BUCKETS];
}

bool api_is_revoked(const struct coto_api *api, const char *tenant, const char *id)
{
    if (api->revoked_count == 0 || !*id)
        return false;
    for (const struct api_revoked *r = *bucket(api, id); r; r = r->next)
        if (strcmp(r->id, id) == 0 && strcmp(r->tenant, tenant) == 0)
            return true;
    return false;
}

/* Counted only where it may matter. */
static bool has_too_many(const struct coto_api *api, const char *tenant)
{
    unsigned count = 0;

    for (int i = 0; api->revoked_count >= TENANT_MAX && i < API_BUCKETS; i++)
        for (const struct api_revoked *r = api->revoked[i]; r; r = r->next)
            count += strcmp(r->tenant, tenant) == 0;
    return count >= TENANT_MAX;
}

static int add(struct coto_api *api, const struct coto_revoked *revoked)
{
    struct api_revoked **at = bucket(api, revoked->id);
    struct api_revoked *r;

    if (api_is_revoked(api, revoked->tenant, revoked->id))
        return 0;
    r = api->revoked_count < REVOKED_MAX ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return -1;
    snprintf(r->id, sizeof r->id, "%s", revoked->id);
    snprintf(r->tenant, sizeof r->tenant, "%s", revoked->tenant);
    r->expires = revoked->expires;
    int64_t left_s = r->expires - (int64_t)time(NULL);
    r->until_us = coto_clock_us() + ((left_s > LEAST_S ? left_s : LEAST_S) + SKEW_S) * 1000000;
    r->next = *at;
    *at = r;
    api->revoked_count++;
    return 0;
}

/* From the records too: their clock is the host's alone. Where that fails the next front finds it, and forgets it. */
static void forget_record(struct coto_api *api, const struct api_revoked *r)
{
    struct coto_record *record = api->records ? coto_record_new(COTO_RECORD_FORGOTTEN) : NULL;

    if (!record)
        return;
    memcpy(record->u.revoked.id, r->id, sizeof r->id);
    memcpy(record->u.revoked.tenant, r->tenant, sizeof r->tenant);
    coto_records_put(api->records, record);
}

void api_forget_revoked(struct coto_api *api, int64_t now_s)
{
    const int64_t now_us = coto_clock_us();

    for (int i = 0; api->revoked_count && i < API_BUCKETS; i++)
        for (struct api_revoked **at = &api->revoked[i]; *at;) {
            struct api_revoked *r = *at;
            if (r->expires >= now_s - SKEW_S || r->until_us > now_us) {
                at = &r->next;
                continue;
            }
            *at = r->next;
            forget_record(api, r);
            free(r);
            api->revoked_count--;
        }
}

void api_free_revoked(struct coto_api *api)
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_revoked *r = api->revoked[i], *next; r; r = next) {
            next = r->next;
            free(r);
        }
}

static void take(void *arg, const struct coto_revoked *revoked)
{
    add(arg, revoked);
}

int coto_api_load_revoked(struct coto_api *api, struct coto_err *err)
{
    return api->records ? coto_records_each_revoked(api->records, take, api, err) : 0;
}

/* ---- POST /api/v1/token/revoke ---- */

/* The record is written by its own thread. */
static void answer(struct api_job *job, int channel_fd)
{
    (void)channel_fd;
    coto_buf_adds(&job->reply, "{\"revoked\":true}\n");
}

static void nothing(struct api_job *job)
{
    (void)job;
}

static int refuse(struct api_job *job, const char *why, const char *remedy)
{
    snprintf(job->field, sizeof job->field, "token");
    job->status = 400;
    coto_err_set(&job->err, COTO_ERR_USAGE, 0, "token: %s", why);
    return coto_err_remedy(&job->err, "%s", remedy);
}

/* Only a good token of the caller's own: strangers cannot fill the table. */
static int look_at(struct api_job *job, struct coto_revoked *ret_revoked)
{
    const char *token = json_string_value(json_object_get(job->body, "token"));
    struct coto_claims claims;

    if (!token || !job->api->config.keys ||
        coto_jwt_verify(job->api->config.keys, token, (int64_t)time(NULL), &claims, NULL) ||
        strcmp(claims.sub, job->caller.tenant) != 0)
        return refuse(job, "is not a good JWT of this tenant", "send a service token (coto token mint) or a sandbox's access_token that is still good");
    if (!claims.jti[0])
        return refuse(job, "has no jti, so nothing tells it from others", "mint tokens with one, as coto token mint does");
    *ret_revoked = (struct coto_revoked){.expires = claims.exp};
    snprintf(ret_revoked->id, sizeof ret_revoked->id, "%s", claims.jti);
    snprintf(ret_revoked->tenant, sizeof ret_revoked->tenant, "%s", claims.sub);
    return 0;
}

void coto_api_revoke(struct api_call *call)
{
    struct api_job *job = api_job_new(call);
    struct coto_revoked row;

    if (!job)
        return;
    int failed = look_at(job, &row);
    if (!failed && has_too_many(call->api, row.tenant)) {
        coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "this tenant has revoked too many tokens that have not expired");
        coto_err_remedy(&job->err, "destroy a sandbox whose token it is; others can be revoked when older ones have expired");
        job->status = 429;
    } else if (!failed && add(call->api, &row)) {
        coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "no room for another revoked token");
    }
    if (!job->err.kind && call->api->records) {
        job->record = coto_record_new(COTO_RECORD_REVOKED);
        if (job->record)
            job->record->u.revoked = row;
        else
            coto_err_set(&job->err, COTO_ERR_LIMIT, ENOMEM, "record it");
    }
    if (job->err.kind) {
        api_reply_job(job);
        api_job_free(job);
        return;
    }
    job->run = answer;
    job->done = nothing;
    api_submit(job);
}
