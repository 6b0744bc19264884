/* Key sets (RFC 7517). What is for another purpose or of a kind we do not know is passed over,
 * as the standard asks; what claims to be for us must be sound. */
#include "auth/b64url.h"
#include "auth/claims.h"
#include "auth/keyset.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <string.h>

static const char *text_of(const json_t *jwk, const char *member)
{
    return json_string_value(json_object_get(jwk, member));
}

/* Which algorithm a key of that type is for; NONE: not one of ours. */
static enum coto_key_alg alg_of(const json_t *jwk)
{
    const char *kty = text_of(jwk, "kty");
    const char *crv = text_of(jwk, "crv");

    if (!kty)
        return COTO_KEY_NONE;
    if (strcmp(kty, "oct") == 0)
        return COTO_KEY_HS256;
    if (strcmp(kty, "RSA") == 0)
        return COTO_KEY_RS256;
    if (strcmp(kty, "EC") == 0 && crv && strcmp(crv, "P-256") == 0)
        return COTO_KEY_ES256;
    if (strcmp(kty, "OKP") == 0 && crv && strcmp(crv, "Ed25519") == 0)
        return COTO_KEY_EDDSA;
    return COTO_KEY_NONE;
}

static bool is_for_signatures(const json_t *jwk)
{
    const json_t *use = json_object_get(jwk, "use");
    const json_t *ops = json_object_get(jwk, "key_ops");

    if (use && (!json_is_string(use) || strcmp(json_string_value(use), "sig") != 0))
        return false;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const char *op = json_string_value(json_array_get(ops, i));
        if (op && (strcmp(op, "verify") == 0 || strcmp(op, "sign") == 0))
            return true;
    }
    return !ops;
}

static bool is_ours(const json_t *jwk)
{
    enum coto_key_alg alg = alg_of(jwk);
    const json_t *stated = json_object_get(jwk, "alg");
    const char *name = json_string_value(stated);

    if (alg == COTO_KEY_NONE || !is_for_signatures(jwk))
        return false;
    return !stated || (name && strcmp(name, coto_key_alg_name(alg)) == 0);
}

/* Bytes of a base64url member, or -1. With exact set it must have that many. */
static long bytes_of(const json_t *jwk, const char *member, unsigned char *ret_data, size_t room,
                     size_t exact)
{
    const json_t *value = json_object_get(jwk, member);
    size_t len = json_string_length(value);

    if (!json_is_string(value) || len == 0 || COTO_B64URL_ROOM(len) > room)
        return -1;
    long n = coto_b64url_decode(json_string_value(value), len, ret_data);
    return exact && n != (long)exact ? -1 : n;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *build)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *pkey = NULL;

    if (params && ctx && EVP_PKEY_fromdata_init(ctx) == 1 &&
        EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, params) != 1)
        pkey = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return pkey;
}

static EVP_PKEY *make_rsa(const json_t *jwk)
{
    unsigned char bytes[COTO_KEY_RSA_MAX / 8 + 8];
    long n_len = bytes_of(jwk, "n", bytes, sizeof bytes, 0);
    BIGNUM *n = n_len > 0 ? BN_bin2bn(bytes, (int)n_len, NULL) : NULL;
    long e_len = bytes_of(jwk, "e", bytes, 16, 0);
    BIGNUM *e = e_len > 0 ? BN_bin2bn(bytes, (int)e_len, NULL) : NULL;
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *pkey = NULL;

    if (n && e && build && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1)
        pkey = from_params("RSA", build);
    OSSL_PARAM_BLD_free(build);
    BN_free(n);
    BN_free(e);
    return pkey;
}

static EVP_PKEY *make_ec(const json_t *jwk)
{
    unsigned char point[1 + 64 + 8] = {POINT_CONVERSION_UNCOMPRESSED};
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *pkey = NULL;

    if (build && bytes_of(jwk, "x", point + 1, 36, 32) == 32 &&
        bytes_of(jwk, "y", point + 33, 36, 32) == 32 &&
        OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, 65) == 1)
        pkey = from_params("EC", build);
    OSSL_PARAM_BLD_free(build);
    return pkey;
}

static EVP_PKEY *make_okp(const json_t *jwk)
{
    unsigned char raw[36];

    if (bytes_of(jwk, "x", raw, sizeof raw, 32) != 32)
        return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, 32);
}

static int make_secret(const json_t *jwk, struct coto_key *ret_key, struct coto_err *err)
{
    unsigned char secret[COTO_KEY_SECRET_MAX + 8];
    long len = bytes_of(jwk, "k", secret, sizeof secret, 0);

    if (len < 0)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "its member k is not base64url, or too long");
    int failed = coto_key_from_secret(secret, (size_t)len, ret_key, err);
    OPENSSL_cleanse(secret, sizeof secret);
    ret_key->is_private = false;
    return failed;
}

static int make_key(const json_t *jwk, struct coto_key *ret_key, struct coto_err *err)
{
    enum coto_key_alg alg = alg_of(jwk);
    EVP_PKEY *pkey;

    if (alg == COTO_KEY_HS256)
        return make_secret(jwk, ret_key, err);
    if (alg == COTO_KEY_RS256)
        pkey = make_rsa(jwk);
    else
        pkey = alg == COTO_KEY_ES256 ? make_ec(jwk) : make_okp(jwk);
    if (!pkey)
        return coto_key_err(err, COTO_ERR_INPUT, "its members are not a key");
    return coto_key_from_pkey(pkey, false, ret_key, err);
}

static int set_kid(const json_t *jwk, struct coto_key *key, struct coto_err *err)
{
    const json_t *kid = json_object_get(jwk, "kid");
    size_t len = json_string_length(kid);

    if (!kid)
        return 0; /* the thumbprint stays */
    if (!json_is_string(kid) || !coto_key_id_valid(json_string_value(kid), len))
        return coto_err_set(err, COTO_ERR_INPUT, 0, "its kid is not a key id");
    memcpy(key->id, json_string_value(kid), len + 1);
    return 0;
}

static int add_jwk(struct coto_keyset *set, const json_t *jwk, struct coto_err *err)
{
    coto_auto_key key = {0};

    if (!json_is_object(jwk))
        return coto_err_set(err, COTO_ERR_INPUT, 0, "not an object");
    if (!is_ours(jwk))
        return 0;
    if (make_key(jwk, &key, err) || set_kid(jwk, &key, err))
        return -1;
    return coto_keyset_take(set, &key, err);
}

int coto_keyset_add_jwks(struct coto_keyset *set, const char *text, size_t len,
                         struct coto_err *err)
{
    json_error_t where;
    coto_auto_json *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    const json_t *keys = json_object_get(root, "keys");
    size_t before = set->count;

    if (!root)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "JSON, line %d: %s", where.line, where.text);
    if (!json_is_array(keys)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "not a key set");
        return coto_err_remedy(err, "a JWKS file is {\"keys\": [...]}, see coto token jwks");
    }
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (add_jwk(set, json_array_get(keys, i), err))
            return coto_err_wrap(err, "key %zu", i + 1);
    /* None at all is how an operator stops every token at once. */
    if (set->count > before || json_array_size(keys) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "no key in it verifies HS256, RS256, ES256 or EdDSA");
    return coto_err_remedy(err, "look at kty, crv, use, key_ops and alg of its keys");
}

bool coto_jwks_is_secret(const char *text, size_t len)
{
    json_error_t where;
    coto_auto_json *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    const json_t *keys = json_object_get(root, "keys");

    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *jwk = json_array_get(keys, i);
        if (json_object_get(jwk, "k") || json_object_get(jwk, "d"))
            return true;
    }
    return false;
}
