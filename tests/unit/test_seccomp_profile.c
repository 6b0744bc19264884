/* The JSON profile for container runtimes, read back and compared with the table it comes
 * from: every call, every tier, with arguments on both sides of every rule. */
#include "drivers/seccomp_profile.h"
#include "kernel/seccomp.h"
#include "schema/options.h"

#include <errno.h>
#include <jansson.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#if defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH AUDIT_ARCH_X86_64
#endif
#define NUMBERS 600
#define ALLOWED (-1)

/* jansson has no numbers from 2^63 on: those become strings. */
static void quote_large(const char *text, struct coto_buf *out)
{
    while (*text) {
        size_t digits = strspn(text, "0123456789");
        if (digits > 18)
            coto_buf_addf(out, "\"%.*s\"", (int)digits, text);
        else
            coto_buf_add(out, text, digits ? digits : 1);
        text += digits ? digits : 1;
    }
}

static json_t *profile_of(int tier, bool noexec)
{
    coto_auto_buf text = {0};
    coto_auto_buf quoted = {0};
    struct coto_err err = {0};
    json_error_t why;

    assert_int_equal(coto_seccomp_profile(tier, noexec, &text, &err), 0);
    quote_large(coto_buf_str(&text), &quoted);
    json_t *profile = json_loads(coto_buf_str(&quoted), JSON_REJECT_DUPLICATES, &why);
    if (!profile)
        fail_msg("%s at %d", why.text, why.position);
    return profile;
}

static uint64_t number(const json_t *args, const char *key)
{
    const json_t *value = json_object_get(args, key);

    assert_non_null(value);
    return json_is_integer(value) ? (uint64_t)json_integer_value(value)
                                  : strtoull(json_string_value(value), NULL, 10);
}

static bool row_holds(const json_t *rows, const uint64_t args[6])
{
    size_t i;
    json_t *row;
    bool seen[6] = {false};

    json_array_foreach(rows, i, row) {
        uint64_t index = number(row, "index");
        assert_true(index < 6 && !seen[index]); /* libseccomp takes each argument once */
        seen[index] = true;
        assert_string_equal(json_string_value(json_object_get(row, "op")), "SCMP_CMP_MASKED_EQ");
        if ((args[index] & number(row, "value")) != number(row, "valueTwo"))
            return false;
    }
    return true;
}

/* The entries that name a call. */
static json_t *entries_of(const json_t *profile, const char *name)
{
    json_t *found = json_array();
    size_t i, k;
    json_t *entry, *one;

    json_array_foreach(json_object_get(profile, "syscalls"), i, entry)
        json_array_foreach(json_object_get(entry, "names"), k, one)
            if (strcmp(json_string_value(one), name) == 0)
                json_array_append(found, entry);
    return found;
}

/* ALLOWED, or the errno. */
static int answer_of(const json_t *profile, const json_t *entries, const uint64_t args[6])
{
    size_t i;
    json_t *entry;

    json_array_foreach(entries, i, entry) {
        const char *action = json_string_value(json_object_get(entry, "action"));
        if (strcmp(action, "SCMP_ACT_ERRNO") == 0)
            return (int)number(entry, "errnoRet");
        assert_string_equal(action, "SCMP_ACT_ALLOW");
        if (row_holds(json_object_get(entry, "args"), args))
            return ALLOWED;
    }
    return (int)number(profile, "defaultErrnoRet");
}

static int answer(const json_t *profile, const char *name, const uint64_t args[6])
{
    json_t *entries = entries_of(profile, name);
    int found = answer_of(profile, entries, args);

    json_decref(entries);
    return found;
}

static bool is_inits(const char *name)
{
    for (size_t i = 0; coto_seccomp_profile_init[i]; i++)
        if (strcmp(coto_seccomp_profile_init[i], name) == 0)
            return true;
    return false;
}

/* Every value that a rule of the table speaks of, its neighbours, and high words of garbage. */
static uint64_t interesting(unsigned *seed)
{
    static const uint64_t values[] = {
        0,      1,      2,      3,      4,          5,          6,          8,        9,
        10,     16,     17,     22,     26,         35,         40,         50,       51,
        52,     62,     1024,   1026,   0x5412,     0x541c,     0x541d,     0x5423,   0x8000,   0x8940, 0x8983, 0x89a1,
        0x20000, 0x20008, 0x40000, 0x10000000, 0x40000000, 0x40086602, 0x401c5820, 0x59616d61,
        0100000, 0010000, 0140000, 0020000, 0060000, 02000000 | 1, 04000 | 2, 0x31, 0xffffffff,
        UINT64_MAX};
    /* Small ones more often: a socket needs three of them to be allowed. */
    size_t among = (unsigned)rand_r(seed) % 2 ? 7 : sizeof values / sizeof values[0];
    uint64_t value = values[(unsigned)rand_r(seed) % among];
    unsigned how = (unsigned)rand_r(seed) % 8;

    if (how == 0)
        value += 0x12300000000ull;
    else if (how == 1)
        value ^= 1ull << ((unsigned)rand_r(seed) % 64);
    return value;
}

