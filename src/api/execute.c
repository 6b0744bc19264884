/* POST /api/v1/run and /api/v1/sandbox/{id}/execute. */
#include "api/api.h"

#include "base/units.h"
#include "kernel/apparmor.h"
#include "report/json.h"

#include <stdio.h>
#include <string.h>

#define KEEP_BYTES (10 * COTO_MB)

/* The common case has an interpreter waiting for it. An AppArmor profile comes with an
 * execve, and that one makes none. */
void api_plan_parked(struct coto_plan *plan)
{
    bool profiled = plan->apparmor && coto_apparmor_is_on();

    plan->parked = plan->language && strcmp(plan->language->name, "python") == 0 &&
                   plan->stage_count == 1 && !plan->caps && !profiled;
}

void api_run_plan(struct api_job *job, struct coto_run_in *in)
{
    struct coto_io io = {.in_fd = job->in_fd,
                         .out_fd = -1,
                         .err_fd = -1,
                         .capture = true,
                         .capture_max = KEEP_BYTES,
                         .artifacts_fd = -1,
                         .cancel_fd = job->cancel_fd};

    if (job->is_execution)
        api_record_start(job);
    job->has_result = coto_core_run_in(in, &job->plan, &io, &job->result, &job->err) == 0;
    job->lost = in->lost;
    if (job->is_execution)
        api_record_end(job);
}

static void count(struct api_job *job)
{
    struct api_counters *c = &job->api->counters;

    c->executions++;
    if (!job->has_result) {
        c->errors++;
        return;
    }
    c->verdicts[job->result.verdict % 32]++;
    c->run_us += (uint64_t)job->result.duration_us;
}

/* ---- run ---- */

static void run_once(struct api_job *job, int channel_fd)
{
    if (api_body_policy(job, NULL) || api_body_code(job))
        return;
    api_plan_parked(&job->plan);
    job->plan.parked = job->plan.parked && !job->cold;
    if (coto_launch_create(channel_fd, &job->plan, job->api->workers.queued, &job->box, &job->err))
        return;
    struct coto_run_in in = {.sandbox = job->box, .first_proc = 1};
    job->destroy_box = true;
    api_run_plan(job, &in);
    if (!job->has_result)
        return;
    struct coto_json json = {.out = &job->reply};
    coto_report_json(&job->result, &job->plan, &json);
    coto_buf_addc(&job->reply, '\n');
}

void coto_api_run(struct api_call *call)
{
    struct api_job *job = api_job_new(call);

    if (!job)
        return;
    job->is_execution = true;
    job->run = run_once;
    job->done = count;
    api_submit(job);
}

/* ---- execute ---- */

static void write_execution(struct api_job *job)
{
    const struct coto_result *r = &job->result;
    struct coto_json json = {.out = &job->reply};

    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "execution_id", r->id);
    coto_json_bytes(&json, "output", r->out.data.data, r->out.data.len);
    coto_json_bytes(&json, "stderr", r->err.data.data, r->err.data.len);
    coto_report_json_outcome(r, &json);
    coto_json_begin(&json, "metrics", '{');
    coto_json_ms(&json, "duration_ms", r->duration_us);
    coto_json_ms(&json, "memory_peak_mb",
                 r->facts.usage.memory_peak_bytes < 0 ? -1000
                                                      : r->facts.usage.memory_peak_bytes * 1000 / COTO_MB);
    coto_json_end(&json, '}');
    coto_json_bool(&json, "output_truncated", r->out.truncated);
    coto_json_end(&json, '}');
    coto_buf_addc(&job->reply, '\n');
}

static void execute(struct api_job *job, int channel_fd)
{
    struct api_sandbox *s = job->sandbox;

    if (api_body_policy(job, &s->policy) || api_body_code(job))
        return;
    struct coto_run_in in = {.sandbox = s->box, .first_proc = s->next_proc, .keep = true};
    /* The sandbox is what it was made as; only what is started may differ. */
    job->plan.parked = s->plan.parked && job->plan.language == s->plan.language && !job->cold;
    job->plan.context = job->plan.parked;
    coto_launch_use(s->box, channel_fd, &s->plan);
    s->next_proc += (unsigned)job->plan.stage_count;
    api_run_plan(job, &in);
    if (job->has_result)
        write_execution(job);
}

static void executed(struct api_job *job)
{
    struct api_sandbox *s = job->sandbox;

    count(job);
    s->used_us = coto_clock_us();
    s->executions++;
    bool ending = s->state == API_ENDING;
    s->state = API_IDLE;
    if (job->lost)
        s->ended_as = "lost";
    if (job->lost || ending)
        api_sandbox_end(job->api, s);
}

void coto_api_execute(struct api_call *call)
{
    struct api_sandbox *s = api_sandbox_find(call->api, call->id);
    struct coto_err err = {0};

    if (s->state != API_IDLE) {
        coto_err_set(&err, COTO_ERR_LIMIT, 0, "the sandbox is busy with another execution, or ending");
        coto_err_remedy(&err, "wait for it, or create another sandbox");
        api_reply_error(call->request, 409, &err, "");
        return;
    }
    struct api_job *job = api_job_new(call);
    if (!job)
        return;
    job->sandbox = s;
    s->state = API_BUSY;
    job->is_execution = true;
    job->run = execute;
    job->done = executed;
    api_submit(job);
}
