/* Who calls, and may they.
 *
 *   a service's token (JWT)   the tenant is its subject; `read` and `write` in its scope, and
 *                             `metrics`, without which it sees nothing that concerns all tenants
 *   a sandbox's token (JWT)   that sandbox and nothing else; of an issuer's own, no more than its
 *                             scope says
 *   the local token           tenant "local"; never over TLS, where others can reach us
 *   no token, unix socket     tenant "uid:N": the owner of the service, or root
 *
 * A token that is sent must be good: it never falls back to what the socket would allow. What a client
 * certificate has to do with it: client.c. */
#include "api/api.h"

#include "auth/jwt.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* One text for every reason: a stranger learns nothing from it. */
static int refuse(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "no valid token");
    coto_err_remedy(err, "the one that was sent is not good: the local one is new with every start of the service, a sandbox's ends with its sandbox; of others `coto token show` tells why");
    return 401;
}

static int refuse_none(struct coto_err *err)
{
    refuse(err);
    coto_err_remedy(err, "send Authorization: Bearer TOKEN");
    return 401;
}

static int forbid_scope(struct coto_err *err, const char *word)
{
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "the token's scope has no `%s`", word);
    coto_err_remedy(err, "send one that has it: coto token mint --scope \"... %s\"", word);
    return 403;
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

static bool is_owner(const struct coto_api *api, const struct coto_http_peer *peer)
{
    return peer->uid >= 0 && (peer->uid == 0 || peer->uid == api->config.owner_uid);
}

static int check_scope(const struct api_call *call, const struct coto_claims *claims,
                       struct coto_err *err)
{
    bool reads = strcmp(call->endpoint->method, "GET") == 0;

    if (coto_jwt_allows(claims, reads ? "read" : "write"))
        return 0;
    return forbid_scope(err, reads ? "read" : "write");
}

/* What it may not see does not exist for it. */
static int by_sandbox_token(struct api_call *call, const struct coto_claims *claims,
                            struct coto_err *err)
{
    const struct api_sandbox *s = api_sandbox_find(call->api, claims->sandbox);

    if (!s || strcmp(s->tenant, claims->sub) != 0 || (coto_jwt_is_reserved(claims->sub) && !claims->is_own))
        return refuse(err);
    if (call->endpoint->access == COTO_ACCESS_SERVICE || call->endpoint->access == COTO_ACCESS_OPERATOR) {
        bool ends = call->endpoint == &coto_endpoints[COTO_ENDPOINT_destroy] || call->endpoint == &coto_endpoints[COTO_ENDPOINT_extend];
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "%s", ends ? "the token of a sandbox cannot destroy it, nor say how long it lasts"
                                                            : "the token of a sandbox is good for that sandbox only");
        coto_err_remedy(err, ends ? "send a service token, or the local one" : "send a service token");
        return 403;
    }
    if (call->endpoint->access == COTO_ACCESS_SANDBOX && strcmp(call->id, s->id) != 0) {
        coto_err_set(err, COTO_ERR_NOTFOUND, 0, "no such sandbox");
        return 404;
    }
    snprintf(call->caller.tenant, sizeof call->caller.tenant, "%s", s->tenant);
    snprintf(call->caller.sandbox, sizeof call->caller.sandbox, "%s", s->id);
    return check_scope(call, claims, err);
}

static int by_service_token(struct api_call *call, const struct coto_claims *claims,
                            struct coto_err *err)
{
    bool operates = call->endpoint->access == COTO_ACCESS_OPERATOR;

    if (coto_jwt_is_reserved(claims->sub))
        return refuse(err);
    if (operates && !(claims->has_scope && coto_jwt_allows(claims, "metrics")))
        return forbid_scope(err, "metrics");
    snprintf(call->caller.tenant, sizeof call->caller.tenant, "%s", claims->sub);
    return operates ? 0 : check_scope(call, claims, err);
}

static int by_token(struct api_call *call, const char *token, struct coto_err *err)
{
    const struct coto_api *api = call->api;
    struct coto_claims claims;

    if (api->config.token && !coto_http_peer(call->request)->is_tls &&
        is_same(token, api->config.token)) {
        snprintf(call->caller.tenant, sizeof call->caller.tenant, "local");
        return 0;
    }
    if (!api->config.keys ||
        coto_jwt_verify(api->config.keys, token, (int64_t)time(NULL), &claims, NULL) ||
        api_is_revoked(api, claims.sub, claims.jti))
        return refuse(err);
    if (api_client_check_token(call, &claims, err))
        return 401; /* RFC 8705, 3 */
    if (claims.sandbox[0])
        return by_sandbox_token(call, &claims, err);
    return by_service_token(call, &claims, err);
}

int api_authorize(struct api_call *call, struct coto_err *err)
{
    const struct coto_http_peer *peer = coto_http_peer(call->request);
    const char *header = coto_http_header(call->request, "Authorization");

    if (call->endpoint->access == COTO_ACCESS_OPEN)
        return 0;
    if (header)
        return strncasecmp(header, "Bearer ", 7) == 0 /* in any case: RFC 9110, 11.1 */
                   ? by_token(call, header + 7, err)
                   : refuse_none(err);
    if (!is_owner(call->api, peer))
        return refuse_none(err);
    snprintf(call->caller.tenant, sizeof call->caller.tenant, "uid:%d", peer->uid);
    return 0;
}
