/* Human numbers: what is read, what is refused, and that text → number → text
 * keeps the number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"

struct good {
    const char *text;
    int64_t value;
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define UNTOUCHED (-77)

typedef int parser_fn(const char *text, int64_t *ret_value);
typedef void writer_fn(struct coto_buf *out, int64_t value);

static void check_good(parser_fn *parse, const struct good *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t v = UNTOUCHED;
        if (parse(rows[i].text, &v) != 0)
            fail_msg("'%s' was refused", rows[i].text);
        if (v != rows[i].value)
            fail_msg("'%s' gave %lld", rows[i].text, (long long)v);
    }
}

static void check_bad(parser_fn *parse, const char *const *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t v = UNTOUCHED;
        if (parse(rows[i], &v) == 0)
            fail_msg("'%s' was read as %lld", rows[i], (long long)v);
        assert_int_equal(v, UNTOUCHED); /* a refusal writes nothing */
    }
}

static void check_round(parser_fn *parse, writer_fn *write_text, const int64_t *values,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct coto_buf text = {0};
        int64_t v = UNTOUCHED;
        write_text(&text, values[i]);
        if (parse(coto_buf_str(&text), &v) != 0 || v != values[i])
            fail_msg("%lld became '%s'", (long long)values[i], coto_buf_str(&text));
        coto_buf_fini(&text);
    }
}

/* Threat LI-07: nothing but plain numbers is ever a number. */
static const char *const never[] = {"",    " ",    " 5",  "5 ",  "+5",  "-1",  "-0",   "1e9",
                                    "0x5", "NaN",  "inf", ".5",  "5.",  "1,5", "5kk",  "None",
                                    "k",   "1.2.3", "5\n", "\t5", "٣",   "1_0", "none ", "5x"};

static void sizes(void **state)
{
    static const struct good good[] = {
        {"0", 0},           {"1", 1},           {"1k", 1024},
        {"1K", 1024},       {"10kb", 10240},    {"256m", 256 << 20},
        {"256MiB", 256 << 20}, {"1.5g", 1610612736}, {"1t", INT64_C(1) << 40},
        {"5b", 5},          {"0.5k", 512},      {"none", COTO_UNIT_NONE},
    };
    static const char *const bad[] = {"1.0005k", "1.5", "0.1", "9223372036854775807k",
                                      "99999999999999999999", "1p", "1ki", "1mm"};
    static const int64_t round[] = {0, 1, 1023, 1024, 1025, 10240, 3 << 20, 1610612736,
                                    INT64_C(1) << 40, COTO_UNIT_NONE};
    (void)state;
    check_good(coto_units_parse_size, good, COUNT(good));
    check_bad(coto_units_parse_size, bad, COUNT(bad));
    check_bad(coto_units_parse_size, never, COUNT(never));
    check_round(coto_units_parse_size, coto_units_add_size, round, COUNT(round));
}

static void durations(void **state)
{
    static const struct good good[] = {
        {"0", 0},         {"30", 30000},     {"1.5", 1500},      {"500ms", 500},
        {"30s", 30000},   {"1m30s", 90000},  {"2h", 7200000},    {"1d", 86400000},
        {"0.25s", 250},   {"1h1m1s1ms", 3661001}, {"none", COTO_UNIT_NONE},
    };
    static const char *const bad[] = {"s",    "1s1m", "1s1s",  "0.5ms", "1m30", "30m 1s",
                                      "1sm",  "5k",   "1y",    "9223372036854775807d"};
    static const int64_t round[] = {0, 1, 999, 1000, 1001, 59999, 60000, 90000, 3600000,
                                    86400000, COTO_UNIT_NONE};
    (void)state;
    check_good(coto_units_parse_duration, good, COUNT(good));
    check_bad(coto_units_parse_duration, bad, COUNT(bad));
    check_bad(coto_units_parse_duration, never, COUNT(never));
    check_round(coto_units_parse_duration, coto_units_add_duration, round, COUNT(round));
}

static void cpus(void **state)
{
    static const struct good good[] = {
        {"0", 0}, {"1", 1000}, {"0.5", 500}, {"1.6", 1600}, {"0.001", 1}, {"128", 128000},
        {"none", COTO_UNIT_NONE},
    };
    static const char *const bad[] = {"0.0001", "50%", "2cpus", "1m", "99999999999999999"};
    static const int64_t round[] = {0, 1, 10, 100, 500, 1000, 1001, 1600, 128000, COTO_UNIT_NONE};
    (void)state;
    check_good(coto_units_parse_cpus, good, COUNT(good));
    check_bad(coto_units_parse_cpus, bad, COUNT(bad));
    check_bad(coto_units_parse_cpus, never, COUNT(never));
    check_round(coto_units_parse_cpus, coto_units_add_cpus, round, COUNT(round));
}

static void whole_numbers(void **state)
{
    static const struct good good[] = {
        {"0", 0}, {"1", 1}, {"65536", 65536}, {"922337203685477579", INT64_C(922337203685477579)},
        {"none", COTO_UNIT_NONE},
    };
    static const char *const bad[] = {"007", "00", "1.0", "5k", "9223372036854775808",
                                      "18446744073709551617"};
    (void)state;
    check_good(coto_units_parse_int, good, COUNT(good));
    check_bad(coto_units_parse_int, bad, COUNT(bad));
    check_bad(coto_units_parse_int, never, COUNT(never));
}

static void rounded(void **state)
{
    struct coto_buf out = {0};

    (void)state;
    coto_units_add_size_rounded(&out, 12 << 20);
    assert_string_equal(coto_buf_str(&out), "12 MB");
    coto_buf_clear(&out);
    coto_units_add_size_rounded(&out, 1536);
    assert_string_equal(coto_buf_str(&out), "1.5 KB");
    coto_buf_clear(&out);
    coto_units_add_time_rounded(&out, 1240000);
    assert_string_equal(coto_buf_str(&out), "1.24 s");
    coto_buf_clear(&out);
    coto_units_add_time_rounded(&out, 850);
    assert_string_equal(coto_buf_str(&out), "850 us");
    coto_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(durations), cmocka_unit_test(cpus),
        cmocka_unit_test(whole_numbers), cmocka_unit_test(rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
