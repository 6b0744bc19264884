/* From a JSON body to a policy and to code. Unknown keys are errors: a caller who misspells
 * a limit must hear of it. Runs on a worker. */
#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What a caller may set; the rest is the operator's. */
static const enum coto_opt allowed[] = {
    COTO_OPT_TIMEOUT, COTO_OPT_CPU_TIME, COTO_OPT_MEMORY,       COTO_OPT_SWAP,   COTO_OPT_CPUS,
    COTO_OPT_PIDS,    COTO_OPT_DISK,     COTO_OPT_INODES,       COTO_OPT_NOFILE, COTO_OPT_FSIZE,
    COTO_OPT_IOPS,    COTO_OPT_TMP_SIZE,      COTO_OPT_OUTPUT_LIMIT, COTO_OPT_NOEXEC,
};

static int fail(struct api_job *job, const char *field, const char *what)
{
    snprintf(job->field, sizeof job->field, "%s", field);
    coto_err_set(&job->err, COTO_ERR_USAGE, 0, "%s: %s", field, what);
    return -1;
}

/* ---- values as the text a policy reads ---- */

static int value_text(const json_t *value, char *to, size_t size)
{
    if (json_is_string(value))
        return snprintf(to, size, "%s", json_string_value(value)) < (int)size ? 0 : -1;
    if (json_is_integer(value))
        return snprintf(to, size, "%lld", (long long)json_integer_value(value)) < (int)size ? 0 : -1;
    if (json_is_real(value))
        return snprintf(to, size, "%.3f", json_real_value(value)) < (int)size ? 0 : -1;
    if (json_is_boolean(value))
        return snprintf(to, size, "%s", json_is_true(value) ? "true" : "false") < (int)size ? 0 : -1;
    return -1;
}

static int set_option(struct api_job *job, enum coto_opt opt, const char *field, const char *text)
{
    if (coto_policy_set(&job->policy, opt, text, COTO_SOURCE_FLAG, field, &job->err) == 0)
        return 0;
    snprintf(job->field, sizeof job->field, "%s", field);
    return -1;
}

static int set_limit(struct api_job *job, const char *key, const json_t *value)
{
    char text[128];
    char name[64];

    snprintf(name, sizeof name, "resource_limits.%.40s", key);
    if (value_text(value, text, sizeof text))
        return fail(job, name, "must be a number or a text");
    /* The names other services use, in their units. */
    if (strcmp(key, "memory_mb") == 0 || strcmp(key, "disk_mb") == 0) {
        strncat(text, "m", sizeof text - strlen(text) - 1);
        return set_option(job, key[0] == 'm' ? COTO_OPT_MEMORY : COTO_OPT_DISK, name, text);
    }
    if (strcmp(key, "cpu") == 0)
        key = "cpus";
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        const char *own = coto_options[allowed[i]].name;
        char other[64];
        snprintf(other, sizeof other, "%s", own);
        for (char *p = other; *p; p++)
            *p = *p == '-' ? '_' : *p;
        if (strcmp(key, own) == 0 || strcmp(key, other) == 0)
            return set_option(job, allowed[i], name, text);
    }
    return fail(job, name, "no such limit (see GET /openapi.json)");
}

static int set_limits(struct api_job *job, json_t *limits)
{
    const char *key;
    json_t *value;

    if (!json_is_object(limits))
        return fail(job, "resource_limits", "must be an object");
    json_object_foreach(limits, key, value)
        if (set_limit(job, key, value))
            return -1;
    return 0;
}

static int set_env(struct api_job *job, json_t *env)
{
    const char *key;
    json_t *value;

    if (!json_is_object(env))
        return fail(job, "env", "must be an object of texts");
    json_object_foreach(env, key, value) {
        coto_auto_buf item = {0};
        if (!json_is_string(value))
            return fail(job, "env", "must be an object of texts");
        coto_buf_addf(&item, "%s=%s", key, json_string_value(value));
        if (set_option(job, COTO_OPT_ENV, "env", coto_buf_str(&item)))
            return -1;
    }
    return 0;
}

static int set_timeout(struct api_job *job, const json_t *value)
{
    char text[32];

    if (!json_is_number(value) || json_number_value(value) <= 0 || json_number_value(value) > 300)
        return fail(job, "timeout_seconds", "must be a number above 0, at most 300");
    snprintf(text, sizeof text, "%lldms", (long long)(json_number_value(value) * 1000 + 0.5));
    return set_option(job, COTO_OPT_TIMEOUT, "timeout_seconds", text);
}

/* The level is the process level; what only a stronger one could give is refused. */
static int set_isolation(struct api_job *job, const json_t *value)
{
    const char *text = json_string_value(value);

    if (text && strcmp(text, "standard") == 0)
        return 0;
    if (text && strcmp(text, "high") == 0) {
        snprintf(job->field, sizeof job->field, "isolation_level");
        coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0,
                     "isolation_level: this host has no level above \"standard\"");
        return coto_err_remedy(&job->err, "see GET /api/v1/capabilities");
    }
    return fail(job, "isolation_level", "must be \"standard\" or \"high\"");
}

