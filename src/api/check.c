/* A request's JSON against the table of bodies: what passes has the right types and ranges, so
 * the code that reads it need not look again. Unknown fields are errors: a caller who
 * misspells a limit must hear of it, and nobody sets what is not offered. */
#include "api/api.h"

#include "policy/nearest.h"
#include "schema/bodies.h"

#include <stdio.h>
#include <string.h>

#define NAME 128

static int fail(struct api_job *job, const char *name, const char *why)
{
    snprintf(job->field, sizeof job->field, "%s", name);
    coto_err_set(&job->err, COTO_ERR_USAGE, 0, "%s: %s", name, why);
    return coto_err_remedy(&job->err, "GET /openapi.json has every field, its type and its range");
}

/* What a sandbox is made with, and what runs in it, are two requests. */
static const char *belongs(enum coto_body body, const char *key)
{
    bool is_of_run = coto_body_field(COTO_BODY_run, key);

    if (body == COTO_BODY_create && coto_body_field(COTO_BODY_execute, key))
        return "it goes to POST /api/v1/sandbox/{id}/execute once the sandbox is made, or to POST /api/v1/run";
    if (body == COTO_BODY_execute && is_of_run && coto_body_field(COTO_BODY_create, key))
        return "it goes to POST /api/v1/sandbox/create, when the sandbox is made, or to POST /api/v1/run";
    if ((body == COTO_BODY_execute || body == COTO_BODY_run) && coto_body_field(COTO_BODY_create, key))
        return "it goes to POST /api/v1/sandbox/create: the sandbox of a run ends with it";
    return NULL;
}

static int unknown(struct api_job *job, enum coto_body body, const char *prefix, const char *key)
{
    struct coto_nearest best = {0};
    char name[NAME];

    for (unsigned i = 0; i < coto_body_field_count; i++)
        if (coto_body_fields[i].bodies >> body & 1)
            coto_nearest_offer(&best, key, coto_body_fields[i].name);
    snprintf(name, sizeof name, "%s%.60s", prefix, *key ? key : "\"\"");
    const char *where = belongs(body, key);
    fail(job, name, where ? "no field of this request" : "no such field");
    if (where)
        return coto_err_remedy(&job->err, "%s", where);
    if (coto_limit_find(key) && coto_body_field(body, "resource_limits"))
        return coto_err_remedy(&job->err, "it goes into resource_limits: {\"resource_limits\": {\"%s\": ...}}", key);
    if (best.name)
        return coto_err_remedy(&job->err, "did you mean '%s'?", best.name);
    return coto_err_remedy(&job->err, "GET /openapi.json lists what there is");
}

/* ---- one value ---- */

static int check_text(struct api_job *job, const struct coto_body_field *field, const char *name,
                      const json_t *value)
{
    if (!json_is_string(value))
        return fail(job, name, "must be a text");
    size_t len = json_string_length(value);
    if ((int64_t)len < field->min)
        return fail(job, name, "must not be empty");
    if (field->max <= 0 || (int64_t)len <= field->max)
        return 0;
    char why[64];
    snprintf(why, sizeof why, "is too long: at most %lld bytes of UTF-8", (long long)field->max);
    return fail(job, name, why);
}

/* It is kept in records and told in logs, where a line's end or an escape would be another's words. */
static int check_name(struct api_job *job, const struct coto_body_field *field, const char *name,
                      const json_t *value)
{
    if (check_text(job, field, name, value))
        return -1;
    if (coto_utf8_is_plain(json_string_value(value), json_string_length(value)))
        return 0;
    return fail(job, name, "must not have control characters");
}

static int check_word(struct api_job *job, const struct coto_body_field *field, const char *name,
                      const json_t *value)
{
    const char *text = json_string_value(value);
    size_t len = text ? strlen(text) : 0;
    char why[160];

    for (const char *p = field->words; text && *p; p += strcspn(p, "|"), p += *p == '|')
        if (strcspn(p, "|") == len && strncmp(p, text, len) == 0)
            return 0;
    snprintf(why, sizeof why, "must be one of %s", field->words);
    return fail(job, name, why);
}

static int check_number(struct api_job *job, const struct coto_body_field *field, const char *name,
                        const json_t *value)
{
    double number = json_number_value(value);
    char why[96];

    if (json_is_number(value) && number > (double)field->min && number <= (double)field->max)
        return 0;
    snprintf(why, sizeof why, "must be a number above %lld, at most %lld", (long long)field->min,
             (long long)field->max);
    return fail(job, name, why);
}

/* 60.0 is 60, as in body.c. */
static int check_int(struct api_job *job, const struct coto_body_field *field, const char *name,
                     const json_t *value)
{
    double number = json_number_value(value);
    char why[96];

    if (json_is_number(value) && number >= (double)field->min && number <= (double)field->max &&
        number == (double)(int64_t)number)
        return 0;
    snprintf(why, sizeof why, "must be a whole number from %lld to %lld", (long long)field->min,
             (long long)field->max);
    return fail(job, name, why);
}

static int check_texts(struct api_job *job, const struct coto_body_field *field, const char *name,
                       const json_t *value)
{
    const json_t *item;
    size_t i;
    char one[NAME];

    if (!json_is_array(value))
        return fail(job, name, "must be a list of texts");
    if (field->max > 0 && (int64_t)json_array_size(value) > field->max)
        return fail(job, name, "has too many items");
    json_array_foreach (value, i, item)
        if (!json_is_string(item)) {
            snprintf(one, sizeof one, "%s[%zu]", name, i);
            return fail(job, one, "must be a text");
        }
    return 0;
}

