#include "auth/jwt.h"

#include "auth/b64url.h"
#include "auth/claims.h"
#include "auth/keyset.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define PART_ROOM COTO_B64URL_ROOM(COTO_JWT_MAX)

/* ---- the three parts ---- */

struct part {
    const char *text;
    size_t len;
};

struct parts {
    struct part header, claims, sig;
    size_t signed_len; /* header, dot, claims: what the signature is about */
};

static int split(const char *token, struct parts *ret_parts, struct coto_err *err)
{
    size_t len = strnlen(token, COTO_JWT_MAX + 1);
    const char *first = memchr(token, '.', len);
    const char *second = first ? memchr(first + 1, '.', len - (size_t)(first + 1 - token)) : NULL;

    if (len > COTO_JWT_MAX)
        return coto_jwt_refuse(err, "longer than %d bytes", COTO_JWT_MAX);
    if (!second || memchr(second + 1, '.', len - (size_t)(second + 1 - token)))
        return coto_jwt_refuse(err, "not three parts with dots between");
    ret_parts->header = (struct part){token, (size_t)(first - token)};
    ret_parts->claims = (struct part){first + 1, (size_t)(second - first - 1)};
    ret_parts->signed_len = (size_t)(second - token);
    ret_parts->sig = (struct part){second + 1, len - ret_parts->signed_len - 1};
    return 0;
}

static long decode(const struct part *part, const char *name, unsigned char ret_data[PART_ROOM],
                   struct coto_err *err)
{
    long len = part->len ? coto_b64url_decode(part->text, part->len, ret_data) : -1;

    return len < 0 ? coto_jwt_refuse(err, "its %s is not base64url", name) : len;
}

/* ---- the header ---- */

struct header {
    enum coto_key_alg alg;
    char kid[COTO_KEY_ID]; /* "" when it names none */
};

