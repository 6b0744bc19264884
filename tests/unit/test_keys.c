/* Key files: what is read, what is refused and why, and that a reload swaps all or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth_room.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <pthread.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SECRET "0123456789abcdef0123456789abcdef"
#define POINT "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\""

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

/* Loads one file into keys; the error's text when it is refused. */
static const char *load(const char *path, struct coto_keys **ret_keys)
{
    static struct coto_err err;
    const char *files[] = {path, NULL};
    struct coto_keys_config config = {.files = files};

    err = (struct coto_err){0};
    *ret_keys = NULL;
    return coto_keys_new(&config, ret_keys, &err) ? err.text : NULL;
}

static void expect_bad(const char *path, const char *why)
{
    struct coto_keys *keys;
    const char *text = load(path, &keys);

    if (!text)
        fail_msg("read, although: %s", why);
    if (!strstr(text, why))
        fail_msg("'%s' does not say '%s'", text, why);
    assert_null(keys);
}

static void expect_good(const char *path, size_t count)
{
    struct coto_keys *keys;
    const char *text = load(path, &keys);

    if (text)
        fail_msg("%s", text);
    assert_int_equal(coto_keys_count(keys), count);
    coto_keys_free(keys);
}

static const char *write_text(struct room *room, unsigned mode, const char *text)
{
    return room_write(room, "k", mode, text, strlen(text));
}

static void reads_secrets(void **state)
{
    expect_good(write_text(*state, 0600, SECRET), 1);
    expect_good(write_text(*state, 0640, SECRET "\n"), 1);
    expect_good(write_text(*state, 0400, SECRET "\r\n"), 1);
    expect_bad(write_text(*state, 0604, SECRET), "open to everybody");
    expect_bad(write_text(*state, 0644, SECRET), "open to everybody");
    expect_bad(write_text(*state, 0602, SECRET), "everybody may write");
    expect_bad(write_text(*state, 0600, "0123456789abcdef0123456789abcde\n"), "31 bytes");
    expect_bad(write_text(*state, 0600, ""), "0 bytes");
    expect_bad(write_text(*state, 0600, SECRET "\n" SECRET), "one line");
    expect_bad(write_text(*state, 0600, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"), "public key");
    expect_bad(write_text(*state, 0600, "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE"), "public key");
    expect_bad(room_write(*state, "k", 0600, SECRET "\0x", 34), "binary");
    expect_bad(((struct room *)*state)->dir, "not a regular file");
    expect_bad("/nonexistent", "cannot be read");
}

static void write_pkey(struct room *room, const char *name, EVP_PKEY *pkey)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;

    assert_non_null(pkey);
    assert_int_equal(PEM_write_bio_PUBKEY(bio, pkey), 1);
    long len = BIO_get_mem_data(bio, &text);
    room_write(room, name, 0644, text, (size_t)len);
    BIO_free(bio);
    EVP_PKEY_free(pkey);
}

static void refuses_weak_keys(void **state)
{
    struct room *room = *state;

    write_pkey(room, "k", EVP_RSA_gen(1024));
    expect_bad(room->path, "RSA key of 1024 bits");
    write_pkey(room, "k", EVP_EC_gen("P-384"));
    expect_bad(room->path, "curve secp384r1");
    write_pkey(room, "k", EVP_EC_gen("secp256k1"));
    expect_bad(room->path, "curve secp256k1");
    write_pkey(room, "k", EVP_PKEY_Q_keygen(NULL, NULL, "ED448"));
    expect_bad(room->path, "type ED448");
    write_pkey(room, "k", EVP_PKEY_Q_keygen(NULL, NULL, "X25519"));
    expect_bad(room->path, "type X25519");
    write_pkey(room, "k", EVP_EC_gen("P-256"));
    expect_good(room->path, 1);
    write_pkey(room, "k", EVP_RSA_gen(2048));
    expect_good(room->path, 1);
}

static void refuses_other_pem(void **state)
{
    coto_auto_key key = {0};
    coto_auto_buf private = {0};
    coto_auto_buf public = {0};

    assert_int_equal(coto_key_generate(COTO_KEY_ES256, &key, NULL), 0);
    assert_int_equal(coto_key_encode(&key, &private, &public, NULL), 0);
    expect_good(write_text(*state, 0600, private.data), 1);
    expect_bad(write_text(*state, 0644, private.data), "open to everybody");
    expect_bad(write_text(*state, 0666, public.data), "everybody may write");
    expect_bad(write_text(*state, 0600, "-----BEGIN CERTIFICATE-----\nAAAA\n"), "a certificate");
    expect_bad(write_text(*state, 0600, "-----BEGIN RSA PUBLIC KEY-----\n"), "old form");
    expect_bad(write_text(*state, 0600, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), "password");
    expect_bad(write_text(*state, 0600, "-----BEGIN PUBLIC KEY-----\nAAAA\n"), "no key could");
    /* It must not become the secret of an HS256 key, however it is dressed up. */
    coto_buf_clear(&private);
    coto_buf_addf(&private, "  %s", public.data);
    expect_bad(write_text(*state, 0600, private.data), "no key could");
    coto_buf_clear(&private);
    coto_buf_addf(&private, "comment\n\n%s", public.data);
    expect_good(write_text(*state, 0644, private.data), 1);
    coto_buf_addf(&private, "%s", public.data);
    expect_bad(write_text(*state, 0644, private.data), "not exactly one key");
}

/* A process that only verifies does not hold what signs. */
static void keeps_public_halves(void **state)
{
    coto_auto_key key = {0};
    coto_auto_buf private = {0};
    coto_auto_buf public = {0};
    coto_auto_buf text = {0};
    struct coto_keys *keys;

    assert_int_equal(coto_key_generate(COTO_KEY_RS256, &key, NULL), 0);
    assert_int_equal(coto_key_encode(&key, &private, &public, NULL), 0);
    assert_null(load(room_write(*state, "a.pem", 0600, private.data, private.len), &keys));
    struct coto_keyset *set = coto_keys_hold(keys);
    assert_false(set->items[0].is_private);
    assert_string_equal(set->items[0].id, key.id);
    assert_string_equal(set->items[0].name, "a");
    assert_int_equal(coto_key_sign(&set->items[0], "x", 1, &text, NULL), -1);
    BIO *bio = BIO_new(BIO_s_mem());
    EVP_PKEY *pkey = set->items[0].pkey;
    assert_int_equal(PEM_write_bio_PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL), 0);
    BIO_free(bio);
    coto_keyset_release(set);
    coto_keys_free(keys);
}

