/* Inside the room: a set of keys that is read from files once and never changed after. */
#pragma once

#include "auth/keys.h"

#include <jansson.h>
#include <openssl/types.h>
#include <pthread.h>
#include <stdatomic.h>

/* Hashes of whole tokens whose signature one of the keys has made: a client sends the same token
 * with every request, and a signature costs a hundred microseconds to verify. Part of a set, so that
 * a reload forgets all. Only good ones are kept; what a token claims is looked at each time. */
#define COTO_KEYSET_KNOWN 256
#define COTO_KEYSET_HASH 32
struct coto_keyset_known {
    pthread_mutex_t lock;
    unsigned char hashes[COTO_KEYSET_KNOWN][COTO_KEYSET_HASH];
};

struct coto_keyset {
    atomic_int holders;
    size_t count;
    struct coto_keyset_known known;
    struct coto_key items[COTO_KEYS_MAX];
    /* While it is read: the file, and which of them a key is from. */
    const char *file, *files[COTO_KEYS_MAX];
};

/* What a token has to say to be taken. */
struct coto_key_rules {
    char aud[256];
    char iss[256]; /* "": of anybody */
    char signer[256];
    int64_t skew_s;
};

/* keyfile.c: appends the public halves of a file's keys to the set. name is the file's own, also
 * when path leads to a copy. */
int coto_keyset_add_file(struct coto_keyset *set, const char *path, const char *name,
                         struct coto_err *err);
/* jwk.c: appends the usable keys of a JWKS text. */
int coto_keyset_add_jwks(struct coto_keyset *set, const char *text, size_t len,
                         struct coto_err *err);
/* jwk.c: is anything in this JWKS a secret or a private key? */
bool coto_jwks_is_secret(const char *text, size_t len);
/* Moves the key to the set; refused when full or when the set has its id for its algorithm. */
int coto_keyset_take(struct coto_keyset *set, struct coto_key *key, struct coto_err *err);
/* key.c: judges a key and fills in what follows from it. Takes pkey, also on failure. */
int coto_key_from_pkey(EVP_PKEY *pkey, bool is_private, struct coto_key *ret_key,
                       struct coto_err *err);
bool coto_key_id_valid(const char *id, size_t len);
/* key.c: the members of the public JWK, in the order of RFC 7638. */
int coto_key_add_jwk(const struct coto_key *key, struct coto_buf *out);

/* keys.c: the present set; it stays as it is until released. */
struct coto_keyset *coto_keys_hold(struct coto_keys *keys);
void coto_keyset_release(struct coto_keyset *set);
bool coto_keyset_knows(struct coto_keyset *set, const unsigned char hash[COTO_KEYSET_HASH]);
void coto_keyset_learn(struct coto_keyset *set, const unsigned char hash[COTO_KEYSET_HASH]);
const struct coto_key_rules *coto_keys_rules(const struct coto_keys *keys);

/* sign.c: the signature's bytes as they stand in a token. */
int coto_key_sign(const struct coto_key *key, const void *data, size_t len,
                  struct coto_buf *ret_sig, struct coto_err *err);
bool coto_key_signed(const struct coto_key *key, const void *data, size_t len,
                     const unsigned char *sig, size_t sig_len);
/* Fails with what OpenSSL said last, and empties its queue. */
int coto_key_err(struct coto_err *err, int kind, const char *what);
