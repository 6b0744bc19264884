/* Keys that tokens are verified and signed with.
 *
 * A key's type fixes its algorithm: a secret does HS256, RSA RS256, P-256 ES256, Ed25519 EdDSA,
 * and nothing in a token can change that. Too weak ones (a secret under 32 bytes, RSA under
 * 2048 bits) are never loaded.
 *
 * A key file is one of
 *   PEM      one public or private key (of a private one the service keeps the public half);
 *   JWKS     {"keys": [...]}, RFC 7517; keys for other purposes in it are passed over;
 *   secret   one line of printable text, at least 32 bytes.
 * A file with anything secret in it must not be open to others than its owner and group, and
 * no key file may be writable by everybody.
 *
 * Key ids: what a JWK states, else the key's thumbprint (RFC 7638); a PEM or secret file is
 * also known by its name without extension, so that a foreign issuer's key is kept in KID.pem.
 *
 * struct coto_keys is what the service holds: the files' keys, swapped as a whole by
 * coto_keys_reload, and a secret of its own for the tokens of single sandboxes, made at start. All
 * functions on it may be called from any thread.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COTO_KEY_ID 129          /* longest key id, with its NUL */
#define COTO_KEY_FILE_MAX 262144 /* bytes of a key file */
#define COTO_KEYS_MAX 64         /* keys of all files together */
#define COTO_KEY_SECRET_MIN 32
#define COTO_KEY_SECRET_MAX 1024
#define COTO_KEY_RSA_MIN 2048
#define COTO_KEY_RSA_MAX 8192

/* One row per algorithm: enum, its name in a token. The list is closed. */
#define COTO_KEY_ALGS(X)                                                                           \
    X(HS256, "HS256")                                                                              \
    X(RS256, "RS256")                                                                              \
    X(ES256, "ES256")                                                                              \
    X(EDDSA, "EdDSA")

enum coto_key_alg {
    COTO_KEY_NONE = 0,
#define X(id, name) COTO_KEY_##id,
    COTO_KEY_ALGS(X)
#undef X
};

const char *coto_key_alg_name(enum coto_key_alg alg);
enum coto_key_alg coto_key_alg_find(const char *name); /* COTO_KEY_NONE when there is none */

/* ---- one key ---- */

struct coto_key {
    enum coto_key_alg alg;
    char id[COTO_KEY_ID];   /* stated, or the thumbprint */
    char name[COTO_KEY_ID]; /* of its file without extension; "" in a JWKS */
    struct evp_pkey_st *pkey; /* NULL for a secret */
    unsigned char *secret;
    size_t secret_len;
    bool is_private; /* can sign */
    bool is_own;     /* the service's: for tokens of single sandboxes, and for nothing else */
};

/* The key in a PEM or secret file, with its private half when it has one. */
int coto_key_load(const char *path, struct coto_key *ret_key, struct coto_err *err);
/* A new key in memory. */
int coto_key_generate(enum coto_key_alg alg, struct coto_key *ret_key, struct coto_err *err);
/* A key from a secret's bytes, which are copied. */
int coto_key_from_secret(const void *secret, size_t len, struct coto_key *ret_key,
                         struct coto_err *err);
void coto_key_fini(struct coto_key *key); /* may be called twice; wipes */
/* Texts of a key: the file to keep, and the public half ("" for a secret). */
int coto_key_encode(const struct coto_key *key, struct coto_buf *ret_private,
                    struct coto_buf *ret_public, struct coto_err *err);
#define coto_auto_key __attribute__((cleanup(coto_key_fini))) struct coto_key

/* ---- the keys of a service ---- */

struct coto_keys_config {
    const char *const *files; /* NULL-terminated; NULL: only the service's own key */
    const char *const *names; /* of the files, where they lie elsewhere meanwhile; NULL: files */
    const char *aud;          /* tokens must be for this audience; NULL: "coto" */
    const char *iss;          /* and of this issuer; NULL: of any that signs with these keys */
    const unsigned char *own; /* the service's own secret, COTO_KEY_SECRET_MIN bytes; NULL: a new one */
    const char *signer;       /* what these keys are called in a refusal; NULL: "a key of this service" */
    int64_t skew_s;           /* clocks may differ by this; at most 60, negative: 60 */
};

#define COTO_KEYS_SKEW_S 60

struct coto_keys;

/* Everything of config is copied. */
int coto_keys_new(const struct coto_keys_config *config, struct coto_keys **ret_keys,
                  struct coto_err *err);
void coto_keys_free(struct coto_keys *keys); /* NULL is fine */
/* Reads all files again and swaps the keys at once. On failure everything stays as it was. */
int coto_keys_reload(struct coto_keys *keys, struct coto_err *err);
/* Other files from now on; as coto_keys_new takes them. On failure everything stays as it was. */
int coto_keys_change(struct coto_keys *keys, const char *const *files, const char *const *names,
                     struct coto_err *err);
/* The same when a file looks changed (inode, size, time). 1 swapped, 0 nothing new, -1 failed; a
 * failure is told once for each state of the files. */
int coto_keys_refresh(struct coto_keys *keys, struct coto_err *err);
size_t coto_keys_count(struct coto_keys *keys); /* of the files */
/* The service's own key; lives as long as keys. */
const struct coto_key *coto_keys_own(const struct coto_keys *keys);
