#include "api/api.h"

#include <string.h>

void api_reply(struct coto_http_request *request, int status, const struct coto_buf *body)
{
    coto_http_reply(request, status, "application/json", body->data, body->len);
}

void api_reply_error(struct coto_http_request *request, int status, const struct coto_err *err,
                     const char *field)
{
    coto_auto_buf body = {0};
    struct coto_json json = {.out = &body};

    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "code", coto_err_info(err->kind)->word);
    coto_json_str(&json, "message", err->text);
    coto_json_str(&json, "remedy", err->remedy[0] ? err->remedy : NULL);
    coto_json_str(&json, "field", field && *field ? field : NULL);
    coto_json_end(&json, '}');
    coto_buf_addc(&body, '\n');
    if (status == 429 || status == 503)
        coto_http_add_header(request, "Retry-After", "1");
    if (status == 401)
        coto_http_add_header(request, "WWW-Authenticate", "Bearer");
    api_reply(request, status ? status : coto_err_info(err->kind)->http_status, &body);
}

void api_reply_job(struct api_job *job)
{
    if (!job->request)
        return;
    if (job->err.kind)
        api_reply_error(job->request, job->status, &job->err, job->field);
    else
        api_reply(job->request, job->status ? job->status : 200, &job->reply);
    job->request = NULL;
}
