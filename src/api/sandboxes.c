/* Sandboxes that callers hold: create, destroy, and their end by time. */
#include "api/api.h"

#include "auth/jwt.h"
#include "base/own.h"
#include "core/workfiles.h"

#include <errno.h>
#include <stdio.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_MS 1000
#define TICK_LEAST_MS 20

/* ---- the table ---- */

unsigned api_bucket(const char *id)
{
    unsigned hash = 2166136261u;

    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return hash % API_BUCKETS;
}

struct api_sandbox *api_sandbox_find(struct coto_api *api, const char *id)
{
    struct api_sandbox *s = api->buckets[api_bucket(id)];

    while (s && strcmp(s->id, id) != 0)
        s = s->next;
    return s;
}

void api_sandbox_add(struct coto_api *api, struct api_sandbox *sandbox)
{
    struct api_sandbox **at = &api->buckets[api_bucket(sandbox->id)];

    sandbox->next = *at;
    *at = sandbox;
    api->sandbox_count++;
}

void api_sandbox_remove(struct coto_api *api, struct api_sandbox *sandbox)
{
    struct api_sandbox **at = &api->buckets[api_bucket(sandbox->id)];

    while (*at && *at != sandbox)
        at = &(*at)->next;
    if (*at) {
        *at = sandbox->next;
        api->sandbox_count--;
    }
}

void api_sandbox_free(struct api_sandbox *sandbox)
{
    api_tenant_drop_sandbox(sandbox);
    coto_policy_fini(&sandbox->policy);
    coto_plan_fini(&sandbox->plan);
    free(sandbox);
}

void api_sandbox_drop(struct coto_api *api, struct api_sandbox *sandbox, const char *state)
{
    api_sandbox_remove(api, sandbox);
    api_record_last(api, sandbox, state);
    if (sandbox->box) {
        coto_own_close(&sandbox->box->stream_fd);
        free(sandbox->box);
    }
    api_sandbox_free(sandbox);
}

/* ---- use ---- */

struct api_job *api_sandbox_job(struct api_call *call)
{
    struct api_sandbox *s = api_sandbox_find(call->api, call->id);
    struct coto_err err = {0};

    if (s->state != API_IDLE) {
        coto_err_set(&err, COTO_ERR_LIMIT, 0, "the sandbox is busy with another request, or ending");
        coto_err_remedy(&err, "wait for it, or create another sandbox");
        coto_http_add_header(call->request, "Retry-After", "1");
        api_reply_error(call->request, 409, &err, "");
        return NULL;
    }
    struct api_job *job = api_job_new(call);
    if (!job)
        return NULL;
    job->sandbox = s;
    s->job = job;
    s->state = API_BUSY;
    return job;
}

void api_sandbox_release(struct api_job *job)
{
    struct api_sandbox *s = job->sandbox;
    bool ending = s->state == API_ENDING;

    s->job = NULL;
    s->used_us = coto_clock_us();
    s->state = API_IDLE;
    api_sandbox_note_missing(s);
    if (job->lost)
        s->ended_as = "lost";
    if (job->lost || ending)
        api_sandbox_end(job->api, s);
}

/* ---- create ---- */

/* The token of this sandbox alone; it lives no longer than the sandbox may, however often that is extended. */
static int mint_token(struct api_job *job, struct api_sandbox *s)
{
    coto_auto_buf token = {0};

    if (coto_jwt_mint_sandbox(job->api->config.keys, s->id, s->tenant, (int64_t)time(NULL),
                              job->api->config.lifetime_ms / 1000 + 1, &token, &job->err))
        return -1;
    if (token.failed || token.len >= sizeof s->token)
        return coto_err_set(&job->err, COTO_ERR_INTERNAL, 0, "access token");
    memcpy(s->token, token.data, token.len + 1);
    return 0;
}

/* Files that the request brings; the job's plan has them. */
static int put_files(struct api_job *job, struct api_sandbox *s)
{
    struct coto_workfiles files = {.sandbox = s->box, .cancel_fd = -1};
    size_t skip = strlen(s->plan.workdir) + 1;
    int failed = 0;

    for (size_t i = 0; i < job->plan.file_count && !failed; i++) {
        const struct coto_plan_file *file = &job->plan.files[i];
        bool below = strncmp(file->target, s->plan.workdir, skip - 1) == 0;
        failed = coto_workfiles_put(&files, file->target + (below ? skip : 0), file->mode, file->data,
                                file->len, false, &job->err);
    }
    if (job->plan.file_count && !failed)
        failed = coto_workfiles_settle(&files, ".", NULL, &job->err);
    coto_workfiles_fini(&files);
    return failed;
}

