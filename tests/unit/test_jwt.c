/* Tokens: what is minted is taken, and everything that is not quite a good token is refused
 * for the reason it has. Each bad row is a good token with one thing changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth_room.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const enum coto_key_alg algs[] = {COTO_KEY_HS256, COTO_KEY_RS256, COTO_KEY_ES256,
                                         COTO_KEY_EDDSA};

static int setup(void **state)
{
    static struct room room;

    room_open(&room);
    *state = &room;
    return 0;
}

static int teardown(void **state)
{
    room_close(*state);
    return 0;
}

static void expect_refused(struct coto_keys *keys, const char *token, const char *why)
{
    struct coto_claims claims = {.sub = "untouched"};
    struct coto_err err = {0};

    if (coto_jwt_verify(keys, token, NOW, &claims, &err) == 0)
        fail_msg("taken, although: %s: %.200s", why, token);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
    assert_int_equal(err.kind, COTO_ERR_FORBIDDEN);
    assert_string_equal(claims.sub, "untouched");
}

static void expect_taken(struct coto_keys *keys, const char *token)
{
    struct coto_claims claims;
    struct coto_err err = {0};

    if (coto_jwt_verify(keys, token, NOW, &claims, &err))
        fail_msg("%s: %.200s", err.text, token);
    assert_string_equal(claims.sub, "alice");
    assert_string_equal(claims.aud, "coto");
}

/* ---- good ones ---- */

static void mints_what_it_takes(void **state)
{
    const struct coto_claims wanted = {
        .iss = "https://issuer.example/\"x\"", .sub = "alice é", .aud = "coto", .jti = "j-1",
        .scope = "read run", .sandbox = "s-1", .has_scope = true, .certificate = {1, 0, 255},
        .has_certificate = true, .exp = NOW + 9, .nbf = NOW - 1,
        .iat = NOW};

    for (size_t i = 0; i < COUNT(algs); i++) {
        coto_auto_key key = {0};
        coto_auto_buf token = {0};
        struct coto_claims got;
        struct coto_err err = {0};
        assert_int_equal(coto_key_generate(algs[i], &key, &err), 0);
        struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), NULL);
        assert_int_equal(coto_jwt_mint(&key, &wanted, &token, &err), 0);
        if (coto_jwt_verify(keys, token.data, NOW, &got, &err))
            fail_msg("%s: %s", coto_key_alg_name(algs[i]), err.text);
        assert_memory_equal(&got, &wanted, sizeof got);
        coto_keys_free(keys);
    }
}

