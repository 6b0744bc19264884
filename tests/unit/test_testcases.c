/* The files in runner-output/ are what the real programs printed (go 1.19,
 * pytest 7.2, Python 3.11, node 20, ctest 3.25). */
#include "base/fd.h"
#include "report/testcases.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifndef COTO_SOURCE_DIR
#define COTO_SOURCE_DIR "."
#endif

static struct coto_cases cases;

static int leave(void **state)
{
    (void)state;
    coto_cases_fini(&cases);
    coto_cases_fini(&cases);
    return 0;
}

static void parse(const char *runner, const char *text, size_t len, int exit_code)
{
    coto_auto_buf output = {0};

    coto_cases_fini(&cases);
    coto_buf_add(&output, text, len);
    coto_cases_parse(coto_runner_find(runner), &output, exit_code, &cases);
}

static void parse_text(const char *runner, const char *text, int exit_code)
{
    parse(runner, text, strlen(text), exit_code);
}

static void parse_file(const char *runner, const char *name, int exit_code)
{
    coto_auto_buf text = {0};
    char path[512];

    snprintf(path, sizeof path, COTO_SOURCE_DIR "/tests/unit/runner-output/%s", name);
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(coto_fd_read_all(fd, 1 << 20, &text), 0);
    parse(runner, coto_buf_str(&text), text.len, exit_code);
}

static const struct coto_case *find(const char *name)
{
    for (size_t i = 0; i < cases.count; i++)
        if (strcmp(cases.items[i].name, name) == 0)
            return &cases.items[i];
    for (size_t i = 0; i < cases.count; i++)
        print_message("  case '%s'\n", cases.items[i].name);
    fail_msg("no case '%s'", name);
    return NULL;
}

static void assert_passed(const char *name)
{
    assert_true(find(name)->passed);
    assert_false(find(name)->skipped);
    assert_int_equal(find(name)->message.len, 0);
}

static void assert_failed(const char *name, const char *message)
{
    const struct coto_case *item = find(name);

    assert_false(item->passed);
    if (!strstr(coto_buf_str(&item->message), message))
        fail_msg("%s: '%s' does not hold '%s'", name, coto_buf_str(&item->message), message);
}

static void assert_skipped(const char *name, const char *message)
{
    assert_true(find(name)->passed);
    assert_true(find(name)->skipped);
    assert_string_equal(coto_buf_str(&find(name)->message), message);
}

/* passed, failed, skipped */
static void assert_counts(size_t passed, size_t failed, size_t skipped)
{
    assert_int_equal(coto_cases_count_failed(&cases), failed);
    assert_int_equal(coto_cases_count_skipped(&cases), skipped);
    assert_int_equal(cases.count, passed + failed + skipped);
}

/* ---- go ---- */

static void test_go(void **state)
{
    (void)state;
    parse_file("go", "go.txt", 2);
    assert_passed("TestAdd"); /* it printed "dbg" without a newline */
    assert_passed("TestSub/one");
    assert_failed("TestSub/two_words", "a_test.go:8: got 1\n        want 2");
    assert_failed("TestSub", "");
    assert_skipped("TestSkip", "    a_test.go:10: later");
    assert_passed("TestPar");
    assert_passed("TestInSub");
    assert_string_equal(find("TestInSub")->suite, "submission/sub");
    assert_string_equal(find("TestAdd")->suite, "submission");
    assert_failed("submission/broken [build failed]", "undefined: x");
    assert_counts(5, 3, 1);
    assert_int_equal(find("TestAdd")->duration_us, 0);
    assert_false(coto_cases_passed(&cases, 2));
}

static void test_go_passes(void **state)
{
    (void)state;
    parse_text("go", "=== RUN   TestA\n--- PASS: TestA (1.25s)\nPASS\nok  \tsubmission\t1.3s\n", 0);
    assert_passed("TestA");
    assert_int_equal(find("TestA")->duration_us, 1250000);
    assert_true(coto_cases_passed(&cases, 0));
    assert_false(coto_cases_passed(&cases, 1));
}

static void test_go_hang_and_panic(void **state)
{
    (void)state;
    parse_file("go", "gohang.txt", 1);
    assert_passed("TestA");
    assert_failed("TestHang", "panic: test timed out after 1s");
    assert_counts(1, 1, 0);
    parse_file("go", "gopanic.txt", 1);
    assert_failed("TestBoom", "panic: boom");
    assert_counts(1, 1, 0);
}

