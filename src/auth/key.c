/* One key: what it may be, what it is called, its texts. */
#include "auth/b64url.h"
#include "auth/keyset.h"

#include "base/own.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <string.h>

static const char *const alg_names[] = {
#define X(id, name) [COTO_KEY_##id] = name,
    COTO_KEY_ALGS(X)
#undef X
};

const char *coto_key_alg_name(enum coto_key_alg alg)
{
    return alg_names[alg];
}

enum coto_key_alg coto_key_alg_find(const char *name)
{
    for (size_t i = 1; i < sizeof alg_names / sizeof alg_names[0]; i++)
        if (strcmp(name, alg_names[i]) == 0)
            return (enum coto_key_alg)i;
    return COTO_KEY_NONE;
}

int coto_key_err(struct coto_err *err, int kind, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    coto_err_set(err, kind, 0, "%s: %s", what, reason ? reason : "OpenSSL refused it");
    ERR_clear_error();
    return -1;
}

void coto_key_fini(struct coto_key *key)
{
    EVP_PKEY_free(key->pkey);
    key->pkey = NULL;
    OPENSSL_clear_free(key->secret, key->secret_len);
    key->secret = NULL;
    key->secret_len = 0;
}

bool coto_key_id_valid(const char *id, size_t len)
{
    if (len == 0 || len >= COTO_KEY_ID || memmem(id, len, "..", 2))
        return false;
    for (size_t i = 0; i < len; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f || strchr("\"'\\`$<>|&;*?", id[i]))
            return false;
    return true;
}

/* ---- what may be a key ---- */

static int judge_rsa(EVP_PKEY *pkey, struct coto_err *err)
{
    int bits = EVP_PKEY_get_bits(pkey);

    if (bits >= COTO_KEY_RSA_MIN && bits <= COTO_KEY_RSA_MAX)
        return COTO_KEY_RS256;
    coto_err_set(err, COTO_ERR_INPUT, 0, "an RSA key of %d bits", bits);
    return coto_err_remedy(err, "RSA keys have %d to %d bits: coto token keygen rs256 DIR",
                           COTO_KEY_RSA_MIN, COTO_KEY_RSA_MAX);
}

static int judge_ec(EVP_PKEY *pkey, struct coto_err *err)
{
    char curve[64] = "unnamed";

    if (EVP_PKEY_get_group_name(pkey, curve, sizeof curve, NULL) == 1 &&
        strcmp(curve, SN_X9_62_prime256v1) == 0)
        return COTO_KEY_ES256;
    coto_err_set(err, COTO_ERR_INPUT, 0, "an EC key on the curve %s", curve);
    return coto_err_remedy(err, "ES256 needs P-256: coto token keygen es256 DIR");
}

/* The algorithm, or -1. Keys that are for PSS only (RSA-PSS) are none of ours. */
static int judge(EVP_PKEY *pkey, struct coto_err *err)
{
    if (EVP_PKEY_is_a(pkey, "RSA"))
        return judge_rsa(pkey, err);
    if (EVP_PKEY_is_a(pkey, "EC"))
        return judge_ec(pkey, err);
    if (EVP_PKEY_is_a(pkey, "ED25519"))
        return COTO_KEY_EDDSA;
    const char *type = EVP_PKEY_get0_type_name(pkey);
    coto_err_set(err, COTO_ERR_INPUT, 0, "a key of type %s", type ? type : "unknown");
    return coto_err_remedy(err, "tokens are signed with RSA, EC P-256 or Ed25519 keys or a secret");
}

/* Is the point on the curve, are modulus and exponent sane? */
static int check_public(EVP_PKEY *pkey, struct coto_err *err)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(pkey, NULL);
    int sound = ctx ? EVP_PKEY_public_check(ctx) : 0;

    EVP_PKEY_CTX_free(ctx);
    return sound == 1 ? 0 : coto_key_err(err, COTO_ERR_INPUT, "the key is not sound");
}

