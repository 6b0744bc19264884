/* AppArmor without a kernel that has it: names, labels, and what is written where. The kernel's
 * own answers are in tests/vm/test_apparmor.py. */
#include "kernel/apparmor.h"
#include "policy/value.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void labels(void **state)
{
    (void)state;
    assert_true(coto_apparmor_is_enforced("coto-sandbox (enforce)"));
    assert_true(coto_apparmor_is_enforced("a//&b (enforce)"));
    assert_false(coto_apparmor_is_enforced("coto-sandbox (complain)"));
    assert_false(coto_apparmor_is_enforced("unconfined"));
    assert_false(coto_apparmor_is_enforced(" (enforce)"));
    assert_false(coto_apparmor_is_enforced("x (enforce) "));
    assert_false(coto_apparmor_is_enforced(""));
}

/* What the kernel says of it afterwards is read in the real /proc, where AppArmor runs. */
static void takes_on_by_name(int dir)
{
    char label[COTO_APPARMOR_LABEL] = "untouched";
    char text[64] = "";
    int there = access("/proc/thread-self/attr/apparmor/current", R_OK) == 0 && coto_apparmor_is_on();

    assert_int_equal(coto_apparmor_now(dir, "coto-sandbox", label), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    int fd = openat(dir, "thread-self/attr/apparmor/current", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(coto_apparmor_now(dir, "coto-sandbox", label), there ? 0 : -1);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_string_equal(text, "changeprofile coto-sandbox");
    assert_int_equal(strcmp(label, "untouched") == 0, !there);
    close(fd);
    unlinkat(dir, "thread-self/attr/apparmor/current", 0);
}

/* A directory in place of /proc: what is written to the file is what reads back. */
static void asks_by_name(void **state)
{
    char path[] = "/tmp/coto-test-apparmor-XXXXXX";
    char label[COTO_APPARMOR_LABEL] = "untouched";
    char name[COTO_APPARMOR_LABEL + 1];

    (void)state;
    assert_non_null(mkdtemp(path));
    int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(coto_apparmor_on_exec(dir, "x", label), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_string_equal(label, "untouched");

    assert_int_equal(mkdirat(dir, "thread-self", 0700), 0);
    assert_int_equal(mkdirat(dir, "thread-self/attr", 0700), 0);
    assert_int_equal(mkdirat(dir, "thread-self/attr/apparmor", 0700), 0);
    int fd = openat(dir, "thread-self/attr/apparmor/exec", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(coto_apparmor_on_exec(dir, name, label), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(coto_apparmor_on_exec(dir, "coto-sandbox", label), 0);
    assert_string_equal(label, "exec coto-sandbox");

    takes_on_by_name(dir);

    unlinkat(dir, "thread-self/attr/apparmor/exec", 0);
    unlinkat(dir, "thread-self/attr/apparmor", AT_REMOVEDIR);
    unlinkat(dir, "thread-self/attr", AT_REMOVEDIR);
    unlinkat(dir, "thread-self", AT_REMOVEDIR);
    close(dir);
    rmdir(path);
}

static void walls_of_one_s_own(void **state)
{
    (void)state;
    assert_false(coto_apparmor_confines("unconfined"));
    assert_false(coto_apparmor_confines("coto (unconfined)"));
    assert_true(coto_apparmor_confines("docker-default (enforce)"));
    assert_true(coto_apparmor_confines("coto (complain)"));
    assert_true(coto_apparmor_confines(" (unconfined)"));
    assert_true(coto_apparmor_confines("coto"));
    assert_false(coto_apparmor_is_on() ? false : coto_apparmor_is_confined());
}

static void reasons(void **state)
{
    (void)state;
    assert_string_equal(coto_apparmor_why(ENOENT), "is not loaded");
    assert_non_null(strstr(coto_apparmor_why(EOPNOTSUPP), "no AppArmor"));
    assert_non_null(strstr(coto_apparmor_why(EINVAL), "no AppArmor"));
    assert_string_equal(coto_apparmor_why(EACCES), "may not be taken on here");
    assert_string_equal(coto_apparmor_why(0), "only complains");
}

static void names(void **state)
{
    const struct coto_rule *rule = coto_rule_find(COTO_OPT_APPARMOR);
    static const char *const good[] = {"coto-sandbox", "enis-sandbox-strict", "none", "a", "A.b_c-9"};
    /* Stacks, namespaces, blanks and whatever the kernel would read as more than a name. */
    static const char *const bad[] = {"", "a b", "a//&b", ":ns:a", "-a", ".", "a/b", "a\n", "\xc3\xa9"};
    char lengthy[66];

    (void)state;
    assert_non_null(rule);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(rule->accepts(good[i], NULL));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(rule->accepts(bad[i], NULL));
    memset(lengthy, 'a', 65);
    lengthy[65] = '\0';
    assert_false(rule->accepts(lengthy, NULL));
    assert_true(rule->accepts(lengthy + 1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels),
        cmocka_unit_test(asks_by_name),
        cmocka_unit_test(walls_of_one_s_own),
        cmocka_unit_test(reasons),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
