/* minisign's files: a comment, and base64 of two letters, the key's id and the key or the
 * signature. "Ed" signs the message itself, "ED" its BLAKE2b-512. A second signature covers the
 * first one and the trusted comment. */
#include "image/image.h"

#include "base/json.h"

#include <string.h>

struct lines {
    const char *text[4];
    size_t len[4];
    int count;
};

static void split(const struct coto_buf *data, struct lines *ret)
{
    const char *p = coto_buf_str(data);

    for (ret->count = 0; *p && ret->count < 4; ret->count++) {
        size_t n = strcspn(p, "\n");
        ret->text[ret->count] = p;
        ret->len[ret->count] = n > 0 && p[n - 1] == '\r' ? n - 1 : n;
        p += n + (p[n] == '\n');
    }
}

/* Bytes of a base64 line of exactly that length; false when it is not. */
static bool decode(const struct lines *lines, int i, size_t len, unsigned char *ret)
{
    coto_auto_buf raw = {0};

    if (i >= lines->count || coto_base64_take(&raw, lines->text[i], lines->len[i]) ||
        raw.len != len)
        return false;
    memcpy(ret, raw.data, len);
    return true;
}

static bool verify(const unsigned char *key, const unsigned char *signature, const void *data,
                   size_t len)
{
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, 32);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
                EVP_DigestVerify(ctx, signature, 64, data, len) == 1;

    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    return good;
}

static bool fits(const unsigned char *key, const unsigned char *signature,
                 const struct coto_buf *message)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    bool is_hashed = signature[1] == 'D';

    if (!is_hashed)
        return verify(key + 10, signature + 10, coto_buf_str(message), message->len);
    return EVP_Digest(coto_buf_str(message), message->len, hash, NULL, EVP_blake2b512(), NULL) ==
               1 &&
           verify(key + 10, signature + 10, hash, 64);
}

static bool comment_fits(const unsigned char *key, const unsigned char *signature,
                         const struct lines *lines)
{
    static const char mark[] = "trusted comment: ";
    unsigned char global[64];
    coto_auto_buf text = {0};

    if (lines->count < 4 || lines->len[2] < sizeof mark - 1 ||
        strncmp(lines->text[2], mark, sizeof mark - 1) != 0 ||
        !decode(lines, 3, sizeof global, global))
        return false;
    coto_buf_add(&text, signature + 10, 64);
    coto_buf_add(&text, lines->text[2] + sizeof mark - 1, lines->len[2] - (sizeof mark - 1));
    return !text.failed && verify(key + 10, global, text.data, text.len);
}

int image_minisign_check(const struct image_text *key, const struct coto_buf *signature,
                         const struct coto_buf *message, struct coto_err *err)
{
    unsigned char public[42], sig[74];
    struct lines lines;

    split(&key->data, &lines);
    if (!decode(&lines, lines.count > 1 ? 1 : 0, sizeof public, public) ||
        memcmp(public, "Ed", 2) != 0) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "'%s': not a minisign public key", key->path);
        return coto_err_remedy(err, "give the .pub file that 'minisign -G' made");
    }
    split(signature, &lines);
    if (!decode(&lines, 1, sizeof sig, sig) || sig[0] != 'E' || (sig[1] != 'd' && sig[1] != 'D'))
        return IMAGE_SIG_BAD;
    if (memcmp(public + 2, sig + 2, 8) != 0)
        return IMAGE_SIG_OTHER_KEY;
    return fits(public, sig, message) && comment_fits(public, sig, &lines) ? IMAGE_SIG_GOOD
                                                                           : IMAGE_SIG_BAD;
}