static void compare_arguments(const json_t *profile, int tier, const struct coto_seccomp_rule *rule)
{
    unsigned seed = (unsigned)(tier * 1000 + rule->number);
    json_t *entries = entries_of(profile, rule->name);
    int allowed = 0, denied = 0;

    for (int i = 0; i < 3000; i++) {
        struct coto_seccomp_call call = {ARCH, rule->number, {0}};
        const uint64_t *args = call.args;
        int error = 0;
        for (int k = 0; k < 6; k++)
            call.args[k] = interesting(&seed);
        bool table = coto_seccomp_decide(tier, 0, &call, &error) == COTO_ANSWER_ALLOW;
        bool json = answer_of(profile, entries, args) == ALLOWED;
        bool looser = strcmp(rule->name, "setsockopt") == 0 ||
                      strcmp(rule->name, "sched_setscheduler") == 0 ||
                      strcmp(rule->name, "setpriority") == 0;
        if (looser ? table && !json : table != json)
            fail_msg("%s tier %d (%#jx, %#jx, %#jx, %#jx): table %d, profile %d", rule->name, tier,
                     (uintmax_t)args[0], (uintmax_t)args[1], (uintmax_t)args[2],
                     (uintmax_t)args[3], table, json);
        allowed += json;
        denied += !json;
    }
    json_decref(entries);
    if (!allowed || !denied)
        fail_msg("%s: %d allowed, %d denied: these arguments test nothing", rule->name, allowed, denied);
}

static void compare(int tier, bool noexec)
{
    static const uint64_t none[6];
    json_t *profile = profile_of(tier, noexec);

    for (int i = 0; i < NUMBERS; i++) {
        struct coto_seccomp_rule rule = coto_seccomp_rule(tier, i);
        if (!rule.name)
            continue;
        if (noexec && i == SYS_memfd_create)
            assert_int_equal(answer(profile, rule.name, none), EPERM);
        else if (is_inits(rule.name) || rule.answer == COTO_ANSWER_ALLOW)
            assert_int_equal(answer(profile, rule.name, none), ALLOWED);
        else if (rule.answer == COTO_ANSWER_ERRNO)
            assert_int_equal(answer(profile, rule.name, none), rule.error);
        else
            compare_arguments(profile, tier, &rule);
    }
    json_decref(profile);
}

static void test_every_call(void **state)
{
    (void)state;
    for (int tier = COTO_SECCOMP_STRICT; tier <= COTO_SECCOMP_DEBUG; tier++) {
        compare(tier, false);
        compare(tier, true);
    }
}

/* Nothing is named that the table does not name, and a call no one names is refused. */
static void test_no_other_call(void **state)
{
    static const uint64_t none[6];
    json_t *profile = profile_of(COTO_SECCOMP_DEFAULT, false);
    size_t i, k;
    json_t *entry, *one;

    (void)state;
    assert_int_equal(answer(profile, "no_such_call", none), ENOSYS);
    assert_string_equal(json_string_value(json_object_get(profile, "defaultAction")),
                        "SCMP_ACT_ERRNO");
    assert_int_equal(json_array_size(json_object_get(profile, "architectures")), 1);
    json_array_foreach(json_object_get(profile, "syscalls"), i, entry)
        json_array_foreach(json_object_get(entry, "names"), k, one) {
            bool found = false;
            for (int number = 0; number < NUMBERS && !found; number++) {
                const char *name = coto_seccomp_rule(COTO_SECCOMP_DEFAULT, number).name;
                found = name && strcmp(name, json_string_value(one)) == 0;
            }
            if (!found)
                fail_msg("%s is not in the table", json_string_value(one));
        }
    json_decref(profile);
}

static void test_tiers_that_do_not_exist(void **state)
{
    coto_auto_buf text = {0};
    struct coto_err err = {0};

    (void)state;
    assert_int_not_equal(coto_seccomp_profile(3, false, &text, &err), 0);
    assert_int_not_equal(coto_seccomp_profile(-1, false, &text, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call),
        cmocka_unit_test(test_no_other_call),
        cmocka_unit_test(test_tiers_that_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
