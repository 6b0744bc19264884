/* What the service's work leaves in the records: an execution when it starts and when it has
 * ended, a sandbox when it is made and when it is gone. Called on workers. */
#include "api/api.h"

#include "base/sha256.h"
#include "schema/verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES (256 * 1024)

static struct coto_record *new_record(struct api_job *job, enum coto_record_kind kind)
{
    struct coto_record *record = coto_record_new(kind);

    if (!record)
        coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "no memory to record it");
    return record;
}

static struct coto_record *new_execution(struct api_job *job)
{
    struct coto_record *record = new_record(job, COTO_RECORD_EXECUTION);
    const char *agent = json_string_value(json_object_get(job->body, "agent_id"));

    if (!record)
        return NULL;
    struct coto_execution *e = &record->u.execution;
    if (!agent && job->sandbox)
        agent = job->sandbox->agent;
    snprintf(e->id, sizeof e->id, "%s", job->id);
    snprintf(e->tenant, sizeof e->tenant, "%s", job->caller.tenant);
    snprintf(e->sandbox, sizeof e->sandbox, "%s", job->sandbox ? job->sandbox->id : "");
    snprintf(e->agent, sizeof e->agent, "%s", agent ? agent : "");
    snprintf(e->started, sizeof e->started, "%s", job->started[0] ? job->started : job->accepted);
    snprintf(e->code_hash, sizeof e->code_hash, "%s", job->plan.code_hash);
    snprintf(e->policy_hash, sizeof e->policy_hash, "%s", job->plan.policy_hash);
    e->duration_us = e->cpu_us = e->memory_peak_bytes = e->exit_code = -1;
    return record;
}

/* Nobody waits for this one. */
void api_record_start(struct api_job *job)
{
    coto_clock_utc(job->started);
    if (!job->api->records)
        return;
    struct coto_record *record = new_execution(job);
    if (record)
        coto_records_put(job->api->records, record);
}

static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : a + b;
}

void api_record_end(struct api_job *job)
{
    const struct coto_result *r = &job->result;

    if (!job->api->records || !(job->record = new_execution(job)))
        return;
    struct coto_execution *e = &job->record->u.execution;
    if (!job->has_result) {
        snprintf(e->verdict, sizeof e->verdict, "error");
        return;
    }
    snprintf(e->started, sizeof e->started, "%s", r->started_at);
    snprintf(e->verdict, sizeof e->verdict, "%s", coto_verdict_word(r->verdict));
    e->duration_us = r->duration_us;
    e->exit_code = r->exit_code;
    e->cpu_us = sum(r->facts.usage.cpu_user_us, r->facts.usage.cpu_system_us);
    e->memory_peak_bytes = r->facts.usage.memory_peak_bytes;
}

static void fill_sandbox(struct coto_sandbox_record *row, const struct api_sandbox *s,
                         const char *state)
{
    snprintf(row->id, sizeof row->id, "%s", s->id);
    snprintf(row->tenant, sizeof row->tenant, "%s", s->tenant);
    snprintf(row->agent, sizeof row->agent, "%s", s->agent);
    snprintf(row->created, sizeof row->created, "%s", s->created_at);
    row->state = state;
    row->lifetime_ms = s->lifetime_ms;
    row->idle_ms = s->idle_ms;
    coto_sha256_of(s->token, strlen(s->token), row->token_hash);
}

void api_record_sandbox(struct api_job *job, const char *state)
{
    if (job->api->records && (job->record = new_record(job, COTO_RECORD_SANDBOX)))
        fill_sandbox(&job->record->u.sandbox, job->sandbox, state);
}

/* Of one that ends with the service or the launcher. */
void api_record_last(struct coto_api *api, const struct api_sandbox *sandbox, const char *state)
{
    struct coto_record *record = api->records ? coto_record_new(COTO_RECORD_SANDBOX) : NULL;

    if (!record)
        return;
    fill_sandbox(&record->u.sandbox, sandbox, state);
    coto_records_put(api->records, record);
}

/* ---- a job that only reads the records ---- */

static void forget(struct coto_http_request *request, void *arg)
{
    (void)request;
    ((struct api_job *)arg)->request = NULL;
}

struct api_job *api_job_reading(struct api_call *call,
                                void (*run)(struct api_job *job, int channel_fd),
                                void (*done)(struct api_job *job))
{
    struct api_job *job = calloc(1, sizeof *job);
    struct coto_err err = {0};

    if (!job) {
        coto_err_set(&err, COTO_ERR_LIMIT, 0, "no memory");
        api_reply_error(call->request, 503, &err, "");
        api_key_free(call->api, call->key);
        return NULL;
    }
    job->api = call->api;
    job->request = call->request;
    api_tenant_begin(job);
    job->caller = call->caller;
    job->query = call->query;
    job->endpoint = call->endpoint;
    job->key = call->key;
    job->cancel_fd = job->in_fd = -1;
    job->plan.rootfs.fd = -1;
    job->run = run;
    job->done = done;
    job->is_quick = job->needs_no_launcher = true;
    coto_http_on_gone(call->request, forget, job);
    return job;
}

