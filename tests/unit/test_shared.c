/* Which plans share a root: those of which nothing that can be seen in it differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "drivers/native/native.h"

#define KEY 512

struct names {
    const char *user, *host, *workdir;
};

static int64_t ptys;

static bool key_of(unsigned uid, unsigned gid, struct names names, char ret_key[KEY])
{
    const struct coto_plan plan = {.uid = uid,
                                   .gid = gid,
                                   .ptys = ptys,
                                   .user_name = (char *)names.user,
                                   .hostname = (char *)names.host,
                                   .workdir = (char *)names.workdir};

    return native_shared_key(&plan, ret_key, KEY);
}

static void the_same_plan_has_the_same_key(void **state)
{
    char a[KEY], b[KEY];

    (void)state;
    assert_true(key_of(1, 2, (struct names){"u", "h", "/w"}, a));
    assert_true(key_of(1, 2, (struct names){"u", "h", "/w"}, b));
    assert_string_equal(a, b);
}

/* Names may have blanks, digits and colons: where one ends must not be a matter of reading. */
static void no_two_plans_have_the_same_key(void **state)
{
    static const struct names rows[] = {
        {"u", "h", "/w"},        {"u h", "x", "/w"},   {"u", "h x", "/w"},     {"u h x", "/w", "/w"},
        {"u", "h", "x /w"},      {"u 1:h", "x", "/w"}, {"u", "h 2:/w", "/w"},  {"", "u h", "/w"},
        {"u 1:h 2:/w", "", "/"}, {"1:u", "h", "/w"},   {"u", "1:h", "/w"},     {"u ", "h", "/w"},
        {"u", " h", "/w"},       {"u", "h ", "/w"},    {"u", "h", " /w"},
    };
    enum { COUNT = sizeof rows / sizeof rows[0] };
    char keys[COUNT + 4][KEY];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        assert_true(key_of(1, 2, rows[i], keys[i]));
    assert_true(key_of(12, 2, rows[0], keys[COUNT]));
    assert_true(key_of(1, 22, rows[0], keys[COUNT + 1]));
    assert_true(key_of(2, 1, rows[0], keys[COUNT + 2]));
    ptys = 1; /* /dev/ptmx is there */
    assert_true(key_of(1, 2, rows[0], keys[COUNT + 3]));
    ptys = 0;
    for (int i = 0; i < COUNT + 4; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(keys[i], keys[k]);
}

static void one_that_does_not_fit_has_none(void **state)
{
    char key[KEY];
    char host[KEY];

    (void)state;
    memset(host, 'h', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    assert_false(key_of(1, 2, (struct names){"u", host, "/w"}, key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_plan_has_the_same_key),
        cmocka_unit_test(no_two_plans_have_the_same_key),
        cmocka_unit_test(one_that_does_not_fit_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