/* The worked examples of RFC 7515 A.1 (a secret in a JWK) and RFC 8037 A.1 (its thumbprint). */
static void agrees_with_the_standards(void **state)
{
    static const char jwks[] =
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75"
        "aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":"
        "\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    static const char token[] =
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQo"
        "gImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEj"
        "Xk";
    struct coto_keys *keys = room_keys(room_write(*state, "k", 0600, jwks, sizeof jwks - 1), NULL);
    struct coto_keyset *set = coto_keys_hold(keys);

    assert_int_equal(set->count, 2);
    assert_string_equal(set->items[1].id, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    coto_keyset_release(set);
    expect_refused(keys, token, "it has no aud"); /* so its signature was good */
    coto_keys_free(keys);
}

/* ---- bad ones ---- */

struct bad {
    const char *text;
    const char *why;
};

static void refuses_headers(void **state)
{
    static const struct bad rows[] = {
        {"{\"alg\":\"none\"}", "its alg"},
        {"{\"alg\":\"\"}", "its alg"},
        {"{\"alg\":\"hs256\"}", "its alg"},
        {"{\"alg\":\"HS512\"}", "its alg"},
        {"{\"alg\":[\"HS256\"]}", "its alg"},
        {"{\"alg\":null}", "its alg"},
        {"{}", "its alg"},
        {"[]", "not a JSON object"},
        {"\"HS256\"", "not a JSON object"},
        {"{\"alg\":\"HS256\"} x", "not a JSON object"},
        {"{\"alg\":\"HS256\",\"alg\":\"HS256\"}", "not a JSON object"},
        {"\xef\xbb\xbf{\"alg\":\"HS256\"}", "not a JSON object"},
        {"{\"alg\":\"RS256\"}", "not signed"},
        {"{\"alg\":\"ES256\"}", "not signed"},
        {"{\"alg\":\"EdDSA\"}", "not signed"},
        {"{\"alg\":\"HS256\",\"crit\":[]}", "header has crit"},
        {"{\"alg\":\"HS256\",\"crit\":[\"exp\"],\"exp\":1}", "header has crit"},
        {"{\"alg\":\"HS256\",\"crit\":null}", "header has crit"},
        {"{\"alg\":\"HS256\",\"b64\":false}", "header has b64"},
        {"{\"alg\":\"HS256\",\"jku\":\"https://evil.example/\"}", "header has jku"},
        {"{\"alg\":\"HS256\",\"jwk\":{\"kty\":\"oct\",\"k\":\"AAAA\"}}", "header has jwk"},
        {"{\"alg\":\"HS256\",\"x5u\":\"https://evil.example/\"}", "header has x5u"},
        {"{\"alg\":\"HS256\",\"x5c\":[]}", "header has x5c"},
        {"{\"alg\":\"HS256\",\"zip\":\"DEF\"}", "header has zip"},
        {"{\"alg\":\"HS256\",\"kid\":\"other\"}", "not signed"},
        {"{\"alg\":\"HS256\",\"kid\":\"\"}", "not a key id"},
        {"{\"alg\":\"HS256\",\"kid\":7}", "not a key id"},
        {"{\"alg\":\"HS256\",\"kid\":null}", "not a key id"},
        {"{\"alg\":\"HS256\",\"kid\":\"../../dev/null\"}", "not a key id"},
        {"{\"alg\":\"HS256\",\"kid\":\"/dev/null\"}", "not signed"},
        {"{\"alg\":\"HS256\",\"kid\":\"k' or '1\"}", "not a key id"},
        {"{\"alg\":\"HS256\",\"typ\":\"JOSE\"}", "its typ"},
        {"{\"alg\":\"HS256\",\"typ\":\"\"}", "its typ"},
        {"{\"alg\":\"HS256\",\"typ\":\"application/\"}", "its typ"},
        {"{\"alg\":\"HS256\",\"typ\":[\"JWT\"]}", "its typ"},
        {"{\"alg\":\"HS256\",\"typ\":\"dpop+jwt\"}", "its typ"},
    };
    static const char *const good[] = {
        "{\"alg\":\"HS256\"}", "{\"alg\":\"HS256\",\"typ\":\"jwt\"}",
        "{\"alg\":\"HS256\",\"typ\":\"application/at+jwt\"}", "{\"alg\":\"HS256\",\"kid\":\"k\"}",
        " {\"alg\":\"HS256\",\"x5t\":\"a\",\"cty\":\"b\"}\n"};
    coto_auto_key key = {0};
    coto_auto_buf token = {0};

    assert_int_equal(coto_key_generate(COTO_KEY_HS256, &key, NULL), 0);
    struct coto_keys *keys = room_keys(room_write_key(*state, "k.secret", &key), NULL);
    for (size_t i = 0; i < COUNT(good); i++) {
        sign_parts(&key, good[i], GOOD, &token);
        expect_taken(keys, token.data);
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        sign_parts(&key, rows[i].text, GOOD, &token);
        expect_refused(keys, token.data, rows[i].why);
    }
    coto_keys_free(keys);
}

#define HASH "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg0" /* 43 letters, no bits left over */
#define ALICE "{\"sub\":\"alice\",\"aud\":\"coto\","
#define LATER "\"exp\":1800000100"

static void refuses_claims(void **state)
{
    static const struct bad rows[] = {
        {ALICE "\"exp\":1799999940}", "has expired"},
        {ALICE "\"exp\":1}", "has expired"},
        {ALICE "\"iat\":1}", "no exp"},
        {ALICE "\"exp\":null}", "exp is not a time"},
        {ALICE "\"exp\":\"1800000100\"}", "exp is not a time"},
        {ALICE "\"exp\":1800000100.0}", "exp is not a time"},
        {ALICE "\"exp\":1.8e9}", "exp is not a time"},
        {ALICE "\"exp\":true}", "exp is not a time"},
        {ALICE "\"exp\":[1800000100]}", "exp is not a time"},
        {ALICE "\"exp\":0}", "exp is not a time"},
        {ALICE "\"exp\":-1}", "exp is not a time"},
        {ALICE "\"exp\":253402300800}", "exp is not a time"},
        {ALICE "\"exp\":9223372036854775807}", "exp is not a time"},
        {ALICE "\"exp\":18446744073709551616}", "not a JSON object"},
        {ALICE "\"exp\":1e999}", "not a JSON object"},
        {ALICE "\"exp\":NaN}", "not a JSON object"},
        {ALICE LATER "," LATER "}", "not a JSON object"},
        {ALICE LATER ",\"nbf\":1800000061}", "not valid yet"},
        {ALICE LATER ",\"nbf\":\"1\"}", "nbf is not a time"},
        {ALICE LATER ",\"iat\":1800000061}", "not valid yet"},
        {ALICE LATER ",\"iat\":1.5}", "iat is not a time"},
        {"{\"aud\":\"coto\"," LATER "}", "no sub"},
        {"{\"aud\":\"coto\",\"sub\":\"\"," LATER "}", "sub is"},
        {"{\"aud\":\"coto\",\"sub\":7," LATER "}", "sub is"},
        {"{\"aud\":\"coto\",\"sub\":\"a\\nb\"," LATER "}", "sub is"},
        {"{\"aud\":\"coto\",\"sub\":\"a\\u0000b\"," LATER "}", "not a JSON object"},
        {"{\"aud\":\"coto\",\"sub\":\"\\u202egnp.exe\"," LATER "}", "sub is"},
        {"{\"aud\":\"coto\",\"sub\":\"\xff\"," LATER "}", "not a JSON object"},
        {"{\"sub\":\"alice\"," LATER "}", "no aud"},
        {"{\"sub\":\"alice\",\"aud\":\"other\"," LATER "}", "another audience"},
        {"{\"sub\":\"alice\",\"aud\":\"coto2\"," LATER "}", "another audience"},
        {"{\"sub\":\"alice\",\"aud\":\"COTO\"," LATER "}", "another audience"},
        {"{\"sub\":\"alice\",\"aud\":[]," LATER "}", "another audience"},
        {"{\"sub\":\"alice\",\"aud\":[\"x\",\"y\"]," LATER "}", "another audience"},
        {"{\"sub\":\"alice\",\"aud\":[\"coto\",7]," LATER "}", "aud is not"},
        {"{\"sub\":\"alice\",\"aud\":{\"coto\":1}," LATER "}", "aud is not"},
        {ALICE LATER ",\"iss\":\"mallory\"}", "another issuer"},
        {ALICE LATER ",\"iss\":\"issue\"}", "another issuer"},
        {ALICE LATER ",\"iss\":[\"issuer\"]}", "iss is not"},
        {ALICE LATER "}", "another issuer"},
        {ALICE LATER ",\"iss\":\"issuer\",\"scope\":[\"read\"]}", "scope is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"scope\":\"read  run\"}", "scope is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"scope\":\" read\"}", "scope is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"sandbox\":\"\"}", "sandbox is"},
        {ALICE LATER ",\"iss\":\"issuer\",\"sandbox\":5}", "sandbox is"},
        {ALICE LATER ",\"iss\":\"issuer\",\"jti\":{}}", "jti is"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{}}", "cnf is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":null}", "cnf is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{\"jkt\":\"" HASH "\"}}", "cnf is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{\"x5t#S256\":\"" HASH "\",\"jkt\":\"x\"}}", "cnf is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{\"x5t#S256\":7}}", "x5t#S256 is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{\"x5t#S256\":\"" HASH "A\"}}", "x5t#S256 is not"},
        {ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{\"x5t#S256\":\"" HASH "=\"}}", "x5t#S256 is not"},
        {"[]", "not a JSON object"},
        {"7", "not a JSON object"},
        {"{", "not a JSON object"},
    };
    static const char *const good[] = {
        ALICE LATER ",\"iss\":\"issuer\"}",
        ALICE "\"exp\":1799999941,\"nbf\":1800000060,\"iat\":1800000060,\"iss\":\"issuer\"}",
        ALICE LATER ",\"iss\":\"issuer\",\"cnf\":{\"x5t#S256\":\"" HASH "\"}}",
        "{\"sub\":\"alice\",\"aud\":[\"x\",\"coto\"]," LATER ",\"iss\":\"issuer\",\"more\":[1.5]}"};
    coto_auto_key key = {0};
    coto_auto_buf token = {0};

    assert_int_equal(coto_key_generate(COTO_KEY_EDDSA, &key, NULL), 0);
    struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), "issuer");
    for (size_t i = 0; i < COUNT(good); i++) {
        sign_parts(&key, "{\"alg\":\"EdDSA\"}", good[i], &token);
        expect_taken(keys, token.data);
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        sign_parts(&key, "{\"alg\":\"EdDSA\"}", rows[i].text, &token);
        expect_refused(keys, token.data, rows[i].why);
    }
    coto_keys_free(keys);
}