/* Each of these would have the token say how it is to be verified. */
static int check_forbidden(const json_t *root, struct coto_err *err)
{
    static const char *const names[] = {"crit", "b64", "jku", "jwk", "x5u", "x5c", "zip"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (json_object_get(root, names[i]))
            return coto_jwt_refuse(err, "its header has %s", names[i]);
    return 0;
}

static int check_typ(const json_t *root, struct coto_err *err)
{
    const json_t *value = json_object_get(root, "typ");
    const char *typ = json_string_value(value);

    if (!value)
        return 0;
    if (typ && strncasecmp(typ, "application/", 12) == 0)
        typ += 12;
    if (typ && (strcasecmp(typ, "JWT") == 0 || strcasecmp(typ, "at+jwt") == 0))
        return 0;
    return coto_jwt_refuse(err, "its typ is neither JWT nor at+jwt");
}

static int copy_kid(const json_t *root, struct header *header, struct coto_err *err)
{
    const json_t *value = json_object_get(root, "kid");
    size_t len = json_string_length(value);

    if (!value)
        return 0;
    if (!json_is_string(value) || !coto_key_id_valid(json_string_value(value), len))
        return coto_jwt_refuse(err, "its kid is not a key id");
    memcpy(header->kid, json_string_value(value), len + 1);
    return 0;
}

static int read_header(const struct part *part, struct header *ret_header, struct coto_err *err)
{
    unsigned char text[PART_ROOM];
    struct header header = {0};
    long len = decode(part, "header", text, err);

    if (len < 0)
        return -1;
    coto_auto_json *root = coto_claims_load((char *)text, (size_t)len);
    if (!root)
        return coto_jwt_refuse(err, "its header is not a JSON object");
    const char *alg = json_string_value(json_object_get(root, "alg"));
    header.alg = alg ? coto_key_alg_find(alg) : COTO_KEY_NONE;
    if (header.alg == COTO_KEY_NONE)
        return coto_jwt_refuse(err, "its alg is none of HS256, RS256, ES256, EdDSA");
    if (check_forbidden(root, err) || check_typ(root, err) || copy_kid(root, &header, err))
        return -1;
    *ret_header = header;
    return 0;
}

/* ---- the signature ---- */

/* The key's own algorithm decides. A token that names a key is verified by that or none. */
static bool fits(const struct coto_key *key, const struct header *header)
{
    if (key->alg != header->alg)
        return false;
    if (!*header->kid)
        return !key->is_own;
    return strcmp(key->id, header->kid) == 0 || strcmp(key->name, header->kid) == 0;
}

struct signature {
    const char *data;
    size_t data_len;
    unsigned char bytes[PART_ROOM];
    size_t len;
};

static bool is_by(const struct coto_key *key, const struct header *header,
                  const struct signature *sig)
{
    return fits(key, header) &&
           coto_key_signed(key, sig->data, sig->data_len, sig->bytes, sig->len);
}

/* By a key of the files, seen before or verified now. A MAC costs no more than the hash. */
static bool is_by_files(struct coto_keyset *set, const struct header *header,
                        const struct signature *sig, size_t token_len)
{
    unsigned char hash[EVP_MAX_MD_SIZE] = {0};
    bool remembers = header->alg != COTO_KEY_HS256 &&
                     EVP_Digest(sig->data, token_len, hash, NULL, EVP_sha256(), NULL) == 1;

    if (remembers && coto_keyset_knows(set, hash))
        return true;
    for (size_t i = 0; i < set->count; i++)
        if (is_by(&set->items[i], header, sig)) {
            if (remembers)
                coto_keyset_learn(set, hash);
            return true;
        }
    return false;
}

static int check_signature(struct coto_keys *keys, const char *token, const struct parts *parts,
                           bool *ret_is_own, struct coto_err *err)
{
    struct signature sig = {.data = token, .data_len = parts->signed_len};
    struct header header;

    if (read_header(&parts->header, &header, err))
        return -1;
    long len = decode(&parts->sig, "signature", sig.bytes, err);
    if (len < 0)
        return -1;
    sig.len = (size_t)len;
    *ret_is_own = is_by(coto_keys_own(keys), &header, &sig);
    if (*ret_is_own)
        return 0;
    struct coto_keyset *set = coto_keys_hold(keys);
    bool good = is_by_files(set, &header, &sig, parts->signed_len + 1 + parts->sig.len);
    coto_keyset_release(set);
    return good ? 0 : coto_jwt_refuse(err, "not signed by %s", coto_keys_rules(keys)->signer);
}

/* ---- the claims ---- */

static int check_times(const struct coto_claims *claims, int64_t now_s, int64_t skew_s,
                       struct coto_err *err)
{
    if (claims->exp <= now_s - skew_s) {
        coto_jwt_refuse(err, "it has expired");
        return coto_err_remedy(err, "get a new one: coto token mint");
    }
    if (claims->nbf > now_s + skew_s || claims->iat > now_s + skew_s) {
        coto_jwt_refuse(err, "it is not valid yet");
        return coto_err_remedy(err, "compare the clocks of this host and of the issuer");
    }
    return 0;
}

static int check_issuer(const struct coto_claims *claims, const struct coto_key_rules *rules,
                        bool is_own, struct coto_err *err)
{
    const char *wanted = is_own ? COTO_JWT_OWN_ISSUER : rules->iss;

    if (!is_own && strcmp(claims->iss, COTO_JWT_OWN_ISSUER) == 0)
        return coto_jwt_refuse(err, "its iss '%s' is the service's own", claims->iss);
    if (*wanted && strcmp(claims->iss, wanted) != 0)
        return coto_jwt_refuse(err, "it is of another issuer");
    if (is_own && !*claims->sandbox)
        return coto_jwt_refuse(err, "it is for no sandbox");
    return 0;
}

bool coto_jwt_is_reserved(const char *sub)
{
    return strcmp(sub, "local") == 0 || strncmp(sub, "uid:", 4) == 0;
}

static int check_subject(const struct coto_claims *claims, bool is_own, struct coto_err *err)
{
    if (is_own || !coto_jwt_is_reserved(claims->sub))
        return 0;
    coto_jwt_refuse(err, "its sub '%s' is reserved for who is on the service's host", claims->sub);
    return coto_err_remedy(err, "mint it for another tenant than local and uid:N");
}

int coto_jwt_verify(struct coto_keys *keys, const char *token, int64_t now_s,
                    struct coto_claims *ret_claims, struct coto_err *err)
{
    const struct coto_key_rules *rules = coto_keys_rules(keys);
    unsigned char text[PART_ROOM];
    struct coto_claims claims;
    struct parts parts;
    bool is_own = false;

    if (split(token, &parts, err) || check_signature(keys, token, &parts, &is_own, err))
        return -1;
    long len = decode(&parts.claims, "claims", text, err);
    if (len < 0 || coto_claims_parse((char *)text, (size_t)len, rules->aud, &claims, err) ||
        check_times(&claims, now_s, rules->skew_s, err) ||
        check_issuer(&claims, rules, is_own, err) || check_subject(&claims, is_own, err))
        return -1;
    claims.is_own = is_own;
    *ret_claims = claims;
    return 0;
}

const char *const coto_jwt_scopes[] = {"read", "write", "metrics", NULL};

bool coto_jwt_allows(const struct coto_claims *claims, const char *word)
{
    size_t len = strlen(word);
    const char *p = claims->scope;

    if (!claims->has_scope)
        return true;
    while (len && *p) {
        size_t n = strcspn(p, " ");
        if (n == len && strncmp(p, word, n) == 0)
            return true;
        p += n + strspn(p + n, " ");
    }
    return false;
}

/* ---- minting ---- */

static void add_header(const struct coto_key *key, struct coto_buf *out)
{
    coto_auto_buf text = {0};

    /* Ids have no letters that need escapes. */
    coto_buf_addf(&text, "{\"alg\":\"%s\",\"kid\":\"%s\",\"typ\":\"JWT\"}",
                  coto_key_alg_name(key->alg), key->id);
    out->failed |= text.failed;
    coto_b64url_add(out, coto_buf_str(&text), text.len);
}

static int add_claims(const struct coto_claims *claims, struct coto_buf *out, struct coto_err *err)
{
    coto_auto_buf text = {0};
    struct coto_claims again;

    coto_claims_add(claims, &text);
    out->failed |= text.failed;
    if (text.failed || coto_claims_parse(text.data, text.len, NULL, &again, err))
        return -1;
    coto_b64url_add(out, text.data, text.len);
    return 0;
}

int coto_jwt_mint(const struct coto_key *key, const struct coto_claims *claims,
                  struct coto_buf *ret_token, struct coto_err *err)
{
    coto_auto_buf token = {0};
    coto_auto_buf sig = {0};

    add_header(key, &token);
    coto_buf_addc(&token, '.');
    if (add_claims(claims, &token, err) && !token.failed) {
        if (err)
            err->kind = COTO_ERR_USAGE; /* it is the caller's request that is wrong, not a token */
        return -1;
    }
    if (token.failed)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "a token");
    if (coto_key_sign(key, token.data, token.len, &sig, err))
        return -1;
    coto_buf_addc(&token, '.');
    coto_b64url_add(&token, sig.data, sig.len);
    if (token.len > COTO_JWT_MAX)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "a token over %d bytes", COTO_JWT_MAX);
    coto_buf_add(ret_token, coto_buf_str(&token), token.len);
    return token.failed || ret_token->failed
               ? coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "a token")
               : 0;
}

