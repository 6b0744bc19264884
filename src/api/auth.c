/* Who calls, and may they. */
#include "api/api.h"

#include <stdio.h>
#include <string.h>

static int refuse(struct coto_err *err)
{
    /* One text for every reason: a stranger learns nothing from it. */
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "no valid token");
    return coto_err_remedy(err, "send Authorization: Bearer TOKEN");
}

static bool is_same(const char *a, const char *b)
{
    size_t la = strlen(a);
    size_t lb = strlen(b);
    unsigned char differ = la != lb;

    for (size_t i = 0; i < la && lb; i++)
        differ |= (unsigned char)(a[i] ^ b[i % lb]);
    return !differ && lb > 0;
}

static const char *bearer(const struct coto_http_request *request)
{
    const char *value = coto_http_header(request, "Authorization");

    return value && strncmp(value, "Bearer ", 7) == 0 ? value + 7 : NULL;
}

static bool is_owner(const struct coto_api *api, const struct coto_http_peer *peer)
{
    return peer->uid >= 0 && (peer->uid == 0 || peer->uid == api->config.owner_uid);
}

/* The token of one sandbox opens that one only; what it may not see does not exist. */
static int by_sandbox_token(struct api_call *call, const char *token)
{
    struct api_sandbox *s = call->id[0] ? api_sandbox_find(call->api, call->id) : NULL;

    if (call->endpoint->access != COTO_ACCESS_SANDBOX || !s || !is_same(token, s->token))
        return -1;
    snprintf(call->caller.tenant, sizeof call->caller.tenant, "%s", s->tenant);
    snprintf(call->caller.sandbox, sizeof call->caller.sandbox, "%s", s->id);
    return 0;
}

int api_authorize(struct api_call *call, struct coto_err *err)
{
    const struct coto_api *api = call->api;
    const struct coto_http_peer *peer = coto_http_peer(call->request);
    const char *token = bearer(call->request);

    if (call->endpoint->access == COTO_ACCESS_OPEN)
        return 0;
    if (token && by_sandbox_token(call, token) == 0)
        return 0;
    if (is_owner(api, peer)) {
        snprintf(call->caller.tenant, sizeof call->caller.tenant, "uid:%d", peer->uid);
        return 0;
    }
    if (token && api->config.token && is_same(token, api->config.token)) {
        snprintf(call->caller.tenant, sizeof call->caller.tenant, "local");
        return 0;
    }
    return refuse(err);
}
