/* Signatures as RFC 7518 and RFC 8037 have them. */
#include "auth/keyset.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define MAC_BYTES 32
#define EC_HALF 32
#define DER_MAX 80
#define SIG_MAX (COTO_KEY_RSA_MAX / 8)

/* Ed25519 hashes by itself. */
static const EVP_MD *digest_of(const struct coto_key *key)
{
    return key->alg == COTO_KEY_EDDSA ? NULL : EVP_sha256();
}

static bool make_mac(const struct coto_key *key, const void *data, size_t len,
                     unsigned char ret_mac[EVP_MAX_MD_SIZE])
{
    unsigned n = 0;

    return HMAC(EVP_sha256(), key->secret, (int)key->secret_len, data, len, ret_mac, &n) &&
           n == MAC_BYTES;
}

/* A token has r and s side by side, OpenSSL wants DER. 0 on failure. */
static size_t der_of_raw(const unsigned char *raw, unsigned char ret_der[DER_MAX])
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, EC_HALF, NULL);
    BIGNUM *s = BN_bin2bn(raw + EC_HALF, EC_HALF, NULL);
    int len = 0;

    if (sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL;
        len = i2d_ECDSA_SIG(sig, NULL);
        len = len > 0 && len <= DER_MAX ? i2d_ECDSA_SIG(sig, &ret_der) : 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return len > 0 ? (size_t)len : 0;
}

static bool raw_of_der(const unsigned char *der, size_t len, unsigned char ret_raw[2 * EC_HALF])
{
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
    bool done = sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), ret_raw, EC_HALF) == EC_HALF &&
                BN_bn2binpad(ECDSA_SIG_get0_s(sig), ret_raw + EC_HALF, EC_HALF) == EC_HALF;

    ECDSA_SIG_free(sig);
    return done;
}

static bool verify_pkey(const struct coto_key *key, const void *data, size_t len,
                        const unsigned char *sig, size_t sig_len)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, digest_of(key), NULL, key->pkey) == 1 &&
                EVP_DigestVerify(ctx, sig, sig_len, data, len) == 1;

    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

bool coto_key_signed(const struct coto_key *key, const void *data, size_t len,
                     const unsigned char *sig, size_t sig_len)
{
    unsigned char room[EVP_MAX_MD_SIZE > DER_MAX ? EVP_MAX_MD_SIZE : DER_MAX];

    switch (key->alg) {
    case COTO_KEY_HS256:
        return sig_len == MAC_BYTES && make_mac(key, data, len, room) &&
               CRYPTO_memcmp(room, sig, MAC_BYTES) == 0;
    case COTO_KEY_ES256:
        if (sig_len != 2 * EC_HALF)
            return false;
        sig_len = der_of_raw(sig, room);
        return sig_len && verify_pkey(key, data, len, room, sig_len);
    case COTO_KEY_EDDSA:
    case COTO_KEY_RS256:
        return sig_len == (size_t)EVP_PKEY_get_size(key->pkey) &&
               verify_pkey(key, data, len, sig, sig_len);
    default:
        return false;
    }
}

/* Length of the signature, 0 on failure. */
static size_t sign_pkey(const struct coto_key *key, const void *data, size_t len,
                        unsigned char ret_sig[SIG_MAX])
{
    unsigned char der[SIG_MAX];
    size_t n = SIG_MAX;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestSignInit(ctx, NULL, digest_of(key), NULL, key->pkey) == 1 &&
                EVP_DigestSign(ctx, key->alg == COTO_KEY_ES256 ? der : ret_sig, &n, data, len) == 1;

    EVP_MD_CTX_free(ctx);
    if (good && key->alg == COTO_KEY_ES256) {
        good = raw_of_der(der, n, ret_sig);
        n = 2 * EC_HALF;
    }
    return good ? n : 0;
}

int coto_key_sign(const struct coto_key *key, const void *data, size_t len,
                  struct coto_buf *ret_sig, struct coto_err *err)
{
    unsigned char sig[SIG_MAX];
    size_t n = 0;

    if (!key->is_private) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "a public key cannot sign");
        return coto_err_remedy(err, "use the private key or the secret it belongs to");
    }
    if (key->alg == COTO_KEY_HS256)
        n = make_mac(key, data, len, sig) ? MAC_BYTES : 0;
    else
        n = sign_pkey(key, data, len, sig);
    if (n == 0)
        return coto_key_err(err, COTO_ERR_SYSTEM, "signing");
    coto_buf_add(ret_sig, sig, n);
    return ret_sig->failed ? coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "signing") : 0;
}
