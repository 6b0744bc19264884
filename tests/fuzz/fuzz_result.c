/* The result object with everything a program can choose in it: output, names of artifacts,
 * numbers. It is one strict JSON value of valid UTF-8, in both forms, and says the same
 * every time. */
#include "report/json.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a strict reader of JSON: takes one value, or gives up ---- */

static const char *skip(const char *p)
{
    return p + strspn(p, " \n");
}

static const char *read_string(const char *p)
{
    if (*p++ != '"')
        abort();
    while (*p != '"') {
        if ((unsigned char)*p < 0x20)
            abort();
        bool is_escape = *p == '\\';
        if (is_escape && !strchr("\"\\/bfnrtu", *++p))
            abort();
        if (is_escape && *p == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") < 4)
            abort();
        p++;
    }
    return p + 1;
}

static const char *read_plain(const char *p)
{
    static const char *const words[] = {"true", "false", "null"};
    char *end;

    for (size_t i = 0; i < 3; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0)
            return p + strlen(words[i]);
    if (!strchr("-0123456789", *p))
        abort();
    (void)strtod(p, &end);
    if (end == p)
        abort();
    return end;
}

static const char *read_value(const char *p, int depth);

static const char *read_many(const char *p, char end, int depth)
{
    for (p = skip(p + 1); *p != end; p = skip(p)) {
        if (end == '}') {
            p = skip(read_string(p));
            if (*p++ != ':')
                abort();
        }
        p = skip(read_value(skip(p), depth + 1));
        if (*p == ',' && *skip(p + 1) != end)
            p++;
        else if (*p != end)
            abort();
    }
    return p + 1;
}

static const char *read_value(const char *p, int depth)
{
    if (depth > DEPTH_MAX)
        abort();
    if (*p == '{' || *p == '[')
        return read_many(p, *p == '{' ? '}' : ']', depth);
    return *p == '"' ? read_string(p) : read_plain(p);
}

/* ---- a result of these bytes ---- */

static void add_artifact(struct coto_result *result, const char *text, size_t len)
{
    static struct coto_artifact artifact;

    artifact = (struct coto_artifact){.name = strndup(text, len), .bytes = (int64_t)len,
                                      .type = "text/plain"};
    result->artifacts = malloc(sizeof artifact);
    if (!artifact.name || !result->artifacts)
        abort();
    result->artifacts[0] = artifact;
    result->artifact_count = 1;
}

static void check(const struct coto_result *result, bool pretty)
{
    coto_auto_buf once = {0};
    coto_auto_buf twice = {0};
    struct coto_json json = {.out = &once, .pretty = pretty};
    struct coto_json again = {.out = &twice, .pretty = pretty};

    coto_report_json(result, NULL, &json);
    coto_report_json(result, NULL, &again);
    if (once.failed || twice.failed)
        return;
    const char *text = coto_buf_str(&once);
    if (strlen(text) != once.len || !coto_utf8_valid(text, once.len) || *text != '{' ||
        *skip(read_value(text, 0)) || strcmp(text, coto_buf_str(&twice)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coto_result result = {.driver = "native", .stage = "run"};
    int64_t numbers[4] = {0};

    memcpy(numbers, data, size < sizeof numbers ? size : sizeof numbers);
    result.facts.exited = true;
    result.facts.wait_status = (int)numbers[0];
    result.facts.cause = (enum coto_end_cause)((uint64_t)numbers[1] % (COTO_END_LOST + 1));
    result.facts.usage.cpu_user_us = numbers[2];
    result.facts.usage.memory_peak_bytes = numbers[3];
    result.duration_us = numbers[1];
    coto_buf_add(&result.out.data, data, size);
    coto_buf_add(&result.err.data, data + size / 2, size - size / 2);
    result.out.seen = result.out.kept = (int64_t)size;
    add_artifact(&result, (const char *)data, size);
    coto_verdict_decide(&result.facts, &result);
    if ((unsigned)result.verdict >= COTO_VERDICT_COUNT || result.exit_status < 0 ||
        result.exit_status > 255)
        abort();
    check(&result, false);
    check(&result, true);
    coto_result_fini(&result);
    coto_result_fini(&result);
    return 0;
}