struct row {
    const char *text;
    const char *why; /* NULL: good */
};

static void judges_key_sets(void **state)
{
    static const struct row rows[] = {
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\"," POINT "}", NULL},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":\"sig\",\"alg\":\"EdDSA\",\"kid\":\"a/b=\","
         "\"key_ops\":[\"verify\"],\"x5t\":\"z\"," POINT "}",
         NULL},
        {"{\"kty\":\"OKP\",\"crv\":\"X25519\"," POINT "}", "no key in it"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":\"enc\"," POINT "}", "no key in it"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":7," POINT "}", "no key in it"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"HS256\"," POINT "}", "no key in it"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"key_ops\":[\"deriveKey\"]," POINT "}",
         "no key in it"},
        {"{\"kty\":\"oct\",\"alg\":\"HS512\",\"k\":\"AAAA\"}", "no key in it"},
        {"{\"kty\":\"XYZ\"}", "no key in it"},
        {"{\"crv\":\"Ed25519\"," POINT "}", "no key in it"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":5," POINT "}", "kid"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"../x\"," POINT "}", "kid"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}", "not a key"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\","
         "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=\"}",
         "not a key"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":"
         "\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}",
         "not a key"},
        {"{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
         "\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}",
         "not a key"}, /* not on the curve */
        {"{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\"}", "not a key"},
        {"{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}", "RSA key of 17 bits"},
        {"{\"kty\":\"RSA\",\"e\":\"AQAB\"}", "not a key"},
        {"{\"kty\":\"oct\",\"k\":\"AAAA\"}", "secret of 3 bytes"},
        {"{\"kty\":\"oct\",\"k\":\"not base64!\"}", "member k"},
        {"{\"kty\":\"oct\"}", "member k"},
        {"[]", "not an object"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        coto_auto_buf text = {0};
        coto_buf_addf(&text, "{\"keys\": [%s]}", rows[i].text);
        const char *path = write_text(*state, 0600, text.data);
        if (rows[i].why)
            expect_bad(path, rows[i].why);
        else
            expect_good(path, 1);
    }
}

