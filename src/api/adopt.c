/* What the front before this one has left when it died: sandboxes, which the launcher has kept, and
 * executions that it had promised. On the loop's thread, before anybody is served. */
#include "api/api.h"

#include "base/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TRIES 500
#define TRY_US 10000

/* ---- sandboxes ---- */

/* Files have been put in; they may be large, and are not needed again. */
void api_write_hold(const struct api_job *job, struct coto_buf *out)
{
    const struct api_sandbox *s = job->sandbox;
    json_t *body = json_copy(job->body);

    json_object_del(body, "files");
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:o}", "id", s->id, "tenant", s->tenant,
                            "token", s->token, "created_at", s->created_at, "created_us",
                            (json_int_t)s->created_us, "single", s->is_single, "body", body);
    char *text = json_dumps(all, JSON_COMPACT);
    coto_buf_adds(out, text ? text : "");
    free(text);
    json_decref(all);
}

static struct api_sandbox *read_hold(struct coto_api *api, const struct coto_buf *text,
                                     json_t **ret_body)
{
    struct api_sandbox *s = calloc(1, sizeof *s);
    json_t *all = json_loadb(text->data, text->len, 0, NULL);
    const char *id, *tenant, *token, *created_at;
    json_int_t created_us = 0;
    int is_single = 0;
    json_t *body = NULL;

    if (!s || !all ||
        json_unpack(all, "{s:s, s:s, s:s, s:s, s:I, s:b, s:o}", "id", &id, "tenant", &tenant, "token",
                    &token, "created_at", &created_at, "created_us", &created_us, "single", &is_single, "body", &body)) {
        json_decref(all);
        free(s);
        return NULL;
    }
    s->plan.rootfs.fd = -1;
    snprintf(s->id, sizeof s->id, "%s", id);
    snprintf(s->tenant, sizeof s->tenant, "%s", tenant);
    snprintf(s->token, sizeof s->token, "%s", token);
    snprintf(s->created_at, sizeof s->created_at, "%s", created_at);
    s->created_us = created_us;
    s->is_single = is_single;
    s->used_us = coto_clock_us();
    *ret_body = json_incref(body);
    json_decref(all);
    api_tenant_adopt_sandbox(api, s);
    return s;
}

struct api_job *api_job_blank(struct coto_api *api)
{
    struct api_job *job = calloc(1, sizeof *job);

    if (!job)
        abort();
    job->api = api;
    job->in_fd = -1;
    job->plan.rootfs.fd = -1;
    job->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return job;
}

struct api_sandbox *api_read_held(struct coto_api *api, const struct coto_launch_held *held)
{
    struct api_job *job = api_job_blank(api);
    struct api_sandbox *s = read_hold(api, &held->text, &job->body);

    if (s && api_sandbox_plan(job, s)) {
        api_sandbox_free(s);
        s = NULL;
    }
    api_job_free(job);
    return s;
}

/* NULL: nobody was ever told of it, its owner has ended it, or it cannot be understood. Where something runs in it
 * still it ends after that. */
static struct api_sandbox *adopt(struct coto_api *api, const struct coto_launch_held *held)
{
    struct api_sandbox *s = api_read_held(api, held);

    struct coto_sandbox_kept kept = {0};

    if (s && coto_records_get_sandbox(api->records, s->tenant, s->id, &kept, &(struct coto_err){0}) != 1) {
        s->state = API_ENDING;
        if (held->sandbox) {
            api_sandbox_free(s);
            s = NULL;
        }
    }
    if (s) {
        s->executions = kept.executions;
        s->lifetime_ms = kept.lifetime_ms;
        s->idle_ms = kept.idle_ms;
    }
    return s;
}

static void attach(struct api_sandbox *s, struct coto_launch_held *held, int channel_fd)
{
    s->box = held->sandbox;
    held->sandbox = NULL;
    s->next_proc = 1; /* its init has forgotten earlier ones */
    coto_launch_use(s->box, channel_fd, &s->plan);
    coto_core_adopt(s->box);
}

int api_adopt_stream(struct api_job *job, int channel_fd)
{
    struct api_sandbox *s = job->sandbox;
    struct coto_launch_held held = {0};

    for (int i = 0; i < TRIES && !s->box; i++) { /* its process has just ended */
        if (coto_launch_get_held(channel_fd, s->held, &held, &(struct coto_err){0}) ||
            held.number != s->held)
            break;
        if (held.sandbox)
            attach(s, &held, channel_fd);
        else
            usleep(TRY_US);
        coto_buf_fini(&held.text);
    }
    if (held.sandbox) { /* another one: it is not ours to use */
        coto_own_close(&held.sandbox->stream_fd);
        free(held.sandbox);
    }
    coto_buf_fini(&held.text);
    return s->box ? 0 : -1;
}

