#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_hash(const void *data, size_t len, const char *expected)
{
    char hex[COTO_SHA256_HEX];

    coto_sha256_of(data, len, hex);
    assert_string_equal(hex, expected);
}

/* The examples of FIPS 180-4. */
static void known_answers(void **state)
{
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    (void)state;
    assert_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash(two_blocks, strlen(two_blocks),
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void million_letters(void **state)
{
    struct coto_sha256 sha;
    char block[1000];
    char hex[COTO_SHA256_HEX];

    (void)state;
    memset(block, 'a', sizeof(block));
    coto_sha256_init(&sha);
    for (int i = 0; i < 1000; i++)
        coto_sha256_add(&sha, block, sizeof(block));
    coto_sha256_hex(&sha, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Padding has its own path for every length around a block's end. */
static void split_anywhere_is_the_same(void **state)
{
    unsigned char data[200];
    char whole[COTO_SHA256_HEX];
    char parts[COTO_SHA256_HEX];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 7 + 1);
    for (size_t len = 0; len <= sizeof(data); len++) {
        coto_sha256_of(data, len, whole);
        for (size_t cut = 0; cut <= len; cut += 13) {
            struct coto_sha256 sha;
            coto_sha256_init(&sha);
            coto_sha256_add(&sha, data, cut);
            coto_sha256_add(&sha, data + cut, len - cut);
            coto_sha256_hex(&sha, parts);
            assert_string_equal(parts, whole);
        }
    }
}

static void boundary_lengths(void **state)
{
    unsigned char data[64];

    (void)state;
    memset(data, 'a', sizeof(data));
    assert_hash(data, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    assert_hash(data, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    assert_hash(data, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(million_letters),
        cmocka_unit_test(split_anywhere_is_the_same),
        cmocka_unit_test(boundary_lengths),
    };

    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
