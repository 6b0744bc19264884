#include "base/fd.h"
#include "report/json.h"
#include "report/reportfile.h"
#include "report/text.h"
#include "schema/media.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct coto_artifact artifacts[] = {
    {.name = (char *)"plot.png", .bytes = 5, .type = "image/png", .sha256 = "aa"},
    {.name = (char *)"bad\xff", .bytes = 7, .type = "application/octet-stream", .sha256 = "bb"},
};

static void make_result(struct coto_result *result)
{
    *result = (struct coto_result){
        .id = "00000000-0000-4000-8000-000000000001",
        .profile = "default",
        .policy_hash = "11",
        .code_hash = "22",
        .started_at = "2026-11-15T08:30:21.123Z",
        .driver = "native",
        .stage = "run",
        .verdict = COTO_VERDICT_OK,
        .duration_us = 12345,
        .artifacts = artifacts,
        .artifact_count = 2,
    };
    result->facts.usage = (struct coto_usage){
        .cpu_user_us = 5000, .cpu_system_us = 3100, .memory_peak_bytes = -1, .pids_peak = 3};
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        result->walls[i] = (struct coto_wall_state){.wanted = true, .up = true};
}

static void make_json(const struct coto_result *result, const struct coto_plan *plan,
                      struct coto_buf *out)
{
    struct coto_json json = {.out = out};

