/* Requests to the service as strangers write them, past HTTP: query, JSON body, policy, files. What
 * passes the table has its types and ranges and becomes a policy that is nowhere above the
 * operator's ceiling and differs from its profile only in what the body names; what does not is
 * refused with words and a field. The first byte chooses the body, the second the query's
 * length. */
#include "api/api.h"
#include "base/units.h"
#include "http/conn.h"
#include "schema/bodies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static const char *const profiles[] = {"default", "enis", NULL};
static const char *const levels[] = {"standard", NULL};

/* ---- the service ---- */

static struct coto_policy *get_ceiling(void)
{
    static struct coto_policy ceiling;
    static bool is_made;
    struct coto_err err = {0};

    if (!is_made)
        must(coto_ceiling_init(&ceiling, &err) == 0 &&
             coto_ceiling_lower(&ceiling, COTO_OPT_MEMORY, "max-memory", "256m", &err) == 0 &&
             coto_ceiling_lower(&ceiling, COTO_OPT_TIMEOUT, "max-timeout", "20s", &err) == 0 &&
             coto_ceiling_lower(&ceiling, COTO_OPT_OUTPUT_LIMIT, "max-output", "1m", &err) == 0);
    is_made = true;
    return &ceiling;
}

static const struct coto_endpoint *endpoint_of(unsigned choice)
{
    static const enum coto_body bodies[] = {COTO_BODY_run, COTO_BODY_create, COTO_BODY_execute,
                                            COTO_BODY_revoke};

    for (size_t i = 0; i < COTO_ENDPOINT_COUNT; i++)
        if (coto_endpoints[i].request == bodies[choice % 4])
            return &coto_endpoints[i];
    abort();
}

/* ---- query ---- */

static void check_refusal(const struct coto_err *err, const char *field)
{
    must(err->kind != COTO_ERR_NONE && err->text[0] && strlen(field) < 64);
}

static void check_query(const struct api_call *call)
{
    struct coto_err err = {0};
    char name[64] = "";

    if (api_query_check(call, name, &err)) {
        check_refusal(&err, name);
        must(name[0]);
    } else {
        must(api_query_stream(call) >= 0);
    }
}

/* ---- body ---- */

/* Whether the value lies in its row, by another reading of the table. */
static void check_field(const struct coto_body_field *field, json_t *value)
{
    const size_t len = json_string_length(value);

    if (json_is_null(value) && field->flags & COTO_FIELD_NULL)
        return;
    switch ((int)field->kind) {
    case COTO_KIND_NAME:
        for (size_t i = 0; i < len; i++)
            must((unsigned char)json_string_value(value)[i] >= 0x20);
        /* fall through */
    case COTO_KIND_TEXT:
        must(json_is_string(value) && (field->max == 0 || (int64_t)len <= field->max));
        must((int64_t)len >= field->min);
        break;
    case COTO_KIND_NUMBER:
        must(json_is_number(value) && isfinite(json_number_value(value)));
        must(json_number_value(value) > (double)field->min &&
             json_number_value(value) <= (double)field->max);
        break;
    case COTO_KIND_BOOL:
        must(json_is_boolean(value));
        break;
    case COTO_KIND_WORD:
        must(json_is_string(value) && len && strstr(field->words, json_string_value(value)));
        break;
    case COTO_KIND_TEXTS:
    case COTO_KIND_LIST:
        must(json_is_array(value) && (int64_t)json_array_size(value) <= field->max);
        break;
    case COTO_KIND_PAIRS:
    case COTO_KIND_LIMITS:
        must(json_is_object(value));
        break;
    default:
        must(field->kind == COTO_KIND_ANY);
    }
}

static void check_object(enum coto_body body, json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach (object, key, value) {
        const struct coto_body_field *field = coto_body_field(body, key);
        must(field != NULL);
        check_field(field, value);
        const json_t *item;
        size_t i;
        if (field->kind == COTO_KIND_LIST)
            json_array_foreach (value, i, item)
                check_object(field->of, (json_t *)(uintptr_t)item);
    }
    for (unsigned i = 0; i < coto_body_field_count; i++)
        if (coto_body_fields[i].bodies >> body & 1 && coto_body_fields[i].flags & COTO_FIELD_MUST)
            must(json_object_get(object, coto_body_fields[i].name) != NULL);
}

/* ---- policy ---- */

static bool is_named(json_t *body, enum coto_opt opt)
{
    const char *key;
    json_t *value;

    json_object_foreach (json_object_get(body, "resource_limits"), key, value)
        if (coto_limit_find(key) && coto_limit_find(key)->opt == opt)
            return true;
    return (opt == COTO_OPT_TIMEOUT && json_object_get(body, "timeout_seconds")) ||
           (opt == COTO_OPT_ENV && json_object_get(body, "env")) || opt == COTO_OPT_LANG ||
           opt == COTO_OPT_ISOLATION;
}

