/* The client's certificate: whose is let in, and which tokens are good with it.
 *
 * Its names are those of its SAN (DNS, URI), and its CN only where it has no SAN: who issues a certificate for
 * several names may have put anything into the CN. They are compared as they are written, without wildcards. */
#include "api/api.h"

#include "auth/jwt.h"

#include <string.h>

#define OWN_URI "URI:urn:coto:client:" /* what coto pki gives to clients */

/* name has its kind before it; what is asked for may have. */
static bool is_name(const char *name, const char *asked)
{
    const char *bare = strchr(name, ':') + 1;
    size_t own = sizeof OWN_URI - 1;

    return strcmp(name, asked) == 0 || strcmp(bare, asked) == 0 ||
           (strncmp(name, OWN_URI, own) == 0 && strcmp(name + own, asked) == 0);
}

static bool is_asked(const char *name, void *arg)
{
    return is_name(name, arg);
}

static bool is_listed(const char *name, void *arg)
{
    for (const char *const *listed = arg; *listed; listed++)
        if (is_name(name, *listed))
            return true;
    return false;
}

int api_client_check(const struct coto_api *api, const struct coto_http_request *request, struct coto_err *err)
{
    const char *const *names = api->config.client_names;

    if (!coto_http_peer(request)->is_tls || !names || !*names ||
        coto_http_any_name(request, is_listed, (void *)names))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "the client certificate has no name that is let in here");
    return coto_err_remedy(err, "show another one; an operator can add a name of its SAN to `client-names`");
}

static bool has_certificate_of(const struct api_call *call, const struct coto_claims *claims)
{
    unsigned char hash[sizeof claims->certificate];

    return coto_http_certificate_hash(call->request, hash) && memcmp(hash, claims->certificate, sizeof hash) == 0;
}

/* Who is on this host has no certificate, and no certificate is theirs. */
static bool has_name_of(const struct api_call *call, const struct coto_claims *claims)
{
    if (coto_jwt_is_reserved(claims->sub))
        return !coto_http_peer(call->request)->is_tls;
    return coto_http_any_name(call->request, is_asked, (void *)claims->sub);
}

int api_client_check_token(const struct api_call *call, const struct coto_claims *claims, struct coto_err *err)
{
    const char *where = coto_http_peer(call->request)->is_tls ? "" : ", at an address that asks for one: here none can be shown";

    if (claims->has_certificate && !has_certificate_of(call, claims)) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "the token is good with another client certificate only (cnf)");
        return coto_err_remedy(err, "connect with the certificate it was made for%s", where);
    }
    if (!call->api->config.binds_tokens || has_name_of(call, claims))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "the token is for a name that the client certificate does not have");
    return coto_err_remedy(err, "connect with a certificate of the token's subject%s; `bind-tokens` asks for it", where);
}
