/* From a JSON body, checked against its table (check.c), to a policy and to code. Runs on a
 * worker. */
#include "api/api.h"

#include "schema/bodies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* In a sandbox that is kept a main.py is somebody's own. */
#define OWN_PREFIX "coto-"

static int fail(struct api_job *job, const char *field, const char *what, const char *remedy)
{
    snprintf(job->field, sizeof job->field, "%s", field);
    coto_err_set(&job->err, COTO_ERR_USAGE, 0, "%s: %s", field, what);
    return coto_err_remedy(&job->err, "%s", remedy);
}

static const char *text_of(const struct api_job *job, const char *key)
{
    return json_string_value(json_object_get(job->body, key));
}

/* ---- values as the text a policy reads ---- */

/* 64.0 is 64: there are languages that know no other way to write it. */
static int real_text(double value, char *to, size_t size)
{
    bool is_whole = value > -1e15 && value < 1e15 && (double)(long long)value == value;

    return snprintf(to, size, "%.*f", is_whole ? 0 : 3, value);
}

static int value_text(const json_t *value, char *to, size_t size)
{
    int n =
        json_is_string(value)    ? snprintf(to, size, "%s", json_string_value(value))
        : json_is_integer(value) ? snprintf(to, size, "%lld", (long long)json_integer_value(value))
        : json_is_real(value)    ? real_text(json_real_value(value), to, size)
                                 : snprintf(to, size, "%s", json_is_true(value) ? "true" : "false");

    return n < (int)size ? 0 : -1;
}

static int set_option(struct api_job *job, enum coto_opt opt, const char *field, const char *text)
{
    if (coto_policy_set(&job->policy, opt, text, COTO_SOURCE_FLAG, field, &job->err) == 0)
        return 0;
    snprintf(job->field, sizeof job->field, "%s", field);
    coto_err_remedy(&job->err, "GET /openapi.json lists what there is");
    return -1;
}

/* What the operator allows at most. */
static int check_ceiling(struct api_job *job, enum coto_opt opt, const char *name)
{
    const struct coto_policy *ceiling = job->api->config.ceiling;
    coto_auto_buf most = {0};

    if (coto_policy_num(&job->policy, opt) <= coto_policy_num(ceiling, opt))
        return 0;
    coto_policy_value_text(ceiling, opt, &most);
    snprintf(job->field, sizeof job->field, "%s", name);
    coto_err_set(&job->err, COTO_ERR_POLICY, 0, "%s: the service allows %s at most", name,
                 coto_buf_str(&most));
    return coto_err_remedy(&job->err, "ask for less: `at_most` in GET /api/v1/capabilities");
}

/* MiB as bytes: 256, 0.0625 or "256", but not "256m". */
static int megabytes_text(const json_t *value, char *to, size_t size)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    double number = text ? strtod(text, &end) : json_number_value(value);

    if (text && (!*text || text[strspn(text, "0123456789.")] || *end))
        return -1;
    return snprintf(to, size, "%.0f", number * (double)COTO_MB) < (int)size ? 0 : -1;
}

