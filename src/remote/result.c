#include "remote/result.h"

#include "report/escape.h"
#include "schema/options.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 1e15

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* -1: unknown, or none that can be. */
static int64_t number_of(const json_t *object, const char *key, int factor)
{
    const json_t *value = json_object_get(object, key);
    double number = json_number_value(value) * factor;

    return json_is_number(value) && number >= 0 && number < NUMBER_MAX ? (int64_t)number : -1;
}

static int64_t count_of(const json_t *object, const char *key)
{
    int64_t count = number_of(object, key, 1);

    return count < 0 ? 0 : count;
}

static int take_verdict(const json_t *object, struct coto_result *result)
{
    const char *word = text_of(object, "verdict");
    const char *limit = text_of(object, "limit");
    int opt = coto_opt_find(limit, strlen(limit));

    for (int i = 0; i < COTO_VERDICT_COUNT; i++) {
        if (strcmp(word, coto_verdict_word((enum coto_verdict)i)) != 0)
            continue;
        result->verdict = (enum coto_verdict)i;
        result->limit = opt < 0 ? NULL : coto_options[opt].name;
        result->stage = strcmp(text_of(object, "stage"), "build") == 0 ? "build" : "run";
        return 0;
    }
    return -1;
}

static void take_usage(const json_t *object, struct coto_result *result)
{
    struct coto_usage *usage = &result->facts.usage;
    const json_t *cpu = json_object_get(object, "cpu_ms");

    result->duration_us = number_of(object, "duration_ms", 1000);
    if (result->duration_us < 0)
        result->duration_us = 0;
    usage->cpu_user_us = number_of(cpu, "user", 1000);
    usage->cpu_system_us = number_of(cpu, "system", 1000);
    usage->memory_peak_bytes = number_of(object, "memory_peak_bytes", 1);
}

static void take_wall(const json_t *object, struct coto_wall_state *wall)
{
    struct coto_escape escape = {0};
    coto_auto_buf note = {0};
    const char *text = text_of(object, "note");

    wall->wanted = json_is_true(json_object_get(object, "wanted"));
    wall->up = json_is_true(json_object_get(object, "up"));
    snprintf(wall->value, sizeof wall->value, "%s", text_of(object, "value"));
    coto_escape_add(&escape, text, strlen(text), &note);
    coto_escape_end(&escape, &note);
    snprintf(wall->note, sizeof wall->note, "%s", coto_buf_str(&note));
}

static void take_stream(const json_t *object, const char *name, struct coto_stream_result *stream)
{
    char key[32];

    snprintf(key, sizeof key, "%s_bytes_seen", name);
    stream->seen = count_of(object, key);
    snprintf(key, sizeof key, "%s_bytes_kept", name);
    stream->kept = count_of(object, key);
    snprintf(key, sizeof key, "%s_truncated", name);
    stream->truncated = json_is_true(json_object_get(object, key));
}

int coto_remote_result(const json_t *object, struct coto_result *ret_result)
{
    struct coto_result result = {0};
    const json_t *walls = json_object_get(object, "walls");

    if (take_verdict(object, &result))
        return -1;
    result.exit_code = (int)number_of(object, "exit_code", 1);
    result.signal = (int)count_of(object, "signal");
    take_usage(object, &result);
    take_stream(object, "stdout", &result.out);
    take_stream(object, "stderr", &result.err);
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        take_wall(json_object_get(walls, coto_walls[i].name), &result.walls[i]);
    *ret_result = result;
    return 0;
}
