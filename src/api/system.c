/* What the service says about itself. */
#include "api/api.h"

#include "drivers/driver.h"
#include "kernel/caps.h"
#include "schema/bodies.h"
#include "schema/verdict.h"
#include "schema/walls.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TOLD_MS 10000     /* a reply about capabilities is good for that */
#define TOLD_PART_MS 1000 /* and one for which not all could be asked */

void coto_api_healthz(struct api_call *call)
{
    static const char text[] = "{\"status\":\"ok\"}\n";

    coto_http_reply(call->request, 200, "application/json", text, sizeof text - 1);
}

void coto_api_readyz(struct api_call *call)
{
    coto_auto_buf body = {0};
    const struct coto_api *api = call->api;
    struct coto_err err;
    const char *why = api->records && coto_records_check(api->records, &err) ? "failing"
                      : api->draining                                        ? "draining"
                      : api->pool == API_POOL_FAILING                        ? "failing"
                      : api->pool == API_POOL_WARMING                        ? "warming"
                                                                             : NULL;

    coto_buf_addf(&body, "{\"status\":\"%s\"}\n", why ? why : "ready");
    api_reply(call->request, why ? 503 : 200, &body);
}

void coto_api_openapi(struct api_call *call)
{
    api_reply(call->request, 200, &call->api->openapi);
}

/* ---- metrics ---- */

static void metric(struct coto_buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    coto_buf_addf(out, "# HELP coto_%s %s\n# TYPE coto_%s %s\ncoto_%s %llu\n", name, help, name, type,
                  name, (unsigned long long)value);
}

static void write_records(const struct coto_api *api, struct coto_buf *out)
{
    struct coto_records_stats s;

    if (!api->records)
        return;
    coto_records_get_stats(api->records, &s);
    metric(out, "records_written_total", "counter", "Rows of the records written.", s.rows);
    metric(out, "records_commits_total", "counter", "Transactions they took.", s.commits);
    metric(out, "records_failed_total", "counter", "Rows that could not be written.", s.failed);
    metric(out, "records_waiting", "gauge", "Rows that wait to be written.", s.waiting);
}

static void write_metrics(struct api_job *job)
{
    const struct coto_api *api = job->api;
    const struct api_counters *c = &api->counters;
    struct coto_buf *out = &job->reply;

    metric(out, "http_requests_total", "counter", "Requests routed.", c->requests);
    metric(out, "http_refused_total", "counter", "Requests refused: no token, no room.", c->refused);
    metric(out, "executions_total", "counter", "Executions that ended.", c->executions);
    metric(out, "execution_errors_total", "counter", "Executions that coto failed.", c->errors);
    metric(out, "callbacks_total", "counter", "Callbacks that were handed on.", c->callbacks);
    metric(out, "callbacks_lost_total", "counter", "Callbacks for which there was no room.", c->callbacks_lost);
    metric(out, "sandboxes", "gauge", "Sandboxes held by callers.", api->sandbox_count);
    metric(out, "jobs_queued", "gauge", "Jobs that wait for a worker.", api->workers.queued);
    coto_buf_adds(out, "# HELP coto_verdicts_total Executions by verdict.\n"
                       "# TYPE coto_verdicts_total counter\n");
    for (int i = 0; i < COTO_VERDICT_COUNT; i++)
        coto_buf_addf(out, "coto_verdicts_total{verdict=\"%s\"} %llu\n", coto_verdict_word((enum coto_verdict)i),
                      (unsigned long long)c->verdicts[i]);
}

static void write_kind(struct coto_buf *out, const char *name, const char *labels, uint64_t value)
{
    coto_buf_addf(out, "coto_pool_kind_%s{%s} %" PRIu64 "\n", name, labels, value);
}

/* A row for each kind that is kept ready: there are as many as profiles times two, and some of level high; and one of
 * the Node that waits here (ahead.c) since somebody has asked for one. */
