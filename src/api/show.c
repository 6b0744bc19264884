/* What callers are told of a sandbox: what holds in it, what does not, and until when. */
#include "api/api.h"

#include "base/units.h"
#include "schema/walls.h"

#include <string.h>

/* With three digits behind the point. */
static void write_limit(struct coto_json *json, const char *key, int64_t value, int64_t unit)
{
    if (value == COTO_UNIT_NONE)
        coto_json_null(json, key);
    else if (unit == 1)
        coto_json_int(json, key, value);
    else
        coto_json_ms(json, key, value / unit * 1000 + value % unit * 1000 / unit);
}

coto_wallset api_missing_walls(const struct coto_sandbox *box)
{
    coto_wallset missing = 0;

    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (box->walls[i].wanted && !box->walls[i].up)
            missing |= (coto_wallset)1 << i;
    return missing;
}

void api_sandbox_note_missing(struct api_sandbox *s)
{
    s->knows_missing = s->box;
    s->missing = s->box ? api_missing_walls(s->box) : ~(coto_wallset)0;
}

void api_write_limits(const struct coto_plan *plan, coto_wallset missing, struct coto_json *json)
{
    const struct {
        const char *name;
        int64_t value, unit;
        enum coto_wall wall;
    } rows[] = {
        {"timeout_seconds", plan->timeout_ms, 1000, COTO_WALL_TIMEOUT}, {"memory_mb", plan->memory_bytes, COTO_MB, COTO_WALL_MEMORY},
        {"cpu", plan->cpus_milli, 1000, COTO_WALL_CPU},                 {"pids", plan->pids, 1, COTO_WALL_PIDS},
        {"disk_mb", plan->disk_bytes, COTO_MB, COTO_WALL_DISK},         {"tmp_mb", plan->tmp_bytes, COTO_MB, COTO_WALL_DISK},
        {"ptys", plan->ptys, 1, COTO_WALL_MOUNTNS},                     {"output_bytes", plan->output_bytes, 1, COTO_WALL_OUTPUT},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        write_limit(json, rows[i].name, missing >> rows[i].wall & 1 ? COTO_UNIT_NONE : rows[i].value, rows[i].unit);
}

static void write_missing(const struct api_sandbox *s, struct coto_json *json)
{
    if (!s->knows_missing) {
        coto_json_null(json, "missing_walls");
        return;
    }
    coto_json_begin(json, "missing_walls", '[');
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (s->missing >> i & 1)
            coto_json_str(json, NULL, coto_walls[i].name);
    coto_json_end(json, ']');
}

static void write_times(const struct coto_api *api, const struct api_sandbox *s, struct coto_json *json)
{
    coto_json_str(json, "created_at", s->created_at);
    coto_json_int(json, "lifetime_seconds", api_lifetime_ms(api, s) / 1000);
    coto_json_int(json, "idle_seconds", api_idle_ms(api, s) / 1000);
    coto_json_bool(json, "destroy_after_execution", s->is_single);
}

void api_write_created(const struct coto_api *api, const struct api_sandbox *s, struct coto_buf *out)
{
    struct coto_json json = {.out = out};

    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "sandbox_id", s->id);
    coto_json_str(&json, "access_token", s->token);
    write_times(api, s, &json);
    write_missing(s, &json);
    coto_json_end(&json, '}');
    coto_buf_addc(out, '\n');
}

void api_write_sandbox(const struct coto_api *api, const struct api_sandbox *s, struct coto_json *json)
{
    static const char *const states[] = {"idle", "busy", "ending"};

    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "sandbox_id", s->id);
    coto_json_str(json, "agent_id", s->agent[0] ? s->agent : NULL);
    coto_json_str(json, "state", states[s->state]);
    write_times(api, s, json);
    coto_json_int(json, "executions", s->executions);
    coto_json_str(json, "language", coto_policy_str(&s->policy, COTO_OPT_LANG));
    coto_json_str(json, "isolation_level", s->plan.isolation == COTO_ISOLATION_PROCESS ? "standard" : "high");
    coto_json_begin(json, "limits", '{');
    api_write_limits(&s->plan, s->missing, json);
    coto_json_end(json, '}');
    write_missing(s, json);
    coto_json_end(json, '}');
}

void coto_api_show(struct api_call *call)
{
    coto_auto_buf body = {0};
    struct coto_json json = {.out = &body};

    api_write_sandbox(call->api, api_sandbox_find(call->api, call->id), &json);
    coto_buf_addc(&body, '\n');
    api_reply(call->request, 200, &body);
}

void coto_api_list(struct api_call *call)
{
    coto_auto_buf body = {0};
    struct coto_json json = {.out = &body};

    coto_json_begin(&json, NULL, '{');
    coto_json_begin(&json, "sandboxes", '[');
    for (int i = 0; i < API_BUCKETS; i++)
        for (const struct api_sandbox *s = call->api->buckets[i]; s; s = s->next)
            if (strcmp(s->tenant, call->caller.tenant) == 0)
                api_write_sandbox(call->api, s, &json);
    coto_json_end(&json, ']');
    coto_json_end(&json, '}');
    coto_buf_addc(&body, '\n');
    api_reply(call->request, 200, &body);
}
