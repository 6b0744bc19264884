#include "base/mountinfo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_fields(void **state)
{
    char text[] = "36 35 98:0 /with\\040blank /mnt/a\\134b\\012c ro,noatime shared:1 - ext4 /dev/sda rw\n"
                  "37 36 0:5 / /proc rw - proc proc rw";
    char *cursor = text;
    struct coto_mount mount;

    (void)state;
    assert_true(coto_mountinfo_next(&cursor, &mount));
    assert_int_equal(mount.id, 36);
    assert_string_equal(mount.dev, "98:0");
    assert_string_equal(mount.root, "/with blank");
    assert_string_equal(mount.point, "/mnt/a\\b\nc");
    assert_string_equal(mount.options, "ro,noatime");
    assert_true(coto_mount_is_read_only(&mount));
    assert_true(coto_mountinfo_next(&cursor, &mount));
    assert_int_equal(mount.id, 37);
    assert_string_equal(mount.point, "/proc");
    assert_false(coto_mount_is_read_only(&mount));
    assert_false(coto_mountinfo_next(&cursor, &mount));
}

/* Names may be as long as the kernel allows, and longer when escaped. */
static void test_long_names(void **state)
{
    static char text[40000], wanted[8000];
    char *cursor = text;
    struct coto_mount mount;

    (void)state;
    strcpy(text, "1 1 0:1 / /");
    strcpy(wanted, "/");
    for (int i = 0; i < 5000; i++) {
        strcat(text, "\\040");
        strcat(wanted, " ");
    }
    strcat(text, " rw -\n2 1 0:1 / /next rw -\n");
    assert_true(coto_mountinfo_next(&cursor, &mount));
    assert_string_equal(mount.point, wanted);
    assert_true(coto_mountinfo_next(&cursor, &mount));
    assert_string_equal(mount.point, "/next");
}

static void test_lines_that_are_none(void **state)
{
    char text[] = "36 35\n\nx 1 0:1 / / ro -\n-3 1 0:1 / / ro -\n99999999999 1 0:1 / / ro -\n"
                  "1  0:1 / / ro -\n5 1 0:1 / /here root -\n";
    char *cursor = text;
    struct coto_mount mount;

    (void)state;
    assert_true(coto_mountinfo_next(&cursor, &mount));
    assert_int_equal(mount.id, 5);
    assert_false(coto_mount_is_read_only(&mount)); /* "root" is another word */
    assert_false(coto_mountinfo_next(&cursor, &mount));
    assert_false(coto_mountinfo_next(&cursor, &mount));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_lines_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
