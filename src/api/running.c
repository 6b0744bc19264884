/* Executions that run, by their id. Belongs to the loop. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

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

bool api_running_any(const struct coto_api *api)
{
    for (int i = 0; i < API_BUCKETS; i++)
        if (api->running[i])
            return true;
    return false;
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
