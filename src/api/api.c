#include "api/api.h"

#include "base/own.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schema/openapi.h"

#define X(id, ...) coto_api_##id,
static void (*const functions[])(struct api_call *call) = {COTO_ENDPOINTS(X)};
#undef X

/* ---- routing ---- */

bool api_id(const char *text, size_t len, char ret_id[COTO_ID_TEXT])
{
    if (len != COTO_ID_TEXT - 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (!text[i] || (dash ? text[i] != '-' : !strchr("0123456789abcdefABCDEF", text[i])))
            return false;
        ret_id[i] = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    ret_id[len] = '\0';
    return true;
}

/* Whether the path is of this form; what stands for {id} goes to ret_id. */
static bool is_path(const char *form, const char *path, char ret_id[COTO_ID_TEXT])
{
    ret_id[0] = '\0';
    while (*form && *path) {
        if (*form == '{') {
            size_t n = strcspn(path, "/");
            if (!api_id(path, n, ret_id))
                return false;
            path += n;
            form = strchr(form, '}') + 1;
        } else if (*form++ != *path++) {
            return false;
        }
    }
    return !*form && !*path;
}

/* Only for who is refused: what else can be done at this address. */
static int refuse_method(struct api_call *call, struct coto_err *err)
{
    coto_auto_buf methods = {0};
    char id[COTO_ID_TEXT];

    for (int i = 0; i < COTO_ENDPOINT_COUNT; i++)
        if (is_path(coto_endpoints[i].path, coto_http_path(call->request), id))
            coto_buf_addf(&methods, "%s%s%s", methods.len ? ", " : "", coto_endpoints[i].method,
                          strcmp(coto_endpoints[i].method, "GET") == 0 ? ", HEAD" : "");
    coto_http_add_header(call->request, "Allow", coto_buf_str(&methods));
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s is not possible here, only %s",
                 coto_http_method(call->request), coto_buf_str(&methods));
    return coto_err_remedy(err, "GET /openapi.json lists what there is");
}

static int find(struct api_call *call, struct coto_err *err, int *ret_status)
{
    const char *method = coto_http_method(call->request);
    const char *path = coto_http_path(call->request);
    bool known = false;

    for (int i = 0; i < COTO_ENDPOINT_COUNT; i++) {
        if (!is_path(coto_endpoints[i].path, path, call->id))
            continue;
        known = true;
        if (strcmp(coto_endpoints[i].method, method) == 0 ||
            (strcmp(method, "HEAD") == 0 && strcmp(coto_endpoints[i].method, "GET") == 0)) {
            call->endpoint = &coto_endpoints[i];
            return 0;
        }
    }
    *ret_status = known ? 405 : 404;
    if (known)
        return refuse_method(call, err);
    coto_err_set(err, COTO_ERR_NOTFOUND, 0, "no such address");
    return coto_err_remedy(err, "GET /openapi.json lists what there is; an {id} is a UUID");
}

static bool is_port_or_none(const char *text)
{
    return !*text || (*text == ':' && !text[1 + strspn(text + 1, "0123456789")]);
}

/* A name that some page's owner has made lead to us is none of ours. */
static bool is_our_name(const struct coto_http_request *request, const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

    if (coto_http_peer(request)->is_tls || coto_http_peer(request)->uid >= 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (coto_str_has_prefix(host, names[i]) && is_port_or_none(host + strlen(names[i])))
            return true;
    return false;
}

/* A browser on this host must not be made to talk to us by some page. */
static int refuse_page(const struct coto_http_request *request, struct coto_err *err)
{
    const char *host = coto_http_header(request, "Host");

    if (coto_http_header(request, "Origin")) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "requests of web pages are not served here (Origin)");
        return coto_err_remedy(err, "send the request from a program, without the header Origin");
    }
    if (!host || is_our_name(request, host))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "Host: '%.100s' is not a name of this service", host);
    return coto_err_remedy(err, "send 127.0.0.1, localhost or [::1] as Host, with or without a port; "
                                "`listen` is for other names");
}

static bool is_of_a_sandbox(const struct api_call *call)
{
    return call->id[0] && strncmp(call->endpoint->path, "/api/v1/sandbox/", 16) == 0;
}

/* Nothing is begun whose end could not be recorded. */
static int check_records(struct api_call *call)
{
    struct coto_err err;

    if (!call->api->records || strcmp(call->endpoint->method, "POST") != 0 ||
        coto_records_check(call->api->records, &err) == 0)
        return 0;
    call->api->counters.refused++;
    api_reply_error(call->request, 503, &err, "");
    return -1;
}

/* While the service ends one may look, fetch, end and revoke. */
static int check_draining(struct api_call *call)
{
    const struct coto_endpoint *e = call->endpoint;
    struct coto_err err = {0};

    if (!call->api->draining || functions[e - coto_endpoints] == coto_api_revoke ||
        (strcmp(e->method, "POST") != 0 && strcmp(e->method, "PUT") != 0))
        return 0;
    call->api->counters.refused++;
    coto_err_set(&err, COTO_ERR_UNAVAILABLE, 0, "the service is ending and begins nothing new");
    coto_err_remedy(&err, "send the request again in a while, or to another service");
    api_reply_error(call->request, 503, &err, "");
    return -1;
}