int coto_jwt_make_id(char *ret_id, size_t size, struct coto_err *err)
{
    unsigned char random[16];
    coto_auto_buf text = {0};

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "random bytes");
    coto_b64url_add(&text, random, sizeof random);
    if (text.failed || text.len >= size)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "a token's id");
    memcpy(ret_id, text.data, text.len + 1);
    return 0;
}

static bool copy_claim(char *ret_text, size_t size, const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || len >= size)
        return false;
    memcpy(ret_text, text, len + 1);
    return true;
}

int coto_jwt_mint_sandbox(struct coto_keys *keys, const char *sandbox, const char *tenant,
                          int64_t now_s, int64_t ttl_s, struct coto_buf *ret_token,
                          struct coto_err *err)
{
    struct coto_claims claims = {.iss = COTO_JWT_OWN_ISSUER, .iat = now_s, .exp = now_s + ttl_s};

    if (!copy_claim(claims.sub, sizeof claims.sub, tenant) ||
        !copy_claim(claims.sandbox, sizeof claims.sandbox, sandbox))
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "a sandbox token without a name");
    memcpy(claims.aud, coto_keys_rules(keys)->aud, sizeof claims.aud);
    if (coto_jwt_make_id(claims.jti, sizeof claims.jti, err))
        return -1;
    return coto_jwt_mint(coto_keys_own(keys), &claims, ret_token, err);
}

/* ---- showing ---- */

int coto_jwt_split(const char *token, struct coto_buf *ret_header, struct coto_buf *ret_claims,
                   struct coto_err *err)
{
    unsigned char text[PART_ROOM];
    struct parts parts;

    if (split(token, &parts, err))
        return -1;
    long len = decode(&parts.header, "header", text, err);
    if (len < 0)
        return -1;
    coto_buf_add(ret_header, text, (size_t)len);
    len = decode(&parts.claims, "claims", text, err);
    if (len < 0)
        return -1;
    coto_buf_add(ret_claims, text, (size_t)len);
    return ret_header->failed || ret_claims->failed
               ? coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "a token")
               : 0;
}
