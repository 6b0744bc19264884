#include "api/api.h"

#include "api/flow.h"

#include <stdio.h>
#include <string.h>

void api_reply(struct coto_http_request *request, int status, const struct coto_buf *body)
{
    coto_http_reply(request, status, "application/json", body->data, body->len);
}

static void write_error(const char *code, const struct coto_err *err, const char *field,
                        struct coto_buf *out)
{
    struct coto_json json = {.out = out};
    coto_auto_buf message = {0};
    coto_auto_buf remedy = {0};

    api_words_message(err->text, &message);
    api_words_remedy(err->remedy, &remedy);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "code", code);
    coto_json_str(&json, "message", coto_buf_str(&message));
    coto_json_str(&json, "remedy", remedy.len ? coto_buf_str(&remedy) : NULL);
    coto_json_str(&json, "field", field && *field ? field : NULL);
    coto_json_end(&json, '}');
}

void api_write_error(const struct coto_err *err, const char *field, struct coto_buf *out)
{
    write_error(coto_err_info(err->kind)->word, err, field, out);
}

void api_reply_error(struct coto_http_request *request, int status, const struct coto_err *err,
                     const char *field)
{
    coto_auto_buf body = {0};
    bool is_http = status == 401 || status == 405; /* no kind of error says that */

    write_error(is_http ? coto_http_word(status) : coto_err_info(err->kind)->word, err, field, &body);
    coto_buf_addc(&body, '\n');
    if (status == 503)
        coto_http_add_header(request, "Retry-After", "1");
    if (status == 401)
        coto_http_add_header(request, "WWW-Authenticate", "Bearer");
    api_reply(request, status ? status : coto_err_info(err->kind)->http_status, &body);
}

/* The end of an answer that was begun. What failed can only be told to readers of events;
 * others see that it breaks off. */
static void end_stream(struct api_job *job)
{
    coto_auto_buf text = {0};

    if (job->err.kind && !job->is_stream) {
        coto_http_break(job->request);
        return;
    }
    if (job->is_stream) {
        if (job->err.kind)
            api_write_error(&job->err, job->field, &text);
        else
            coto_buf_add(&text, job->reply.data, strcspn(coto_buf_str(&job->reply), "\n"));
        coto_http_last_part(job->request);
        coto_http_event(job->request, job->err.kind ? "error" : "result", coto_buf_str(&text), text.len);
    }
    coto_http_finish(job->request);
}

static void note_retry(struct api_job *job)
{
    char text[16];

    job->api->counters.refused++;
    snprintf(text, sizeof text, "%u", job->retry_s);
    if (job->request)
        coto_http_add_header(job->request, "Retry-After", text);
}

void api_reply_job(struct api_job *job)
{
    if (job->retry_s && job->err.kind && job->status == 429)
        note_retry(job);
    if (!job->request)
        return;
    if (api_flow_is_begun(job))
        end_stream(job);
    else if (job->err.kind || api_tenant_hold(job, (int64_t)job->reply.len))
        api_reply_error(job->request, job->status, &job->err, job->field);
    else
        api_reply(job->request, job->status ? job->status : 200, &job->reply);
    job->request = NULL;
}