/* Every single letter of a good token matters, and every length but its own is wrong. */
static void refuses_changed_letters(void **state)
{
    static const char letters[] = "AB-_zk9.=+/ \n\x80";

    for (size_t i = 0; i < COUNT(algs); i++) {
        coto_auto_key key = {0};
        coto_auto_buf token = {0};
        char header[64];
        struct coto_claims claims;
        assert_int_equal(coto_key_generate(algs[i], &key, NULL), 0);
        struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), NULL);
        snprintf(header, sizeof header, "{\"alg\":\"%s\"}", coto_key_alg_name(algs[i]));
        sign_parts(&key, header, GOOD, &token);
        expect_taken(keys, token.data);
        for (size_t at = 0; at < token.len; at++) {
            char was = token.data[at];
            token.data[at] = letters[at % (sizeof letters - 1)];
            if (token.data[at] != was)
                assert_int_equal(coto_jwt_verify(keys, token.data, NOW, &claims, NULL), -1);
            token.data[at] = '\0';
            assert_int_equal(coto_jwt_verify(keys, token.data, NOW, &claims, NULL), -1);
            token.data[at] = was;
        }
        expect_taken(keys, token.data);
        coto_keys_free(keys);
    }
}

static void refuses_other_shapes(void **state)
{
    coto_auto_key key = {0};
    coto_auto_buf good = {0};
    coto_auto_buf long_one = {0};
    char text[COTO_JWT_MAX];

    assert_int_equal(coto_key_generate(COTO_KEY_HS256, &key, NULL), 0);
    struct coto_keys *keys = room_keys(room_write_key(*state, "k.secret", &key), NULL);
    sign_parts(&key, "{\"alg\":\"HS256\"}", GOOD, &good);
    static const struct bad rows[] = {{"%s=", "signature is not"},   {"%s==", "signature is not"},
                                      {"%s\n", "signature is not"},  {" %s", "header is not"},
                                      {"Bearer %s", "header is not"}, {"%s.", "three parts"},
                                      {"%s.e30", "three parts"},     {".%s", "three parts"},
                                      {"\"%s\"", "header is not"},   {"%sA", "not signed"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(text, sizeof text, rows[i].text, good.data);
        expect_refused(keys, text, rows[i].why);
    }
    static const char *const empty[] = {"", ".", "..", "...", "a.b", "a.b.c.d", "e30..", ".e30."};
    for (size_t i = 0; i < COUNT(empty); i++)
        expect_refused(keys, empty[i], "token refused");
    *strrchr(good.data, '.') = '\0'; /* no signature at all, and an empty one */
    expect_refused(keys, good.data, "three parts");
    good.data[strlen(good.data)] = '.';
    *(strrchr(good.data, '.') + 1) = '\0';
    expect_refused(keys, good.data, "signature is not");
    while (long_one.len < 1 << 20)
        coto_buf_adds(&long_one, "eyJhbGciOiJIUzI1NiJ9.");
    expect_refused(keys, long_one.data, "longer than");
    coto_keys_free(keys);
}

/* The classic: an HS256 token whose secret is the public key everybody may have. */
static void refuses_confused_algorithms(void **state)
{
    for (size_t i = 1; i < COUNT(algs); i++) {
        coto_auto_key key = {0};
        coto_auto_key confused = {0};
        coto_auto_buf private = {0};
        coto_auto_buf public = {0};
        coto_auto_buf token = {0};
        assert_int_equal(coto_key_generate(algs[i], &key, NULL), 0);
        assert_int_equal(coto_key_encode(&key, &private, &public, NULL), 0);
        struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), NULL);
        assert_int_equal(coto_key_from_secret(public.data, public.len, &confused, NULL), 0);
        sign_parts(&confused, "{\"alg\":\"HS256\",\"kid\":\"k\"}", GOOD, &token);
        expect_refused(keys, token.data, "not signed");
        sign_parts(&confused, "{\"alg\":\"HS256\"}", GOOD, &token);
        expect_refused(keys, token.data, "not signed");
        coto_keys_free(keys);
    }
}