static int plan_files(struct api_job *job, const struct api_sandbox *s)
{
    job->plan.workdir = strdup(s->plan.workdir);
    if (!job->plan.workdir)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, ENOMEM, "files");
    return api_body_files(job);
}

int api_sandbox_plan(struct api_job *job, struct api_sandbox *s)
{
    const struct coto_source_code nothing = {.text = "", .is_image_elsewhere = true};
    const char *agent = json_string_value(json_object_get(job->body, "agent_id"));

    snprintf(s->agent, sizeof s->agent, "%s", agent ? agent : "");
    if (api_body_policy(job, NULL) || coto_policy_check(&job->policy, &job->err) ||
        coto_plan_make(&job->policy, &nothing, &s->plan, &job->err))
        return -1;
    s->policy = job->policy;
    job->policy = (struct coto_policy){0};
    api_plan_parked(&s->plan, true);
    return 0;
}

/* Whether one execution is all it is for. */
static int take_use(struct api_job *job, struct api_sandbox *s)
{
    static const char field[] = "destroy_after_execution";
    const json_t *asked = json_object_get(job->body, field);
    bool destroys = job->api->config.destroys;

    s->is_single = destroys || json_is_true(asked);
    if (!destroys || !json_is_false(asked))
        return 0;
    snprintf(job->field, sizeof job->field, "%s", field);
    coto_err_set(&job->err, COTO_ERR_POLICY, 0, "%s: the service keeps no sandbox after an execution", field);
    return coto_err_remedy(&job->err, "leave it out; an operator can set `after-execution` to keep");
}

static void create(struct api_job *job, int channel_fd)
{
    struct api_sandbox *s = job->sandbox;
    coto_auto_buf hold = {0};

    (void)channel_fd; /* may be another one by then: the job knows */
    if (take_use(job, s) || api_take_times(job, s) || api_sandbox_plan(job, s) || coto_plan_new_id(s->id, &job->err) || mint_token(job, s) ||
        plan_files(job, s))
        return;
    s->next_proc = 1;
    s->has_interpreter = s->plan.parked;
    s->created_us = s->used_us = coto_clock_us();
    coto_clock_utc(s->created_at);
    api_write_hold(job, &hold);
    s->ends_with_front = hold.len > COTO_LAUNCH_HOLD;
    api_kind_asked(job, &s->plan);
    if (api_box_new(job, &s->plan, &hold, &s->box)) {
        api_note_level(job, &s->plan);
        return;
    }
    if (put_files(job, s))
        return;
    api_record_sandbox(job, "alive");
}

static void created(struct api_job *job)
{
    struct api_sandbox *s = job->sandbox;

    if (job->err.kind && !s->box) {
        api_sandbox_free(s);
        return;
    }
    api_sandbox_note_missing(s);
    api_sandbox_add(job->api, s);
    if (job->life != job->api->life) { /* it ended with the launcher that made it */
        api_sandbox_drop(job->api, s, "lost");
        if (!job->err.kind)
            coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0, "the sandbox was lost: its launcher ended");
        job->status = 503;
        return;
    }
    /* Nobody would ever use or end it; with a key the caller comes back for it. */
    if (job->err.kind || (!job->request && !job->key)) {
        api_sandbox_end(job->api, s);
        return;
    }
    api_write_created(job->api, s, &job->reply);
    job->status = 201;
}

void coto_api_create(struct api_call *call)
{
    struct api_sandbox *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->plan.rootfs.fd = -1;
    snprintf(s->tenant, sizeof s->tenant, "%s", call->caller.tenant);
    struct api_job *job = api_tenant_take_sandbox(call, s) ? NULL : api_job_new(call);
    if (!job) {
        api_sandbox_free(s);
        return;
    }
    job->sandbox = s;
    job->run = create;
    job->done = created;
    api_submit(job);
}

/* ---- the end ---- */

static void end(struct api_job *job, int channel_fd)
{
    struct api_sandbox *s = job->sandbox;

    if (s->box) {
        coto_launch_use(s->box, channel_fd, &s->plan);
        s->box->driver->destroy(s->box, NULL);
    }
    s->box = NULL;
    api_record_sandbox(job, s->ended_as ? s->ended_as : "destroyed");
}

