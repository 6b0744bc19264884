#include "report/json.h"

#include "schema/options.h"

#include <stdio.h>
#include <string.h>

static void add_text_or_null(struct coto_json *json, const char *key, const char *text)
{
    coto_json_str(json, key, text && text[0] ? text : NULL);
}

/* -1 stands for "unknown" in facts. */
static void add_count(struct coto_json *json, const char *key, int64_t value)
{
    if (value < 0)
        coto_json_null(json, key);
    else
        coto_json_int(json, key, value);
}

static void add_ms(struct coto_json *json, const char *key, int64_t us)
{
    if (us < 0)
        coto_json_null(json, key);
    else
        coto_json_ms(json, key, us);
}

static void add_stream(struct coto_json *json, const char *name,
                       const struct coto_stream_result *stream)
{
    char key[32];

    coto_json_bytes(json, name, stream->data.data ? stream->data.data : "", stream->data.len);
    snprintf(key, sizeof key, "%s_bytes_seen", name);
    coto_json_int(json, key, stream->seen);
    snprintf(key, sizeof key, "%s_bytes_kept", name);
    coto_json_int(json, key, stream->kept);
    snprintf(key, sizeof key, "%s_truncated", name);
    coto_json_bool(json, key, stream->truncated);
}

void coto_report_json_artifact(const struct coto_artifact *artifact, struct coto_json *json)
{
    coto_json_begin(json, NULL, '{');
    coto_json_bytes(json, "name", artifact->name, strlen(artifact->name));
    coto_json_int(json, "bytes", artifact->bytes);
    add_text_or_null(json, "type", artifact->type);
    add_text_or_null(json, "sha256", artifact->sha256);
    if (artifact->is_kept)
        coto_json_bytes(json, "content", artifact->content.data ? artifact->content.data : "",
                        artifact->content.len);
    coto_json_end(json, '}');
}

void coto_report_json_artifacts(const struct coto_result *result, struct coto_json *json)
{
    coto_json_begin(json, "artifacts", '[');
    for (size_t i = 0; i < result->artifact_count; i++)
        coto_report_json_artifact(&result->artifacts[i], json);
    coto_json_end(json, ']');
    coto_json_int(json, "artifacts_skipped", result->artifacts_skipped);
}

static void add_wall(struct coto_json *json, const char *name, const struct coto_wall_state *state)
{
    coto_json_begin(json, name, '{');
    coto_json_bool(json, "up", state->up);
    coto_json_bool(json, "wanted", state->wanted);
    add_text_or_null(json, "mechanism", state->mechanism);
    add_text_or_null(json, "value", state->value);
    if (state->note[0])
        coto_json_str(json, "note", state->note);
    coto_json_end(json, '}');
}

void coto_report_json_walls(const struct coto_wall_state walls[COTO_WALL_COUNT],
                            struct coto_json *json)
{
    coto_json_begin(json, "walls", '{');
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        add_wall(json, coto_walls[i].name, &walls[i]);
    coto_json_end(json, '}');
    coto_report_json_missing(walls, json);
}

void coto_report_json_missing(const struct coto_wall_state walls[COTO_WALL_COUNT],
                              struct coto_json *json)
{
    coto_json_begin(json, "missing_walls", '[');
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (walls[i].wanted && !walls[i].up)
            coto_json_str(json, NULL, coto_walls[i].name);
    coto_json_end(json, ']');
}

static void add_cpu(struct coto_json *json, const struct coto_usage *usage)
{
    coto_json_begin(json, "cpu_ms", '{');
    add_ms(json, "user", usage->cpu_user_us);
    add_ms(json, "system", usage->cpu_system_us);
    coto_json_end(json, '}');
}

void coto_report_json_outcome(const struct coto_result *result, struct coto_json *json)
{
    coto_json_str(json, "verdict", coto_verdict_word(result->verdict));
    add_text_or_null(json, "limit", result->limit);
    add_text_or_null(json, "stage", result->stage);
    add_count(json, "exit_code", result->exit_code);
    add_count(json, "signal", result->signal > 0 ? result->signal : -1);
    coto_json_int(json, "exit_status", result->exit_status);
    coto_json_ms(json, "duration_ms", result->duration_us);
    add_cpu(json, &result->facts.usage);
    add_count(json, "memory_peak_bytes", result->facts.usage.memory_peak_bytes);
    add_count(json, "pids_peak", result->facts.usage.pids_peak);
    coto_json_int(json, "oom_kills", result->facts.usage.oom_kills);
}

static void add_plan(struct coto_json *json, const struct coto_plan *plan)
{
    coto_json_str(json, "isolation",
                  plan ? coto_opt_choice_name(COTO_OPT_ISOLATION, plan->isolation) : NULL);
    coto_json_str(json, "language", plan && plan->language ? plan->language->name : NULL);
}

void coto_report_json(const struct coto_result *result, const struct coto_plan *plan,
                      struct coto_json *json)
{
    coto_json_begin(json, NULL, '{');
    coto_json_int(json, "schema_version", COTO_RESULT_SCHEMA);
    coto_json_str(json, "execution_id", result->id);
    coto_json_str(json, "started_at", result->started_at);
    coto_report_json_outcome(result, json);
    add_stream(json, "stdout", &result->out);
    add_stream(json, "stderr", &result->err);
    coto_report_json_artifacts(result, json);
    coto_json_str(json, "driver", result->driver);
    coto_json_str(json, "runtime", result->runtime[0] ? result->runtime : NULL);
    add_plan(json, plan);
    add_text_or_null(json, "profile", result->profile);
    add_text_or_null(json, "policy_hash", result->policy_hash);
    add_text_or_null(json, "code_hash", result->code_hash);
    add_text_or_null(json, "seccomp_filter_hash", result->filter_hash);
    coto_report_json_walls(result->walls, json);
    coto_json_end(json, '}');
}
