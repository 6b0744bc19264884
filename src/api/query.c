/* A request's query against the table of parameters: who misspells one must hear of it, as with fields. */
#include "api/api.h"

#include "policy/nearest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_parameter(const struct coto_parameter *p, const struct coto_endpoint *endpoint)
{
    return &coto_endpoints[p->endpoint] == endpoint && strcmp(p->in, "query") == 0;
}

static int check_name(const struct coto_endpoint *endpoint, const char *name, struct coto_err *err)
{
    struct coto_nearest best = {0};

    for (unsigned i = 0; i < coto_parameter_count; i++) {
        if (!is_parameter(&coto_parameters[i], endpoint))
            continue;
        if (strcmp(coto_parameters[i].name, name) == 0)
            return 0;
        coto_nearest_offer(&best, name, coto_parameters[i].name);
    }
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: no such parameter here", name);
    if (best.name)
        return coto_err_remedy(err, "did you mean '%s'?", best.name);
    return coto_err_remedy(err, "GET /openapi.json lists what there is");
}

int api_query_check(const struct api_call *call, char ret_name[64], struct coto_err *err)
{
    const char *at = coto_http_query(call->request);

    if (!*at) /* most have none */
        return 0;
    for (; *at; at += *at == '&') {
        int len = (int)strcspn(at, "=&");
        snprintf(ret_name, 64, "%.*s", len, at);
        if (len && check_name(call->endpoint, ret_name, err))
            return -1;
        at += strcspn(at, "&");
    }
    snprintf(ret_name, 64, "stream");
    if (api_query_stream(call) >= 0)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "stream: must be 1, true, 0 or false");
    return coto_err_remedy(err, "?stream=1, or Accept: text/event-stream");
}

int api_query_stream(const struct api_call *call)
{
    char text[8];
    int given = coto_http_query_get(call->request, "stream", text, sizeof text);

    if (given <= 0)
        return given;
    if (strcmp(text, "1") == 0 || strcmp(text, "true") == 0)
        return 1;
    return strcmp(text, "0") == 0 || strcmp(text, "false") == 0 ? 0 : -1;
}

/* "; q=0", "; q=0.000": anything but this. */
static bool is_refused(const char *parameters, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        if (parameters[at] != ';')
            continue;
        at += 1 + strspn(parameters + at + 1, " \t");
        if (strncasecmp(parameters + at, "q=0", 3) == 0)
            return !memchr("123456789", parameters[at + 3 + strspn(parameters + at + 3, ".0")], 9);
    }
    return false;
}

bool api_query_accepts_events(const struct api_call *call)
{
    const char *at = coto_http_header(call->request, "Accept");

    for (; at && *at; at += *at == ',') {
        at += strspn(at, " \t");
        size_t len = strcspn(at, ",");
        size_t type = strcspn(at, ",; \t");
        if (type == strlen(COTO_HTTP_EVENTS) && strncasecmp(at, COTO_HTTP_EVENTS, type) == 0)
            return !is_refused(at + type, len - type);
        at += len;
    }
    return false;
}
