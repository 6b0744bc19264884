/* What the tests of the policy share: one policy and one error, fresh for each test.
 * Included by one program each, after cmocka.h. */
#pragma once

#include "policy/policy.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct coto_policy policy;
static struct coto_err err;

static int setup(void **state)
{
    (void)state;
    memset(&err, 0, sizeof err);
    return coto_policy_init(&policy, &err);
}

static int teardown(void **state)
{
    (void)state;
    coto_policy_fini(&policy);
    coto_policy_fini(&policy); /* twice is fine */
    return 0;
}

static void assert_text(enum coto_opt opt, const char *expected)
{
    struct coto_buf text = {0};

    coto_policy_value_text(&policy, opt, &text);
    assert_string_equal(coto_buf_str(&text), expected);
    coto_buf_fini(&text);
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not hold '%s'", text, part);
}
