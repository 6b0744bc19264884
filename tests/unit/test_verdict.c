#include "core/result.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define EXITED(code) ((code) << 8) /* a wait status, as the kernel packs it */

struct expected {
    enum coto_verdict verdict;
    const char *limit;
    int exit_code;
    int signal;
    int exit_status;
};

static void assert_verdict(struct coto_facts facts, struct expected expected)
{
    struct coto_result result;

    memset(&result, 0x5a, sizeof result);
    coto_verdict_decide(&facts, &result);
    assert_string_equal(coto_verdict_word(result.verdict), coto_verdict_word(expected.verdict));
    if (expected.limit)
        assert_string_equal(result.limit, expected.limit);
    else
        assert_null(result.limit);
    assert_int_equal(result.exit_code, expected.exit_code);
    assert_int_equal(result.signal, expected.signal);
    assert_int_equal(result.exit_status, expected.exit_status);
}

static struct coto_facts ended(int wait_status)
{
    return (struct coto_facts){.cause = COTO_END_SELF, .exited = true, .wait_status = wait_status};
}

static struct coto_facts stopped_by(enum coto_end_cause cause)
{
    return (struct coto_facts){.cause = cause, .exited = true, .wait_status = SIGKILL};
}

static void own_endings(void **state)
{
    (void)state;
    assert_verdict(ended(0), (struct expected){COTO_VERDICT_OK, NULL, 0, 0, 0});
    assert_verdict(ended(EXITED(3)), (struct expected){COTO_VERDICT_NONZERO, NULL, 3, 0, 3});
    assert_verdict(ended(EXITED(255)), (struct expected){COTO_VERDICT_NONZERO, NULL, 255, 0, 255});
    assert_verdict(ended(SIGSEGV), (struct expected){COTO_VERDICT_SIGNAL, NULL, -1, 11, 139});
    /* With a core dump flag the signal is the same. */
    assert_verdict(ended(SIGABRT | 0x80), (struct expected){COTO_VERDICT_SIGNAL, NULL, -1, 6, 134});
}

/* R1.4: a program's own 124 or 137 is not a limit of ours. */
static void own_124_and_137(void **state)
{
    (void)state;
    assert_verdict(ended(EXITED(124)), (struct expected){COTO_VERDICT_NONZERO, NULL, 124, 0, 124});
    assert_verdict(ended(EXITED(137)), (struct expected){COTO_VERDICT_NONZERO, NULL, 137, 0, 137});
    assert_verdict(ended(SIGKILL), (struct expected){COTO_VERDICT_SIGNAL, NULL, -1, 9, 137});
}

static void host_ended_it(void **state)
{
    (void)state;
    assert_verdict(stopped_by(COTO_END_WALL_TIME),
                   (struct expected){COTO_VERDICT_TIMEOUT, "timeout", -1, 9, 124});
    assert_verdict(stopped_by(COTO_END_CPU_TIME),
                   (struct expected){COTO_VERDICT_TIMEOUT, "cpu-time", -1, 9, 124});
    assert_verdict(stopped_by(COTO_END_MEMORY),
                   (struct expected){COTO_VERDICT_OOM, "memory", -1, 9, 137});
    assert_verdict(stopped_by(COTO_END_OUTPUT),
                   (struct expected){COTO_VERDICT_OUTPUT, "output-limit", -1, 9, 137});
    assert_verdict(stopped_by(COTO_END_CANCEL),
                   (struct expected){COTO_VERDICT_KILLED, NULL, -1, 9, 130});
}

static void memory(void **state)
{
    struct coto_facts killed = ended(SIGKILL);
    struct coto_facts failed = ended(EXITED(1));
    struct coto_facts survived = ended(0);

    (void)state;
    killed.usage.oom_kills = failed.usage.oom_kills = survived.usage.oom_kills = 1;
    assert_verdict(killed, (struct expected){COTO_VERDICT_OOM, "memory", -1, 9, 137});
    assert_verdict(failed, (struct expected){COTO_VERDICT_OOM, "memory", 1, 0, 137});
    assert_verdict(survived, (struct expected){COTO_VERDICT_OK, NULL, 0, 0, 0});
    /* init itself may be the victim; nothing is then known of the program. */
    killed.exited = false;
    killed.cause = COTO_END_LOST;
    assert_verdict(killed, (struct expected){COTO_VERDICT_OOM, "memory", -1, 0, 137});
}

static void timeout_wins_over_what_the_kernel_counted(void **state)
{
    struct coto_facts facts = stopped_by(COTO_END_WALL_TIME);

    (void)state;
    facts.usage.oom_kills = 2;
    facts.usage.pids_refused = 5;
    facts.disk_full = true;
    assert_verdict(facts, (struct expected){COTO_VERDICT_TIMEOUT, "timeout", -1, 9, 124});
}

static void processes_and_disk(void **state)
{
    struct coto_facts pids = ended(EXITED(1));
    struct coto_facts disk = ended(EXITED(1));
    struct coto_facts coped = ended(0);

    (void)state;
    pids.usage.pids_refused = 1;
    disk.disk_full = true;
    coped.usage.pids_refused = 1;
    coped.disk_full = true;
    assert_verdict(pids, (struct expected){COTO_VERDICT_PIDS, "pids", 1, 0, 1});
    assert_verdict(disk, (struct expected){COTO_VERDICT_DISK, "disk", 1, 0, 1});
    assert_verdict(coped, (struct expected){COTO_VERDICT_OK, NULL, 0, 0, 0});
}

static void forbidden_call(void **state)
{
    (void)state;
    assert_verdict(ended(SIGSYS), (struct expected){COTO_VERDICT_DENIED, "seccomp", -1, 31, 159});
}

static void lost_contact(void **state)
{
    struct coto_facts facts = {.cause = COTO_END_LOST};

    (void)state;
    assert_verdict(facts, (struct expected){COTO_VERDICT_LOST, NULL, -1, 0, 70});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_endings),
        cmocka_unit_test(own_124_and_137),
        cmocka_unit_test(host_ended_it),
        cmocka_unit_test(memory),
        cmocka_unit_test(timeout_wins_over_what_the_kernel_counted),
        cmocka_unit_test(processes_and_disk),
        cmocka_unit_test(forbidden_call),
        cmocka_unit_test(lost_contact),
    };

    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
