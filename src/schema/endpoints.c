#include "schema/endpoints.h"

#include <string.h>

const struct coto_endpoint coto_endpoints[COTO_ENDPOINT_COUNT] = {
#define X(id, method, path, access, how, request, reply, status, doc)                              \
    {#id,   method, path, COTO_ACCESS_##access, COTO_HOW_##how, COTO_BODY_##request, COTO_BODY_##reply, \
     status, doc},
    COTO_ENDPOINTS(X)
#undef X
};

const struct coto_event coto_events[] = {
    {"start", COTO_BODY_event_start, "first, once"},
    {"stdout", COTO_BODY_event_output, "as often as there is output"},
    {"stderr", COTO_BODY_event_output, "as often as there is output"},
    {"artifact", COTO_BODY_artifact, "after all output, one for each, when the request says artifacts"},
    {"result", COTO_BODY_none, "last, once: the object of a plain reply, without output and contents"},
    {"error", COTO_BODY_error, "last, instead of a result: the service failed"},
};
const unsigned coto_event_count = sizeof coto_events / sizeof coto_events[0];

#define STREAM "1 or true: answer with server-sent events, as with Accept: text/event-stream"
#define KEY                                                                                        \
    "1 to 255 visible characters of the caller's choice: the same request, byte by byte, with the same key is "  \
    "done once and gets the same answer for a day, and goes on when its client is gone; another request with it is refused. Not for streams"

const struct coto_parameter coto_parameters[] = {
    {COTO_ENDPOINT_run, "query", "stream", false, STREAM, NULL, 0},
    {COTO_ENDPOINT_execute, "query", "stream", false, STREAM, NULL, 0},
    {COTO_ENDPOINT_run, "header", "Idempotency-Key", false, KEY, NULL, 0},
    {COTO_ENDPOINT_create, "header", "Idempotency-Key", false, KEY, NULL, 0},
    {COTO_ENDPOINT_execute, "header", "Idempotency-Key", false, KEY, NULL, 0},
    {COTO_ENDPOINT_put_file, "query", "path", true, "where: relative to the workspace, or below /tmp", NULL, 0},
    {COTO_ENDPOINT_get_file, "query", "path", false, "which, also /tmp itself; default, or `.`: the workspace", NULL, 0},
    {COTO_ENDPOINT_remove_file, "query", "path", true, "which", NULL, 0},
    {COTO_ENDPOINT_put_archive, "query", "path", false, "directory to unpack in, also /tmp itself; default, or `.`: the workspace", NULL, 0},
    {COTO_ENDPOINT_get_archive, "query", "path", false, "directory, also /tmp itself; default, or `.`: the workspace", NULL, 0},
    {COTO_ENDPOINT_executions, "query", "limit", false, "how many at most: 1 to 1000; default 100", NULL, 1000},
    {COTO_ENDPOINT_executions, "query", "before", false, "id of an execution: those before it; see `next`", "uuid", 0},
    {COTO_ENDPOINT_executions, "query", "sandbox", false, "id of a sandbox: those in it", "uuid", 0},
};
const unsigned coto_parameter_count = sizeof coto_parameters / sizeof coto_parameters[0];

const struct coto_refusal coto_refusals[] = {
    {400, COTO_AT_ALL, NULL, "The request is wrong, or asks for more than the operator allows; `field` says where."},
    {401, COTO_AT_CLOSED, "WWW-Authenticate", "No valid token."},
    {403, COTO_AT_ALL, NULL, "The token is not for this, the client certificate is not let in, or a web page asked."},
    {404, COTO_AT_ID, NULL, "There is none of this id, or it is not the caller's; of files: none of this path."},
    {405, COTO_AT_ALL, "Allow", "This path has no such method."},
    {408, COTO_AT_ALL, NULL, "The request did not come in time."},
    {409, COTO_AT_SANDBOX, "Retry-After", "The sandbox is busy, or ends."},
    {409, COTO_AT_KEYED, "Retry-After", "The sandbox is busy, or the key was used for another request or is in use."},
    {412, COTO_AT_JSON, NULL, "This host cannot give a wall that the policy needs."},
    {413, COTO_AT_BODY, NULL, "The body is too large, or does not fit into the sandbox."},
    {414, COTO_AT_ALL, NULL, "The path with its parameters is too long."},
    {415, COTO_AT_BODY, NULL, "The body is compressed (`Content-Encoding`)."},
    {417, COTO_AT_ALL, NULL, "An `Expect` other than `100-continue`."},
    {422, COTO_AT_JSON, NULL, "What should run is not in the sandbox, or this host has no such level."},
    {429, COTO_AT_CLOSED, "Retry-After", "Too many requests, or sandboxes of this tenant."},
    {431, COTO_AT_ALL, NULL, "The header is too large."},
    {500, COTO_AT_ALL, NULL, "A fault of the service or its host."},
    {501, COTO_AT_JSON, NULL, "The operator has not set up what it takes (callbacks)."},
    {503, COTO_AT_CLOSED, "Retry-After", "Not now: out of something, a part of the service starts again, or the service ends."},
    {505, COTO_AT_ALL, NULL, "Another version than HTTP/1.0 or 1.1."},
};
const unsigned coto_refusal_count = sizeof coto_refusals / sizeof coto_refusals[0];

static bool has_header(const struct coto_endpoint *e)
{
    for (unsigned i = 0; i < coto_parameter_count; i++)
        if (&coto_endpoints[coto_parameters[i].endpoint] == e && strcmp(coto_parameters[i].in, "header") == 0)
            return true;
    return false;
}

bool coto_endpoint_is_at(const struct coto_endpoint *e, enum coto_where where)
{
    bool has_id = strchr(e->path, '{');

    switch (where) {
    case COTO_AT_CLOSED:
        return e->access != COTO_ACCESS_OPEN;
    case COTO_AT_ID:
        return has_id;
    case COTO_AT_SANDBOX:
        return has_id && strncmp(e->path, "/api/v1/sandbox/", 16) == 0 && !has_header(e);
    case COTO_AT_BODY:
        return e->request != COTO_BODY_none;
    case COTO_AT_JSON:
        return e->request >= COTO_BODY_FIRST || e->reply == COTO_BODY_capabilities;
    case COTO_AT_KEYED:
        return has_header(e);
    case COTO_AT_FILE:
        return e->reply == COTO_BODY_bytes || e->reply == COTO_BODY_tar;
    default:
        return true;
    }
}