void api_submit_reading(struct api_call *call, void (*run)(struct api_job *job, int channel_fd),
                        void (*done)(struct api_job *job))
{
    struct api_job *job = api_job_reading(call, run, done);

    if (job)
        api_submit(job);
}

/* ---- the answer to a request with a key, in the same transaction ---- */

/* An answer that another try could change is not kept. */
static bool is_final(const struct api_job *job)
{
    return !job->err.kind && (!job->has_result || job->result.facts.cause != COTO_END_CANCEL);
}

static struct coto_kept *new_kept(const struct api_job *job)
{
    struct coto_kept *kept = calloc(1, sizeof *kept);

    if (kept) {
        *kept = job->key->kept;
        kept->reply = (struct coto_buf){0};
    }
    return kept;
}

static void keep_answer(struct api_job *job)
{
    struct coto_kept *kept = job->record->kept = new_kept(job);

    if (!kept)
        return;
    if (job->record->kind == COTO_RECORD_SANDBOX) {
        /* The answer has the sandbox's token: it is made again from the table, not kept. */
        kept->status = 201;
        coto_buf_adds(&kept->reply, job->sandbox->id);
    } else if (job->reply.len > KEPT_BYTES) {
        coto_buf_adds(&kept->reply, job->id);
    } else {
        kept->status = 200;
        coto_buf_add(&kept->reply, job->reply.data, job->reply.len);
    }
}

static void say_instead(struct coto_promise *promise)
{
    struct coto_err err = {0};

    coto_err_set(&err, COTO_ERR_LIMIT, ENOSPC, "the result could not be kept");
    coto_err_remedy(&err, "execute it again; the disk of the service's records was full when it ended");
    coto_buf_adds(&promise->instead, "\"error\":");
    api_write_error(&err, "", &promise->instead);
}

/* For the client of an async execution, who comes back for it. */
static void keep_outcome(struct api_job *job)
{
    struct coto_promise *promise = coto_record_promise(job->record);

    if (!promise)
        return; /* how it ended is still told */
    if (job->err.kind) {
        coto_buf_adds(&promise->outcome, "\"error\":");
        api_write_error(&job->err, job->field, &promise->outcome);
    } else {
        coto_buf_adds(&promise->outcome, "\"result\":");
        coto_buf_add(&promise->outcome, job->reply.data, strcspn(coto_buf_str(&job->reply), "\n"));
        coto_buf_fini(&job->reply); /* nobody waits for it: once is enough */
        say_instead(promise);
    }
}

static void recorded(void *arg, const struct coto_err *err)
{
    struct api_job *job = arg;

    if (err) {
        job->err = *err;
        job->status = 503;
        job->is_unrecorded = true;
        coto_err_wrap(&job->err, "it is done but could not be recorded");
    }
    api_finish(job);
}

/* Has the job finished on the loop once its record, if it has one, is durable. */
void api_record_and_finish(struct api_job *job)
{
    /* What was accepted has an end, also when it never began. */
    if (job->is_async && !job->record)
        api_record_end(job);
    struct coto_record *record = job->record;
    if (!record) {
        if (coto_loop_post(job->api->loop, api_finish, job))
            abort(); /* no memory for a pointer: nothing sensible is left to do */
        return;
    }
    if (job->key && is_final(job))
        keep_answer(job);
    if (job->is_async)
        keep_outcome(job);
    record->done = recorded;
    record->arg = job;
    job->record = NULL;
    coto_records_put(job->api->records, record);
}

/* ---- async ---- */

static void accepted(void *arg, const struct coto_err *err)
{
    struct api_job *job = arg;

    api_key_free(job->api, job->key); /* the answer is kept */
    job->key = NULL;
    if (!err) {
        job->must_run = true;
        api_submit(job);
        return;
    }
    api_async_forget(job);
    job->is_async = false;
    job->err = *err;
    job->status = 503;
    job->done(job);
    api_reply_job(job);
    api_job_free(job);
}

/* An execution that goes on without its caller is promised only once that is durable: whatever
 * happens then, its id leads to how it ended. */
void api_record_accepted(struct api_job *job)
{
    struct coto_record *record = job->api->records ? new_execution(job) : NULL;

    if (!record) {
        api_submit(job);
        return;
    }
    snprintf(record->u.execution.verdict, sizeof record->u.execution.verdict, "queued");
    struct coto_promise *promise = coto_record_promise(record);
    size_t len;
    const char *text = coto_http_body(job->request, &len);
    if (promise) {
        coto_buf_add(&promise->request, text, len);
        promise->is_guests = job->is_guests;
    }
    if (job->key && (record->kept = new_kept(job))) {
        record->kept->status = 202;
        api_write_accepted(job, &record->kept->reply);
    }
    record->done = accepted;
    record->arg = job;
    coto_records_put(job->api->records, record);
}