/* r = s = 0 satisfied verifiers that did not look (CVE-2022-21449); DER is not the form. */
static void refuses_empty_signatures(void **state)
{
    static const unsigned char zeros[96];
    static const size_t lengths[] = {1, 31, 32, 63, 64, 65, 71, 96};
    coto_auto_key key = {0};

    assert_int_equal(coto_key_generate(COTO_KEY_ES256, &key, NULL), 0);
    struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), NULL);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        coto_auto_buf token = {0};
        sign_parts(&key, "{\"alg\":\"ES256\"}", GOOD, &token);
        token.len = (size_t)(strrchr(token.data, '.') + 1 - token.data);
        coto_b64url_add(&token, zeros, lengths[i]);
        expect_refused(keys, token.data, "not signed");
    }
    coto_keys_free(keys);
}

/* A signature that was verified once is remembered; nothing else about the token is. */
static void remembers_signatures_only(void **state)
{
    coto_auto_key key = {0};
    coto_auto_key other = {0};
    coto_auto_buf token = {0};
    struct coto_claims claims;
    struct coto_err err = {0};

    assert_int_equal(coto_key_generate(COTO_KEY_ES256, &key, NULL), 0);
    assert_int_equal(coto_key_generate(COTO_KEY_ES256, &other, NULL), 0);
    struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), NULL);
    sign_parts(&key, "{\"alg\":\"ES256\"}", GOOD, &token);
    for (int i = 0; i < 3; i++)
        expect_taken(keys, token.data);
    assert_int_equal(coto_jwt_verify(keys, token.data, NOW + 160, &claims, &err), -1);
    assert_non_null(strstr(err.text, "expired"));
    char *last = &token.data[token.len - 1];
    char was = *last;
    *last = was == 'A' ? 'Q' : 'A';
    expect_refused(keys, token.data, "not signed");
    *last = was;
    room_write_key(*state, "k.pub", &other);
    assert_int_equal(coto_keys_reload(keys, &err), 0);
    expect_refused(keys, token.data, "not signed"); /* its key is gone */
    coto_keys_free(keys);
}