/* ---- what it is called ---- */

static int add_bn(EVP_PKEY *pkey, const char *param, int width, struct coto_buf *out)
{
    unsigned char bytes[COTO_KEY_RSA_MAX / 8];
    BIGNUM *bn = NULL;

    if (EVP_PKEY_get_bn_param(pkey, param, &bn) != 1)
        return -1;
    int len = width ? width : BN_num_bytes(bn);
    int n = len <= (int)sizeof bytes ? BN_bn2binpad(bn, bytes, len) : -1;
    BN_free(bn);
    if (n >= 0)
        coto_b64url_add(out, bytes, (size_t)n);
    return n >= 0 ? 0 : -1;
}

static int add_rsa(EVP_PKEY *pkey, struct coto_buf *out)
{
    coto_buf_adds(out, "\"e\":\"");
    if (add_bn(pkey, OSSL_PKEY_PARAM_RSA_E, 0, out))
        return -1;
    coto_buf_adds(out, "\",\"kty\":\"RSA\",\"n\":\"");
    int failed = add_bn(pkey, OSSL_PKEY_PARAM_RSA_N, 0, out);
    coto_buf_adds(out, "\"");
    return failed;
}

static int add_ec(EVP_PKEY *pkey, struct coto_buf *out)
{
    coto_buf_adds(out, "\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"");
    if (add_bn(pkey, OSSL_PKEY_PARAM_EC_PUB_X, 32, out))
        return -1;
    coto_buf_adds(out, "\",\"y\":\"");
    int failed = add_bn(pkey, OSSL_PKEY_PARAM_EC_PUB_Y, 32, out);
    coto_buf_adds(out, "\"");
    return failed;
}

static int add_okp(EVP_PKEY *pkey, struct coto_buf *out)
{
    unsigned char raw[32];
    size_t len = sizeof raw;

    if (EVP_PKEY_get_raw_public_key(pkey, raw, &len) != 1)
        return -1;
    coto_buf_adds(out, "\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"");
    coto_b64url_add(out, raw, len);
    coto_buf_adds(out, "\"");
    return 0;
}

int coto_key_add_jwk(const struct coto_key *key, struct coto_buf *out)
{
    switch (key->alg) {
    case COTO_KEY_RS256:
        return add_rsa(key->pkey, out);
    case COTO_KEY_ES256:
        return add_ec(key->pkey, out);
    case COTO_KEY_EDDSA:
        return add_okp(key->pkey, out);
    default:
        return -1; /* a secret has no public half */
    }
}

static int set_id(struct coto_key *key, const unsigned char *hash, size_t len)
{
    coto_auto_buf id = {0};

    coto_b64url_add(&id, hash, len);
    if (id.failed || id.len >= sizeof key->id)
        return -1;
    memcpy(key->id, id.data, id.len + 1);
    return 0;
}

static int set_thumbprint(struct coto_key *key)
{
    coto_auto_buf jwk = {0};
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    coto_buf_addc(&jwk, '{');
    if (coto_key_add_jwk(key, &jwk))
        return -1;
    coto_buf_addc(&jwk, '}');
    if (jwk.failed || EVP_Digest(jwk.data, jwk.len, hash, &len, EVP_sha256(), NULL) != 1)
        return -1;
    return set_id(key, hash, len);
}

/* No plain hash of the secret is shown to anybody; like a token, this tells nothing of it. */
static int set_secret_id(struct coto_key *key)
{
    static const char text[] = "coto key id";
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!HMAC(EVP_sha256(), key->secret, (int)key->secret_len, (const unsigned char *)text,
              sizeof text - 1, mac, &len))
        return -1;
    return set_id(key, mac, 16);
}

/* ---- where keys come from ---- */

int coto_key_from_pkey(EVP_PKEY *pkey, bool is_private, struct coto_key *ret_key,
                       struct coto_err *err)
{
    coto_auto_key key = {.pkey = pkey, .is_private = is_private};
    int alg = judge(pkey, err);

    if (alg < 0 || check_public(pkey, err))
        return -1;
    key.alg = (enum coto_key_alg)alg;
    if (set_thumbprint(&key))
        return coto_key_err(err, COTO_ERR_INPUT, "the key's public half");
    *ret_key = key;
    key = (struct coto_key){0};
    return 0;
}

int coto_key_from_secret(const void *secret, size_t len, struct coto_key *ret_key,
                         struct coto_err *err)
{
    coto_auto_key key = {.alg = COTO_KEY_HS256, .is_private = true};

    if (len < COTO_KEY_SECRET_MIN || len > COTO_KEY_SECRET_MAX) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "a secret of %zu bytes", len);
        return coto_err_remedy(err, "secrets have %d to %d bytes: coto token keygen hs256 DIR",
                               COTO_KEY_SECRET_MIN, COTO_KEY_SECRET_MAX);
    }
    key.secret = OPENSSL_memdup(secret, len);
    key.secret_len = len;
    if (!key.secret || set_secret_id(&key))
        return coto_key_err(err, COTO_ERR_SYSTEM, "the secret");
    *ret_key = key;
    key = (struct coto_key){0};
    return 0;
}