static void write_kinds(struct coto_buf *out, const struct coto_launch_pool *pool, const char *profile, const struct api_ahead_counts *node)
{
    const uint64_t of_node[] = {node->ready, node->target, node->hits, 0};
    const struct {
        const char *name, *type, *help;
        size_t at;
    } rows[] = {
        {"ready", "gauge", "Sandboxes ready to be handed out, by kind.", offsetof(struct coto_launch_shelf, ready)},
        {"target", "gauge", "Ready sandboxes aimed at, by kind.", offsetof(struct coto_launch_shelf, target)},
        {"hits_total", "counter", "Requests served from the pool, by kind.", offsetof(struct coto_launch_shelf, hits)},
        {"misses_total", "counter", "Requests that waited for a new sandbox, by kind.",
         offsetof(struct coto_launch_shelf, misses)}};

    char labels[160];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coto_buf_addf(out, "# HELP coto_pool_kind_%s %s\n# TYPE coto_pool_kind_%s %s\n", rows[i].name, rows[i].help,
                      rows[i].name, rows[i].type);
        for (unsigned k = 0; k < pool->shelf_count; k++) {
            const struct coto_launch_shelf *it = &pool->shelves[k];
            snprintf(labels, sizeof labels, "level=\"%s\",profile=\"%s\",language=\"%s\"",
                     it->is_high ? "high" : "standard", it->profile, it->is_parked ? "python" : "other");
            write_kind(out, rows[i].name, labels, *(const uint64_t *)((const char *)it + rows[i].at));
        }
        snprintf(labels, sizeof labels, "level=\"standard\",profile=\"%s\",language=\"node\"", profile);
        if (node->target || node->hits)
            write_kind(out, rows[i].name, labels, of_node[i]);
    }
}

static void ask_pool(struct api_job *job, int channel_fd)
{
    struct coto_launch_pool pool;
    struct coto_buf *out = &job->reply;

    uint64_t hits = api_ahead_take_untold(job->api);
    if (coto_launch_get_pool(channel_fd, hits, &pool, &job->err)) {
        api_ahead_put_untold(job->api, hits);
        return;
    }
    struct api_ahead_counts node;
    api_ahead_count(job->api, &node);
    const struct coto_launch_status s = pool.status;
    metric(out, "pool_ready", "gauge", "Sandboxes ready to be handed out.", s.ready);
    metric(out, "pool_target", "gauge", "Ready sandboxes aimed at.", s.target);
    metric(out, "pool_max", "gauge", "Sandboxes of level standard that may be ready at once, of all kinds together; Node that waits apart.", job->api->config.pool_max);
    metric(out, "pool_starting", "gauge", "Sandboxes being made.", s.starting);
    metric(out, "pool_in_use", "gauge", "Sandboxes handed out, and those in which Node waits for a program.", s.in_use);
    metric(out, "pool_hits_total", "counter", "Requests served from the pool, or by Node that waited.", s.from_pool);
    metric(out, "pool_misses_total", "counter", "Requests that waited for a new sandbox.", s.cold);
    coto_buf_addf(out,
                  "# HELP coto_pool_hit_ratio Part of the requests for a sandbox that the pool served.\n"
                  "# TYPE coto_pool_hit_ratio gauge\ncoto_pool_hit_ratio %.4f\n",
                  s.from_pool + s.cold ? (double)s.from_pool / (double)(s.from_pool + s.cold) : 1.0);
    write_kinds(out, &pool, job->api->config.profile, &node);
    metric(out, "sandboxes_created_total", "counter", "Sandboxes made.", s.created);
    metric(out, "sandboxes_parked_total", "counter", "Interpreters parked in sandboxes.", s.parked);
    metric(out, "sandboxes_failed_total", "counter", "Sandboxes that could not be made.", s.failed);
    metric(out, "sandboxes_destroyed_total", "counter", "Sandboxes removed.", s.destroyed);
}

static void reply_metrics(struct api_job *job)
{
    job->err.kind = 0; /* without the launcher the rest is still worth knowing */
    api_callback_count_lost(job->api);
    write_metrics(job);
    write_records(job->api, &job->reply);
    if (job->request)
        coto_http_reply(job->request, 200, "text/plain; version=0.0.4", job->reply.data, job->reply.len);
    job->request = NULL;
}

void coto_api_metrics(struct api_call *call)
{
    struct api_job *job = api_job_new(call);

    if (!job)
        return;
    job->is_quick = true;
    job->run = ask_pool;
    job->done = reply_metrics;
    api_submit(job);
}

/* ---- capabilities ---- */

