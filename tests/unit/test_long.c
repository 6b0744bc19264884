/* Long texts of a body: what comes out is what the parser alone would have made of it, or refused. */
#include "api/long.c"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* With and without; NULL is refused. */
static json_t *load(const char *text, size_t len, json_error_t *why)
{
    struct api_long all = {0};
    struct coto_err err = {0};
    json_t *value = NULL;

    if (api_long_hide(text, len, &all, &err) == 0) {
        value = all.count ? json_loadb(all.seen.data, all.seen.len, JSON_REJECT_DUPLICATES, why)
                          : json_loadb(text, len, JSON_REJECT_DUPLICATES, why);
        assert_true(!all.count || all.seen.len < len);
        if (!value)
            why->column = api_long_column(&all, why->position, why->column);
        else
            assert_int_equal(api_long_put_back(&all, value), 0);
    }
    api_long_fini(&all);
    return value;
}

static void compare(const struct coto_buf *text)
{
    json_error_t why = {0}, wanted = {0};
    json_t *ours = load(text->data, text->len, &why);
    json_t *theirs = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, &wanted);

    assert_int_equal(!ours, !theirs);
    if (theirs) {
        assert_true(json_equal(ours, theirs));
    } else {
        assert_int_equal(json_error_code(&why), json_error_code(&wanted));
        assert_int_equal(why.line, wanted.line);
        assert_int_equal(why.column, wanted.column);
    }
    json_decref(ours);
    json_decref(theirs);
}

static const char *const parts[] = {
    "x", "plain words, and more of them ", "\\n", "\\\\", "\\\"", "\\/", "\\b\\f\\r\\t", "\\u0041", "\\u00e9", "\\u20AC", "\\ud83d\\ude00",
    "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x7f", "'", "{}[],:", "\\uFFFF", "\\u0001", "1234567", "12345678"};
static const char *const wrong[] = {
    "\\u0000", "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\ud83dx", "\\u12g4", "\\u12", "\\x", "\n", "\x01", "\x1f", "\xff", "\xc3", "\xc3x",
    "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe0\x80\x80", "\\"};

static unsigned long state = 1;
static unsigned draw(unsigned n)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33) % n;
}

/* One that is long, of random parts, and perhaps one that is wrong somewhere. */
static void add_text(struct coto_buf *out, size_t least, const char *bad)
{
    size_t begin = out->len, at = bad ? draw((unsigned)least + 10) : 0;
    const char *often = parts[draw(2)];

    coto_buf_addc(out, '"');
    while (out->len - begin < least) {
        if (bad && out->len - begin >= at) {
            coto_buf_adds(out, bad);
            bad = NULL;
        }
        coto_buf_adds(out, draw(4) ? often : parts[draw(sizeof parts / sizeof *parts)]);
    }
    coto_buf_adds(out, bad ? bad : "");
    coto_buf_addc(out, '"');
}

static void test_texts_as_the_parser_has_them(void **unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++) {
        coto_auto_buf text = {0};
        coto_buf_adds(&text, "{\"a\": [1, ");
        add_text(&text, i % 3 ? LONG + draw(100) : LONG - draw(100), NULL);
        coto_buf_adds(&text, ",\n{\"b\" : ");
        add_text(&text, LONG * 2, NULL);
        coto_buf_adds(&text, "}], \"c\": ");
        add_text(&text, 20, NULL);
        coto_buf_adds(&text, "}");
        compare(&text);
    }
}

static void test_what_is_wrong_is_told_as_the_parser_does(void **unused)
{
    (void)unused;
    for (int i = 0; i < 400; i++) {
        coto_auto_buf text = {0};
        coto_buf_adds(&text, "{\"first\":\n");
        add_text(&text, LONG + 1, NULL);
        coto_buf_adds(&text, ", \"a\": ");
        add_text(&text, LONG + 100, wrong[(unsigned)i % (sizeof wrong / sizeof *wrong)]);
        coto_buf_adds(&text, i % 5 ? "}" : "");
        compare(&text);
    }
}

static void test_what_is_wrong_behind_them(void **unused)
{
    static const char *const ends[] = {"", "]", "} x", ",", ",}", " \"b\"", ", \"a\": 1}", ", \"b\": nul}", ",\n \"b\": ?}", ", \"b\": 1e}"};

    (void)unused;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        coto_auto_buf text = {0};
        coto_buf_adds(&text, "{\"a\": ");
        add_text(&text, LONG + 1, NULL);
        coto_buf_adds(&text, ends[i]);
        compare(&text);
    }
}

static void test_no_end(void **unused)
{
    static const char *const ends[] = {"", "\\", "\\\"", "\\\\\\\"", "\\u", "\xe2\x82"};

    (void)unused;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        coto_auto_buf text = {0};
        coto_buf_adds(&text, "{\"a\": \"");
        for (int n = 0; n < LONG; n++)
            coto_buf_addc(&text, 'x');
        coto_buf_adds(&text, ends[i]);
        compare(&text);
    }
}

static void test_no_field_has_so_long_a_name(void **unused)
{
    coto_auto_buf text = {0};
    struct api_long all = {0};
    struct coto_err err = {0};

    (void)unused;
    coto_buf_addc(&text, '{');
    add_text(&text, LONG, NULL);
    coto_buf_adds(&text, " \n: 1}");
    assert_int_equal(api_long_hide(text.data, text.len, &all, &err), -COTO_ERR_USAGE);
    assert_string_equal(err.text, "body: no such field: its name has more than 65536 bytes");
    api_long_fini(&all);
}

static void test_names_in_a_value_may_be_so_long(void **unused)
{
    static const char *const begins[] = {"{\"input\": {", "{\"a\": \"}\", \"input\": [{}, [], {", "{\"input\": [[{\"b\": 1, "};
    static const char *const ends[] = {": 1}}", ": 1}]}", ": 1}]]}"};

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        coto_auto_buf text = {0};
        coto_buf_adds(&text, begins[i]);
        add_text(&text, LONG, NULL);
        coto_buf_adds(&text, ends[i]);
        compare(&text);
    }
}

static void test_short_ones_are_left_alone(void **unused)
{
    static const char text[] = "{\"a\": \"b\", \"c\": [\"d\\\"e\"]}";
    struct api_long all = {0};

    (void)unused;
    assert_int_equal(api_long_hide(text, strlen(text), &all, &(struct coto_err){0}), 0);
    assert_int_equal(all.count, 0);
    assert_int_equal(all.seen.len, 0);
    assert_int_equal(api_long_end("\"a\\\\\"b\"", 7, 0), 5);
    assert_int_equal(api_long_end("\"a\\\"b\"", 6, 0), 6);
    assert_int_equal(api_long_end("\"", 1, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_as_the_parser_has_them),
        cmocka_unit_test(test_what_is_wrong_is_told_as_the_parser_does),
        cmocka_unit_test(test_what_is_wrong_behind_them),
        cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_no_field_has_so_long_a_name),
        cmocka_unit_test(test_names_in_a_value_may_be_so_long),
        cmocka_unit_test(test_short_ones_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
