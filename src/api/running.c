/* Executions that run, by their id; and what became of those whose client did not wait: kept in
 * memory for a while, since records hold no output. Belongs to the loop. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_US ((int64_t)600 * 1000000)
#define KEEP_COUNT 1000
#define KEEP_BYTES (64 * 1024 * 1024)

/* ---- running ---- */

void api_running_add(struct api_job *job)
{
    struct api_job **at = &job->api->running[api_bucket(job->id)];

    job->next_running = *at;
    if (*at)
        (*at)->running = &job->next_running;
    job->running = at;
    *at = job;
}

void api_running_remove(struct api_job *job)
{
    if (!job->running)
        return;
    *job->running = job->next_running;
    if (job->next_running)
        job->next_running->running = job->running;
    job->running = NULL;
}

/* The holder of a sandbox's token sees what runs there and nothing else. */
static bool may_see(const struct coto_caller *caller, const char *tenant, const char *sandbox)
{
    return strcmp(caller->tenant, tenant) == 0 &&
           (!caller->sandbox[0] || strcmp(caller->sandbox, sandbox) == 0);
}

struct api_job *api_running_find(struct coto_api *api, const struct coto_caller *caller,
                                 const char *id)
{
    struct api_job *job = api->running[api_bucket(id)];

    while (job && strcmp(job->id, id) != 0)
        job = job->next_running;
    if (!job || !may_see(caller, job->caller.tenant, job->sandbox ? job->sandbox->id : ""))
        return NULL;
    return job;
}

/* ---- async ---- */

void api_write_accepted(const struct api_job *job, struct coto_buf *out)
{
    struct coto_json json = {.out = out};

    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "execution_id", job->id);
    coto_json_str(&json, "state", "queued");
    coto_json_end(&json, '}');
    coto_buf_addc(out, '\n');
}

void api_accept(struct api_job *job)
{
    coto_auto_buf body = {0};

    api_write_accepted(job, &body);
    if (job->request)
        api_reply(job->request, 202, &body);
    job->request = NULL;
}

static void drop_oldest(struct coto_api *api)
{
    struct api_outcome *old = api->outcomes;

    api->outcomes = old->next;
    if (!api->outcomes)
        api->last_outcome = &api->outcomes;
    api->outcome_bytes -= old->text.len;
    api->outcome_count--;
    coto_buf_fini(&old->text);
    free(old);
}

void api_outcome_keep(struct api_job *job)
{
    struct coto_api *api = job->api;
    struct api_outcome *new = calloc(1, sizeof *new);

    if (!new)
        return; /* its record is still there */
    memcpy(new->id, job->id, sizeof new->id);
    new->caller = job->caller;
    if (job->sandbox)
        memcpy(new->sandbox, job->sandbox->id, sizeof new->sandbox);
    memcpy(new->accepted, job->accepted, sizeof new->accepted);
    new->ended_us = coto_clock_us();
    if (job->err.kind) {
        coto_buf_adds(&new->text, "\"error\":");
        api_write_error(&job->err, job->field, &new->text);
    } else {
        coto_buf_adds(&new->text, "\"result\":");
        coto_buf_add(&new->text, job->reply.data, strcspn(coto_buf_str(&job->reply), "\n"));
    }
    *api->last_outcome = new;
    api->last_outcome = &new->next;
    api->outcome_bytes += new->text.len;
    api->outcome_count++;
    while (api->outcome_bytes > KEEP_BYTES || api->outcome_count > KEEP_COUNT)
        drop_oldest(api);
}

const struct api_outcome *api_outcome_find(struct coto_api *api, const struct coto_caller *caller,
                                           const char *id)
{
    const struct api_outcome *found = api->outcomes;

    while (found && strcmp(found->id, id) != 0)
        found = found->next;
    return found && may_see(caller, found->caller.tenant, found->sandbox) ? found : NULL;
}

void api_outcomes_expire(struct coto_api *api, int64_t now_us)
{
    while (api->outcomes && api->outcomes->ended_us < now_us - KEEP_US)
        drop_oldest(api);
}