/* 256 random bits as text, so that every tool reads the file as the same bytes. */
static int generate_secret(struct coto_key *ret_key, struct coto_err *err)
{
    unsigned char random[32];
    coto_auto_buf text = {0};

    if (RAND_bytes(random, sizeof random) != 1)
        return coto_key_err(err, COTO_ERR_SYSTEM, "random bytes");
    coto_b64url_add(&text, random, sizeof random);
    OPENSSL_cleanse(random, sizeof random);
    if (text.failed)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "a new secret");
    int failed = coto_key_from_secret(text.data, text.len, ret_key, err);
    OPENSSL_cleanse(text.data, text.len);
    return failed;
}

int coto_key_generate(enum coto_key_alg alg, struct coto_key *ret_key, struct coto_err *err)
{
    EVP_PKEY *pkey = NULL;

    if (alg == COTO_KEY_HS256)
        return generate_secret(ret_key, err);
    if (alg == COTO_KEY_RS256)
        pkey = EVP_RSA_gen(3072);
    else if (alg == COTO_KEY_ES256)
        pkey = EVP_EC_gen("P-256");
    else if (alg == COTO_KEY_EDDSA)
        pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (!pkey)
        return coto_key_err(err, COTO_ERR_SYSTEM, "a new key");
    return coto_key_from_pkey(pkey, true, ret_key, err);
}

/* ---- its texts ---- */

static int add_pem(const struct coto_key *key, bool wants_private, struct coto_buf *out)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    char *text = NULL;
    int done = 0;

    if (bio && wants_private)
        done = PEM_write_bio_PrivateKey(bio, key->pkey, NULL, NULL, 0, NULL, NULL);
    else if (bio)
        done = PEM_write_bio_PUBKEY(bio, key->pkey);
    long len = done == 1 ? BIO_get_mem_data(bio, &text) : 0;
    if (len > 0)
        coto_buf_add(out, text, (size_t)len);
    BIO_free(bio);
    return len > 0 ? 0 : -1;
}

int coto_key_encode(const struct coto_key *key, struct coto_buf *ret_private,
                    struct coto_buf *ret_public, struct coto_err *err)
{
    if (key->alg == COTO_KEY_HS256) {
        coto_buf_add(ret_private, key->secret, key->secret_len);
        coto_buf_addc(ret_private, '\n');
    } else if (add_pem(key, true, ret_private) || add_pem(key, false, ret_public)) {
        return coto_key_err(err, COTO_ERR_SYSTEM, "the key's text");
    }
    if (ret_private->failed || ret_public->failed)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "the key's text");
    return 0;
}
