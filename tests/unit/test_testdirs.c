#include "cli/testdirs.h"

#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct room {
    char path[64];
    int fd;
    struct coto_testdirs dirs;
    struct coto_err err;
};

static int enter(void **state)
{
    struct room *room = calloc(1, sizeof *room);

    snprintf(room->path, sizeof room->path, "/tmp/coto-test-dirs-XXXXXX");
    if (!mkdtemp(room->path))
        return -1;
    room->fd = open(room->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = room;
    return mkdirat(room->fd, "s", 0755) || mkdirat(room->fd, "t", 0755);
}

static int leave(void **state)
{
    struct room *room = *state;
    int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failed = coto_path_remove_tree(tmp, room->path + strlen("/tmp/"));

    close(tmp);
    close(room->fd);
    coto_testdirs_close(&room->dirs);
    coto_testdirs_close(&room->dirs);
    free(room);
    return failed;
}

static void put(struct room *room, const char *name, const char *text)
{
    assert_int_equal(coto_path_make_parents(room->fd, name, 0755), 0);
    int fd = openat(room->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(coto_fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void open_both(struct room *room, bool with_tests)
{
    char submission[96], tests[96];

    snprintf(submission, sizeof submission, "%s/s", room->path);
    snprintf(tests, sizeof tests, "%s/t", room->path);
    coto_testdirs_close(&room->dirs);
    assert_int_equal(coto_testdirs_open(submission, with_tests ? tests : NULL, &room->dirs,
                                        &room->err), 0);
}

static const char *detect(struct room *room, const char *rootfs)
{
    const struct coto_runner *runner = NULL;

    memset(&room->err, 0, sizeof room->err);
    return coto_testdirs_detect(&room->dirs, rootfs, &runner, &room->err) ? "none" : runner->name;
}

static void test_open(void **state)
{
    struct room *room = *state;

    put(room, "file", "");
    char path[96];
    snprintf(path, sizeof path, "%s/file", room->path);
    assert_int_equal(coto_testdirs_open(path, NULL, &room->dirs, &room->err), -1);
    assert_int_equal(room->err.kind, COTO_ERR_INPUT);
    assert_non_null(strstr(room->err.text, "submission: '"));
    assert_int_equal(coto_testdirs_open(room->path, path, &room->dirs, &room->err), -1);
    assert_non_null(strstr(room->err.text, "tests: '"));
    assert_non_null(strstr(room->err.text, "Not a directory"));
}

static void test_detect(void **state)
{
    static const char *const rows[][3] = {
        {"s/x_test.go", "", "go"},
        {"s/go.mod", "", "go"},
        {"s/deep/er/x_test.go", "", "go"},
        {"s/a.test.mjs", "", "node"},
        {"s/CMakeLists.txt", "", "ctest"},
        {"s/Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n", "make"},
        {"s/Makefile", "test :\n", "make"},
        {"s/Makefile", "test := 1\nall:\n", "none"},
        {"s/Makefile", "tests:\n", "none"},
        {"s/sub/Makefile", "test:\n", "none"},
        {"s/node_modules/x/a.test.js", "", "none"},
        {"s/main.py", "", "none"},
        {"t/x_test.go", "", "go"},
    };
    struct room *room = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(room, rows[i][0], rows[i][1]);
        open_both(room, true);
        if (strcmp(detect(room, ""), rows[i][2]) != 0)
            fail_msg("%s '%s': %s", rows[i][0], rows[i][1], detect(room, ""));
        assert_int_equal(coto_path_remove_tree(room->fd, "s"), 0);
        assert_int_equal(coto_path_remove_tree(room->fd, "t"), 0);
        assert_int_equal(mkdirat(room->fd, "s", 0755) || mkdirat(room->fd, "t", 0755), 0);
    }
    open_both(room, true);
    assert_string_equal(detect(room, ""), "none");
    assert_non_null(strstr(room->err.remedy, "--runner go, pytest"));
    put(room, "s/go.mod", "");
    assert_string_equal(detect(room, ""), "go");
    put(room, "t/a.test.js", ""); /* the tests go first */
    assert_string_equal(detect(room, ""), "node");
}

static void test_what_stands_in(void **state)
{
    static const struct {
        const char *test, *other;
        bool is_refused;
    } rows[] = {
        {"t/Makefile", "s/GNUmakefile", true}, {"t/Makefile", "s/makefile", true},
        {"t/makefile", "s/GNUmakefile", true}, {"t/makefile", "s/Makefile", false},
        {"t/Makefile", "s/d/GNUmakefile", false}, {"t/d/Makefile", "s/d/GNUmakefile", true},
        {"t/a.py", "s/a.so", true}, {"t/a.py", "s/a.abi3.so", true},
        {"t/a.py", "s/ab.so", false}, {"t/a.py", "s/a.txt", false},
        {"t/a.py", "s/a/x.py", false}, {"t/a.py", "s/a/__init__.pyc", true},
        {"t/d/a.py", "s/d/a/__init__.py", true}, {"t/.py", "s/.so", false},
        {"t/a.js", "s/a.so", false},
        {"t/a_test.go", "s/go.mod", false}, {"t/d/a_test.go", "s/go.mod", false},
        {"t/d/a_test.go", "s/d/go.mod", true}, {"t/d/e/a_test.go", "s/d/go.mod", true},
        {"t/d/a_test.go", "s/e/go.mod", false}, {"t/d/a.py", "s/d/go.mod", false},
    };
    struct room *room = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(room, rows[i].test, "");
        put(room, rows[i].other, "");
        open_both(room, true);
        int refused = coto_testdirs_check(&room->dirs, &room->err);
        if ((refused != 0) != rows[i].is_refused)
            fail_msg("%s beside %s", rows[i].other, rows[i].test);
        assert_true(!refused || strstr(room->err.text, "in place of the tests'") ||
                    strstr(room->err.text, "would not be run"));
        assert_int_equal(coto_path_remove_tree(room->fd, "s"), 0);
        assert_int_equal(coto_path_remove_tree(room->fd, "t"), 0);
        assert_int_equal(mkdirat(room->fd, "s", 0755) || mkdirat(room->fd, "t", 0755), 0);
    }
}

static void test_pytest_only_where_it_is_installed(void **state)
{
    struct room *room = *state;

    put(room, "s/test_a.py", "");
    open_both(room, false);
    assert_string_equal(detect(room, room->path), "unittest");
    put(room, "usr/lib/python3/dist-packages/pytest/__init__.py", "");
    assert_string_equal(detect(room, room->path), "pytest");
}

static void test_tests_must_fit(void **state)
{
    struct room *room = *state;

    put(room, "s/a_test.go", "x");
    put(room, "s/sub/b_test.go", "x");
    put(room, "t/a_test.go", "x");
    put(room, "t/sub/b_test.go", "x");
    open_both(room, true);
    assert_int_equal(coto_testdirs_check(&room->dirs, &room->err), 0);
    unlinkat(room->fd, "s/a_test.go", 0);
    assert_int_equal(symlinkat("/etc/passwd", room->fd, "s/a_test.go"), 0);
    assert_int_equal(coto_testdirs_check(&room->dirs, &room->err), -1);
    assert_non_null(strstr(room->err.text, "'a_test.go' is a symbolic link, where the tests have "
                                           "a file"));
    unlinkat(room->fd, "s/a_test.go", 0);
    mkdirat(room->fd, "s/a_test.go", 0755);
    assert_int_equal(coto_testdirs_check(&room->dirs, &room->err), -1);
    assert_non_null(strstr(room->err.text, "is a directory, where the tests have a file"));
    unlinkat(room->fd, "s/a_test.go", AT_REMOVEDIR);
    coto_path_remove_tree(room->fd, "s/sub");
    assert_int_equal(symlinkat("/tmp", room->fd, "s/sub"), 0);
    assert_int_equal(coto_testdirs_check(&room->dirs, &room->err), -1);
    assert_non_null(strstr(room->err.text, "'sub' is a symbolic link, where the tests have a dir"));
}

static void test_file_holds(void **state)
{
    struct room *room = *state;

    put(room, "s/a.test.js", "require('node:test')");
    put(room, "s/b.test.js", "require('node:test')");
    put(room, "t/b.test.js", "plain");
    assert_int_equal(symlinkat("a.test.js", room->fd, "s/link.js"), 0);
    open_both(room, true);
    assert_true(coto_testdirs_file_holds(&room->dirs, "a.test.js", "node:test"));
    assert_false(coto_testdirs_file_holds(&room->dirs, "b.test.js", "node:test")); /* tests win */
    assert_false(coto_testdirs_file_holds(&room->dirs, "none.js", "node:test"));
    assert_false(coto_testdirs_file_holds(&room->dirs, "link.js", "node:test"));
    assert_false(coto_testdirs_file_holds(&room->dirs, "../s/a.test.js", "node:test"));
    assert_false(coto_testdirs_file_holds(&room->dirs, "/etc/passwd", "root"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_open),
        T(test_detect),
        T(test_what_stands_in),
        T(test_pytest_only_where_it_is_installed),
        T(test_tests_must_fit),
        T(test_file_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
