#include "base/loop.h"

#include "base/clock.h"
#include "base/own.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct coto_loop *loop;

static int set_up(void **state)
{
    struct coto_err err;

    (void)state;
    return coto_loop_new(&loop, &err);
}

static int tear_down(void **state)
{
    (void)state;
    coto_loop_free(loop);
    return 0;
}

static void run(void)
{
    struct coto_err err;

    assert_int_equal(coto_loop_run(loop, &err), 0);
}

static void stop(void *arg)
{
    (void)arg;
    coto_loop_stop(loop);
}

/* ---- posts ---- */

#define THREADS 4
#define POSTS 20000

static struct post {
    int thread, number;
} posts[THREADS][POSTS];
static int next_of[THREADS], received;

static void on_post(void *arg)
{
    const struct post *post = arg;

    assert_int_equal(post->number, next_of[post->thread]++);
    if (++received == THREADS * POSTS)
        coto_loop_stop(loop);
}

static void *post_many(void *arg)
{
    struct post *mine = arg;

    for (int i = 0; i < POSTS; i++)
        while (coto_loop_post(loop, on_post, &mine[i]) < 0)
            ;
    return NULL;
}

static void posts_of_all_threads_arrive_in_order(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < POSTS; j++)
            posts[i][j] = (struct post){i, j};
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, posts[i]), 0);
    }
    run();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(received, THREADS * POSTS);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static void a_post_is_not_lost_with_the_loop(void **state)
{
    struct coto_loop *other;
    struct coto_err err;
    int called = 0;

    (void)state;
    assert_int_equal(coto_loop_new(&other, &err), 0);
    coto_loop_post(other, count, &called);
    coto_loop_free(other);
    assert_int_equal(called, 1);
}

static void *stop_it(void *arg)
{
    (void)arg;
    coto_loop_stop(loop);
    return NULL;
}

static void another_thread_can_stop_it_and_it_runs_again(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, stop_it, NULL), 0);
        run();
        pthread_join(thread, NULL);
    }
}

/* ---- timers ---- */

#define TIMERS 1000

static struct tick {
    int64_t due_us;
    uint64_t id;
    bool is_cancelled, has_fired;
} ticks[TIMERS];
static int64_t last_due_us;

static void on_tick(void *arg)
{
    struct tick *tick = arg;

    assert_false(tick->is_cancelled || tick->has_fired);
    assert_true(coto_clock_us() >= tick->due_us);
    assert_true(tick->due_us >= last_due_us - 1000); /* two clock readings lie between */
    last_due_us = tick->due_us;
    tick->has_fired = true;
}

static void timers_fire_when_due_in_order_unless_cancelled(void **state)
{
    (void)state;
    srand(1);
    for (int i = 0; i < TIMERS; i++) {
        int ms = rand() % 40;
        ticks[i].due_us = coto_clock_us() + ms * 1000;
        ticks[i].id = coto_loop_timer(loop, ms, on_tick, &ticks[i]);
        assert_true(ticks[i].id != 0);
        struct tick *other = &ticks[rand() % (i + 1)];
        if (i % 3 == 0) {
            coto_loop_cancel(loop, other->id);
            coto_loop_cancel(loop, other->id); /* nothing happens */
            other->is_cancelled = true;
        }
    }
    coto_loop_timer(loop, 60, stop, NULL);
    run();
    for (int i = 0; i < TIMERS; i++)
        assert_true(ticks[i].has_fired != ticks[i].is_cancelled);
}

static void an_old_id_does_not_cancel_who_has_the_slot_now(void **state)
{
    int called = 0;

    (void)state;
    uint64_t old = coto_loop_timer(loop, 0, count, &called);
    coto_loop_cancel(loop, old);
    coto_loop_timer(loop, 0, count, &called);
    coto_loop_cancel(loop, old);
    coto_loop_cancel(loop, 0);
    coto_loop_timer(loop, 5, stop, NULL);
    run();
    assert_int_equal(called, 1);
}

static void again(void *arg)
{
    ++*(int *)arg;
    coto_loop_timer(loop, 0, again, arg);
}

static void on_input(void *arg, uint32_t events)
{
    assert_true(events & EPOLLIN);
    ++*(int *)arg;
    coto_loop_stop(loop);
}

static void a_timer_that_is_always_due_starves_nobody(void **state)
{
    int fds[2], seen = 0, fired = 0;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(coto_loop_add(loop, fds[0], EPOLLIN, on_input, &seen), 0);
    coto_loop_timer(loop, 0, again, &fired);
    assert_int_equal(write(fds[1], "x", 1), 1);
    run();
    assert_int_equal(seen, 1);
    coto_loop_del(loop, fds[0]);
    close(fds[0]);
    close(fds[1]);
}

/* ---- descriptors ---- */

static int pair_fds[2][2];
static int deliveries;

/* Both are readable in the same round: whoever is called first removes the other one and
 * puts a new, silent descriptor in its place, with the same number. */
static void on_either(void *arg, uint32_t events)
{
    int mine = *(int *)arg;
    int other = mine == pair_fds[0][0] ? pair_fds[1][0] : pair_fds[0][0];
    int silent[2];

    (void)events;
    deliveries++;
    assert_int_equal(pipe2(silent, O_CLOEXEC), 0);
    coto_loop_del(loop, mine);
    coto_loop_del(loop, other);
    assert_int_equal(dup3(silent[0], other, O_CLOEXEC), other);
    assert_int_equal(coto_loop_add(loop, other, EPOLLIN, on_either, arg), 0);
    coto_loop_timer(loop, 10, stop, NULL);
    close(silent[0]); /* its other end stays open, so that nothing is to be read */
}

static void a_late_event_does_not_reach_a_new_descriptor(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(pair_fds[i], O_CLOEXEC), 0);
        assert_int_equal(write(pair_fds[i][1], "x", 1), 1);
        assert_int_equal(
            coto_loop_add(loop, pair_fds[i][0], EPOLLIN, on_either, &pair_fds[i][0]), 0);
    }
    run();
    assert_int_equal(deliveries, 1);
}

static void what_is_not_watched_for_is_not_told(void **state)
{
    int fds[2], seen = 0;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(coto_loop_add(loop, fds[0], 0, on_input, &seen), 0);
    assert_int_equal(coto_loop_add(loop, fds[0], EPOLLIN, on_input, &seen), -1);
    coto_loop_timer(loop, 5, stop, NULL);
    run();
    assert_int_equal(seen, 0);
    assert_int_equal(coto_loop_mod(loop, fds[0], EPOLLIN), 0);
    run();
    assert_int_equal(seen, 1);
    coto_loop_del(loop, fds[0]);
    coto_loop_del(loop, fds[0]); /* nothing happens */
    coto_loop_del(loop, -1);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_of_all_threads_arrive_in_order),
        cmocka_unit_test(a_post_is_not_lost_with_the_loop),
        cmocka_unit_test(another_thread_can_stop_it_and_it_runs_again),
        cmocka_unit_test(timers_fire_when_due_in_order_unless_cancelled),
        cmocka_unit_test(an_old_id_does_not_cancel_who_has_the_slot_now),
        cmocka_unit_test(a_late_event_does_not_reach_a_new_descriptor),
        cmocka_unit_test(what_is_not_watched_for_is_not_told),
        cmocka_unit_test(a_timer_that_is_always_due_starves_nobody),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