static void wait_for_stream(struct api_job *job, int channel_fd)
{
    job->lost = api_adopt_stream(job, channel_fd) != 0;
}

static int adopt_sandboxes(struct coto_api *api, struct coto_err *err)
{
    struct coto_launch_held held = {0};

    do {
        if (coto_launch_get_held(api->control_fd, held.number + 1, &held, err))
            return -1;
        if (!held.number)
            continue;
        struct api_sandbox *s = adopt(api, &held);
        if (!s && held.sandbox) {
            coto_launch_use(held.sandbox, api->control_fd, &(struct coto_plan){0});
            held.sandbox->driver->destroy(held.sandbox, NULL);
        }
        if (s) {
            s->held = held.number;
            if (held.sandbox)
                attach(s, &held, api->control_fd);
            api_sandbox_note_missing(s);
            api_sandbox_add(api, s);
            if (s->state != API_ENDING)
                api_record_last(api, s, "alive");
        }
        coto_buf_fini(&held.text);
    } while (held.number);
    return 0;
}

/* One that has had its execution, whose end was not seen to any more. */
static bool is_spent(const struct api_sandbox *s)
{
    return s->is_single && s->executions > 0;
}

static void end_spent(struct coto_api *api)
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_sandbox *s = api->buckets[i], *next; s; s = next) {
            next = s->next;
            if (s->box && !s->job && is_spent(s))
                api_sandbox_end(api, s);
        }
}

/* Those that something of the last front still uses, and of which it is not known what. */
static void wait_for_others(struct coto_api *api)
{
    for (int i = 0; i < API_BUCKETS; i++)
        for (struct api_sandbox *s = api->buckets[i]; s; s = s->next) {
            if (s->box || s->job)
                continue;
            struct api_job *job = api_job_blank(api);
            job->sandbox = s;
            s->job = job;
            s->state = s->state == API_ENDING || is_spent(s) ? API_ENDING : API_BUSY;
            job->run = wait_for_stream;
            job->done = api_sandbox_release;
            job->must_run = true;
            api_submit(job);
        }
}

/* ---- executions ---- */

struct promises {
    struct coto_api *api;
    struct coto_strv ids;
    struct api_job *first, **last;
};

static void take_promise(void *arg, const struct coto_execution *e, const struct coto_promise *promise)
{
    struct promises *all = arg;
    struct api_job *job = api_job_blank(all->api);

    memcpy(job->id, e->id, sizeof job->id);
    snprintf(job->caller.tenant, sizeof job->caller.tenant, "%s", e->tenant);
    snprintf(job->caller.sandbox, sizeof job->caller.sandbox, "%s", e->sandbox);
    job->is_guests = promise->is_guests;
    api_tenant_adopt(job);
    snprintf(job->accepted, sizeof job->accepted, "%s", e->started);
    api_parse_promise(job, &promise->request);
    job->is_async = job->is_execution = job->must_run = true;
    coto_strv_add(&all->ids, e->id);
    *all->last = job;
    all->last = &job->next;
}

static void resume(struct api_job *job)
{
    bool in_sandbox = job->caller.sandbox[0];
    struct api_sandbox *s = in_sandbox ? api_sandbox_find(job->api, job->caller.sandbox) : NULL;

    job->caller.sandbox[0] = '\0';
    if (s && (s->job || strcmp(s->tenant, job->caller.tenant) != 0))
        s = NULL;
    job->sandbox = s;
    bool ends = s && s->state == API_ENDING;
    if (s) {
        s->job = job;
        s->state = ends ? API_ENDING : API_BUSY;
    }
    bool begun = api_async_find(job);
    if (begun && !in_sandbox)
        api_tenant_adopt_box(job);
    if (ends && begun)
        api_job_cancel(job);
    if (in_sandbox && (!s || ends) && !begun)
        coto_err_set(&job->err, COTO_ERR_NOTFOUND, 0, "the sandbox it was for is gone");
    api_execution_set(job);
    if (!begun)
        api_async_prepare(job);
    api_submit(job);
}

int coto_api_adopt(struct coto_api *api, struct coto_err *err)
{
    struct promises all = {.api = api};
    struct api_job *next;

    all.last = &all.first;
    int failed = adopt_sandboxes(api, err) ||
                 coto_records_each_promise(api->records, take_promise, &all, err);
    api_async_sweep(api, &all.ids);
    coto_strv_fini(&all.ids);
    for (struct api_job *job = all.first; job; job = next) {
        next = job->next;
        job->next = NULL;
        if (failed)
            api_job_free(job);
        else
            resume(job);
    }
    if (!failed) {
        wait_for_others(api);
        end_spent(api);
    }
    return failed ? -1 : 0;
}
