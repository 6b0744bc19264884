/* Errors of plans and sandboxes, as callers of the service read them. */
#include "api/words.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void check(void (*words)(const char *, struct coto_buf *), const char *text, const char *wanted)
{
    coto_auto_buf out = {0};

    words(text, &out);
    assert_string_equal(coto_buf_str(&out), wanted);
}

static void test_flags_are_fields(void **state)
{
    (void)state;
    check(api_words_message, "--copy: read for 'a'", "files: read for 'a'");
    check(api_words_message, "'--copy' --nosuch -- a--disk", "'--copy' --nosuch -- a--disk");
    check(api_words_message, "", "");
    check(api_words_remedy, "raise --disk (or --inodes), or --tmp-size for /tmp",
          "raise resource_limits.disk (or resource_limits.inodes), or resource_limits.tmp_size for /tmp");
    check(api_words_remedy, "use --no-noexec, or less", "use resource_limits.noexec: false, or less");
    check(api_words_remedy, "name it with --lang", "name it with language");
    check(api_words_remedy, "see `coto doctor`; or use --isolation process", "see `coto doctor`; or use isolation_level standard");
    check(api_words_remedy, "use --isolation process: walls", "use isolation_level standard: walls");
    check(api_words_remedy, "use --isolation processes", "use isolation_level processes");
}

static void test_what_callers_cannot_do_is_left_out(void **state)
{
    (void)state;
    check(api_words_remedy, "bring files in with --copy or --mount", "bring files in with files");
    check(api_words_remedy, "copy it; use --mount for more", "copy it");
    check(api_words_remedy, "use --mount; copy it; or --user", "copy it");
    check(api_words_remedy, "see `coto doctor`; or name it in --allow-missing", "see `coto doctor`");
    check(api_words_remedy, "use --runtime runc", "for the operator of the service: use --runtime runc");
    check(api_words_remedy, "a; b", "a; b");
    check(api_words_remedy, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_are_fields),
        cmocka_unit_test(test_what_callers_cannot_do_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