void api_call_function(struct api_call *call)
{
    struct coto_err err = {0};
    struct api_sandbox *s = is_of_a_sandbox(call) ? api_sandbox_find(call->api, call->id) : NULL;

    if (is_of_a_sandbox(call) && (!s || strcmp(s->tenant, call->caller.tenant) != 0)) {
        coto_err_set(&err, COTO_ERR_NOTFOUND, 0, "no such sandbox");
        coto_err_remedy(&err, "GET /api/v1/sandbox lists yours; each ends after its time, or unused");
        api_reply_error(call->request, 404, &err, "");
    } else if (check_records(call) == 0) {
        functions[call->endpoint - coto_endpoints](call);
    }
    api_key_free(call->api, call->key); /* unless a job has taken it */
    json_decref(call->body);
}

void api_call_parsed(struct api_call *call)
{
    if (api_key_begin(call) == 0)
        api_call_function(call);
    else
        json_decref(call->body);
}

static void call_function(struct coto_http_request *request, void *arg)
{
    struct coto_api *api = arg;
    struct api_call call = {.api = api, .request = request};
    struct coto_err err = {0};
    int status = 0;

    /* Looked up again: the sandbox may have ended while the body came. */
    if (find(&call, &err, &status)) {
        api_reply_error(request, status, &err, "");
        return;
    }
    if ((status = api_authorize(&call, &err))) {
        api_reply_error(request, status, &err, "");
        return;
    }
    if (check_draining(&call))
        return;
    if (!api_parse_later(&call))
        api_call_parsed(&call);
}

/* Taken for what it is not it would be no JSON, or a file of compressed bytes. */
static int check_coding(struct coto_http_request *request)
{
    const char *coding = coto_http_header(request, "Content-Encoding");
    struct coto_err err = {0};

    if (!coding || !coto_http_has_body(request) || !*coding || strcasecmp(coding, "identity") == 0)
        return 0;
    coto_err_set(&err, COTO_ERR_USAGE, 0, "Content-Encoding: '%.40s' is not taken", coding);
    coto_err_remedy(&err, "send the body as it is; a file that is compressed is one without this header");
    api_reply_error(request, 415, &err, "");
    return -1;
}

void coto_api_handle(struct coto_http_request *request, void *arg)
{
    struct coto_api *api = arg;
    struct api_call call = {.api = api, .request = request};
    struct coto_err err = {0};
    char name[64];
    int status = 0;

    api->counters.requests++;
    if (refuse_page(request, &err) || api_client_check(api, request, &err)) {
        api->counters.refused++;
        api_reply_error(request, 403, &err, "");
        return;
    }
    /* Before a body is taken: strangers send none. */
    if (find(&call, &err, &status)) {
        api_reply_error(request, status, &err, "");
        return;
    }
    if ((status = api_authorize(&call, &err))) {
        api->counters.refused++;
        api_reply_error(request, status, &err, "");
        return;
    }
    if (call.endpoint->access != COTO_ACCESS_OPEN)
        coto_http_vouch(request);
    if (call.endpoint->access != COTO_ACCESS_OPEN && api_query_check(&call, name, &err)) {
        api_reply_error(request, 400, &err, name);
        return;
    }
    if (check_coding(request) || check_draining(&call) || (call.endpoint->access != COTO_ACCESS_OPEN && api_tenant_admit(&call)))
        return;
    if (call.endpoint->how != COTO_HOW_UPLOAD && coto_http_has_body(request))
        coto_http_collect(request, COTO_API_BODY, call_function, api);
    else
        call_function(request, api);
}

/* ---- life ---- */

int coto_api_new(const struct coto_api_config *config, struct coto_loop *loop, int control_fd,
                 struct coto_api **ret_api, struct coto_err *err)
{
    struct coto_api *api = calloc(1, sizeof *api);

    if (!api)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "no memory");
    api->config = *config;
    api->loop = loop;
    api->control_fd = control_fd;
    pthread_mutex_init(&api->control_lock, NULL);
    pthread_mutex_init(&api->ahead_lock, NULL);
    pthread_mutex_init(&api->versions_lock, NULL);
    pthread_mutex_init(&api->told_lock, NULL);
    pthread_cond_init(&api->control_changed, NULL);
    json_object_seed(0);
    mallopt(M_ARENA_MAX, 2); /* workers hold little at a time: no heap for each of them */
    coto_openapi_write(&(struct coto_json){.out = &api->openapi});
    coto_buf_addc(&api->openapi, '\n');
    if (api_starter_new(api, err) || api_workers_start(api, err)) {
        coto_buf_fini(&api->openapi);
        free(api);
        return -1;
    }
    coto_loop_timer(loop, 1000, coto_api_tick, api);
    *ret_api = api;
    return 0;
}

void coto_api_free(struct coto_api *api)
{
    if (!api)
        return;
    api_workers_stop(api);
    api_ahead_free(api);
    coto_own_close(&api->control_fd);
    for (int i = 0; i < API_BUCKETS; i++)
        while (api->buckets[i])
            api_sandbox_drop(api, api->buckets[i], "destroyed");
    api_free_revoked(api);
    api_tenants_expire(api, INT64_MAX);
    coto_buf_fini(&api->versions);
    coto_buf_fini(&api->told);
    coto_buf_fini(&api->openapi);
    free(api);
}
