/* The JSON of a request. A large one is parsed on a quick worker, and the call goes on from there:
 * a megabyte of brackets must not keep the loop from everybody else. */
#include "api/api.h"
#include "api/long.h"

#include <string.h>

#define BODY_DEPTH 64
#define BODY_VALUES 100000
#define BODY_NUMBER 64
#define BODY_LARGE (64 * 1024)

/* Before the parser, which recurses and keeps every value: a megabyte of brackets, keys or
 * digits is refused at the speed of reading it. */
static int scan(const char *text, size_t len, struct coto_err *err)
{
    unsigned depth = 0;
    unsigned values = 0;
    unsigned plain = 0; /* characters since the last one with a meaning */

    for (size_t i = 0; i < len; i++) {
        plain = strchr("\"{}[],: \t\r\n", text[i]) ? 0 : plain + 1;
        if (text[i] == '"') {
            i = api_long_end(text, len, i) - 1;
            continue;
        }
        values += text[i] == ',';
        depth += text[i] == '{' || text[i] == '[';
        depth -= depth > 0 && (text[i] == '}' || text[i] == ']');
        if (depth > BODY_DEPTH)
            return coto_err_set(err, COTO_ERR_USAGE, 0, "body: nested more than %d deep", BODY_DEPTH),
                   coto_err_remedy(err, "send what is nested as a text, in stdin or files");
        if (values > BODY_VALUES)
            return coto_err_set(err, COTO_ERR_USAGE, 0, "body: more than %d values", BODY_VALUES);
        if (plain > BODY_NUMBER)
            return coto_err_set(err, COTO_ERR_USAGE, 0, "body: a number of more than %d digits", BODY_NUMBER);
    }
    return 0;
}

static const char one_object[] = "send one JSON object (RFC 8259) in UTF-8; GET /openapi.json has its fields";

static json_t *no_memory(json_t *body, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_LIMIT, 0, "no memory");
    json_decref(body);
    return NULL;
}

static json_t *load(const char *text, size_t len, struct coto_err *err)
{
    __attribute__((cleanup(api_long_fini))) struct api_long all = {0};
    json_error_t why;

    if (api_long_hide(text, len, &all, err))
        return NULL;
    json_t *body = all.count ? json_loadb(all.seen.data, all.seen.len, JSON_REJECT_DUPLICATES, &why)
                             : json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (body && api_long_put_back(&all, body))
        return no_memory(body, err);
    if (!body)
        why.column = api_long_column(&all, why.position, why.column);
    if (body)
        return body;
    if (json_error_code(&why) == json_error_null_character)
        coto_err_set(err, COTO_ERR_USAGE, 0, "body: a text must not have \\u0000 (line %d, column %d)", why.line,
                     why.column);
    else
        coto_err_set(err, COTO_ERR_USAGE, 0, "body: %s (line %d, column %d)", why.text, why.line,
                     why.column);
    coto_err_remedy(err, "%s", one_object);
    return NULL;
}

/* The parser would say where that ends, and that a list were possible. */
static bool begins_otherwise(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len && memchr(" \t\r\n", text[at], 4))
        at++;
    return at == len || text[at] != '{';
}

static json_t *refuse_other(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "body: must be a JSON object, { ... }");
    coto_err_remedy(err, "%s", one_object);
    return NULL;
}

static json_t *parse(const char *text, size_t len, struct coto_err *err)
{
    coto_auto_buf seen = {0};

    if (len == 0)
        return json_object();
    if (begins_otherwise(text, len))
        return refuse_other(err);
    if (scan(text, len, err))
        return NULL;
    if (api_input_hide(text, len, &seen))
        return no_memory(NULL, err);
    return load(seen.len ? seen.data : text, len, err);
}

static int parse_for(struct api_job *job, const struct coto_endpoint *endpoint, const char *text, size_t len)
{
    job->body = parse(text, len, &job->err);
    if (!job->body || api_check(job, endpoint->request))
        return -1;
    return api_input_keep(job->body, text, len, &job->err);
}

void api_parse_promise(struct api_job *job, const struct coto_buf *text)
{
    job->body = parse(coto_buf_str(text), text->len, &job->err);
    if (job->body)
        api_input_keep(job->body, coto_buf_str(text), text->len, &job->err);
}

static bool has_json(const struct api_call *call)
{
    return call->endpoint->request >= COTO_BODY_FIRST;
}

int api_parse_body(struct api_job *job, struct api_call *call)
{
    size_t len;
    const char *text = coto_http_body(call->request, &len);

    if (!has_json(call))
        return 0;
    job->body = call->body;
    call->body = NULL;
    if (job->body)
        return 0;
    return parse_for(job, call->endpoint, text, len);
}

/* ---- a large one ---- */

static void parse_apart(struct api_job *job, int channel_fd)
{
    (void)channel_fd;
    parse_for(job, job->endpoint, coto_buf_str(&job->input), job->input.len);
}

static void parsed(struct api_job *job)
{
    struct api_call call = {
        .api = job->api, .request = job->request, .endpoint = job->endpoint, .caller = job->caller};

    if (!job->request)
        return;
    coto_http_swap_body(job->request, &job->input);
    if (job->err.kind)
        return;
    memcpy(call.id, job->query.id, sizeof call.id);
    call.body = job->body;
    job->body = NULL;
    job->request = NULL; /* answered by another job, or at once */
    api_call_parsed(&call);
}

bool api_parse_later(struct api_call *call)
{
    size_t len;

    coto_http_body(call->request, &len);
    if (!has_json(call) || len <= BODY_LARGE)
        return false;
    memcpy(call->query.id, call->id, sizeof call->query.id);
    struct api_job *job = api_job_reading(call, parse_apart, parsed);
    if (!job)
        return true;
    coto_http_swap_body(call->request, &job->input); /* the client may go meanwhile */
    api_submit(job);
    return true;
}
