#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void builder_grows_and_terminates(void **state)
{
    coto_auto_buf buf = {0};

    (void)state;
    assert_string_equal(coto_buf_str(&buf), "");
    for (int i = 0; i < 1000; i++)
        coto_buf_addf(&buf, "%03d,", i);
    assert_int_equal(buf.len, 4000);
    assert_int_equal(strlen(buf.data), 4000);
    assert_memory_equal(buf.data + 3996, "999,", 5);
    assert_false(buf.failed);
}

static void builder_keeps_nul_bytes(void **state)
{
    coto_auto_buf buf = {0};

    (void)state;
    coto_buf_add(&buf, "a\0b", 3);
    coto_buf_addc(&buf, '\0');
    coto_buf_add(&buf, NULL, 0);
    assert_int_equal(buf.len, 4);
    assert_memory_equal(buf.data, "a\0b\0", 5);
}

static void failure_sticks_and_keeps_content(void **state)
{
    coto_auto_buf buf = {0};

    (void)state;
    coto_buf_adds(&buf, "so far");
    assert_null(coto_buf_reserve(&buf, COTO_BUF_MAX));
    assert_true(buf.failed);
    coto_buf_adds(&buf, " and more");
    assert_string_equal(coto_buf_str(&buf), "so far");
    coto_buf_clear(&buf);
    coto_buf_adds(&buf, "again");
    assert_string_equal(coto_buf_str(&buf), "again");
    assert_false(buf.failed);
}

static void fini_twice(void **state)
{
    struct coto_buf buf = {0};
    struct coto_strv list = {0};

    (void)state;
    coto_buf_adds(&buf, "x");
    coto_buf_fini(&buf);
    coto_buf_fini(&buf);
    assert_int_equal(coto_strv_add(&list, "x"), 0);
    coto_strv_fini(&list);
    coto_strv_fini(&list);
    assert_null(list.items);
}

static void list_is_null_terminated(void **state)
{
    coto_auto_strv list = {0};

    (void)state;
    assert_int_equal(coto_strv_add(&list, "one"), 0);
    assert_null(list.items[1]);
    assert_int_equal(coto_strv_addn(&list, "twofold", 3), 0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[1], "two");
    assert_null(list.items[2]);
}

static void comparisons(void **state)
{
    (void)state;
    assert_true(coto_str_eq("a", "a"));
    assert_false(coto_str_eq("a", "b"));
    assert_false(coto_str_eq(NULL, NULL));
    assert_false(coto_str_eq("a", NULL));
    assert_true(coto_str_has_prefix("COTO_X", "COTO_"));
    assert_true(coto_str_has_prefix("x", ""));
    assert_false(coto_str_has_prefix("COT", "COTO"));
}

static size_t utf8(const char *text)
{
    return coto_utf8_len((const unsigned char *)text, strlen(text));
}

static void utf8_accepts_the_edges(void **state)
{
    (void)state;
    assert_int_equal(utf8("a"), 1);
    assert_int_equal(utf8("\xc2\x80"), 2);
    assert_int_equal(utf8("\xdf\xbf"), 2);
    assert_int_equal(utf8("\xe0\xa0\x80"), 3);
    assert_int_equal(utf8("\xed\x9f\xbf"), 3);
    assert_int_equal(utf8("\xee\x80\x80"), 3);
    assert_int_equal(utf8("\xf0\x90\x80\x80"), 4);
    assert_int_equal(utf8("\xf4\x8f\xbf\xbf"), 4);
}

static void utf8_refuses_what_decoders_differ_on(void **state)
{
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc0\xaf",         /* overlong slash */
        "\xc1\xbf",         /* overlong */
        "\xe0\x80\xaf",     /* overlong slash */
        "\xe0\x9f\xbf",     /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xf0\x80\x80\xaf", /* overlong slash */
        "\xf4\x90\x80\x80", /* past U+10FFFF */
        "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3(", "\xe2(\xac",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(utf8(bad[i]), 0);
        assert_false(coto_utf8_valid(bad[i], strlen(bad[i])));
    }
    assert_int_equal(coto_utf8_len((const unsigned char *)"", 0), 0);
    assert_true(coto_utf8_valid("", 0));
    assert_true(coto_utf8_valid("a\0\xc3\xa9", 4));
}

static void one_line_end_is_cut(void **state)
{
    static const char *const cases[][2] = {{"", ""},           {"\n", ""},      {"a", "a"},
                                           {"a\n", "a"},       {"a\r\n", "a"}, {"a\n\n", "a\n"},
                                           {"a\n\r", "a\n\r"}, {"\r\n", ""},    {"a\r", "a\r"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coto_auto_buf buf = {0};
        coto_buf_adds(&buf, cases[i][0]);
        coto_buf_cut_line_end(&buf);
        assert_string_equal(coto_buf_str(&buf), cases[i][1]);
        assert_int_equal(buf.len, strlen(cases[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builder_grows_and_terminates),
        cmocka_unit_test(builder_keeps_nul_bytes),
        cmocka_unit_test(failure_sticks_and_keeps_content),
        cmocka_unit_test(fini_twice),
        cmocka_unit_test(list_is_null_terminated),
        cmocka_unit_test(comparisons),
        cmocka_unit_test(utf8_accepts_the_edges),
        cmocka_unit_test(utf8_refuses_what_decoders_differ_on),
        cmocka_unit_test(one_line_end_is_cut),
    };

    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
