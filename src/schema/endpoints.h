/* Every endpoint, declared once: id, method, path, who may call it, meaning. A row feeds the
 * router, the OpenAPI document and docs/API.md; to add one, add a row and the function
 * coto_api_<id> in src/api.
 *
 *   OPEN     anybody who can connect
 *   SERVICE  a service: its token (or client certificate and token), or the owner of the
 *            unix socket
 *   SANDBOX  the holder of that sandbox's own token, or its service
 */
#pragma once

enum coto_access { COTO_ACCESS_OPEN, COTO_ACCESS_SERVICE, COTO_ACCESS_SANDBOX };

#define COTO_ENDPOINTS(X)                                                                          \
    X(run, "POST", "/api/v1/run", SERVICE, "run code in a new sandbox and destroy it")             \
    X(create, "POST", "/api/v1/sandbox/create", SERVICE, "create a sandbox")                       \
    X(list, "GET", "/api/v1/sandbox", SERVICE, "list the caller's sandboxes")                      \
    X(show, "GET", "/api/v1/sandbox/{id}", SANDBOX, "one sandbox")                                 \
    X(execute, "POST", "/api/v1/sandbox/{id}/execute", SANDBOX, "run code in a sandbox")           \
    X(destroy, "DELETE", "/api/v1/sandbox/{id}", SERVICE, "destroy a sandbox")                     \
    X(capabilities, "GET", "/api/v1/capabilities", SERVICE, "what this host can enforce")          \
    X(healthz, "GET", "/healthz", OPEN, "the service runs")                                        \
    X(readyz, "GET", "/readyz", OPEN, "the service takes requests")                                \
    X(metrics, "GET", "/metrics", SERVICE, "counters in Prometheus text format")

struct coto_endpoint {
    const char *id;
    const char *method;
    const char *path;
    enum coto_access access;
    const char *doc;
};
extern const struct coto_endpoint coto_endpoints[];
extern const unsigned coto_endpoint_count;
