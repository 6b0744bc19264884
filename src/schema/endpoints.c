#include "schema/endpoints.h"

const struct coto_endpoint coto_endpoints[COTO_ENDPOINT_COUNT] = {
#define X(id, method, path, access, how, request, reply, status, doc)                              \
    {#id,   method, path, COTO_ACCESS_##access, COTO_HOW_##how, COTO_BODY_##request, COTO_BODY_##reply, \
     status, doc},
    COTO_ENDPOINTS(X)
#undef X
};

#define STREAM "1: answer with server-sent events, as with Accept: text/event-stream"

const struct coto_parameter coto_parameters[] = {
    {COTO_ENDPOINT_run, "stream", false, STREAM},
    {COTO_ENDPOINT_execute, "stream", false, STREAM},
    {COTO_ENDPOINT_put_file, "path", true, "where: relative to the workspace, or below /tmp"},
    {COTO_ENDPOINT_get_file, "path", false, "which; default: the workspace"},
    {COTO_ENDPOINT_remove_file, "path", true, "which"},
    {COTO_ENDPOINT_put_archive, "path", false, "directory to unpack in; default: the workspace"},
    {COTO_ENDPOINT_get_archive, "path", false, "directory; default: the workspace"},
    {COTO_ENDPOINT_executions, "limit", false, "how many at most: 1 to 1000; default 100"},
    {COTO_ENDPOINT_executions, "before", false, "id of an execution: those before it; see `next`"},
    {COTO_ENDPOINT_executions, "sandbox", false, "id of a sandbox: those in it"},
};
const unsigned coto_parameter_count = sizeof coto_parameters / sizeof coto_parameters[0];