/* In the caller's own words, and with what this service allows. */
static int refuse_limit(struct api_job *job, const struct coto_limit_row *limit, const char *name,
                        const json_t *value)
{
    const struct coto_policy *ceiling = job->api->config.ceiling;
    const char *text = json_string_value(value);
    coto_auto_buf allowed = {0};
    char number[64];
    size_t len = text ? 0 : json_dumpb(value, number, sizeof number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    number[len < sizeof number ? len : 0] = '\0';
    if (*limit->unit)
        coto_buf_addf(&allowed, "a number of MiB, %g to %lld, for example 256",
                      (double)coto_options[limit->opt].min / COTO_MB,
                      (long long)(coto_policy_num(ceiling, limit->opt) / COTO_MB));
    else
        coto_policy_allowed(ceiling, limit->opt, &allowed);
    if (!*limit->unit && coto_options[limit->opt].type == COTO_TYPE_SIZE)
        coto_buf_adds(&allowed, "; a number alone is bytes");
    snprintf(job->field, sizeof job->field, "%s", name);
    coto_err_set(&job->err, COTO_ERR_POLICY, 0, "%s: '%.60s%s' is not possible here; allowed: %s", name,
                 text ? text : number, text && strlen(text) > 60 ? "..." : "", coto_buf_str(&allowed));
    return coto_err_remedy(&job->err, "GET /openapi.json lists what there is");
}

static int set_limit(struct api_job *job, const struct coto_limit_row *limit, const char *name,
                     const json_t *value)
{
    char text[128];

    if (value_text(value, text, sizeof text))
        return fail(job, name, "is too long", "no limit takes that many characters");
    if (!*limit->ceiling) /* not a number */
        return set_option(job, limit->opt, name, text);
    if ((*limit->unit && megabytes_text(value, text, sizeof text)) ||
        coto_policy_set(&job->policy, limit->opt, text, COTO_SOURCE_FLAG, name, &job->err))
        return refuse_limit(job, limit, name, value);
    return check_ceiling(job, limit->opt, name);
}

static int set_limits(struct api_job *job)
{
    const char *key;
    json_t *value;
    char name[96];

    json_object_foreach (json_object_get(job->body, "resource_limits"), key, value) {
        const struct coto_limit_row *limit = coto_limit_find(key);
        snprintf(name, sizeof name, "resource_limits.%s", key);
        if (set_limit(job, limit, name, value))
            return -1;
    }
    return 0;
}

static int set_require(struct api_job *job)
{
    const json_t *item;
    char name[40];
    size_t i;

    json_array_foreach (json_object_get(job->body, "require"), i, item) {
        snprintf(name, sizeof name, "require[%zu]", i);
        if (set_option(job, COTO_OPT_REQUIRE, name, json_string_value(item)))
            return -1;
    }
    return 0;
}

static int set_env(struct api_job *job)
{
    const char *key;
    json_t *value;
    char name[80];

    json_object_foreach (json_object_get(job->body, "env"), key, value) {
        coto_auto_buf item = {0};
        snprintf(name, sizeof name, "env.%.60s", key);
        if (!*key)
            return fail(job, "env", "a variable has no name", "send an object of names and values: {\"NAME\": \"value\"}");
        if (strchr(key, '='))
            return fail(job, name, "a name has '=' in it", "send an object of names and values: {\"NAME\": \"value\"}");
        coto_buf_addf(&item, "%s=%s", key, json_string_value(value));
        if (set_option(job, COTO_OPT_ENV, name, coto_buf_str(&item)))
            return -1;
    }
    return 0;
}

static int set_timeout(struct api_job *job)
{
    const json_t *value = json_object_get(job->body, "timeout_seconds");
    char text[32];

    if (!value)
        return 0;
    double ms = json_number_value(value) * 1000;
    snprintf(text, sizeof text, "%lldms", ms < 1 ? 1LL : (long long)(ms + 0.5));
    return set_option(job, COTO_OPT_TIMEOUT, "timeout_seconds", text) ||
                   check_ceiling(job, COTO_OPT_TIMEOUT, "timeout_seconds")
               ? -1
               : 0;
}

/* Of a list that the operator gave. */
static int check_word(struct api_job *job, const char *const *words, const char *field, const char *word)
{
    coto_auto_buf all = {0};

    if (coto_ceiling_has_word(words, word))
        return 0;
    for (const char *const *it = words; *it; it++)
        coto_buf_addf(&all, "%s%s", it == words ? "" : ", ", *it);
    snprintf(job->field, sizeof job->field, "%s", field);
    coto_err_set(&job->err, COTO_ERR_POLICY, 0, "%s: '%.60s' is not allowed here", field, word);
    return coto_err_remedy(&job->err, "the service allows: %s", coto_buf_str(&all));
}

int coto_api_set_high(const struct coto_api_high *high, struct coto_policy *policy,
                      struct coto_err *err)
{
    const char *level = coto_opt_choice_name(COTO_OPT_ISOLATION, high->isolation);
    int failed =
        coto_policy_set(policy, COTO_OPT_ISOLATION, level, COTO_SOURCE_FLAG, "high-isolation", err);

    if (!failed && *high->runtime)
        failed = coto_policy_set(policy, COTO_OPT_RUNTIME, high->runtime, COTO_SOURCE_FLAG,
                                 "high-runtime", err);
    if (!failed && *high->image)
        failed = coto_policy_set(policy, COTO_OPT_IMAGE, high->image, COTO_SOURCE_FLAG, "high-image",
                                 err);
    for (const char *const *it = high->allowed; it && *it && !failed; it++)
        failed = coto_policy_set(policy, COTO_OPT_ALLOW_RUNTIME, *it, COTO_SOURCE_FLAG,
                                 "high-allow-runtime", err);
    return failed ? -1 : 0;
}

int coto_api_check_runtime(const struct coto_api_high *high, struct coto_err *err)
{
    for (size_t i = 0; *high->runtime && i < coto_driver_count; i++)
        if (coto_drivers[i]->isolation == high->isolation && coto_drivers[i]->check_runtime)
            return coto_drivers[i]->check_runtime(high->runtime, err);
    return 0;
}

int coto_api_check_plan(const struct coto_plan *plan, struct coto_err *err)
{
    for (size_t i = 0; i < coto_driver_count; i++)
        if (coto_drivers[i]->isolation == plan->isolation && coto_drivers[i]->check)
            return coto_drivers[i]->check(plan, err);
    return 0;
}

/* The request is well-formed, and the service as such well: 422, whatever it is that is missing. */
void api_note_level(struct api_job *job, const struct coto_plan *plan)
{
    const int kind = job->err.kind;

    if (plan->isolation == COTO_ISOLATION_PROCESS)
        return;
    if (kind != COTO_ERR_UNAVAILABLE && kind != COTO_ERR_WALL && kind != COTO_ERR_INPUT &&
        kind != COTO_ERR_FORBIDDEN) /* an image that is not signed, or not the pinned one */
        return;
    coto_err_wrap(&job->err, "isolation_level");
    snprintf(job->field, sizeof job->field, "isolation_level");
    job->status = 422;
}

static int set_isolation(struct api_job *job)
{
    const struct coto_api_high *high = &job->api->config.high;
    const char *text = text_of(job, "isolation_level");

    if (check_word(job, job->api->config.levels, "isolation_level", text ? text : "standard"))
        return -1;
    if (!text || strcmp(text, "standard") == 0)
        return 0;
    if (high->isolation != COTO_ISOLATION_PROCESS)
        return coto_api_set_high(high, &job->policy, &job->err);
    snprintf(job->field, sizeof job->field, "isolation_level");
    job->status = 422;
    coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0,
                 "isolation_level: this service has no level above \"standard\"");
    return coto_err_remedy(&job->err, "an operator can set high-isolation to container or docker");
}

