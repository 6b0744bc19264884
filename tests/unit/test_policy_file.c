/* Policy files: what coto-policy reads and refuses, what becomes of a helper that
 * fails, and how a file stands between environment and flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy_room.h"

#include "policy/helper.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int apply_text(const void *text, size_t len)
{
    char path[] = "/tmp/coto-test-policy-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    close(fd);
    int failed = coto_policy_apply_file(&policy, path, &err);
    unlink(path);
    return failed;
}

static void assert_file_ok(const char *text)
{
    if (apply_text(text, strlen(text)))
        fail_msg("%s: refused: %s", text, err.text);
}

static void assert_file_refused(const char *text, size_t len, const char *part)
{
    struct coto_buf before = {0}, after = {0};

    coto_policy_text(&policy, &before);
    if (apply_text(text, len) == 0)
        fail_msg("accepted: %s", text);
    assert_contains(err.text, part);
    assert_contains(err.text, "coto-test-policy-"); /* the file is named */
    coto_policy_text(&policy, &after);
    assert_string_equal(coto_buf_str(&before), coto_buf_str(&after));
    coto_buf_fini(&before);
    coto_buf_fini(&after);
}

static void yaml_files(void **state)
{
    (void)state;
    assert_file_ok("# a comment\nmemory: 64m\npids: 7   # few\nenv:\n  A: 1\n  B: 'x, y'\n"
                   "cap-add: [chown, FOWNER]\nmount:\n  - /srv:/data\n  - /opt:/o:ro\n"
                   "noexec: true\ncold: true\nuser: 1001:1002\n");
    assert_text(COTO_OPT_MEMORY, "64m");
    assert_text(COTO_OPT_PIDS, "7");
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_ENV)->count, 2);
    assert_string_equal(coto_policy_list(&policy, COTO_OPT_ENV)->items[1], "B=x, y");
    assert_text(COTO_OPT_CAP_ADD, "chown,fowner");
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_MOUNT)->count, 2);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_NOEXEC), 1);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_COLD), 1);
    assert_int_equal(policy.v[COTO_OPT_MEMORY].source, COTO_SOURCE_FILE);
    assert_contains(policy.v[COTO_OPT_MEMORY].origin, "coto-test-policy-");
}

static void json_files(void **state)
{
    (void)state;
    assert_file_ok("{\n\t\"memory\": \"64m\", \"pids\": 7,\n\t\"env\": {\"A\": \"\\u00e9\\n\"},"
                   " \"noexec\": true, \"tmpfs\": []}");
    assert_text(COTO_OPT_MEMORY, "64m");
    assert_text(COTO_OPT_PIDS, "7");
    assert_text(COTO_OPT_ENV, "A=\xc3\xa9\n");
    assert_int_equal(policy.v[COTO_OPT_TMPFS].source, COTO_SOURCE_FILE);
}

static void empty_files(void **state)
{
    (void)state;
    assert_file_ok("");
    assert_file_ok("# nothing\n");
    assert_file_ok("---\n");
    assert_file_ok("{}");
}

static void file_profiles(void **state)
{
    char *envp[] = {"COTO_PIDS=9", "COTO_PROFILE=enis", NULL};

    (void)state;
    assert_int_equal(coto_policy_apply_env(&policy, envp, &err), 0);
    assert_text(COTO_OPT_IOPS, "1000");
    assert_file_ok("memory: 99m\nprofile: gemini\n");
    assert_text(COTO_OPT_MEMORY, "99m"); /* the file beats its profile */
    assert_text(COTO_OPT_PIDS, "9");     /* so does the environment */
    assert_text(COTO_OPT_CPUS, "0.5");
    assert_text(COTO_OPT_IOPS, "none"); /* nothing is left of the weaker profile */
    assert_string_equal(coto_policy_str(&policy, COTO_OPT_PROFILE), "gemini");
    assert_int_equal(coto_policy_set(&policy, COTO_OPT_PROFILE, "ia-libre", COTO_SOURCE_FLAG,
                                     "--profile", &err), 0);
    assert_int_equal(coto_policy_apply_profile(&policy, "ia-libre", &err), 0);
    assert_file_ok("profile: gemini\n"); /* a flag has chosen */
    assert_text(COTO_OPT_USER, "9999:9999");
    assert_file_refused("profile: nope\n", 14, "'nope' is not a profile");
}