static int set_text(struct api_job *job, enum coto_opt opt, const char *field, const json_t *value)
{
    if (!json_is_string(value))
        return fail(job, field, "must be a text");
    return set_option(job, opt, field, json_string_value(value));
}

/* Keys that api_body_code reads. */
static bool is_code_key(const char *key)
{
    static const char *const keys[] = {"code", "input", "stdin", "args", "files", "agent_id"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static int take_key(struct api_job *job, const char *key, json_t *value)
{
    if (strcmp(key, "language") == 0)
        return set_text(job, COTO_OPT_LANG, key, value);
    if (strcmp(key, "timeout_seconds") == 0)
        return set_timeout(job, value);
    if (strcmp(key, "resource_limits") == 0)
        return set_limits(job, value);
    if (strcmp(key, "env") == 0)
        return set_env(job, value);
    if (strcmp(key, "isolation_level") == 0)
        return set_isolation(job, value);
    if (strcmp(key, "cold") == 0) {
        job->cold = json_is_true(value);
        return json_is_boolean(value) ? 0 : fail(job, key, "must be true or false");
    }
    if (is_code_key(key) || strcmp(key, "profile") == 0)
        return 0;
    char text[96];
    snprintf(text, sizeof text, "%.60s", key);
    return fail(job, text, "no such field");
}

static int copy_policy(struct api_job *job, const struct coto_policy *from)
{
    if (coto_policy_init(&job->policy, &job->err))
        return -1;
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        coto_auto_buf text = {0};
        if (from->v[i].source == COTO_SOURCE_DEFAULT)
            continue;
        if (from->v[i].list.count == 0) {
            coto_policy_value_text(from, (enum coto_opt)i, &text);
            if (coto_policy_set(&job->policy, (enum coto_opt)i, coto_buf_str(&text),
                                from->v[i].source, from->v[i].origin, &job->err))
                return -1;
        }
        for (size_t k = 0; k < from->v[i].list.count; k++)
            if (coto_policy_set(&job->policy, (enum coto_opt)i, from->v[i].list.items[k],
                                from->v[i].source, from->v[i].origin, &job->err))
                return -1;
    }
    return 0;
}

int api_body_policy(struct api_job *job, const struct coto_policy *from)
{
    const json_t *profile = json_object_get(job->body, "profile");
    const char *name = job->api->config.profile;
    const char *key;
    json_t *value;

    if (profile && !json_is_string(profile))
        return fail(job, "profile", "must be a text");
    if (profile)
        name = json_string_value(profile);
    if (from ? copy_policy(job, from)
             : coto_policy_init(&job->policy, &job->err) ||
                   coto_policy_apply_profile(&job->policy, name, &job->err)) {
        snprintf(job->field, sizeof job->field, "profile");
        return -1;
    }
    json_object_foreach(job->body, key, value)
        if (take_key(job, key, value))
            return -1;
    return 0;
}

/* ---- what runs ---- */

/* input reaches the code as JSON on its stdin, unless stdin is given too. */
static int take_input(struct api_job *job)
{
    json_t *input = json_object_get(job->body, "input");
    const json_t *in = json_object_get(job->body, "stdin");

    if (in && !json_is_string(in))
        return fail(job, "stdin", "must be a text");
    if (in) {
        coto_buf_add(&job->input, json_string_value(in), json_string_length(in));
    } else if (input) {
        char *text = json_dumps(input, JSON_ENCODE_ANY | JSON_COMPACT);
        coto_buf_adds(&job->input, text ? text : "");
        free(text);
    }
    if (job->input.len == 0)
        return 0;
    job->in_fd = memfd_create("coto-stdin", MFD_CLOEXEC);
    if (job->in_fd < 0 || job->input.failed ||
        pwrite(job->in_fd, job->input.data, job->input.len, 0) != (ssize_t)job->input.len)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, errno, "keep the input");
    return 0;
}

static int take_args(struct api_job *job, struct coto_strv *args)
{
    const json_t *list = json_object_get(job->body, "args");
    const json_t *item;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list))
        return fail(job, "args", "must be a list of texts");
    json_array_foreach(list, i, item)
        if (!json_is_string(item) || coto_strv_add(args, json_string_value(item)))
            return fail(job, "args", "must be a list of texts");
    return 0;
}

int api_body_code(struct api_job *job)
{
    const json_t *code = json_object_get(job->body, "code");
    coto_auto_strv args = {0};

    if (!json_is_string(code))
        return fail(job, "code", code ? "must be a text" : "is missing");
    if (!*coto_policy_str(&job->policy, COTO_OPT_LANG) &&
        set_option(job, COTO_OPT_LANG, "language", "python"))
        return -1;
    if (take_input(job) || take_args(job, &args))
        return -1;
    const struct coto_source_code source = {.text = json_string_value(code),
                                            .text_len = json_string_length(code),
                                            .argv = (const char *const *)args.items};
    if (coto_policy_check(&job->policy, &job->err) ||
        coto_plan_make(&job->policy, &source, &job->plan, &job->err))
        return -1;
    return 0;
}