static int refuse_language(struct api_job *job, const char *language)
{
    coto_auto_buf all = {0};

    for (size_t i = 0; i < coto_language_count; i++)
        coto_buf_addf(&all, "%s%s", i ? ", " : "", coto_languages[i].name);
    snprintf(job->field, sizeof job->field, "language");
    coto_err_set(&job->err, COTO_ERR_USAGE, 0, "language: no such language: '%.64s'", language);
    return coto_err_remedy(&job->err, "one of %s; GET /api/v1/capabilities lists those whose tool is there",
                           coto_buf_str(&all));
}

int api_body_policy(struct api_job *job, const struct coto_policy *from)
{
    const char *profile = text_of(job, "profile");
    const char *language = text_of(job, "language");

    if (!profile)
        profile = job->api->config.profile;
    if (!from && check_word(job, job->api->config.profiles, "profile", profile))
        return -1;
    if (from ? coto_policy_copy(from, &job->policy, &job->err)
             : coto_policy_init(&job->policy, &job->err) ||
                   coto_policy_apply_profile(&job->policy, profile, &job->err)) {
        snprintf(job->field, sizeof job->field, "profile");
        return -1;
    }
    if (coto_ceiling_apply(job->api->config.ceiling, &job->policy, &job->err))
        return -1;
    /* Its `false` is no word against a profile or an operator who want it. */
    if (json_is_true(json_object_get(job->body, "cold")) && set_option(job, COTO_OPT_COLD, "cold", "true"))
        return -1;
    job->cold = coto_policy_num(&job->policy, COTO_OPT_COLD);
    if (language && !coto_language_find(language))
        return refuse_language(job, language);
    if (language && set_option(job, COTO_OPT_LANG, "language", language))
        return -1;
    if (!*coto_policy_str(&job->policy, COTO_OPT_LANG) &&
        coto_policy_set(&job->policy, COTO_OPT_LANG, "python", COTO_SOURCE_PROFILE, "default",
                        &job->err))
        return -1;
    if (set_timeout(job) || set_limits(job) || set_require(job) || set_env(job))
        return -1;
    return from ? 0 : set_isolation(job); /* a sandbox has its level already */
}

/* ---- what runs ---- */

static const char base64_remedy[] = "use the alphabet with + and /, and pad it with =";

/* input reaches the code as JSON on its stdin; here it is the text of that (input.c). */
static int take_input(struct api_job *job)
{
    static const char *const names[] = {"input", "stdin", "stdin_base64"};
    const char *name = NULL;
    char why[64];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_object_get(job->body, names[i]))
            continue;
        snprintf(why, sizeof why, "%s says what standard input is, too", names[i]);
        if (name)
            return fail(job, name, why, "send one of the two; data may also go into files");
        name = names[i];
    }
    const json_t *in = name ? json_object_get(job->body, name) : NULL;
    if (name == names[2]) {
        if (coto_base64_take(&job->input, json_string_value(in), json_string_length(in)))
            return fail(job, name, "is not base64", base64_remedy);
    } else if (in) {
        coto_buf_add(&job->input, json_string_value(in), json_string_length(in));
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
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(job->body, "args"), i, item)
        if (coto_strv_add(args, json_string_value(item)))
            return coto_err_set(&job->err, COTO_ERR_LIMIT, ENOMEM, "args");
    return 0;
}

