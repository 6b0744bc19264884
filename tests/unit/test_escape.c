#include "report/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Filters bytes in chunks of `step` and compares. */
static void assert_shown(const char *bytes, size_t len, size_t step, const char *expected)
{
    struct coto_escape escape = {0};
    coto_auto_buf out = {0};

    for (size_t i = 0; i < len; i += step)
        coto_escape_add(&escape, bytes + i, len - i < step ? len - i : step, &out);
    coto_escape_end(&escape, &out);
    assert_int_equal(escape.held_len, 0);
    assert_string_equal(coto_buf_str(&out), expected);
}

static void shown_in_any_chunks(const char *bytes, const char *expected)
{
    for (size_t step = 1; step <= 8; step++)
        assert_shown(bytes, strlen(bytes), step, expected);
}

static void text_passes_byte_for_byte(void **state)
{
    const char *text = "plain\ttext\r\n caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 "
                       "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac\n";

    (void)state;
    shown_in_any_chunks(text, text);
}

static void controls_become_carets(void **state)
{
    (void)state;
    shown_in_any_chunks("\x1b[31mred\x1b[0m", "^[[31mred^[[0m");
    shown_in_any_chunks("\x1b]0;title\x07", "^[]0;title^G");
    shown_in_any_chunks("a\bb\x7f\x0c\x0b\x0e", "a^Hb^?^L^K^N");
    assert_shown("\0", 1, 1, "^@");
}

static void c1_controls_in_both_forms(void **state)
{
    (void)state;
    shown_in_any_chunks("\x9b"
                        "31m",
                        "\\x9b31m");
    shown_in_any_chunks("\xc2\x9b"
                        "31m",
                        "\\u009b31m");
    shown_in_any_chunks("\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0");
}

static void direction_marks_are_shown(void **state)
{
    (void)state;
    shown_in_any_chunks("\xe2\x80\xae"
                        "evil\xe2\x81\xa6",
                        "\\u202eevil\\u2066");
    shown_in_any_chunks("\xd8\x9c\xe2\x80\x8f", "\\u061c\\u200f");
}

static void bad_utf8_is_shown_byte_by_byte(void **state)
{
    (void)state;
    shown_in_any_chunks("a\xff\xfe", "a\\xff\\xfe");
    shown_in_any_chunks("\xc0\xaf", "\\xc0\\xaf");
    shown_in_any_chunks("\xed\xa0\x80", "\\xed\\xa0\\x80");
    shown_in_any_chunks("\xe2\x82", "\\xe2\\x82");
    shown_in_any_chunks("\xf0\x9f\x98", "\\xf0\\x9f\\x98");
    shown_in_any_chunks("\xe2\x82x", "\\xe2\\x82x");
}

/* A lead byte must not swallow the escape behind it. */
static void broken_character_hides_no_escape(void **state)
{
    (void)state;
    shown_in_any_chunks("\xe2\x1b[31m", "\\xe2^[[31m");
    shown_in_any_chunks("\xf0\x9f\x1b", "\\xf0\\x9f^[");
    shown_in_any_chunks("\xe2\xc2\x9b", "\\xe2\\u009b");
    shown_in_any_chunks("\xf0\xf0\x9f\x98\x80", "\\xf0\xf0\x9f\x98\x80");
}

/* Whatever goes in, nothing a terminal acts on comes out. */
static void no_input_leaks(void **state)
{
    unsigned seed = 1;
    coto_auto_buf out = {0};
    struct coto_escape escape = {0};

    (void)state;
    for (int round = 0; round < 20000; round++) {
        unsigned char chunk[7];
        size_t len = 1 + (size_t)round % sizeof chunk;
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1103515245u + 12345u;
            chunk[i] = (unsigned char)(seed >> 16);
        }
        coto_escape_add(&escape, chunk, len, &out);
    }
    coto_escape_end(&escape, &out);
    assert_true(coto_utf8_valid(out.data, out.len));
    for (size_t i = 0; i < out.len; i++) {
        unsigned char c = (unsigned char)out.data[i];
        assert_true(c >= 0x20 || c == '\n' || c == '\t' || c == '\r');
        assert_int_not_equal(c, 0x7f);
        if (c == 0xc2)
            assert_true((unsigned char)out.data[i + 1] >= 0xa0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_passes_byte_for_byte),
        cmocka_unit_test(controls_become_carets),
        cmocka_unit_test(c1_controls_in_both_forms),
        cmocka_unit_test(direction_marks_are_shown),
        cmocka_unit_test(bad_utf8_is_shown_byte_by_byte),
        cmocka_unit_test(broken_character_hides_no_escape),
        cmocka_unit_test(no_input_leaks),
    };

    return cmocka_run_group_tests_name("escape", tests, NULL, NULL);
}