static void ended(struct api_job *job)
{
    struct coto_json json = {.out = &job->reply};

    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "sandbox_id", job->sandbox->id);
    coto_json_bool(&json, "destroyed", true);
    coto_json_end(&json, '}');
    coto_buf_addc(&job->reply, '\n');
    job->err.kind = 0;
    job->status = 200;
    api_sandbox_free(job->sandbox);
}

static void submit_end(struct api_job *job, struct api_sandbox *s)
{
    api_sandbox_remove(job->api, s);
    s->state = API_ENDING;
    job->sandbox = s;
    job->run = end;
    job->done = ended;
    job->must_run = true;
    job->is_quick = true;
    api_submit(job);
}

void api_sandbox_end(struct coto_api *api, struct api_sandbox *sandbox)
{
    struct api_job *job = calloc(1, sizeof *job);

    if (!job)
        return; /* the next tick tries again */
    job->api = api;
    job->cancel_fd = job->in_fd = -1;
    job->plan.rootfs.fd = -1;
    submit_end(job, sandbox);
}

static void done_already(struct api_job *job)
{
    (void)job;
}

void coto_api_destroy(struct api_call *call)
{
    struct api_sandbox *s = api_sandbox_find(call->api, call->id);
    struct api_job *job = api_job_new(call);

    if (!job)
        return;
    if (s->state == API_IDLE) {
        submit_end(job, s);
        return;
    }
    /* What runs in it is ended first, and that ends the sandbox. */
    s->state = API_ENDING;
    if (s->job)
        api_job_cancel(s->job);
    coto_json_begin(&(struct coto_json){.out = &job->reply}, NULL, '{');
    coto_buf_addf(&job->reply, "\"sandbox_id\":\"%s\",\"destroyed\":false,\"ending\":true}\n", s->id);
    job->status = 202;
    /* It ends also if the front does first. */
    job->sandbox = s;
    api_record_sandbox(job, "destroyed");
    job->sandbox = NULL;
    job->done = done_already;
    api_record_and_finish(job);
}

/* What requests have left free in the heaps is scattered; whole pages of it go back. */
static void give_back(void)
{
    if (mallinfo2().fordblks > 256 << 10)
        malloc_trim(0);
}

/* Of its lifetime; none of one that ends. */
static int64_t left_ms(const struct coto_api *api, const struct api_sandbox *s, int64_t now)
{
    return s->state == API_ENDING ? INT64_MAX : api_lifetime_ms(api, s) - (now - s->created_us) / 1000;
}

/* What runs at the end of its time ends with it, be it an execution or a transfer. */
static void expire(struct coto_api *api, struct api_sandbox *s, int64_t now)
{
    bool is_old = left_ms(api, s, now) <= 0;
    bool is_unused = s->state == API_IDLE && now - s->used_us > api_idle_ms(api, s) * 1000;

    if (s->state == API_ENDING || (!is_old && !is_unused))
        return;
    s->ended_as = "expired";
    if (s->state == API_IDLE) {
        api_sandbox_end(api, s);
        return;
    }
    s->state = API_ENDING;
    api_job_expire(s->job);
}

/* Ends those whose time is over; when the next lifetime is, at most so long from now. */
static int64_t expire_all(struct coto_api *api, int64_t now, int64_t wait_ms)
{
    for (int i = 0; i < API_BUCKETS; i++) {
        for (struct api_sandbox *s = api->buckets[i], *next; s; s = next) {
            next = s->next;
            int64_t left = left_ms(api, s, now);
            if (left > 0 && left < wait_ms)
                wait_ms = left;
            expire(api, s, now);
        }
    }
    return wait_ms;
}

/* Walks over all that there is, which no tenant's lifetimes make more frequent. */
static void tend(struct coto_api *api, int64_t now)
{
    give_back();
    api_ahead_refill(api);
    api_forget_revoked(api, (int64_t)time(NULL));
    api_tenants_expire(api, now);
    api->tended_us = now;
}

void coto_api_tick(void *arg)
{
    struct coto_api *api = arg;
    int64_t now = coto_clock_us();
    int64_t untended_ms = (now - api->tended_us) / 1000;

    if (untended_ms >= TICK_MS) {
        tend(api, now);
        untended_ms = 0;
    }
    int64_t wait_ms = expire_all(api, now, TICK_MS - untended_ms);
    coto_loop_timer(api->loop, wait_ms < TICK_LEAST_MS ? TICK_LEAST_MS : wait_ms, coto_api_tick, api);
}
