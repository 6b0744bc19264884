/* /api/v1/executions and /api/v1/executions/{id}: the records of the caller's executions, with
 * the outcome of async ones; cancelling. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT 100
#define LIMIT_MAX 1000

struct page {
    struct coto_json json;
    unsigned count, limit;
    char last[COTO_RECORD_ID];
};

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static void write_ms(struct coto_json *json, const char *key, int64_t us)
{
    if (us < 0)
        coto_json_null(json, key);
    else
        coto_json_ms(json, key, us);
}

static void write_count(struct coto_json *json, const char *key, int64_t value)
{
    if (value < 0)
        coto_json_null(json, key);
    else
        coto_json_int(json, key, value);
}

static const char *state_of(const struct coto_execution *e)
{
    if (strcmp(e->verdict, "queued") == 0)
        return e->verdict;
    if (!e->verdict[0])
        return "running";
    return strcmp(e->verdict, "interrupted") == 0 || strcmp(e->verdict, "error") == 0 ? e->verdict
                                                                                      : "finished";
}

static void write_execution(const struct coto_execution *e, struct coto_json *json)
{
    const char *state = state_of(e);

    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "execution_id", e->id);
    coto_json_str(json, "sandbox_id", or_null(e->sandbox));
    coto_json_str(json, "agent_id", or_null(e->agent));
    coto_json_str(json, "state", state);
    coto_json_str(json, "started_at", e->started);
    coto_json_str(json, "verdict", strcmp(state, "finished") == 0 ? e->verdict : NULL);
    write_count(json, "exit_code", e->exit_code);
    write_ms(json, "duration_ms", e->duration_us);
    write_ms(json, "cpu_ms", e->cpu_us);
    write_count(json, "memory_peak_bytes", e->memory_peak_bytes);
    coto_json_str(json, "code_hash", or_null(e->code_hash));
    coto_json_str(json, "policy_hash", or_null(e->policy_hash));
    coto_json_end(json, '}');
}

static void nothing(struct api_job *job)
{
    (void)job;
}

static void submit(struct api_call *call, void (*run)(struct api_job *job, int channel_fd),
                   void (*done)(struct api_job *job))
{
    struct coto_err err = {0};

    if (!call->api->records) {
        coto_err_set(&err, COTO_ERR_UNAVAILABLE, 0, "this service keeps no records");
        api_reply_error(call->request, 0, &err, "");
        return;
    }
    memcpy(call->query.id, call->id, sizeof call->query.id);
    api_submit_reading(call, run, done);
}

/* ---- one ---- */

static void get(struct api_job *job, int channel_fd)
{
    struct coto_execution execution;
    struct coto_json json = {.out = &job->reply};
    int found = coto_records_get(job->api->records, job->caller.tenant, job->query.id, &execution, &job->err);

    (void)channel_fd;
    if (found > 0 && job->caller.sandbox[0] && strcmp(job->caller.sandbox, execution.sandbox) != 0)
        found = 0;
    if (found == 0) {
        job->status = 404;
        coto_err_set(&job->err, COTO_ERR_NOTFOUND, 0, "no such execution");
        coto_err_remedy(&job->err, job->caller.sandbox[0] ? "a sandbox's token knows those of that sandbox alone" : "GET /api/v1/executions lists yours");
    }
    if (found <= 0)
        return;
    write_execution(&execution, &json);
    coto_buf_addc(&job->reply, '\n');
    coto_auto_buf outcome = {0};
    if (coto_records_get_outcome(job->api->records, job->caller.tenant, job->query.id, &outcome,
                                 &job->err) == 1) {
        job->reply.len -= 2; /* "}\n" */
        coto_buf_addf(&job->reply, ",%s}\n", coto_buf_str(&outcome));
    }
}

/* One that has not begun: it may have no record yet. */
static void write_unrecorded(struct api_job *job, const char *verdict, const char *since)
{
    struct coto_execution e = {.duration_us = -1, .exit_code = -1, .cpu_us = -1, .memory_peak_bytes = -1};
    struct coto_json json = {.out = &job->reply};

    snprintf(e.id, sizeof e.id, "%s", job->query.id);
    snprintf(e.sandbox, sizeof e.sandbox, "%s", job->caller.sandbox);
    snprintf(e.verdict, sizeof e.verdict, "%s", verdict);
    snprintf(e.started, sizeof e.started, "%s", since);
    job->err.kind = 0;
    job->status = 200;
    write_execution(&e, &json);
    coto_buf_addc(&job->reply, '\n');
}