static void say_self(const char *who, const struct coto_self *self, struct coto_json *json)
{
    coto_json_begin(json, who, '{');
    coto_json_int(json, "uid", (int64_t)self->uid);
    coto_json_int(json, "capabilities", (int64_t)self->capabilities);
    coto_json_bool(json, "no_new_privs", self->no_new_privs);
    coto_json_bool(json, "seccomp", self->seccomp == 2);
    coto_json_str(json, "seccomp_filter", self->filter_hash[0] ? self->filter_hash : NULL);
    coto_json_bool(json, "dumpable", self->is_dumpable);
}

/* Of the two that keep some rights: which. */
static void say_privileged(const char *who, const struct coto_self *self, struct coto_json *json)
{
    say_self(who, self, json);
    coto_json_int(json, "bounding", (int64_t)self->bounding);
    coto_json_begin(json, "capability_names", '[');
    for (int bit = 0; bit < 64; bit++)
        if (self->capabilities >> bit & 1 && coto_caps_name(bit))
            coto_json_str(json, NULL, coto_caps_name(bit));
    coto_json_end(json, ']');
    coto_json_end(json, '}');
}

static void say_processes(const struct coto_api_config *config, const struct coto_self *launcher,
                          struct coto_json *json)
{
    say_self("front", &config->front, json);
    coto_json_int(json, "landlock_abi", config->landlock_abi);
    coto_json_bool(json, "own_network", config->has_own_network);
    coto_json_end(json, '}');
    say_privileged("launcher", launcher, json);
    say_privileged("keeper", &config->keeper, json);
}

static void say_high(const struct api_job *job, bool has_high, const struct coto_err *why,
                     struct coto_json *json)
{
    const struct coto_api_high *high = &job->api->config.high;
    bool is_set = high->isolation != COTO_ISOLATION_PROCESS;
    coto_auto_buf message = {0}, remedy = {0};

    api_words_message(why->text, &message);
    api_words_remedy(why->remedy, &remedy);
    coto_json_begin(json, "high", '{');
    coto_json_bool(json, "available", has_high);
    coto_json_str(json, "isolation",
                  is_set ? coto_opt_choice_name(COTO_OPT_ISOLATION, high->isolation) : NULL);
    coto_json_str(json, "runtime", is_set && *high->runtime ? high->runtime : NULL);
    coto_json_str(json, "image", is_set && *high->image ? high->image : NULL);
    coto_json_str(json, "message", why->kind ? coto_buf_str(&message) : NULL);
    coto_json_str(json, "remedy", why->kind && why->remedy[0] ? coto_buf_str(&remedy) : NULL);
    coto_json_end(json, '}');
}

/* Limits that hold by themselves, or not at all, in a sandbox of the default policy (ask_limits). */
static bool is_asked(int wall)
{
    return wall == COTO_WALL_CPU || wall == COTO_WALL_IOPS || wall == COTO_WALL_CPU_TIME;
}

/* Of a wall that is not up, and did not say why itself. */
static const char *why_not(const struct api_job *job, int wall, const struct coto_wall_state *state)
{
    if (state->note[0])
        return state->note;
    if (job->plan.want >> wall & 1)
        return "this level does not have it";
    return wall == COTO_WALL_APPARMOR && job->plan.apparmor
               ? "this kernel runs no AppArmor; Landlock does its work"
               : "the service's default policy does not ask for it";
}

static void say_remedy(const struct api_job *job, int wall, bool can_be_had, struct coto_json *json)
{
    const struct coto_limit_row *limit = coto_limit_find(coto_walls[wall].name);
    const bool is_wanted = job->plan.want >> wall & 1;
    char text[96];

    snprintf(text, sizeof text, "%s", "`coto doctor` on the service's host says what it lacks");
    if (!is_wanted && limit && can_be_had)
        snprintf(text, sizeof text, "a request can: resource_limits.%s", limit->name);
    if (wall == COTO_WALL_APPARMOR && job->plan.apparmor)
        snprintf(text, sizeof text, "%s",
                 is_wanted ? "apparmor_parser -r deploy/apparmor/coto, on the service's host"
                           : "boot the service's host with apparmor in the list of lsm=");
    coto_json_str(json, "remedy", text);
}

