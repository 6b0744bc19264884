/* Every endpoint, declared once: id, method, path, who may call it, how it answers, what goes
 * in, what comes out and with which status, meaning. A row feeds the router, the OpenAPI
 * document and docs/API.md; to add one, add a row and the function coto_api_<id> in src/api.
 *
 *   OPEN     anybody who can connect
 *   SERVICE  a service: its token (or client certificate and token), or the owner of the
 *            unix socket
 *   SANDBOX  the holder of that sandbox's own token, or its service
 *   EXECUTION  the holder of the token of the sandbox it is in, or its service
 *   OPERATOR   who may see what concerns all tenants: a service's token with `metrics` in its
 *            scope, the local token, or the owner of the unix socket
 *
 *   PLAIN    one answer
 *   LIVE     also as server-sent events while it runs, or later (async)
 *   UPLOAD   the function is called before the body has come, and takes it in pieces
 */
#pragma once

#include "schema/bodies.h"

#include <stdbool.h>

enum coto_access { COTO_ACCESS_OPEN, COTO_ACCESS_SERVICE, COTO_ACCESS_SANDBOX, COTO_ACCESS_EXECUTION, COTO_ACCESS_OPERATOR };
enum coto_how { COTO_HOW_PLAIN, COTO_HOW_LIVE, COTO_HOW_UPLOAD };

/* clang-format off */
#define COTO_ENDPOINTS(X) \
    X(run, "POST", "/api/v1/run", SERVICE, LIVE, run, result, 200, \
      "run code in a new sandbox and destroy it") \
    X(create, "POST", "/api/v1/sandbox/create", SERVICE, PLAIN, create, created, 201, \
      "create a sandbox") \
    X(list, "GET", "/api/v1/sandbox", SERVICE, PLAIN, none, sandboxes, 200, \
      "list the caller's sandboxes") \
    X(show, "GET", "/api/v1/sandbox/{id}", SANDBOX, PLAIN, none, sandbox, 200, \
      "one sandbox") \
    X(execute, "POST", "/api/v1/sandbox/{id}/execute", SANDBOX, LIVE, execute, execution, 200, \
      "run code in a sandbox; Python keeps its state for the next execution where state_kept says so") \
    X(extend, "POST", "/api/v1/sandbox/{id}/extend", SERVICE, PLAIN, extend, sandbox, 200, \
      "have a sandbox last longer, or end sooner; without a field its idle time begins anew") \
    X(destroy, "DELETE", "/api/v1/sandbox/{id}", SERVICE, PLAIN, none, destroyed, 200, \
      "destroy a sandbox and end what runs in it") \
    X(executions, "GET", "/api/v1/executions", SERVICE, PLAIN, none, records, 200, \
      "records of the caller's executions, newest first") \
    X(execution, "GET", "/api/v1/executions/{id}", EXECUTION, PLAIN, none, record, 200, \
      "the record of one execution; of an async one with its result, for ten minutes") \
    X(cancel, "DELETE", "/api/v1/executions/{id}", EXECUTION, PLAIN, none, accepted, 202, \
      "end an execution that runs; its verdict is killed") \
    X(revoke, "POST", "/api/v1/token/revoke", SERVICE, PLAIN, revoke, revoked, 200, \
      "a token of this tenant is good no longer") \
    X(put_file, "PUT", "/api/v1/sandbox/{id}/files", SANDBOX, UPLOAD, bytes, stored, 200, \
      "write a file") \
    X(get_file, "GET", "/api/v1/sandbox/{id}/files", SANDBOX, PLAIN, none, bytes, 200, \
      "read a file, or list a directory; GET archive has a directory's files as tar") \
    X(remove_file, "DELETE", "/api/v1/sandbox/{id}/files", SANDBOX, PLAIN, none, removed, 200, \
      "remove a file, or a directory and all below it") \
    X(put_archive, "PUT", "/api/v1/sandbox/{id}/archive", SANDBOX, UPLOAD, tar, unpacked, 200, \
      "unpack a tar archive of regular files and directories, not compressed; of one that is refused, what came before stays") \
    X(get_archive, "GET", "/api/v1/sandbox/{id}/archive", SANDBOX, PLAIN, none, tar, 200, \
      "the regular files below a directory as a tar archive") \
    X(artifacts, "GET", "/api/v1/sandbox/{id}/artifacts", SANDBOX, PLAIN, none, artifacts, 200, \
      "files that programs left in output/; each is at files?path=output/NAME") \
    X(capabilities, "GET", "/api/v1/capabilities", SERVICE, PLAIN, none, capabilities, 200, \
      "what this host can enforce; asked of it every ten seconds at most") \
    X(openapi, "GET", "/openapi.json", OPEN, PLAIN, none, json, 200, \
      "this document") \
    X(healthz, "GET", "/healthz", OPEN, PLAIN, none, health, 200, \
      "the service runs") \
    X(readyz, "GET", "/readyz", OPEN, PLAIN, none, health, 200, \
      "the service takes requests and its pool has had `pool-min` sandboxes; 503 before that, while it ends, and where it can make no sandboxes or write no records") \
    X(metrics, "GET", "/metrics", OPERATOR, PLAIN, none, text, 200, \
      "counters in Prometheus text format")
/* clang-format on */

enum coto_endpoint_id {
#define X(id, ...) COTO_ENDPOINT_##id,
    COTO_ENDPOINTS(X)
#undef X
        COTO_ENDPOINT_COUNT
};

struct coto_endpoint {
    const char *id;
    const char *method;
    const char *path;
    enum coto_access access;
    enum coto_how how;
    enum coto_body request, reply;
    int status;
    const char *doc;
};
extern const struct coto_endpoint coto_endpoints[COTO_ENDPOINT_COUNT];

/* What a LIVE endpoint tells as server-sent events: `event: NAME`, `data: ` and a JSON object in one
 * line, an empty line. COTO_BODY_none: what the endpoint replies. */
struct coto_event {
    const char *name;
    enum coto_body data;
    const char *doc;
};
extern const struct coto_event coto_events[];
extern const unsigned coto_event_count;

/* A parameter beside the path's. */
struct coto_parameter {
    enum coto_endpoint_id endpoint;
    const char *in; /* "query", "header" */
    const char *name;
    bool is_required;
    const char *doc;
    const char *format; /* as in OpenAPI; NULL: any text */
    int max;            /* of a whole number from 1 on; 0: it is none */
};
extern const struct coto_parameter coto_parameters[];
extern const unsigned coto_parameter_count;

/* A header of replies, and a status other than success: where they can come from is a rule. */
enum coto_where {
    COTO_AT_ALL,
    COTO_AT_CLOSED, /* all but the open ones */
    COTO_AT_ID,     /* those about something that has an id */
    COTO_AT_SANDBOX,
    COTO_AT_BODY, /* those that take one */
    COTO_AT_JSON,
    COTO_AT_KEYED, /* those that take an Idempotency-Key */
    COTO_AT_FILE,  /* those that give one */
};
struct coto_refusal {
    int status;
    enum coto_where where;
    const char *header; /* that comes with it; NULL */
    const char *doc;
};
extern const struct coto_refusal coto_refusals[];
extern const unsigned coto_refusal_count;
bool coto_endpoint_is_at(const struct coto_endpoint *endpoint, enum coto_where where);
