#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void nesting_and_commas(void **state)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};

    (void)state;
    coto_json_begin(&json, NULL, '{');
    coto_json_int(&json, "a", -5);
    coto_json_begin(&json, "b", '[');
    coto_json_bool(&json, NULL, true);
    coto_json_null(&json, NULL);
    coto_json_begin(&json, NULL, '{');
    coto_json_end(&json, '}');
    coto_json_end(&json, ']');
    coto_json_begin(&json, "c", '[');
    coto_json_end(&json, ']');
    coto_json_str(&json, "d", NULL);
    coto_json_end(&json, '}');
    assert_string_equal(coto_buf_str(&out), "{\"a\":-5,\"b\":[true,null,{}],\"c\":[],\"d\":null}");
}

static void pretty_form(void **state)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = true};

    (void)state;
    coto_json_begin(&json, NULL, '{');
    coto_json_begin(&json, "list", '[');
    coto_json_int(&json, NULL, 1);
    coto_json_int(&json, NULL, 2);
    coto_json_end(&json, ']');
    coto_json_end(&json, '}');
    assert_string_equal(coto_buf_str(&out), "{\n  \"list\": [\n    1,\n    2\n  ]\n}\n");
}

static void assert_string(const char *bytes, size_t len, const char *expected)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};

    coto_json_strn(&json, NULL, bytes, len);
    assert_string_equal(coto_buf_str(&out), expected);
}

static void escapes(void **state)
{
    (void)state;
    assert_string("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
    assert_string("\n\t\r", 3, "\"\\n\\t\\r\"");
    assert_string("\0\x01\x1b\x7f", 4, "\"\\u0000\\u0001\\u001b\\u007f\"");
    assert_string("\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    assert_string("\xe2\x80\xa8\xe2\x80\xa9", 6, "\"\\u2028\\u2029\"");
    assert_string("\xc2\x9b", 2, "\"\\u009b\"");
    assert_string("a\xff"
                  "b\xed\xa0\x80",
                  6, "\"a\\ufffdb\\ufffd\\ufffd\\ufffd\"");
}

static void milliseconds_are_exact(void **state)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};

    (void)state;
    coto_json_begin(&json, NULL, '[');
    coto_json_ms(&json, NULL, 12345);
    coto_json_ms(&json, NULL, 7);
    coto_json_ms(&json, NULL, 1000000);
    coto_json_int(&json, NULL, INT64_MAX);
    coto_json_int(&json, NULL, INT64_MIN);
    coto_json_end(&json, ']');
    assert_string_equal(coto_buf_str(&out),
                        "[12.345,0.007,1000.000,9223372036854775807,-9223372036854775808]");
}

static void base64_of(const char *bytes, size_t len, const char *expected)
{
    coto_auto_buf out = {0};

    coto_base64_add(&out, bytes, len);
    assert_string_equal(coto_buf_str(&out), expected);
}

/* RFC 4648, section 10. */
static void base64_vectors(void **state)
{
    (void)state;
    base64_of("", 0, "");
    base64_of("f", 1, "Zg==");
    base64_of("fo", 2, "Zm8=");
    base64_of("foo", 3, "Zm9v");
    base64_of("foob", 4, "Zm9vYg==");
    base64_of("foobar", 6, "Zm9vYmFy");
    base64_of("\xff\xfe\x00", 3, "//4A");
}

static void bytes_are_lossless(void **state)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};

    (void)state;
    coto_json_begin(&json, NULL, '{');
    coto_json_bytes(&json, "good", "caf\xc3\xa9", 5);
    coto_json_bytes(&json, "bad", "\xff\x00", 2);
    coto_json_end(&json, '}');
    assert_string_equal(coto_buf_str(&out), "{\"good\":\"caf\xc3\xa9\",\"bad\":\"\\ufffd\\u0000\","
                                            "\"bad_base64\":\"/wA=\"}");
}

static void text_that_misleads_is_escaped(void **state)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};

    (void)state;
    coto_json_str(&json, NULL, "\xe2\x80\xae \xe2\x81\xa6 \xd8\x9c \xe2\x80\xa8 \xc2\x9b \xe2\x82\xac \xf0\x9f\x90\xa6");
    assert_string_equal(coto_buf_str(&out),
                        "\"\\u202e \\u2066 \\u061c \\u2028 \\u009b \xe2\x82\xac \xf0\x9f\x90\xa6\"");
}

static void too_deep_fails_instead_of_overflowing(void **state)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};

    (void)state;
    for (int i = 0; i < 100; i++)
        coto_json_begin(&json, NULL, '[');
    assert_true(out.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_and_commas),
        cmocka_unit_test(pretty_form),
        cmocka_unit_test(escapes),
        cmocka_unit_test(milliseconds_are_exact),
        cmocka_unit_test(base64_vectors),
        cmocka_unit_test(bytes_are_lossless),
        cmocka_unit_test(text_that_misleads_is_escaped),
        cmocka_unit_test(too_deep_fails_instead_of_overflowing),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
