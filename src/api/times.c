/* How long a sandbox lasts, where its owner has a say in it: at create, and later by extend. The operator's
 * `lifetime` and `idle` are the most, also where he lowers them afterwards. */
#include "api/api.h"

#include <stdio.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t api_lifetime_ms(const struct coto_api *api, const struct api_sandbox *s)
{
    return s->lifetime_ms ? least(s->lifetime_ms, api->config.lifetime_ms) : api->config.lifetime_ms;
}

int64_t api_idle_ms(const struct coto_api *api, const struct api_sandbox *s)
{
    return s->idle_ms ? least(s->idle_ms, api->config.idle_ms) : api->config.idle_ms;
}

/* Leaves it as it is where the body has none. */
static int take_seconds(struct api_job *job, const char *field, int64_t most_ms, int64_t *ret_ms)
{
    const json_t *asked = json_object_get(job->body, field);
    int64_t ms = (int64_t)json_number_value(asked) * 1000;

    if (!asked)
        return 0;
    if (ms <= most_ms) {
        *ret_ms = ms;
        return 0;
    }
    snprintf(job->field, sizeof job->field, "%s", field);
    coto_err_set(&job->err, COTO_ERR_POLICY, 0, "%s: the service allows %lld at most", field, (long long)most_ms / 1000);
    return coto_err_remedy(&job->err, "ask for less, or leave it out");
}

int api_take_times(struct api_job *job, struct api_sandbox *s)
{
    const struct coto_api_config *c = &job->api->config;

    return take_seconds(job, "lifetime_seconds", c->lifetime_ms, &s->lifetime_ms) ||
                   take_seconds(job, "idle_seconds", c->idle_ms, &s->idle_ms)
               ? -1
               : 0;
}

/* ---- extend ---- */

static int extend(struct api_job *job, struct api_sandbox *s)
{
    const struct coto_api_config *c = &job->api->config;
    int64_t now = coto_clock_us();
    int64_t lifetime_ms = 0;

    if (take_seconds(job, "lifetime_seconds", c->lifetime_ms, &lifetime_ms) ||
        take_seconds(job, "idle_seconds", c->idle_ms, &s->idle_ms))
        return -1;
    if (lifetime_ms)
        s->lifetime_ms = least((now - s->created_us) / 1000 + lifetime_ms, c->lifetime_ms);
    s->used_us = now;
    return 0;
}

static void extended(struct api_job *job)
{
    (void)job;
}

static int refuse_ending(struct api_call *call)
{
    struct coto_err err = {0};

    coto_err_set(&err, COTO_ERR_LIMIT, 0, "the sandbox is ending");
    coto_err_remedy(&err, "create another one");
    coto_http_add_header(call->request, "Retry-After", "1");
    api_reply_error(call->request, 409, &err, "");
    return -1;
}

/* Told once it is recorded: the next front holds to it. */
void coto_api_extend(struct api_call *call)
{
    struct api_sandbox *s = api_sandbox_find(call->api, call->id);
    struct api_job *job = s->state == API_ENDING && refuse_ending(call) ? NULL : api_job_new(call);

    if (!job)
        return;
    job->done = extended;
    if (extend(job, s) == 0) {
        struct coto_json json = {.out = &job->reply};
        api_write_sandbox(job->api, s, &json);
        coto_buf_addc(&job->reply, '\n');
        job->sandbox = s;
        api_record_sandbox(job, "alive");
        job->sandbox = NULL; /* it may end before this is recorded */
    }
    api_record_and_finish(job);
}
