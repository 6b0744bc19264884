/* POST /api/v1/run and /api/v1/sandbox/{id}/execute. */
#include "api/api.h"

#include "api/flow.h"
#include "base/units.h"
#include "report/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEEP_BYTES (10 * COTO_MB)
#define ASYNC_BYTES (32 * COTO_MB) /* of a result that is kept for who comes back */
#define ASYNC_WHOLE (64 * COTO_MB) /* with its artifacts */
#define PROCS_MAX 60000 /* a frame has 16 bits for a process number */

/* What an interpreter, or its loader and libraries, read when they start: one that waits has been through
 * that. PYTHONUNBUFFERED it takes later too (python.py), and the usual LANG it has. */
static bool is_read_at_start(const char *variable)
{
    static const char *const begins[] = {"PYTHON", "LANG=", "LC_", "LD_", "MALLOC_", "GLIBC_TUNABLES=", "OPENSSL_"};
    static const char later[] = "PYTHONUNBUFFERED=";

    if (strncmp(variable, later, sizeof later - 1) == 0 || strcmp(variable, "LANG=C.UTF-8") == 0)
        return false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(variable, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* Others than `known` has. */
static bool has_start_variables(const struct coto_strv *env, const struct coto_strv *known)
{
    for (size_t i = 0; i < env->count; i++) {
        bool is_known = !is_read_at_start(env->items[i]);
        for (size_t j = 0; j < known->count && !is_known; j++)
            is_known = strcmp(env->items[i], known->items[j]) == 0;
        if (!is_known)
            return true;
    }
    return false;
}

#define PIDS_PARKED 3 /* an interpreter, and the two that bring it */

/* The common case has an interpreter waiting for it. It has the filter of the default tier already. */
void api_plan_parked(struct coto_plan *plan, bool stays)
{
    bool can = !plan->cold && plan->language && strcmp(plan->language->name, "python") == 0 &&
               plan->stage_count == 1 && plan->seccomp_tier != COTO_SECCOMP_DEBUG &&
               plan->pids >= PIDS_PARKED;

    plan->context = can && stays;
    plan->parked = can && !has_start_variables(&plan->env, &(struct coto_strv){0});
}

/* One that was ended may have had all the time there was. */
static void note_lifetime(struct api_job *job)
{
    struct coto_result *r = &job->result;

    if (!job->has_result || r->facts.cause != COTO_END_CANCEL || !api_job_has_expired(job))
        return;
    r->facts.cause = COTO_END_LIFETIME;
    coto_verdict_decide(&r->facts, r);
}

void api_run_plan(struct api_job *job, struct coto_run_in *in)
{
    struct coto_io io = {.in_fd = job->in_fd,
                         .out_fd = -1,
                         .err_fd = -1,
                         .capture = !job->is_stream,
                         .capture_max = KEEP_BYTES,
                         .sink = job->is_stream ? api_events_output : NULL,
                         .sink_arg = job,
                         .quiet = job->is_stream ? api_events_quiet : NULL,
                         .artifacts_fd = -1,
                         .cancel_fd = job->cancel_fd};

    if (json_is_true(json_object_get(job->body, "artifacts"))) {
        job->plan.want_artifacts = true;
        io.artifacts_max = KEEP_BYTES;
    }
    if (job->is_execution)
        api_record_start(job);
    if (job->is_stream)
        api_events_begin(job);
    job->has_result = coto_core_run_in(in, &job->plan, &io, &job->result, &job->err) == 0;
    job->lost = in->lost;
    note_lifetime(job);
    if (job->is_stream)
        api_events_end(job);
    if (job->is_execution)
        api_record_end(job);
}

/* Refused before it began, for what the caller has sent or for want of room. */
static bool is_refused(const struct api_job *job)
{
    int status = job->status ? job->status : coto_err_info(job->err.kind)->http_status;

    return !job->running || (!job->has_result && status < 500);
}

static void count(struct api_job *job)
{
    struct api_counters *c = &job->api->counters;

    api_ahead_refill(job->api);
    if (is_refused(job))
        return;
    c->executions++;
    if (!job->has_result) {
        c->errors++;
        return;
    }
    c->verdicts[job->result.verdict % 32]++;
    c->run_us += (uint64_t)job->result.duration_us;
}

static bool wants_events(const struct api_call *call)
{
    return api_query_accepts_events(call) || api_query_stream(call) == 1;
}

static int check_how(struct api_job *job)
{
    const char *wrong = job->is_async && job->is_stream                            ? "async"
                        : !job->is_async && json_object_get(job->body, "callback_url") ? "callback_url"
                                                                                   : NULL;

    if (wrong) {
        snprintf(job->field, sizeof job->field, "%s", wrong);
        coto_err_set(&job->err, COTO_ERR_USAGE, 0, "%s: %s", wrong,
                     job->is_async ? "cannot be streamed" : "is for async executions");
        return coto_err_remedy(&job->err, "%s", job->is_async ? "leave out one of async and ?stream=1" : "send \"async\": true with it");
    }
    if (job->key && job->is_stream) {
        snprintf(job->field, sizeof job->field, "Idempotency-Key");
        coto_err_set(&job->err, COTO_ERR_USAGE, 0, "Idempotency-Key: a streamed answer cannot be given again");
        return coto_err_remedy(&job->err, "leave out one of the key and ?stream=1");
    }
    if (api_callback_check(job))
        return -1;
    return job->is_stream ? api_flow_new(job, true) : 0;
}

static void submit_execution(struct api_call *call, struct api_job *job)
{
    job->is_execution = true;
    job->is_stream = wants_events(call);
    job->is_async = json_is_true(json_object_get(job->body, "async"));
    if (check_how(job) == 0) {
        if (job->is_async)
            api_async_prepare(job);
        coto_clock_utc(job->accepted);
        if (!job->is_async)
            api_submit(job);
        else if (!api_refuse_if_full(job))
            api_record_accepted(job);
        return;
    }
    if (job->is_async)
        api_async_forget(job);
    job->is_async = false;
    job->done(job);
    api_reply_job(job);
    api_job_free(job);
}

/* As JSON, about: what is no character takes six bytes, and where bytes are no text they follow once more. */
static int64_t json_bytes(const char *data, size_t len)
{
    bool is_text = coto_utf8_valid(data, len);
    int64_t bytes = is_text ? 0 : ((int64_t)len + 2) / 3 * 4;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        bytes += c < ' ' || c == 0x7f || (c > 0x7f && !is_text) ? 6 : c == '"' || c == '\\' ? 2 : 1;
    }
    return bytes;
}

static int64_t artifact_bytes(const struct coto_result *r)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < r->artifact_count; i++) {
        const struct coto_artifact *a = &r->artifacts[i];
        bytes += 200 + json_bytes(a->name, strlen(a->name)) + json_bytes(a->content.data, a->content.len);
    }
    return bytes;
}

