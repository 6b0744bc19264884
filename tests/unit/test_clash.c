#include "../../src/daemon/clash.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void both(const char *a, const char *b, bool expected)
{
    if (coto_clash(a, b) != expected || coto_clash(b, a) != expected)
        fail_msg("%s beside %s: expected %d", a, b, expected);
}

static void test_numbers(void **state)
{
    (void)state;
    both("127.0.0.1:80", "127.0.0.1:80", true);
    both("127.0.0.1:80", "127.0.0.1:81", false);
    both("127.0.0.1:80", "127.0.0.2:80", false);
    both("127.0.0.1:0", "127.0.0.1:0", false);
    both("0.0.0.0:80", "127.0.0.1:80", true);
    both("0.0.0.0:80", "0.0.0.0:80", true);
    both("0.0.0.0:80", "[::1]:80", false);
    both("[::1]:80", "[0:0::1]:80", true);
    both("[::1]:80", "127.0.0.1:80", false);
    both("[::]:80", "[::1]:80", true);
    both("[::]:80", "0.0.0.0:80", !is_v6_alone());
    both("[::]:80", "127.0.0.1:80", !is_v6_alone());
    both("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true);
}

static void test_paths(void **state)
{
    char dir[] = "/tmp/coto-clash-XXXXXX", once[64], twice[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(once, sizeof once, "unix:%s/a", dir);
    snprintf(twice, sizeof twice, "unix:%s/./a", dir);
    both(once, twice, true);
    rmdir(dir);
    both(once, twice, false); /* nobody knows */
    both(once, once, true);
    both(once, "unix:/a", false);
    both("unix:a", "unix:./a", true);
    both("unix:/a", "unix://a", true);
    both(once, "127.0.0.1:80", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
