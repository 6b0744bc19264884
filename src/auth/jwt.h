/* JSON Web Tokens (RFC 7519 in JWS compact form): strict verification, and minting.
 *
 * The verifier takes what follows and nothing else: at most 8 KB of three parts in base64url
 * without padding or left-over bits; headers and claims in JSON without duplicate keys; an
 * algorithm of the closed list that is the chosen key's own; no crit, b64, jku, jwk, x5u or x5c;
 * kid, when there, naming the key that signed it; typ, when there, JWT or at+jwt. Claims are
 * looked at after the signature: exp is required, times are whole seconds, aud and iss are the
 * service's, sub is not empty. Clocks may differ by the skew the keys were made with.
 *
 * A refusal's text is for logs and for the owner of the token. Strangers get one text for all.
 */
#pragma once

#include "auth/keys.h"

#define COTO_JWT_MAX 8192
#define COTO_JWT_SUB 128 /* longest subject (tenant), with its NUL */

struct coto_claims {
    char iss[256];
    char sub[COTO_JWT_SUB]; /* the tenant */
    char aud[256];          /* of several, the one that is ours */
    char jti[129];
    char scope[1024];  /* words with single spaces between */
    char sandbox[129]; /* "" unless the token is for one sandbox */
    unsigned char certificate[32]; /* SHA-256 of the only client certificate it is good with (cnf, RFC 8705) */
    bool has_certificate;
    bool has_scope;    /* without one the token may do all its tenant may */
    bool is_own;       /* verified: the service itself has signed it */
    int64_t exp, nbf, iat; /* seconds since 1970; nbf and iat 0 when not there */
};

/* 0, or -1 (COTO_ERR_FORBIDDEN, or a failure of ours). now_s is the wall clock's time. */
int coto_jwt_verify(struct coto_keys *keys, const char *token, int64_t now_s,
                    struct coto_claims *ret_claims, struct coto_err *err);
#define COTO_JWT_OWN_ISSUER "coto-serve" /* of tokens that the service itself has signed, and of no others */
/* A name for who is on this host, "local" or "uid:N": no issuer's token stands for it. */
bool coto_jwt_is_reserved(const char *sub);
/* The words of a scope that the service knows; NULL ends them. */
extern const char *const coto_jwt_scopes[];
/* Is this word in the scope, or is there no scope? */
bool coto_jwt_allows(const struct coto_claims *claims, const char *word);

/* Appends a token signed by the key. exp and sub are required, empty claims are left out. Nothing
 * that coto_jwt_verify would call malformed is minted. */
int coto_jwt_mint(const struct coto_key *key, const struct coto_claims *claims,
                  struct coto_buf *ret_token, struct coto_err *err);
/* The service's own token for one sandbox of one tenant, for ttl_s seconds from now_s. */
int coto_jwt_mint_sandbox(struct coto_keys *keys, const char *sandbox, const char *tenant,
                          int64_t now_s, int64_t ttl_s, struct coto_buf *ret_token,
                          struct coto_err *err);
/* A fresh random jti. */
int coto_jwt_make_id(char *ret_id, size_t size, struct coto_err *err);

/* The two JSON texts of a token, without any judgement of them: for showing only. */
int coto_jwt_split(const char *token, struct coto_buf *ret_header, struct coto_buf *ret_claims,
                   struct coto_err *err);