/* asked: of a sandbox for which limits were asked that the default policy leaves to the host. */
static void say_wall(const struct api_job *job, const struct coto_wall_state *asked, int wall, struct coto_json *json)
{
    const bool is_absent = asked && is_asked(wall) && !asked[wall].up;
    const struct coto_wall_state *state = is_absent ? &asked[wall] : &job->box->walls[wall];

    coto_json_begin(json, coto_walls[wall].name, '{');
    coto_json_bool(json, "up", state->up);
    coto_json_bool(json, "wanted", job->plan.want >> wall & 1);
    coto_json_str(json, "mechanism", state->mechanism[0] ? state->mechanism : NULL);
    coto_json_str(json, "note", state->up ? NULL : why_not(job, wall, state));
    if (state->up)
        coto_json_null(json, "remedy");
    else
        say_remedy(job, wall, !is_absent, json);
    coto_json_end(json, '}');
}

static void say_most(const struct coto_policy *ceiling, struct coto_json *json)
{
    const struct coto_plan most = {
        .timeout_ms = coto_policy_num(ceiling, COTO_OPT_TIMEOUT),
        .memory_bytes = coto_policy_num(ceiling, COTO_OPT_MEMORY),
        .cpus_milli = coto_policy_num(ceiling, COTO_OPT_CPUS),
        .pids = coto_policy_num(ceiling, COTO_OPT_PIDS),
        .disk_bytes = coto_policy_num(ceiling, COTO_OPT_DISK),
        .tmp_bytes = coto_policy_num(ceiling, COTO_OPT_TMP_SIZE),
        .ptys = coto_policy_num(ceiling, COTO_OPT_PTYS),
        .output_bytes = coto_policy_num(ceiling, COTO_OPT_OUTPUT_LIMIT),
    };

    coto_json_begin(json, "at_most", '{');
    api_write_limits(&most, 0, json);
    coto_json_end(json, '}');
}

static void say_walls(const struct api_job *job, const struct coto_sandbox *asked, struct coto_json *json)
{
    coto_json_begin(json, "walls", '{');
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        say_wall(job, asked ? asked->walls : NULL, i, json);
    coto_json_end(json, '}');
}

static void say_capabilities(struct api_job *job, const struct coto_sandbox *asked, bool has_high, const struct coto_err *why,
                             const struct coto_self *launcher)
{
    bool has_standard = coto_ceiling_has_word(job->api->config.levels, "standard");
    struct coto_json json = {.out = &job->reply};

    coto_json_begin(&json, NULL, '{');
    coto_json_begin(&json, "isolation_levels", '[');
    if (has_standard)
        coto_json_str(&json, NULL, "standard");
    if (has_high)
        coto_json_str(&json, NULL, "high");
    coto_json_end(&json, ']');
    coto_json_begin(&json, "languages", '[');
    for (size_t i = 0; i < coto_language_count; i++)
        if (coto_plan_has_tool(&job->plan, coto_languages[i].tool))
            coto_json_str(&json, NULL, coto_languages[i].name);
    coto_json_end(&json, ']');
    api_say_versions(job, has_standard ? "standard" : "high", &json);
    coto_json_begin(&json, "profiles", '[');
    for (unsigned i = 0; i < coto_profile_count; i++)
        if (coto_ceiling_has_word(job->api->config.profiles, coto_profiles[i].name))
            coto_json_str(&json, NULL, coto_profiles[i].name);
    coto_json_end(&json, ']');
    coto_json_begin(&json, "limits", '{');
    api_write_limits(&job->plan, api_missing_walls(job->box), &json);
    coto_json_end(&json, '}');
    say_most(job->api->config.ceiling, &json);
    say_high(job, has_high, why, &json);
    say_processes(&job->api->config, launcher, &json);
    say_walls(job, asked, &json);
    coto_json_end(&json, '}');
    coto_buf_addc(&job->reply, '\n');
}

static void nothing(struct api_job *job)
{
    (void)job;
}

/* Whether the operator's level high can be had on this host, which the launcher finds out. */
static bool ask_high(struct api_job *job, int channel_fd, struct coto_err *why)
{
    const struct coto_api_config *config = &job->api->config;
    struct api_job high = {.api = job->api, .in_fd = -1, .plan = {.rootfs = {.fd = -1}}};

    high.body = json_pack("{s:s, s:s}", "code", "", "isolation_level", "high");
    bool has = high.body && !api_body_policy(&high, NULL) && !api_body_code(&high) &&
               !coto_launch_check(channel_fd, &high.plan, &high.err);
    *why = high.err;
    json_decref(high.body);
    coto_plan_fini(&high.plan);
    coto_policy_fini(&high.policy);
    coto_buf_fini(&high.code);
    return has && coto_ceiling_has_word(config->levels, "high");
}