static bool may_answer(struct api_job *job)
{
    const struct coto_result *r = &job->result;

    if (!job->has_result)
        return false;
    int64_t bytes = json_bytes(r->out.data.data, r->out.data.len) + json_bytes(r->err.data.data, r->err.data.len);
    int64_t whole = bytes + artifact_bytes(r);
    if (!job->is_async)
        return api_tenant_hold(job, whole) == 0;
    if (bytes <= ASYNC_BYTES && whole <= ASYNC_WHOLE)
        return true;
    coto_err_set(&job->err, COTO_ERR_LIMIT, 0, "its output takes more than 32 MiB as JSON, 64 with artifacts, and is not kept");
    coto_err_remedy(&job->err, "write less, or leave it as a file in output/");
    return false;
}

/* Something could not be put into place before the program was started: which of the request's texts it was. */
static void name_file(struct api_job *job)
{
    json_t *file;
    size_t i;

    if (job->has_result || job->err.kind != COTO_ERR_INPUT || job->field[0])
        return;
    if (job->err.sys_errno == ENOSPC)
        job->status = 413;
    json_array_foreach(json_object_get(job->body, "files"), i, file) {
        const char *path = json_string_value(json_object_get(file, "path"));
        char quoted[512];
        snprintf(quoted, sizeof quoted, "'%s'", path ? path : "");
        if (!path || !strstr(job->err.text, quoted))
            continue;
        snprintf(job->field, sizeof job->field, "files[%zu].path", i);
        return;
    }
    snprintf(job->field, sizeof job->field, "code");
}

/* ---- run ---- */

static void write_run(struct api_job *job)
{
    struct coto_json json = {.out = &job->reply};

    coto_report_json(&job->result, &job->plan, &json);
    coto_buf_addc(&job->reply, '\n');
}

static void run_once(struct api_job *job, int channel_fd)
{
    if (api_body_policy(job, NULL) || api_body_code(job))
        return;
    api_plan_parked(&job->plan, false);
    bool ahead = api_ahead_take(job, channel_fd);
    api_kind_asked(job, &job->plan);
    if (!ahead && api_box_new(job, &job->plan, NULL, &job->box)) {
        api_note_level(job, &job->plan);
        return;
    }
    struct coto_run_in in = {.sandbox = job->box, .first_proc = 1, .ahead = ahead};
    job->destroy_box = true;
    api_run_plan(job, &in);
    name_file(job);
    if (may_answer(job))
        write_run(job);
}

/* ---- execute ---- */