/* ---- tokens of single sandboxes ---- */

static void sandbox_tokens(void **state)
{
    coto_auto_buf token = {0};
    struct coto_claims claims;
    struct coto_err err = {0};
    struct coto_keys *keys = room_keys(NULL, "issuer");
    struct coto_keys *others = room_keys(NULL, "issuer");
    const struct coto_key *own = coto_keys_own(keys);
    char header[256];

    (void)state;
    assert_int_equal(coto_jwt_mint_sandbox(keys, "s-1", "alice", NOW, 60, &token, &err), 0);
    assert_int_equal(coto_jwt_verify(keys, token.data, NOW + 60, &claims, &err), 0);
    assert_string_equal(claims.sandbox, "s-1");
    assert_string_equal(claims.sub, "alice");
    assert_int_equal(coto_keys_reload(keys, &err), 0); /* the key stays */
    assert_int_equal(coto_jwt_verify(keys, token.data, NOW, &claims, &err), 0);
    assert_int_equal(coto_jwt_verify(keys, token.data, NOW + 120, &claims, &err), -1);
    expect_refused(others, token.data, "not signed");
    /* The key is for nothing else, and is used only when named. */
    snprintf(header, sizeof header, "{\"alg\":\"HS256\",\"kid\":\"%s\"}", own->id);
    sign_parts(own, header, ALICE LATER ",\"iss\":\"coto-serve\"}", &token);
    expect_refused(keys, token.data, "for no sandbox");
    sign_parts(own, header, ALICE LATER ",\"iss\":\"issuer\",\"sandbox\":\"s\"}", &token);
    expect_refused(keys, token.data, "another issuer");
    sign_parts(own, "{\"alg\":\"HS256\"}", ALICE LATER ",\"iss\":\"coto-serve\",\"sandbox\":\"s\"}",
               &token);
    expect_refused(keys, token.data, "not signed");
    assert_int_equal(coto_jwt_mint_sandbox(keys, "", "alice", NOW, 60, &token, &err), -1);
    coto_keys_free(keys);
    coto_keys_free(others);
}