static void check_policy(const struct api_job *job, const struct coto_policy *ceiling)
{
    const char *profile = json_string_value(json_object_get(job->body, "profile"));
    struct coto_policy base;
    struct coto_err err = {0};

    must(!profile || strcmp(profile, "default") == 0 || strcmp(profile, "enis") == 0);
    must(coto_policy_init(&base, &err) == 0);
    must(coto_policy_apply_profile(&base, profile ? profile : "default", &err) == 0);
    must(coto_policy_num(&job->policy, COTO_OPT_ISOLATION) == COTO_ISOLATION_PROCESS);
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        int64_t most = coto_policy_num(ceiling, (enum coto_opt)i);
        int64_t was = coto_policy_num(&base, (enum coto_opt)i);
        int64_t num = coto_policy_num(&job->policy, (enum coto_opt)i);
        coto_auto_buf one = {0}, two = {0};
        bool has_ceiling = i == COTO_OPT_TIMEOUT;
        for (unsigned k = 0; k < coto_limit_count; k++)
            has_ceiling = has_ceiling || ((int)coto_limits[k].opt == i && *coto_limits[k].ceiling);
        must(!has_ceiling || (num <= most && num >= coto_options[i].min));
        if (is_named(job->body, (enum coto_opt)i) || (has_ceiling && was > most))
            continue;
        coto_policy_value_text(&base, (enum coto_opt)i, &one);
        coto_policy_value_text(&job->policy, (enum coto_opt)i, &two);
        must(num == was && strcmp(coto_buf_str(&one), coto_buf_str(&two)) == 0);
    }
    coto_policy_fini(&base);
}

/* ---- files ---- */

static void check_path(const char *path)
{
    size_t len = strlen(path);

    must(strncmp(path, "/workspace/", 11) == 0 || strncmp(path, "/tmp/", 5) == 0);
    must(!strstr(path, "/../") && !strstr(path, "/./") && !strstr(path, "//"));
    must(path[len - 1] != '/' && strcmp(path + len - 2, "/.") != 0 && strcmp(path + len - 3, "/..") != 0);
}

static void check_files(struct api_job *job)
{
    job->plan = (struct coto_plan){.workdir = strdup("/workspace"), .rootfs = {.fd = -1}, .image_lock = -1};
    if (api_body_files(job))
        check_refusal(&job->err, job->field);
    must(job->plan.file_count <= json_array_size(json_object_get(job->body, "files")));
    for (size_t i = 0; i < job->plan.file_count; i++) {
        check_path(job->plan.files[i].target);
        must(job->plan.files[i].mode == 0644 || job->plan.files[i].mode == 0755);
    }
    coto_plan_fini(&job->plan);
}

/* ---- all of it ---- */

static void check_body(struct api_call *call)
{
    struct api_job job = {.api = call->api, .in_fd = -1};
    enum coto_body body = call->endpoint->request;

    if (api_parse_body(&job, call)) {
        check_refusal(&job.err, job.field);
        must(job.err.kind == COTO_ERR_USAGE && (!job.body || job.field[0]));
    } else {
        check_object(body, job.body);
        if (body == COTO_BODY_run || body == COTO_BODY_create) {
            if (api_body_policy(&job, NULL) == 0)
                check_policy(&job, call->api->config.ceiling);
            else
                check_refusal(&job.err, job.field);
            coto_policy_fini(&job.policy);
        }
        if (body != COTO_BODY_revoke)
            check_files(&job);
    }
    json_decref(job.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct coto_api api; /* large */
    struct coto_http_request request = {0};
    struct api_call call = {.api = &api, .request = &request};

    if (size < 2)
        return 0;
    size_t query = data[1] < size - 2 ? data[1] : size - 2;
    api.config = (struct coto_api_config){.ceiling = get_ceiling(), .profiles = profiles,
                                          .levels = levels, .profile = "default"};
    api.config.high = (struct coto_api_high){.isolation = COTO_ISOLATION_PROCESS, .runtime = "", .image = ""};
    call.endpoint = endpoint_of(data[0]);
    request.text = calloc(1, query + 2);
    must(request.text != NULL);
    memcpy(request.text + 1, data + 2, query);
    request.head.query = 1;
    coto_buf_add(&request.body, data + 2 + query, size - 2 - query);
    check_query(&call);
    check_body(&call);
    coto_buf_fini(&request.body);
    free(request.text);
    return 0;
}