static int check_pairs(struct api_job *job, const struct coto_body_field *field, const char *name,
                       json_t *value)
{
    const char *key;
    json_t *item;
    char one[NAME];

    if (!json_is_object(value))
        return fail(job, name, "must be an object of texts");
    if (field->max > 0 && (int64_t)json_object_size(value) > field->max)
        return fail(job, name, "has too many items");
    json_object_foreach (value, key, item)
        if (!json_is_string(item)) {
            snprintf(one, sizeof one, "%s.%.60s", name, key);
            return fail(job, one, "must be a text");
        }
    return 0;
}

/* "memory" and "memory_mb": which of the two would hold is nobody's guess. */
static bool is_said_before(json_t *limits, const char *key, const struct coto_limit_row *limit)
{
    const char *other;
    json_t *item;

    json_object_foreach (limits, other, item) {
        const struct coto_limit_row *row = coto_limit_find(other);
        if (strcmp(other, key) == 0)
            return false;
        if (row && row->opt == limit->opt)
            return true;
    }
    return false;
}

static int unknown_limit(struct api_job *job, const char *name, const char *key)
{
    struct coto_nearest best = {0};

    for (unsigned i = 0; i < coto_limit_count; i++)
        coto_nearest_offer(&best, key, coto_limits[i].name);
    fail(job, name, "no such limit");
    if (coto_body_field(COTO_BODY_run, key) || strcmp(key, "timeout") == 0)
        return coto_err_remedy(&job->err, "it goes beside resource_limits: %s", strcmp(key, "timeout") == 0 ? "timeout_seconds" : key);
    if (best.name)
        return coto_err_remedy(&job->err, "did you mean '%s'?", best.name);
    return coto_err_remedy(&job->err, "GET /openapi.json lists what there is");
}

static int check_limits(struct api_job *job, const char *name, json_t *value)
{
    const char *key;
    json_t *item;
    char full[NAME];

    if (!json_is_object(value))
        return fail(job, name, "must be an object");
    json_object_foreach (value, key, item) {
        const struct coto_limit_row *limit = coto_limit_find(key);
        bool is_bool = limit && coto_options[limit->opt].type == COTO_TYPE_BOOL;
        snprintf(full, sizeof full, "%s.%.60s", name, key);
        if (!limit)
            return unknown_limit(job, full, key);
        if (is_bool ? !json_is_boolean(item) : !json_is_string(item) && !json_is_number(item))
            return fail(job, full,
                        is_bool ? "must be true or false" : "must be a number or a text");
        if (is_said_before(value, key, limit))
            return fail(job, full, "says what another name in it says already");
    }
    return 0;
}

/* ---- objects ---- */

static int check_object(struct api_job *job, enum coto_body body, const char *prefix,
                        json_t *object);

static int check_list(struct api_job *job, const struct coto_body_field *field, const char *name,
                      json_t *value)
{
    json_t *item;
    size_t i;
    char prefix[NAME];

    if (!json_is_array(value))
        return fail(job, name, "must be a list");
    if (field->max > 0 && (int64_t)json_array_size(value) > field->max)
        return fail(job, name, "has too many items");
    json_array_foreach (value, i, item) {
        snprintf(prefix, sizeof prefix, "%s[%zu]", name, i);
        if (!json_is_object(item))
            return fail(job, prefix, "must be an object");
        snprintf(prefix, sizeof prefix, "%s[%zu].", name, i);
        if (check_object(job, field->of, prefix, item))
            return -1;
    }
    return 0;
}

static int check_value(struct api_job *job, const struct coto_body_field *field, const char *name,
                       json_t *value)
{
    if (json_is_null(value) && field->flags & COTO_FIELD_NULL)
        return 0;
    switch (field->kind) {
    case COTO_KIND_TEXT:
        return check_text(job, field, name, value);
    case COTO_KIND_NAME:
        return check_name(job, field, name, value);
    case COTO_KIND_WORD:
        return check_word(job, field, name, value);
    case COTO_KIND_INT:
        return check_int(job, field, name, value);
    case COTO_KIND_NUMBER:
        return check_number(job, field, name, value);
    case COTO_KIND_BOOL:
        return json_is_boolean(value) ? 0 : fail(job, name, "must be true or false");
    case COTO_KIND_TEXTS:
        return check_texts(job, field, name, value);
    case COTO_KIND_PAIRS:
        return check_pairs(job, field, name, value);
    case COTO_KIND_LIST:
        return check_list(job, field, name, value);
    case COTO_KIND_LIMITS:
        return check_limits(job, name, value);
    case COTO_KIND_ANY:
        return 0;
    default:
        return fail(job, name, "is not for requests");
    }
}

static int check_object(struct api_job *job, enum coto_body body, const char *prefix,
                        json_t *object)
{
    const char *key;
    json_t *value;
    char name[NAME];

    json_object_foreach (object, key, value) {
        const struct coto_body_field *field = coto_body_field(body, key);
        if (!field)
            return unknown(job, body, prefix, key);
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (check_value(job, field, name, value))
            return -1;
    }
    for (unsigned i = 0; i < coto_body_field_count; i++) {
        const struct coto_body_field *field = &coto_body_fields[i];
        if (!(field->bodies >> body & 1) || !(field->flags & COTO_FIELD_MUST) ||
            json_object_get(object, field->name))
            continue;
        snprintf(name, sizeof name, "%s%s", prefix, field->name);
        return fail(job, name, "is missing");
    }
    return 0;
}

int api_check(struct api_job *job, enum coto_body body)
{
    return check_object(job, body, "", job->body);
}