struct bad_file {
    const char *text;
    const char *part;
};

static void bad_files(void **state)
{
    static const struct bad_file rows[] = {
        {"memory: &a 64m", "line 1: anchors"},
        {"pids: 1\nmemory: *a", "line 2: aliases"},
        {"memory: !!str 64m", "line 1: tags"},
        {"memory: ! 64m", "line 1: tags"},
        {"memory: 64m\nmemory: 65m", "line 2: duplicate key 'memory'"},
        {"tmp-size: 1m\ntmp_size: 2m", "line 2: duplicate key 'tmp_size'"},
        {"env: {A: 1, A: 2}", "duplicate key 'A'"},
        {"pids: 1\n---\npids: 2", "line 2: a second document"},
        {"%YAML 1.1\n---\npids: 1", "directives"},
        {"memory: {a: 1}", "cannot be a map"},
        {"env: {A: {B: 1}}", "nested"},
        {"mount: [[a]]", "nested"},
        {"[memory, 64m]", "map of"},
        {"memory", "map of"},
        {"memory:", "has no value"},
        {"memory: \"6\\04m\"", "NUL"},
        {"memory: \xff", "line 1: invalid leading UTF-8"},
        {"memory: 6\xc3", "UTF-8"},
        {"memory: [", "line 2"},
        {"\"memory\": \"64m", "line 1"},
        {"? [a]\n: b", "a key must be a word"},
        {"memory: 0755x", "memory: '0755x' is not a size"},
        {"pids: 007", "pids: '007' is not a whole number"},
        {"noexec: no", "noexec: 'no' is neither true nor false"},
        {"noexec: yes", "neither true nor false"},
        {"json: true", "'json' is a flag"},
        {"colour: red", "'colour' is not a policy option"},
        {"env: {1A: x}", "is not KEY=VALUE"},
        {"env: {A=B: x}", "'=' in the key"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_file_refused(rows[i].text, strlen(rows[i].text), rows[i].part);
    assert_file_refused("pids: 1\n\0", 9, "line 2: a NUL byte");
}

static void big_files(void **state)
{
    size_t len = (1 << 20) + 1;
    char *text = malloc(len);

    (void)state;
    memset(text, '#', len);
    assert_file_refused(text, len, "larger than 1 MiB");
    assert_int_equal(apply_text(text, len - 1), 0);
    memset(text, '[', len);
    assert_file_refused(text, len - 1, "map of");
    /* Deep nesting behind a key neither recurses nor takes long. */
    memcpy(text, "mount: ", 7);
    assert_file_refused(text, len - 1, "nested");
    free(text);
}

static void missing_files(void **state)
{
    (void)state;
    assert_int_equal(coto_policy_apply_file(&policy, "/nonexistent/p.yaml", &err), -1);
    assert_int_equal(err.kind, COTO_ERR_INPUT);
    assert_contains(err.text, "/nonexistent/p.yaml");
    assert_int_equal(coto_policy_apply_file(&policy, "/tmp", &err), -1);
    assert_int_equal(err.kind, COTO_ERR_INPUT);
}

/* A helper that dies or says nothing is an error, never an empty policy. */
static void broken_helpers(void **state)
{
    static const char *const scripts[] = {"#!/bin/sh\nkill -9 $$\n", "#!/bin/sh\nexit 3\n",
                                          "#!/nonexistent\n"};
    const char *kept = coto_helper_dir;
    char dir[] = "/tmp/coto-test-helper-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/coto-policy", dir);
    coto_helper_dir = dir;
    for (size_t i = 0; i < COUNT(scripts); i++) {
        int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);
        assert_int_equal(write(fd, scripts[i], strlen(scripts[i])), (ssize_t)strlen(scripts[i]));
        close(fd);
        assert_int_equal(apply_text("pids: 1", 7), -1);
        assert_int_equal(err.kind, COTO_ERR_INTERNAL);
        assert_contains(err.text, "coto-policy");
    }
    unlink(path);
    rmdir(dir);
    coto_helper_dir = kept;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(yaml_files), T(json_files), T(empty_files), T(file_profiles), T(bad_files), T(big_files),
        T(missing_files), T(broken_helpers),
    };
    /* Set by the test runner: where the programs under test are. */
    coto_helper_dir = getenv("COTO_TEST_BIN");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