static int is_code(const struct coto_plan *plan, const char *target)
{
    return plan->file_count && strcmp(plan->files[0].target, target) == 0;
}

/* One of them would have to be a directory. */
static bool is_above(const char *a, const char *b)
{
    size_t n = strlen(a);

    return strncmp(a, b, n) == 0 && b[n] == '/';
}

static int check_place(struct api_job *job, const char *name, const char *target)
{
    const struct coto_plan *plan = &job->plan;
    coto_auto_buf output = {0};

    coto_buf_addf(&output, "%s/output", plan->workdir);
    if (strcmp(coto_buf_str(&output), target) == 0)
        return fail(job, name, "is the directory of artifacts", "put files into it, or take another name");
    for (size_t i = 0; i < plan->file_count; i++)
        if (is_above(plan->files[i].target, target) || is_above(target, plan->files[i].target))
            return fail(job, name, "would be a file and a directory", "give one of the files another name");
    return 0;
}

/* What was said of a path is said of that file's. */
static int blame_path(struct api_job *job, const char *where)
{
    const struct coto_err said = job->err;
    const char *what = strstr(said.text, ": ");

    return fail(job, where, what ? what + 2 : said.text, said.remedy);
}

static bool is_there(const struct coto_plan *plan, const char *target)
{
    for (size_t i = 0; i < plan->file_count; i++)
        if (strcmp(plan->files[i].target, target) == 0)
            return true;
    return false;
}

static int take_file(struct api_job *job, const json_t *item, size_t index,
                     struct coto_plan_file *ret_file)
{
    const json_t *text = json_object_get(item, "content");
    const json_t *coded = json_object_get(item, "content_base64");
    coto_auto_buf data = {0};
    coto_auto_buf target = {0};
    char name[64];
    char where[80];

    snprintf(name, sizeof name, "files[%zu]", index);
    snprintf(where, sizeof where, "%s.path", name);
    if (!text == !coded)
        return fail(job, name, text ? "has both content and content_base64" : "has neither content nor content_base64",
                    "send content for text, content_base64 for anything else");
    if (api_path(job->plan.workdir, json_string_value(json_object_get(item, "path")), &target,
                 &job->err))
        return blame_path(job, where);
    if (is_code(&job->plan, coto_buf_str(&target)))
        return fail(job, where, "is where the code itself goes", "give the file another name");
    if (is_there(&job->plan, coto_buf_str(&target)))
        return fail(job, where, "another of the files has it too", "give each a path of its own");
    if (check_place(job, where, coto_buf_str(&target)))
        return -1;
    if (text)
        coto_buf_add(&data, json_string_value(text), json_string_length(text));
    else if (coto_base64_take(&data, json_string_value(coded), json_string_length(coded)))
        return fail(job, name, "content_base64 is not base64", base64_remedy);
    if (data.failed || target.failed)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, ENOMEM, "files");
    *ret_file = (struct coto_plan_file){
        .target = target.data,
        .mode = json_is_true(json_object_get(item, "executable")) ? 0755 : 0644,
        .data = data.data,
        .len = data.len};
    target = data = (struct coto_buf){0};
    return 0;
}

/* The plan's own files are put in before anything runs; these are, with them. */
int api_body_files(struct api_job *job)
{
    const json_t *list = json_object_get(job->body, "files");
    struct coto_plan *plan = &job->plan;
    const json_t *item;
    size_t i;

    if (json_array_size(list) == 0)
        return 0;
    struct coto_plan_file *files =
        realloc(plan->files, (plan->file_count + json_array_size(list)) * sizeof *files);
    if (!files)
        return coto_err_set(&job->err, COTO_ERR_LIMIT, ENOMEM, "files");
    plan->files = files;
    json_array_foreach (list, i, item) {
        if (take_file(job, item, i, &files[plan->file_count]))
            return -1;
        plan->file_count++;
    }
    return 0;
}

int api_body_code(struct api_job *job)
{
    const json_t *code = json_object_get(job->body, "code");
    coto_auto_strv args = {0};

    if (take_input(job) || take_args(job, &args))
        return -1;
    const struct coto_source_code source = {.text = json_string_value(code),
                                            .text_len = json_string_length(code),
                                            .prefix = job->sandbox ? OWN_PREFIX : NULL,
                                            .argv = (const char *const *)args.items,
                                            .is_image_elsewhere = true,
                                            .is_watched = job->is_stream};
    if (coto_policy_check(&job->policy, &job->err) ||
        coto_plan_make(&job->policy, &source, &job->plan, &job->err) || api_body_files(job))
        return -1;
    memcpy(job->plan.id, job->id, sizeof job->plan.id);
    return 0;
}
