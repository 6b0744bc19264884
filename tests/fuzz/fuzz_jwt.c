/* Tokens and key sets. The first byte says what the rest is: a token as it came; header and claims
 * (a newline between) that are then signed by a key the verifier has, so that the checks behind the
 * signature are reached; or a key set. What is taken must be what the header promises. */
#include "auth/b64url.h"
#include "auth/jwt.h"
#include "auth/keyset.h"
#include "base/own.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "0123456789abcdef0123456789abcdef"
#define NOW INT64_C(1800000000)

static struct coto_key key;

static struct coto_keys *make_keys(void)
{
    int fd = memfd_create("secret", MFD_CLOEXEC);
    char path[64];
    const char *files[] = {path, NULL};
    const struct coto_keys_config config = {.files = files, .skew_s = 60};
    struct coto_keys *keys = NULL;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || fchmod(fd, 0600) || write(fd, SECRET, sizeof SECRET - 1) < 0 ||
        coto_key_from_secret(SECRET, sizeof SECRET - 1, &key, NULL) ||
        coto_keys_new(&config, &keys, NULL))
        abort();
    close(fd);
    return keys;
}

static void check_text(const char *text, size_t size)
{
    size_t len = strnlen(text, size);

    if (len == size || !coto_utf8_valid(text, len))
        abort();
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            abort();
}

static void check_claims(struct coto_keys *keys, const struct coto_claims *claims)
{
    coto_auto_buf token = {0};
    struct coto_claims again;

    check_text(claims->iss, sizeof claims->iss);
    check_text(claims->sub, sizeof claims->sub);
    check_text(claims->jti, sizeof claims->jti);
    check_text(claims->scope, sizeof claims->scope);
    check_text(claims->sandbox, sizeof claims->sandbox);
    if (!*claims->sub || strcmp(claims->aud, "coto") != 0 || claims->exp <= NOW - 60 ||
        claims->nbf > NOW + 60 || claims->iat > NOW + 60 || claims->nbf < 0 || claims->iat < 0)
        abort();
    if (coto_jwt_mint(&key, claims, &token, NULL) ||
        coto_jwt_verify(keys, token.data, NOW, &again, NULL) ||
        memcmp(&again, claims, sizeof again) != 0)
        abort();
}

static void verify(struct coto_keys *keys, const char *token)
{
    struct coto_claims claims;
    struct coto_err err = {0};
    coto_auto_buf header = {0};
    coto_auto_buf body = {0};

    if (coto_jwt_verify(keys, token, NOW, &claims, &err) == 0) {
        check_claims(keys, &claims);
        if (coto_jwt_split(token, &header, &body, NULL))
            abort();
    } else if (!err.kind || !*err.text) {
        abort();
    }
}

static void verify_signed(struct coto_keys *keys, const char *text, size_t len)
{
    const char *line = memchr(text, '\n', len);
    size_t head = line ? (size_t)(line - text) : len;
    coto_auto_buf token = {0};
    coto_auto_buf sig = {0};

    coto_b64url_add(&token, text, head);
    coto_buf_addc(&token, '.');
    if (line)
        coto_b64url_add(&token, line + 1, len - head - 1);
    if (coto_key_sign(&key, token.data, token.len, &sig, NULL))
        abort();
    coto_buf_addc(&token, '.');
    coto_b64url_add(&token, sig.data, sig.len);
    verify(keys, token.data);
}

/* A set without keys ends every token; one whose keys are all passed over is an error. */
static bool is_empty(const char *text, size_t len)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    bool is = json_array_size(json_object_get(root, "keys")) == 0;

    json_decref(root);
    return is;
}

static void read_jwks(const char *text, size_t len)
{
    struct coto_keyset *set = calloc(1, sizeof *set);
    struct coto_err err = {0};

    if (!set)
        abort();
    if (coto_keyset_add_jwks(set, text, len, &err) ? !*err.text : (set->count == 0) != is_empty(text, len))
        abort();
    coto_jwks_is_secret(text, len);
    for (size_t i = 0; i < set->count; i++) {
        const struct coto_key *one = &set->items[i];
        if (!coto_key_id_valid(one->id, strlen(one->id)) || one->is_private ||
            (one->alg == COTO_KEY_HS256) != (one->secret_len >= COTO_KEY_SECRET_MIN) ||
            (one->alg == COTO_KEY_HS256) != !one->pkey)
            abort();
    }
    atomic_store(&set->holders, 1);
    pthread_mutex_init(&set->known.lock, NULL);
    coto_keyset_release(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct coto_keys *keys;

    if (!keys)
        keys = make_keys();
    if (size == 0 || size > 16384)
        return 0;
    coto_auto_free char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 3) {
    case 0:
        verify(keys, text);
        break;
    case 1:
        verify_signed(keys, text, size - 1);
        break;
    default:
        read_jwks(text, size - 1);
    }
    return 0;
}