/* A sandbox with limits that only a request asks for; NULL: not even that can be had. */
static struct coto_sandbox *ask_limits(struct api_job *job)
{
    struct api_job more = {.api = job->api, .channel = job->channel, .in_fd = -1, .plan = {.rootfs = {.fd = -1}}};
    struct coto_sandbox *box = NULL;

    more.body = json_pack("{s:s, s:{s:f, s:i, s:s}}", "code", "", "resource_limits", "cpu", 0.25, "iops", 1000, "cpu_time", "10s");
    if (!more.body || api_body_policy(&more, NULL) || api_body_code(&more) || api_box_new(&more, &more.plan, NULL, &box))
        box = NULL;
    json_decref(more.body);
    coto_plan_fini(&more.plan);
    coto_policy_fini(&more.policy);
    coto_buf_fini(&more.code);
    return box;
}

/* False: some of it may be otherwise in a moment. */
static bool say_all(struct api_job *job, bool has_standard, bool has_high, const struct coto_err *why, const struct coto_self *launcher)
{
    struct coto_sandbox *asked = has_standard ? ask_limits(job) : NULL;

    say_capabilities(job, asked, has_high, why, launcher);
    if (asked)
        asked->driver->destroy(asked, NULL);
    return asked || !has_standard;
}

/* Not what the host is thought to give: what a sandbox of the default policy has got, and one that asks for more limits.
 * Returns for how long the reply is good. */
static int64_t try_one(struct api_job *job)
{
    static const char code[] = "pass";
    bool is_all = false;
    bool has_standard = coto_ceiling_has_word(job->api->config.levels, "standard");
    job->body = json_pack("{s:s, s:s}", "code", code, "isolation_level", has_standard ? "standard" : "high");
    if (!job->body || api_body_policy(job, NULL) || api_body_code(job) ||
        api_box_new(job, &job->plan, NULL, &job->box))
        return 0;
    struct coto_run_in in = {.sandbox = job->box, .first_proc = 1};
    struct coto_err why = {0};
    struct coto_self launcher;
    api_run_plan(job, &in);
    bool has_high = ask_high(job, *job->channel, &why);
    if (!job->err.kind && !coto_launch_get_self(*job->channel, &launcher, &job->err))
        is_all = say_all(job, has_standard, has_high, &why, &launcher);
    coto_launch_use(job->box, *job->channel, &job->plan); /* there may be a new launcher by now */
    job->box->driver->destroy(job->box, NULL);
    return job->err.kind ? 0 : is_all ? TOLD_MS : TOLD_PART_MS;
}

/* With the lock held. In a job of its own: whoever asks and goes away at once would else have it begun anew each time. */
static void try_for_all(struct api_job *job)
{
    struct coto_api *api = job->api;
    struct api_job trial = {.api = api, .in_fd = -1, .cancel_fd = -1, .channel = job->channel, .life = job->life,
                            .plan = {.rootfs = {.fd = -1}}};

    api->told_turn = api->pool_turn;
    int64_t good_ms = try_one(&trial);
    job->err = trial.err;
    job->life = api->told_life = trial.life;
    coto_buf_fini(&api->told);
    api->told = trial.reply;
    api->told_until_us = trial.reply.failed ? 0 : coto_clock_us() + good_ms * 1000;
    if (trial.has_result)
        coto_result_fini(&trial.result);
    json_decref(trial.body);
    coto_plan_fini(&trial.plan);
    coto_policy_fini(&trial.policy);
    coto_buf_fini(&trial.code);
}

/* Its two sandboxes count against nobody. So there is one reply for all who ask within some seconds, and whoever asks
 * meanwhile waits for it; the next launcher, or other settings, may have another one. */
static void tell(struct api_job *job, int channel_fd)
{
    struct coto_api *api = job->api;

    (void)channel_fd; /* may be another one by then: the job knows */
    pthread_mutex_lock(&api->told_lock);
    if (coto_clock_us() >= api->told_until_us || api->told_life != api->life || api->told_turn != api->pool_turn)
        try_for_all(job);
    if (!job->err.kind)
        coto_buf_add(&job->reply, api->told.data, api->told.len);
    pthread_mutex_unlock(&api->told_lock);
}

void coto_api_capabilities(struct api_call *call)
{
    struct api_job *job = api_job_new(call);

    if (!job)
        return;
    job->run = tell;
    job->done = nothing;
    api_submit(job);
}