    coto_report_json(result, plan, &json);
    assert_false(out->failed);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

static void assert_has_not(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("'%s' is in: %s", part, text);
}

static void result_object(void **state)
{
    struct coto_result result;
    coto_auto_buf out = {0};

    (void)state;
    make_result(&result);
    coto_buf_adds(&result.out.data, "hi\n");
    result.out.seen = 100;
    result.out.kept = 3;
    result.out.truncated = true;
    make_json(&result, NULL, &out);
    coto_buf_fini(&result.out.data);
    assert_has(out.data, "{\"schema_version\":1,\"execution_id\":\"00000000-0000-4000");
    assert_has(out.data, "\"verdict\":\"ok\",\"limit\":null,\"stage\":\"run\",\"exit_code\":0,"
                         "\"signal\":null,\"exit_status\":0,\"duration_ms\":12.345,"
                         "\"cpu_ms\":{\"user\":5.000,\"system\":3.100},"
                         "\"memory_peak_bytes\":null,\"pids_peak\":3");
    assert_has(out.data, "\"stdout\":\"hi\\n\",\"stdout_bytes_seen\":100,"
                         "\"stdout_bytes_kept\":3,\"stdout_truncated\":true");
    assert_has(out.data, "\"stderr\":\"\",");
    assert_has(out.data, "{\"name\":\"plot.png\",\"bytes\":5,\"type\":\"image/png\","
                         "\"sha256\":\"aa\"}");
    assert_has(out.data, "\"name_base64\":\"YmFk/w==\"");
    assert_has(out.data, "\"missing_walls\":[]");
}

/* A program's own 137 and ours must be told apart (R1.4). */
static void own_status_is_not_ours(void **state)
{
    struct coto_result result;
    coto_auto_buf own = {0};
    coto_auto_buf ours = {0};

    (void)state;
    make_result(&result);
    result.verdict = COTO_VERDICT_NONZERO;
    result.exit_code = result.exit_status = 137;
    make_json(&result, NULL, &own);
    assert_has(own.data, "\"verdict\":\"nonzero\",\"limit\":null,\"stage\":\"run\","
                         "\"exit_code\":137,\"signal\":null,\"exit_status\":137");
    result.verdict = COTO_VERDICT_OOM;
    result.limit = "memory";
    result.exit_code = -1;
    result.signal = 9;
    make_json(&result, NULL, &ours);
    assert_has(ours.data, "\"verdict\":\"oom\",\"limit\":\"memory\",\"stage\":\"run\","
                          "\"exit_code\":null,\"signal\":9,\"exit_status\":137");
}

static void missing_walls_are_those_wanted(void **state)
{
    struct coto_result result;
    coto_auto_buf json = {0};
    coto_auto_buf text = {0};

    (void)state;
    make_result(&result);
    result.walls[COTO_WALL_MEMORY].up = false;
    snprintf(result.walls[COTO_WALL_MEMORY].note, 32, "no cgroup");
    result.walls[COTO_WALL_IOPS] = (struct coto_wall_state){0};
    make_json(&result, NULL, &json);
    assert_has(json.data, "\"memory\":{\"up\":false,\"wanted\":true,\"mechanism\":null,"
                          "\"value\":null,\"note\":\"no cgroup\"}");
    assert_has(json.data, "\"missing_walls\":[\"memory\"]");
    coto_report_text(&result, NULL, false, &text);
    assert_has(text.data, "walls 14/14, limits 12/13\nmissing: memory (no cgroup)\n");
}

static void closing_line(void **state)
{
    struct coto_result result;
    coto_auto_buf text = {0};

    (void)state;
    make_result(&result);
    result.facts.usage.memory_peak_bytes = 9 * 1024 * 1024;
    coto_report_text(&result, NULL, false, &text);
    assert_string_equal(text.data,
                        "ok  12.3 ms  cpu 8.1 ms  mem 9.0 MB  walls 14/14, limits 14/14\n");
    coto_buf_clear(&text);
    coto_report_text(&result, NULL, true, &text);
    assert_has(text.data, "\033[32mok\033[0m  12.3 ms");
}

static void no_isolation_is_said(void **state)
{
    struct coto_result result;
    coto_auto_buf text = {0};

    (void)state;
    make_result(&result);
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (coto_walls[i].class == COTO_WALL_CORE)
            result.walls[i] = (struct coto_wall_state){0};
    coto_report_text(&result, NULL, false, &text);
    assert_has(text.data, "  no isolation, limits 14/14\n");
}

static void assert_reason(enum coto_verdict verdict, const char *limit, const char *expected)
{
    struct coto_plan plan = {.timeout_ms = 1000, .memory_bytes = 256 << 20, .pids = 64};
    struct coto_result result;
    coto_auto_buf text = {0};

    make_result(&result);
    result.verdict = verdict;
    result.limit = limit;
    result.exit_code = 3;
    result.signal = 11;
    coto_report_text_reason(&result, &plan, &text);
    assert_string_equal(coto_buf_str(&text), expected);
}

static void reasons_name_the_limit(void **state)
{
    (void)state;
    assert_reason(COTO_VERDICT_OK, NULL, "");
    assert_reason(COTO_VERDICT_NONZERO, NULL, "the program ended with status 3");
    assert_reason(COTO_VERDICT_SIGNAL, NULL, "the program died from SIGSEGV");
    assert_reason(COTO_VERDICT_TIMEOUT, "timeout",
                  "the program was ended by the time limit (--timeout 1s)");
    assert_reason(COTO_VERDICT_OOM, "memory",
                  "the program was ended by the memory limit (--memory 256m)");
    assert_reason(COTO_VERDICT_PIDS, "pids",
                  "the program failed after it had reached the process limit (--pids 64)");
    for (int verdict = 1; verdict < COTO_VERDICT_COUNT; verdict++) {
        struct coto_result result;
        coto_auto_buf text = {0};
        make_result(&result);
        result.verdict = (enum coto_verdict)verdict;
        coto_report_text_reason(&result, NULL, &text);
        assert_true(text.len > strlen("the program "));
    }
}

/* ---- report files ---- */

static int enter(void **state)
{
    char *dir = strdup("/tmp/coto-test-report-XXXXXX");

    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static int leave(void **state)
{
    coto_auto_fd parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = coto_path_remove_tree(parent, strrchr(*state, '/') + 1);

    free(*state);
    return failed;
}

#define REPORT_NAME "20261115T083021.123Z-00000000-0000-4000-8000-000000000001.json"

static void write_report(const char *room, const struct coto_report_extra *extra, char *text,
                         size_t size)
{
    struct coto_result result;
    struct coto_plan plan = {0};
    struct coto_err err = {0};
    char path[256];

    make_result(&result);
    coto_buf_adds(&result.out.data, "secret output");
    coto_strv_add(&plan.env, "KEY=secret env");
    snprintf(path, sizeof path, "%s/a/b", room);
    coto_auto_fd dir = -1;
    assert_int_equal(coto_report_open(path, &dir, &err), 0);
    assert_int_equal(coto_report_write(dir, &result, &plan, extra, &err), 0);
    coto_buf_fini(&result.out.data);
    coto_strv_fini(&plan.env);
    snprintf(path, sizeof path, "%s/a/b/%s", room, REPORT_NAME);
    assert_true(coto_file_read_at(AT_FDCWD, path, text, size) > 0);
}

static const struct coto_report_extra secrets = {
    .prompt = "abc", .prompt_len = 3, .code = "secret code", .code_len = 11};

static void report_holds_hashes_only(void **state)
{
    char text[16384];
    char path[256];
    struct stat st;

    write_report(*state, &secrets, text, sizeof text);
    assert_has(text, "\"prompt_sha256\": "
                     "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"");
    assert_has(text, "\"code_sha256\": \"22\"");
    assert_has(text, "\"verdict\": \"ok\"");
    assert_has(text, "\"duration_ms\": 12.345");
    assert_has(text, "\"artifact_count\": 2");
    assert_has(text, "\"artifact_bytes\": 12");
    assert_has(text, "\"seccomp\": {");
    assert_has_not(text, "secret");
    assert_has_not(text, "\"abc\"");
    assert_has_not(text, "plot.png");
    snprintf(path, sizeof path, "%s/a/b/%s", (char *)*state, REPORT_NAME);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(path, sizeof path, "%s/a", (char *)*state);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void report_holds_what_was_named(void **state)
{
    struct coto_report_extra extra = secrets;
    char text[16384];

    extra.include = COTO_REPORT_CODE | COTO_REPORT_OUTPUT;
    write_report(*state, &extra, text, sizeof text);
    assert_has(text, "\"code\": \"secret code\"");
    assert_has(text, "\"stdout\": \"secret output\"");
    assert_has_not(text, "secret env");
    assert_has_not(text, "\"abc\"");
    extra.include = COTO_REPORT_ENV | COTO_REPORT_PROMPT;
    write_report(*state, &extra, text, sizeof text);
    assert_has(text, "\"KEY=secret env\"");
    assert_has(text, "\"prompt\": \"abc\"");
    assert_has_not(text, "secret output");
}

static void given_prompt_hash_wins(void **state)
{
    struct coto_report_extra extra = {.prompt_hash = "feed"};
    char text[16384];

    write_report(*state, &extra, text, sizeof text);
    assert_has(text, "\"prompt_sha256\": \"feed\"");
    write_report(*state, NULL, text, sizeof text);
    assert_has(text, "\"prompt_sha256\": null");
}

/* Nothing half-written stays, and a planted link is not written through. */
static void report_through_a_planted_link_fails(void **state)
{
    struct coto_result result;
    struct coto_err err = {0};
    char link[256];
    char victim[256];
    struct stat st;

    make_result(&result);
    snprintf(victim, sizeof victim, "%s/victim", (char *)*state);
    snprintf(link, sizeof link, "%s/.%s.new", (char *)*state, REPORT_NAME);
    assert_int_equal(symlink(victim, link), 0);
    coto_auto_fd dir = -1;
    assert_int_equal(coto_report_open(*state, &dir, &err), 0);
    assert_int_equal(coto_report_write(dir, &result, NULL, NULL, &err), -1);
    assert_int_equal(err.kind, COTO_ERR_OUTPUT);
    assert_int_equal(stat(victim, &st), -1);
}

static void unusable_directory_is_named(void **state)
{
    struct coto_err err = {0};
    int fd = -1;

    (void)state;
    assert_int_equal(coto_report_open("/dev/null/x", &fd, &err), -1);
    assert_int_equal(fd, -1);
    assert_int_equal(err.kind, COTO_ERR_OUTPUT);
    assert_has(err.text, "/dev/null/x");
    assert_true(err.remedy[0]);
}

static void include_words(void **state)
{
    coto_auto_strv words = {0};
    struct coto_err err = {0};
    unsigned include = 99;

    (void)state;
    assert_int_equal(coto_report_parse_include(&words, &include, &err), 0);
    assert_int_equal(include, 0);
    coto_strv_add(&words, "prompt");
    coto_strv_add(&words, "env");
    assert_int_equal(coto_report_parse_include(&words, &include, &err), 0);
    assert_int_equal(include, COTO_REPORT_PROMPT | COTO_REPORT_ENV);
    coto_strv_add(&words, "everything");
    include = 99;
    assert_int_equal(coto_report_parse_include(&words, &include, &err), -1);
    assert_int_equal(include, 99);
    assert_has(err.text, "everything");
}

static void media_types(void **state)
{
    (void)state;
    assert_string_equal(coto_media_type("plot.png"), "image/png");
    assert_string_equal(coto_media_type("a.b/PLOT.SVG"), "image/svg+xml");
    assert_string_equal(coto_media_type("table.csv"), "text/csv");
    assert_string_equal(coto_media_type("a.png/none"), "application/octet-stream");
    assert_string_equal(coto_media_type(".png"), "application/octet-stream");
    assert_string_equal(coto_media_type("x."), "application/octet-stream");
    assert_string_equal(coto_media_type(""), "application/octet-stream");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_object),
        cmocka_unit_test(own_status_is_not_ours),
        cmocka_unit_test(missing_walls_are_those_wanted),
        cmocka_unit_test(closing_line),
        cmocka_unit_test(no_isolation_is_said),
        cmocka_unit_test(reasons_name_the_limit),
        cmocka_unit_test_setup_teardown(report_holds_hashes_only, enter, leave),
        cmocka_unit_test_setup_teardown(report_holds_what_was_named, enter, leave),
        cmocka_unit_test_setup_teardown(given_prompt_hash_wins, enter, leave),
        cmocka_unit_test_setup_teardown(report_through_a_planted_link_fails, enter, leave),
        cmocka_unit_test(unusable_directory_is_named),
        cmocka_unit_test(include_words),
        cmocka_unit_test(media_types),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