static void test_go_same_name_in_two_packages(void **state)
{
    (void)state;
    parse_text("go",
               "=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\ta\t0.1s\n"
               "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tb\t0.1s\nFAIL\n",
               1);
    assert_counts(1, 1, 0);
    assert_string_equal(cases.items[0].suite, "a");
    assert_false(cases.items[0].passed);
    assert_true(cases.items[1].passed);
}

static void test_go_forgeries(void **state)
{
    (void)state;
    /* A pass before the real failure. */
    parse_text("go",
               "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- FAIL: TestA (0.00s)\nFAIL\n"
               "FAIL\tx\t0.1s\n",
               1);
    assert_counts(0, 1, 0);
    /* A pass after it. */
    parse_text("go",
               "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n--- PASS: TestA (0.00s)\nok  \tx\t0.1s\n",
               0);
    assert_counts(0, 1, 0);
    assert_false(coto_cases_passed(&cases, 0));
    /* Passes of tests nobody started. */
    parse_text("go", "--- PASS: TestZ (0.00s)\nnoise--- PASS: TestY (0.00s)\nok  \tx\t0.1s\n", 0);
    assert_counts(0, 0, 0);
    assert_false(coto_cases_passed(&cases, 0));
    /* The process ended itself in the middle of a test, with status 0. */
    parse_text("go", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n", 0);
    assert_failed("TestB", "has no result");
    assert_false(coto_cases_passed(&cases, 0));
    /* Or between two. */
    parse_text("go", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n", 0);
    assert_failed("go", "closing line is missing");
    /* In the middle of a line a result of somebody else's does not count twice. */
    parse_text("go",
               "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n=== RUN   TestB\n"
               "x--- PASS: TestA (0.00s)\n--- PASS: TestB (0.00s)\nFAIL\tx\t0s\n",
               1);
    assert_failed("TestA", "");
}

/* ---- pytest ---- */

static void test_pytest(void **state)
{
    (void)state;
    parse_file("pytest", "pytest.txt", 1);
    assert_passed("test_a.py::test_ok");
    assert_int_equal(find("test_a.py::test_ok")->duration_us, 20000);
    /* Its output holds a forged "PASSED" line. */
    assert_failed("test_a.py::test_bad", "AssertionError: x is wrong");
    assert_passed("test_a.py::test_par[a b]");
    assert_failed("test_a.py::test_par[x::y]", "assert 'x::y' != 'x::y'");
    assert_skipped("test_a.py::test_skip", "later");
    assert_true(find("test_a.py::test_xf")->skipped);
    assert_passed("test_a.py::test_xp");
    assert_passed("test_a.py::TestK::test_m");
    assert_failed("test_a.py::test_err", "RuntimeError: fx");
    assert_counts(5, 3, 2);
    assert_true(cases.is_complete);
}

static void test_pytest_broken_file(void **state)
{
    (void)state;
    parse_file("pytest", "pytest_collect.txt", 2);
    assert_failed("test_b.py", "No module named 'nothere'");
    assert_counts(0, 1, 0);
}

/* What a failing test printed is repeated line by line further down. */
static void test_pytest_forged_case(void **state)
{
    (void)state;
    parse_text("pytest",
               "===== test session starts =====\ncollected 1 item\n\n"
               "test_a.py::test_one FAILED                 [100%]\n\n===== FAILURES =====\n"
               "_____ test_one _____\n----- Captured stdout call -----\n"
               "test_a.py::test_two PASSED                 [100%]\n===== 1 failed in 0.01s =====\n",
               1);
    assert_counts(0, 1, 0);
    assert_failed("test_a.py::test_one", "test_two PASSED");
}

static void test_pytest_ends_early(void **state)
{
    (void)state;
    parse_text("pytest",
               "===== test session starts =====\ncollecting ... collected 2 items\n\n"
               "test_a.py::test_one PASSED                 [ 50%]\ntest_a.py::test_two ",
               0);
    assert_passed("test_a.py::test_one");
    assert_failed("pytest", "closing line is missing");
    assert_false(coto_cases_passed(&cases, 0));
    /* Fewer results than tests, although the closing line is there. */
    parse_text("pytest",
               "===== test session starts =====\ncollected 2 items\n\n"
               "test_a.py::test_one PASSED                 [ 50%]\n===== 2 passed in 0.01s =====\n",
               0);
    assert_false(coto_cases_passed(&cases, 0));
    parse_text("pytest",
               "===== test session starts =====\ncollected 1 item\n\n"
               "test_a.py::test_one PASSED                 [100%]\n===== 1 passed in 0.01s =====\n",
               0);
    assert_true(coto_cases_passed(&cases, 0));
}

/* ---- unittest ---- */

static void test_unittest(void **state)
{
    static const char *const files[] = {"unittest.txt", "unittest_b.txt"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        parse_file("unittest", files[i], 1);
        assert_passed("thing_test.T.test_ok");
        assert_passed("thing_test.T.test_print"); /* its noise stands before the "ok" */
        assert_failed("thing_test.T.test_bad", "AssertionError: 1 != 2 : one is not two");
        assert_failed("thing_test.T.test_err", "RuntimeError: x");
        assert_failed("unittest.loader._FailedTest.bad_test", "No module named 'nothere'");
        assert_failed("thing_test.T.test_sub", "");
        assert_failed("test_sub (thing_test.T.test_sub) (i=1)", "AssertionError: 1 == 1");
        assert_failed("thing_test.T.test_us", "");
        assert_skipped("thing_test.T.test_skip", "later");
        assert_true(find("thing_test.T.test_xf")->skipped);
        assert_counts(2, 6, 2);
        assert_true(cases.is_complete);
    }
}

static void test_unittest_of_older_python(void **state)
{
    (void)state;
    parse_text("unittest",
               "test_a (mod.T) ... ok\ntest_b (mod.T)\nwhat it does ... ok\n\n"
               "----------------------------------------------------------------------\n"
               "Ran 2 tests in 0.001s\n\nOK\n",
               0);
    assert_passed("mod.T.test_a");
    assert_passed("mod.T.test_b");
    assert_true(coto_cases_passed(&cases, 0));
    parse_text("unittest", "test_a (mod.T) ... ok\ntest_b (mod.T) ... ", 0);
    assert_failed("mod.T.test_b", "has no result");
    parse_text("unittest", "test_a (mod.T) ... ok\n", 0);
    assert_failed("unittest", "closing line is missing");
}

static void test_unittest_guess_is_mended(void **state)
{
    (void)state;
    parse_text("unittest",
               "test_a (mod.T) ... a book\nFAIL\n\n"
               "======================================================================\n"
               "FAIL: test_a (mod.T)\n"
               "----------------------------------------------------------------------\n"
               "AssertionError: no\n\n"
               "----------------------------------------------------------------------\n"
               "Ran 1 test in 0.001s\n\nFAILED (failures=1)\n",
               1);
    assert_failed("mod.T.test_a", "AssertionError: no");
    assert_counts(0, 1, 0);
}

/* ---- TAP ---- */

static void test_node(void **state)
{
    (void)state;
    parse_file("node", "node20.txt", 1);
    assert_passed("ok one");
    assert_int_equal(find("ok one")->duration_us, 1610);
    assert_failed("bad # one", "one is not two\n\n1 !== 2");
    assert_skipped("skipped", "later");
    assert_true(find("todo")->skipped);
    assert_passed("suite > inner ok");
    assert_failed("suite > inner bad", "multi\nline");
    assert_true(find("/workspace/forge.test.js")->is_file);
    assert_failed("/workspace/load.test.js", "test failed");
    assert_counts(3, 3, 2);
    assert_true(cases.is_complete);
}

/* Older node 18 puts each file's tests below a subtest named like the file. */
static void test_node_nested_in_files(void **state)
{
    (void)state;
    parse_text("node",
               "TAP version 13\n# Subtest: /workspace/a.test.js\n    # Subtest: one\n"
               "    ok 1 - one\n      ---\n      duration_ms: 1.5\n      ...\n"
               "    # Subtest: two\n    not ok 2 - two\n      ---\n      duration_ms: 2\n"
               "      error: 'it''s bad'\n      ...\n    1..2\n"
               "not ok 1 - /workspace/a.test.js\n  ---\n  duration_ms: 50\n"
               "  failureType: 'subtestsFailed'\n  error: '1 subtest failed'\n  ...\n1..1\n"
               "# tests 1\n# pass 0\n# fail 1\n",
               1);
    assert_passed("one");
    assert_string_equal(find("one")->suite, "/workspace/a.test.js");
    assert_int_equal(find("one")->duration_us, 1500);
    assert_failed("two", "it''s bad");
    assert_counts(1, 1, 0);
    /* A hook that failed shows in the file's own line only. */
    parse_text("node",
               "# Subtest: /workspace/a.test.js\n    ok 1 - one\n    1..1\n"
               "not ok 1 - /workspace/a.test.js\n1..1\n",
               1);
    assert_counts(1, 1, 0);
}

static void test_tap_needs_its_plan(void **state)
{
    (void)state;
    parse_text("node", "ok 1 - a\n", 0);
    assert_failed("node", "closing line is missing");
    parse_text("node", "ok 1 - a\n1..2\n", 0);
    assert_failed("node", "closing line is missing");
    parse_text("node", "1..1\nok 1 - a\n", 0);
    assert_true(coto_cases_passed(&cases, 0));
    parse_text("node", "1..0\n", 0);
    assert_counts(0, 0, 0);
    assert_false(coto_cases_passed(&cases, 0));
    parse_text("node", "1..1\nok 1 - a # skip\n", 0);
    assert_false(coto_cases_passed(&cases, 0)); /* nothing was tested */
    parse_text("node", "1..1\nok 1 - a\nBail out! no disk\n", 0);
    assert_failed("Bail out! no disk", "");
}

/* ---- make, ctest ---- */

static void test_make(void **state)
{
    (void)state;
    parse_text("make", "cc -o t t.c\n./t\n", 0);
    assert_passed("make test");
    assert_true(coto_cases_passed(&cases, 0));
    parse_text("make", "cc -o t t.c\nmake: *** [Makefile:2: test] Error 1\n", 2);
    assert_failed("make test", "see its output");
    parse_text("make", "PASS: one\nFAIL: two\nSKIP: three\nXFAIL: four\n PASS: five\n", 2);
    assert_passed("one");
    assert_failed("two", "");
    assert_counts(1, 1, 2);
    parse_text("make", "./t\nok 1 - a\nnot ok 2 - b\nok 3\n1..3\n", 1);
    assert_passed("a");
    assert_failed("b", "");
    assert_passed("test 3");
    parse_text("make", "PASS: one\n", 2);
    assert_passed("one");
    assert_failed("make", "status 2");
    /* Ended from outside: no status to believe. */
    parse_text("make", "./t\n", -1);
    assert_failed("make", "it was ended before it was done");
}

static void test_ctest(void **state)
{
    (void)state;
    parse_file("ctest", "ctest.txt", 8);
    assert_passed("good");
    assert_failed("bad", "Failed\nsaid so");
    assert_failed("with", "Not Run");
    assert_failed("crash", "Subprocess aborted***Exception:");
    assert_failed("slow", "Timeout");
    assert_int_equal(find("slow")->duration_us, 1000000);
    assert_skipped("dis", "Not Run (Disabled)");
    assert_failed("nr", "Not Run");
    assert_skipped("sk", "Skipped");
    assert_counts(1, 5, 2);
    assert_true(cases.is_complete);
    parse_text("ctest", "CMake Error at CMakeLists.txt:1\n", 1);
    assert_failed("ctest", "status 1");
    assert_counts(0, 1, 0);
}

/* ---- hostile output ---- */

static void test_any_bytes(void **state)
{
    static const char *const pieces[] = {
        "=== RUN   ", "--- PASS: ", "--- FAIL: T (0.00s)", " (", "s)", "\n", "\r\n", "\0x", "\xff",
        "\033[2J", "FAIL\t", "ok  \t", "# ", "===== ", " =====", "____ ", " ____", "::", " PASSED",
        "[ 20%]", "[%]", "%]", "collected ", " items", "ERROR collecting ", "FAILED ", " - ",
        "0.1s call ", " in 0.1s", "test (a.b)", " ... ", "ok", "skipped '", "Ran ", " tests in ",
        "    ", "  ---\n", "  ...\n", "duration_ms: ", "error: |-\n", "not ok ", "1..", "9999999999",
        "# Subtest: ", "Bail out!", "1/2 Test #1: ", " ...", "***Failed", " sec", "Start ",
        "======================================================================\n", "  ", "#", "\\",
    };
    size_t count = sizeof pieces / sizeof pieces[0];
    unsigned seed = 12345;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        coto_auto_buf text = {0};
        for (int i = 0; i < 40; i++) {
            seed = seed * 1103515245u + 12345u;
            const char *piece = pieces[(seed >> 16) % count];
            coto_buf_add(&text, piece, piece[0] ? strlen(piece) : 2);
        }
        for (size_t i = 0; i < coto_runner_count; i++)
            parse(coto_runners[i].name, coto_buf_str(&text), text.len, round % 3 - 1);
    }
}

static void test_long_lines(void **state)
{
    size_t len = (size_t)1 << 20;
    char *text = malloc(len + 64);

    (void)state;
    for (size_t i = 0; i < coto_runner_count; i++) {
        memset(text, 'a', len);
        parse(coto_runners[i].name, text, len, 0);
        memcpy(text, "=== RUN   ", 10);
        parse(coto_runners[i].name, text, len, 0);
    }
    memcpy(text, "=== RUN   ", 10);
    parse("go", text, len, 1);
    assert_int_equal(cases.count, 1);
    assert_int_equal(strlen(cases.items[0].name), COTO_CASE_NAME_MAX);
    memcpy(text, "=== RUN   T\n", 12);
    strcpy(text + len, "\n--- FAIL: T (0.00s)\n");
    parse("go", text, strlen(text), 1);
    assert_int_equal(find("T")->message.len, COTO_CASE_MESSAGE_MAX);
    free(text);
}

static void test_too_many_cases(void **state)
{
    coto_auto_buf text = {0};

    (void)state;
    for (int i = 0; i < 200000; i++)
        coto_buf_addf(&text, "=== RUN   T%d\n--- PASS: T%d (0.00s)\n", i, i);
    coto_buf_adds(&text, "ok  \tx\t0.1s\n");
    parse("go", coto_buf_str(&text), text.len, 0);
    assert_int_equal(cases.count, COTO_CASES_MAX);
    assert_failed("go", "it told of more than 9999 cases");
    assert_false(coto_cases_passed(&cases, 0));
}

/* ---- JUnit ---- */

static void test_junit(void **state)
{
    coto_auto_buf output = {0}, xml = {0};
    struct coto_junit junit = {.name = "coto \"test\"",
                               .started_at = "2026-01-02T03:04:05.000Z",
                               .duration_us = 1234567,
                               .cases = &cases,
                               .output = &output};

    (void)state;
    coto_buf_add(&output, "a<b>&\"\033[31m\xff\xc2\x9b\0]]>\xc3\xa9\r\n", 22);
    parse_text("make", "PASS: one\nFAIL: t<w>o\t\x01\xfe\nSKIP: three\n", 1);
    cases.items[0].duration_us = 1500;
    coto_buf_adds(&cases.items[1].message, "first & \x1b\nsecond");
    coto_junit_xml(&junit, &xml);
    assert_string_equal(
        coto_buf_str(&xml),
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.234567\">\n"
        "  <testsuite name=\"coto &quot;test&quot;\" tests=\"3\" failures=\"1\" errors=\"0\" "
        "skipped=\"1\" time=\"1.234567\" timestamp=\"2026-01-02T03:04:05.000Z\">\n"
        "    <testcase classname=\"coto &quot;test&quot;\" name=\"one\" time=\"0.001500\"/>\n"
        "    <testcase classname=\"coto &quot;test&quot;\" "
        "name=\"t&lt;w&gt;o&#9;\xef\xbf\xbd\xef\xbf\xbd\">\n"
        "      <failure message=\"first &amp; \xef\xbf\xbd\">first &amp; "
        "\xef\xbf\xbd\nsecond</failure>\n"
        "    </testcase>\n"
        "    <testcase classname=\"coto &quot;test&quot;\" name=\"three\">\n"
        "      <skipped message=\"\"></skipped>\n"
        "    </testcase>\n"
        "    <system-out>a&lt;b&gt;&amp;&quot;\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
        "]]&gt;\xc3\xa9&#13;\n</system-out>\n"
        "  </testsuite>\n</testsuites>\n");
}

static void test_junit_is_not_green_without_cases(void **state)
{
    coto_auto_buf output = {0}, xml = {0};
    struct coto_junit junit = {.name = "suite",
                               .started_at = "",
                               .duration_us = -1,
                               .cases = &cases,
                               .output = &output,
                               .error = "no <case>"};

    (void)state;
    coto_junit_xml(&junit, &xml);
    assert_non_null(strstr(coto_buf_str(&xml),
                           "<testsuites tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">"));
    assert_non_null(strstr(coto_buf_str(&xml),
                           "    <testcase classname=\"suite\" name=\"suite\">\n"
                           "      <error message=\"no &lt;case&gt;\"/>\n    </testcase>\n"));
}

#define T(name) cmocka_unit_test_teardown(name, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_go),
        T(test_go_passes),
        T(test_go_hang_and_panic),
        T(test_go_same_name_in_two_packages),
        T(test_go_forgeries),
        T(test_pytest),
        T(test_pytest_broken_file),
        T(test_pytest_forged_case),
        T(test_pytest_ends_early),
        T(test_unittest),
        T(test_unittest_of_older_python),
        T(test_unittest_guess_is_mended),
        T(test_node),
        T(test_node_nested_in_files),
        T(test_tap_needs_its_plan),
        T(test_make),
        T(test_ctest),
        T(test_any_bytes),
        T(test_long_lines),
        T(test_too_many_cases),
        T(test_junit),
        T(test_junit_is_not_green_without_cases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