static void judges_key_set_files(void **state)
{
    static const char oct[] = "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"s\",\"k\":"
                              "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}]}";
    static const char two[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\"," POINT "},"
                              "{\"kty\":\"OKP\",\"crv\":\"Ed25519\"," POINT "}]}";

    expect_good(write_text(*state, 0600, oct), 1);
    expect_bad(write_text(*state, 0644, oct), "open to everybody");
    expect_bad(write_text(*state, 0600, two), "called");
    expect_good(write_text(*state, 0600, "{\"keys\": []}"), 0); /* no token is good */
    expect_bad(write_text(*state, 0600, "{\"keys\": [{\"kty\":\"EC\",\"crv\":\"P-384\"}]}"), "no key in it");
    expect_bad(write_text(*state, 0600, "{\"keys\": {}}"), "not a key set");
    expect_bad(write_text(*state, 0600, "{\"kty\": \"oct\"}"), "not a key set");
    expect_bad(write_text(*state, 0600, "{\"keys\": [}"), "JSON, line 1");
    expect_bad(write_text(*state, 0600, "{\"keys\": [], \"keys\": []}"), "JSON, line 1");
    expect_bad(write_text(*state, 0600, "\xef\xbb\xbf{\"keys\": []}"), "JSON, line 1");
}

static void reads_what_it_writes(void **state)
{
    for (int alg = COTO_KEY_HS256; alg <= COTO_KEY_EDDSA; alg++) {
        coto_auto_key key = {0};
        coto_auto_key again = {0};
        coto_auto_buf private = {0};
        coto_auto_buf public = {0};
        assert_int_equal(coto_key_generate((enum coto_key_alg)alg, &key, NULL), 0);
        assert_int_equal(coto_key_encode(&key, &private, &public, NULL), 0);
        const char *path = write_text(*state, 0600, private.data);
        assert_int_equal(coto_key_load(path, &again, NULL), 0);
        assert_int_equal(again.alg, alg);
        assert_true(again.is_private);
        assert_string_equal(again.id, key.id);
    }
}

/* ---- swapping ---- */

static void mint(const struct coto_key *key, struct coto_buf *out)
{
    const struct coto_claims claims = {.sub = "alice", .aud = "coto", .exp = NOW + 9};

    coto_buf_clear(out);
    assert_int_equal(coto_jwt_mint(key, &claims, out, NULL), 0);
}

static bool is_taken(struct coto_keys *keys, const struct coto_buf *token)
{
    struct coto_claims claims;

    return coto_jwt_verify(keys, token->data, NOW, &claims, NULL) == 0;
}

static void reloads_all_or_nothing(void **state)
{
    coto_auto_key a = {0};
    coto_auto_key b = {0};
    coto_auto_buf from_a = {0};
    coto_auto_buf from_b = {0};
    struct coto_err err = {0};

    assert_int_equal(coto_key_generate(COTO_KEY_EDDSA, &a, NULL), 0);
    assert_int_equal(coto_key_generate(COTO_KEY_EDDSA, &b, NULL), 0);
    mint(&a, &from_a);
    mint(&b, &from_b);
    struct coto_keys *keys = room_keys(room_write_key(*state, "k.pub", &a), NULL);
    assert_int_equal(coto_keys_refresh(keys, &err), 0);
    assert_true(is_taken(keys, &from_a) && !is_taken(keys, &from_b));
    room_write_key(*state, "k.pub", &b);
    assert_int_equal(coto_keys_refresh(keys, &err), 1);
    assert_true(!is_taken(keys, &from_a) && is_taken(keys, &from_b));
    /* A file that is being written, or gone: the old keys go on, and it is told once. */
    room_write(*state, "k.pub", 0644, "-----BEGIN", 10);
    assert_int_equal(coto_keys_refresh(keys, &err), -1);
    assert_int_equal(coto_keys_refresh(keys, &err), 0);
    assert_true(is_taken(keys, &from_b));
    assert_int_equal(coto_keys_reload(keys, &err), -1);
    unlink(((struct room *)*state)->path);
    assert_int_equal(coto_keys_refresh(keys, &err), -1);
    assert_true(is_taken(keys, &from_b));
    room_write_key(*state, "k.pub", &a);
    assert_int_equal(coto_keys_refresh(keys, &err), 1);
    assert_true(is_taken(keys, &from_a));
    coto_keys_free(keys);
}

struct race {
    struct coto_keys *keys;
    const struct coto_buf *token;
    atomic_bool over;
    atomic_int taken;
};

static void *verify_on(void *arg)
{
    struct race *race = arg;

    while (!atomic_load(&race->over))
        if (is_taken(race->keys, race->token))
            atomic_fetch_add(&race->taken, 1);
    return NULL;
}

static void reloads_while_others_verify(void **state)
{
    coto_auto_key key = {0};
    coto_auto_buf token = {0};
    pthread_t threads[3];

    assert_int_equal(coto_key_generate(COTO_KEY_ES256, &key, NULL), 0);
    mint(&key, &token);
    struct race race = {.keys = room_keys(room_write_key(*state, "k.pub", &key), NULL),
                        .token = &token};
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, verify_on, &race), 0);
    for (int i = 0; i < 50 || atomic_load(&race.taken) < 50; i++)
        assert_int_equal(coto_keys_reload(race.keys, NULL), 0);
    atomic_store(&race.over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    coto_keys_free(race.keys);
}

static void checks_rules(void **state)
{
    static const struct coto_keys_config bad[] = {{.skew_s = 61}, {.aud = ""}};
    struct coto_keys *keys = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(coto_keys_new(&bad[i], &keys, NULL), -1);
    assert_int_equal(coto_keys_new(&(struct coto_keys_config){.skew_s = -1}, &keys, NULL), 0);
    assert_int_equal(coto_keys_rules(keys)->skew_s, 60);
    assert_string_equal(coto_keys_rules(keys)->aud, "coto");
    coto_keys_free(keys);
    coto_keys_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_secrets),
        cmocka_unit_test(refuses_weak_keys),
        cmocka_unit_test(refuses_other_pem),
        cmocka_unit_test(keeps_public_halves),
        cmocka_unit_test(judges_key_sets),
        cmocka_unit_test(judges_key_set_files),
        cmocka_unit_test(reads_what_it_writes),
        cmocka_unit_test(reloads_all_or_nothing),
        cmocka_unit_test(reloads_while_others_verify),
        cmocka_unit_test(checks_rules),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