/* On the loop. */
static void got(struct api_job *job)
{
    const struct api_job *running = api_running_find(job->api, &job->caller, job->query.id);

    if (job->status == 404 && running)
        write_unrecorded(job, "queued", running->accepted);
}

void coto_api_execution(struct api_call *call)
{
    submit(call, get, got);
}

/* ---- its end ---- */

void coto_api_cancel(struct api_call *call)
{
    struct api_job *job = api_running_find(call->api, &call->caller, call->id);
    struct coto_err err = {0};
    coto_auto_buf body = {0};
    struct coto_json json = {.out = &body};

    if (!job) {
        coto_err_set(&err, COTO_ERR_NOTFOUND, 0, "no such execution is running");
        coto_err_remedy(&err, "GET on the same address tells whether and how it ended");
        api_reply_error(call->request, 404, &err, "");
        return;
    }
    api_job_cancel(job);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "execution_id", job->id);
    coto_json_str(&json, "state", "cancelling");
    coto_json_end(&json, '}');
    coto_buf_addc(&body, '\n');
    api_reply(call->request, 202, &body);
}

/* ---- many ---- */

static void add(void *arg, const struct coto_execution *execution)
{
    struct page *page = arg;

    if (page->count++ == page->limit) /* one more was asked for than is shown */
        return;
    write_execution(execution, &page->json);
    memcpy(page->last, execution->id, sizeof page->last);
}

static void list(struct api_job *job, int channel_fd)
{
    struct page page = {.json = {.out = &job->reply}, .limit = job->query.limit};
    const struct coto_records_query query = {.tenant = job->caller.tenant,
                                             .sandbox = or_null(job->query.sandbox),
                                             .before = or_null(job->query.before),
                                             .limit = job->query.limit + 1};

    (void)channel_fd;
    coto_json_begin(&page.json, NULL, '{');
    coto_json_begin(&page.json, "executions", '[');
    int found = coto_records_list(job->api->records, &query, add, &page, &job->err);
    coto_json_end(&page.json, ']');
    coto_json_str(&page.json, "next", page.count > page.limit ? page.last : NULL);
    coto_json_end(&page.json, '}');
    coto_buf_addc(&job->reply, '\n');
    if (found == 0) {
        coto_err_set(&job->err, COTO_ERR_USAGE, 0, "before: no such execution");
        coto_err_remedy(&job->err, "take `next` of the page before, or leave it out for the newest");
        snprintf(job->field, sizeof job->field, "before");
    }
}

/* The value of a parameter that names something by its id; "" when it is not given. */
static int take_id(struct api_call *call, const char *name, char ret_id[COTO_RECORD_ID])
{
    struct coto_err err = {0};
    int given = coto_http_query_get(call->request, name, ret_id, COTO_RECORD_ID);

    if (given == 0)
        ret_id[0] = '\0';
    if (given == 0 || (given > 0 && api_id(ret_id, strlen(ret_id), ret_id)))
        return 0;
    coto_err_set(&err, COTO_ERR_USAGE, 0, "%s: must be an id", name);
    coto_err_remedy(&err, "an id is a UUID, as replies have it");
    api_reply_error(call->request, 400, &err, name);
    return -1;
}

static int take_limit(struct api_call *call, unsigned *ret_limit)
{
    char text[16] = "";
    char *rest = text;
    struct coto_err err = {0};
    int given = coto_http_query_get(call->request, "limit", text, sizeof text);
    unsigned long value = given > 0 ? strtoul(text, &rest, 10) : LIMIT;

    *ret_limit = (unsigned)value;
    if (given >= 0 && !*rest && value >= 1 && value <= LIMIT_MAX && (!given || strchr("123456789", *text)))
        return 0;
    coto_err_set(&err, COTO_ERR_USAGE, 0, "limit: must be a number from 1 to %d", LIMIT_MAX);
    coto_err_remedy(&err, "ask for less at once, and for the next with before");
    api_reply_error(call->request, 400, &err, "limit");
    return -1;
}

void coto_api_executions(struct api_call *call)
{
    struct api_query *query = &call->query;

    if (take_limit(call, &query->limit) || take_id(call, "before", query->before) ||
        take_id(call, "sandbox", query->sandbox))
        return;
    submit(call, list, nothing);
}