/* Also where the service was told of no issuer, or of one by that name. */
static void no_other_key_signs_for_the_service(void **state)
{
    coto_auto_buf token = {0};
    coto_auto_key key = {0};
    struct coto_claims claims;

    assert_int_equal(coto_key_generate(COTO_KEY_EDDSA, &key, NULL), 0);
    for (int i = 0; i < 2; i++) {
        struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &key), i ? "coto-serve" : NULL);
        sign_parts(&key, "{\"alg\":\"EdDSA\"}", ALICE LATER ",\"iss\":\"coto-serve\"}", &token);
        expect_refused(keys, token.data, "the service's own");
        sign_parts(&key, "{\"alg\":\"EdDSA\"}", ALICE LATER ",\"iss\":\"coto-serve\",\"sandbox\":\"s\"}", &token);
        expect_refused(keys, token.data, "the service's own");
        sign_parts(&key, "{\"alg\":\"EdDSA\"}", ALICE LATER ",\"iss\":\"coto-serves\"}", &token);
        assert_int_equal(coto_jwt_verify(keys, token.data, NOW, &claims, NULL), i ? -1 : 0); /* control */
        coto_keys_free(keys);
    }
}

static void scopes(void **state)
{
    struct coto_claims claims = {.scope = "read run"};

    (void)state;
    assert_true(coto_jwt_allows(&claims, "anything"));
    claims.has_scope = true;
    assert_true(coto_jwt_allows(&claims, "read"));
    assert_true(coto_jwt_allows(&claims, "run"));
    assert_false(coto_jwt_allows(&claims, "rea"));
    assert_false(coto_jwt_allows(&claims, "reads"));
    assert_false(coto_jwt_allows(&claims, "read run"));
    assert_false(coto_jwt_allows(&claims, ""));
    claims.scope[0] = '\0';
    assert_false(coto_jwt_allows(&claims, "read"));
}

static void mints_nothing_malformed(void **state)
{
    static const struct coto_claims rows[] = {
        {.sub = "", .exp = NOW},
        {.sub = "a", .exp = 0},
        {.sub = "a", .exp = -5},
        {.sub = "a\nb", .exp = NOW},
        {.sub = "a", .exp = INT64_MAX},
        {.sub = "a", .exp = NOW, .scope = "a  b", .has_scope = true},
    };
    coto_auto_key key = {0};
    coto_auto_buf token = {0};
    struct coto_err err = {0};

    (void)state;
    assert_int_equal(coto_key_generate(COTO_KEY_HS256, &key, NULL), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(coto_jwt_mint(&key, &rows[i], &token, &err), -1);
        assert_int_equal(err.kind, COTO_ERR_USAGE);
        assert_int_equal(token.len, 0);
    }
    key.is_private = false;
    assert_int_equal(
        coto_jwt_mint(&key, &(struct coto_claims){.sub = "a", .exp = NOW}, &token, &err), -1);
}

static void base64url(void **state)
{
    static const char *const bad[] = {"A",   "AAAAA", "AA=",  "AA==", "AB",
                                      "AAB", "A+AA",  "A/AA", "A AA"};
    unsigned char data[300];
    unsigned char again[COTO_B64URL_ROOM(400)];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 5);
    for (size_t len = 0; len <= sizeof data; len++) {
        coto_auto_buf text = {0};
        coto_b64url_add(&text, data, len);
        assert_int_equal(coto_b64url_decode(coto_buf_str(&text), text.len, again), len);
        assert_memory_equal(data, again, len);
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(coto_b64url_decode(bad[i], strlen(bad[i]), again), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mints_what_it_takes),
        cmocka_unit_test(agrees_with_the_standards),
        cmocka_unit_test(refuses_headers),
        cmocka_unit_test(refuses_claims),
        cmocka_unit_test(refuses_changed_letters),
        cmocka_unit_test(refuses_other_shapes),
        cmocka_unit_test(refuses_confused_algorithms),
        cmocka_unit_test(refuses_empty_signatures),
        cmocka_unit_test(remembers_signatures_only),
        cmocka_unit_test(sandbox_tokens),
        cmocka_unit_test(no_other_key_signs_for_the_service),
        cmocka_unit_test(scopes),
        cmocka_unit_test(mints_nothing_malformed),
        cmocka_unit_test(base64url),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
