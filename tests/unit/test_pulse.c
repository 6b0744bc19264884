/* With a clock of its own, and a launcher that is a socket and a process. */
#include "../../src/daemon/pulse.c"

#include "base/own.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int sv[2];
static int64_t now_us;
static struct coto_pulse pulse;

static int set_up(void **state)
{
    (void)state;
    now_us = 1;
    pulse = (struct coto_pulse){0};
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv);
}

static int tear_down(void **state)
{
    (void)state;
    return close(sv[0]) || close(sv[1]);
}

/* How often it was given up in so many turns. */
static int turns(pid_t pid, int count)
{
    int given_up = 0;

    for (int i = 0; i < count; i++, now_us += EVERY_US)
        given_up += coto_pulse_take(&pulse, pid, sv[0], now_us);
    return given_up;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

/* Who has used vfork waits for its child as one waits for a disk. */
static pid_t start_waiter(void)
{
    int64_t none;
    pid_t pid = fork();

    if (pid == 0) {
        setpgid(0, 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        if (vfork() == 0)
            for (;;)
                pause();
#pragma GCC diagnostic pop
        _exit(0);
    }
    while (pid > 0 && coto_proc_stat(pid, 4, 1, &none) != 'D')
        usleep(1000);
    return pid;
}

static void who_answers_is_never_given_up(void **state)
{
    char byte;
    pid_t pid = start_sleeper();

    (void)state;
    for (int i = 0; i < 4 * MISSED_MAX; i++) {
        assert_int_equal(turns(pid, 1), 0);
        assert_int_equal(recv(sv[1], &byte, 1, MSG_DONTWAIT), 1);
        assert_int_equal(turns(pid, MISSED_MAX - 1), 0); /* slowly */
        assert_int_equal(send(sv[1], &byte, 1, 0), 1);
    }
    end(pid);
}

static void who_does_not_answer_is_given_up_once(void **state)
{
    pid_t pid = start_sleeper();

    (void)state;
    assert_int_equal(turns(pid, MISSED_MAX), 0);
    assert_int_equal(turns(pid, 1), 1);
    assert_int_equal(turns(pid, 4 * MISSED_MAX), 0); /* it takes its time to die */
    end(pid);
}

static void who_waits_for_the_kernel_is_waited_for(void **state)
{
    pid_t waiter = start_waiter();
    pid_t sleeper = start_sleeper();

    (void)state;
    assert_int_equal(turns(waiter, 4 * MISSED_MAX), 0);
    assert_int_equal(turns(sleeper, MISSED_MAX - 1), 0); /* and has as long to answer as any other */
    assert_int_equal(turns(sleeper, 1), 1);
    kill(-waiter, SIGKILL);
    assert_int_equal(waitpid(waiter, NULL, 0), waiter);
    end(sleeper);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(who_answers_is_never_given_up),
        TEST(who_does_not_answer_is_given_up_once),
        TEST(who_waits_for_the_kernel_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