/* About variables and imports, where they are not what the caller may think. */
static const char *state_note(const struct api_job *job)
{
    const struct api_sandbox *s = job->sandbox;

    if (job->result.facts.cause == COTO_END_LIFETIME)
        return "the sandbox's lifetime was over: it has ended, and this execution with it";
    if (job->lost)
        return "the sandbox has ended";
    if (s->is_single)
        return "the sandbox ends with this execution (destroy_after_execution)";
    if (job->plan.context && s->has_interpreter && has_start_variables(&job->plan.env, &s->plan.env))
        return "its interpreter had started: variables that it reads then (PYTHONPATH) count at create, or with cold";
    if (job->result.facts.state_kept)
        return job->result.facts.state_found || !job->is_later || !job->plan.context
                   ? NULL
                   : "a new interpreter: what earlier executions had in theirs is gone";
    if (!s->plan.context)
        return "this sandbox was created cold, or its language is not python: nothing is kept";
    if (job->plan.context)
        return "its interpreter has ended; the next python execution begins a new one";
    if (job->cold)
        return job->is_later ? "cold: it had an interpreter of its own, and the one that kept state has ended"
                             : "cold: it had an interpreter of its own, which has ended";
    return job->is_later ? "only python keeps state, and its interpreter has ended" : "only python keeps state";
}

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
    if (r->facts.usage.memory_peak_bytes < 0)
        coto_json_null(&json, "memory_peak_mb");
    else
        coto_json_ms(&json, "memory_peak_mb", r->facts.usage.memory_peak_bytes * 1000 / COTO_MB);
    coto_json_end(&json, '}');
    coto_json_bool(&json, "output_truncated", r->out.truncated);
    coto_json_bool(&json, "state_found", r->facts.state_found);
    coto_json_bool(&json, "state_kept", r->facts.state_kept && !job->sandbox->is_single && r->facts.cause != COTO_END_LIFETIME);
    coto_json_str(&json, "state_note", state_note(job));
    coto_report_json_missing(r->walls, &json);
    if (job->plan.want_artifacts)
        coto_report_json_artifacts(r, &json);
    coto_json_end(&json, '}');
    coto_buf_addc(&job->reply, '\n');
}

static void execute(struct api_job *job, int channel_fd)
{
    struct api_sandbox *s = job->sandbox;

    if (api_body_policy(job, &s->policy) || api_body_code(job))
        return;
    if (s->next_proc > PROCS_MAX)
        s->next_proc = 1; /* long gone */
    struct coto_run_in in = {.sandbox = s->box, .first_proc = s->next_proc, .keep = true};
    /* The sandbox is what it was made as; only what is started may differ. */
    job->plan.context = s->plan.context && job->plan.language == s->plan.language && !job->cold;
    job->plan.parked = job->plan.context;
    job->is_later = s->executions > 0 || s->next_proc > 1;
    /* Whether the first one finds an interpreter is not known here. */
    job->plan.resident = s->has_interpreter && job->is_later ? NULL : job->api->config.resident;
    coto_launch_use(s->box, channel_fd, &s->plan);
    s->next_proc += (unsigned)job->plan.stage_count;
    api_run_plan(job, &in);
    name_file(job);
    if (job->status == 413)
        coto_err_remedy(&job->err, "remove files from the sandbox, or create one with a larger resource_limits.disk_mb");
    if (may_answer(job))
        write_execution(job);
}

static void executed(struct api_job *job)
{
    count(job);
    job->sandbox->has_interpreter = job->has_result && job->result.facts.state_kept;
    job->sandbox->executions++;
    if (job->sandbox->is_single && !is_refused(job))
        job->sandbox->state = API_ENDING;
    api_sandbox_release(job);
}

/* ---- neither ---- */

void api_execute_none(struct api_job *job)
{
    if (job->err.kind ||
        api_body_policy(job, job->sandbox ? &job->sandbox->policy : NULL) || api_body_code(job))
        return;
    if (job->is_stream)
        api_events_begin(job);
    coto_core_cancelled(&job->plan, coto_launch_driver(job->plan.isolation), &job->result);
    job->has_result = true;
    note_lifetime(job);
    if (job->is_stream)
        api_events_end(job);
    api_record_end(job);
    if (job->sandbox)
        write_execution(job);
    else
        write_run(job);
}

/* ---- the endpoints ---- */

void api_execution_set(struct api_job *job)
{
    job->run = job->sandbox ? execute : run_once;
    job->done = job->sandbox ? executed : count;
}

void coto_api_run(struct api_call *call)
{
    struct api_job *job = api_tenant_check_box(call) ? NULL : api_job_new(call);

    if (!job)
        return;
    api_execution_set(job);
    submit_execution(call, job);
}

void coto_api_execute(struct api_call *call)
{
    struct api_job *job = api_sandbox_job(call);

    if (!job)
        return;
    api_execution_set(job);
    submit_execution(call, job);
}
