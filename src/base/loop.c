#include "base/loop.h"

#include "base/clock.h"
#include "base/own.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>

/* Events fetched at a time. */
#define ROUND 64

struct watch {
    coto_loop_fd_fn *fn; /* NULL: not watched */
    void *arg;
    uint32_t generation; /* tells a late event of an earlier watch of this number */
};

/* Slots stay where they are, the heap holds their numbers, each slot its place in the
 * heap: so a timer can be cancelled without being looked for. An id is the slot's
 * generation and number + 1. */
struct timer {
    int64_t due_us;
    coto_loop_fn *fn;
    void *arg;
    uint32_t generation;
    uint32_t place; /* in the heap; of a free slot: the next free one */
};

struct call {
    struct call *next;
    coto_loop_fn *fn;
    void *arg;
};

struct coto_loop {
    int epoll_fd, wake_fd;
    int64_t now_us;
    struct watch *watches;
    size_t watch_count;
    struct timer *timers;
    uint32_t *heap;
    uint32_t timer_count, heap_count, free_timer; /* free_timer: number + 1, 0 none */
    _Atomic(struct call *) calls;                 /* newest first */
    atomic_bool stopped;
};

int64_t coto_loop_now_us(const struct coto_loop *loop)
{
    return loop->now_us;
}

/* ---- descriptors ---- */

static int control(struct coto_loop *loop, int op, int fd, uint32_t events)
{
    uint64_t id = (uint64_t)loop->watches[fd].generation << 32 | (uint32_t)fd;
    struct epoll_event event = {.events = events, .data.u64 = id};

    return epoll_ctl(loop->epoll_fd, op, fd, &event);
}

int coto_loop_add(struct coto_loop *loop, int fd, uint32_t events, coto_loop_fd_fn *fn, void *arg)
{
    if ((size_t)fd >= loop->watch_count) {
        size_t count = (size_t)fd + 1 + (size_t)fd / 2;
        struct watch *grown = realloc(loop->watches, count * sizeof *grown);
        if (!grown)
            return -1;
        memset(grown + loop->watch_count, 0, (count - loop->watch_count) * sizeof *grown);
        loop->watches = grown;
        loop->watch_count = count;
    }
    loop->watches[fd].generation++;
    if (control(loop, EPOLL_CTL_ADD, fd, events) < 0)
        return -1;
    loop->watches[fd].fn = fn;
    loop->watches[fd].arg = arg;
    return 0;
}

int coto_loop_mod(struct coto_loop *loop, int fd, uint32_t events)
{
    return control(loop, EPOLL_CTL_MOD, fd, events);
}

void coto_loop_del(struct coto_loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->watch_count || !loop->watches[fd].fn)
        return;
    control(loop, EPOLL_CTL_DEL, fd, 0);
    loop->watches[fd].fn = NULL;
}

static void deliver(struct coto_loop *loop, const struct epoll_event *event)
{
    struct watch watch = loop->watches[(uint32_t)event->data.u64]; /* the table may move */

    if (watch.fn && watch.generation == event->data.u64 >> 32)
        watch.fn(watch.arg, event->events);
}

/* ---- timers ---- */

static int64_t due_at(const struct coto_loop *loop, uint32_t place)
{
    return loop->timers[loop->heap[place]].due_us;
}

static void put(struct coto_loop *loop, uint32_t place, uint32_t slot)
{
    loop->heap[place] = slot;
    loop->timers[slot].place = place;
}

/* Moves the slot at place up or down until the heap is one again. */
static void settle(struct coto_loop *loop, uint32_t place)
{
    uint32_t slot = loop->heap[place];
    int64_t due_us = loop->timers[slot].due_us;

    while (place > 0 && due_at(loop, (place - 1) / 2) > due_us) {
        put(loop, place, loop->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < loop->heap_count && due_at(loop, child + 1) < due_at(loop, child))
            child++;
        if (child >= loop->heap_count || due_at(loop, child) >= due_us)
            break;
        put(loop, place, loop->heap[child]);
        place = child;
    }
    put(loop, place, slot);
}

static int grow_timers(struct coto_loop *loop)
{
    uint32_t count = loop->timer_count ? loop->timer_count * 2 : 64;
    struct timer *timers = realloc(loop->timers, count * sizeof *timers);
    if (!timers)
        return -1;
    loop->timers = timers;
    uint32_t *heap = realloc(loop->heap, count * sizeof *heap);
    if (!heap)
        return -1;
    loop->heap = heap;
    while (loop->timer_count < count) {
        loop->timers[loop->timer_count] = (struct timer){.place = loop->free_timer};
        loop->free_timer = ++loop->timer_count;
    }
    return 0;
}

uint64_t coto_loop_timer(struct coto_loop *loop, int64_t ms, coto_loop_fn *fn, void *arg)
{
    if (!loop->free_timer && grow_timers(loop) < 0)
        return 0;
    uint32_t slot = loop->free_timer - 1;
    struct timer *timer = &loop->timers[slot];
    loop->free_timer = timer->place;
    timer->due_us = coto_clock_us() + (ms > 0 ? ms : 0) * 1000;
    timer->fn = fn;
    timer->arg = arg;
    timer->generation++;
    loop->heap[loop->heap_count] = slot;
    settle(loop, loop->heap_count++);
    return (uint64_t)timer->generation << 32 | (slot + 1);
}

static void forget(struct coto_loop *loop, uint32_t slot)
{
    struct timer *timer = &loop->timers[slot];
    uint32_t place = timer->place;

    timer->fn = NULL;
    timer->place = loop->free_timer;
    loop->free_timer = slot + 1;
    if (place != --loop->heap_count) {
        loop->heap[place] = loop->heap[loop->heap_count];
        settle(loop, place);
    }
}

void coto_loop_cancel(struct coto_loop *loop, uint64_t id)
{
    uint32_t slot = (uint32_t)id - 1;

    if (id && slot < loop->timer_count && loop->timers[slot].fn &&
        loop->timers[slot].generation == id >> 32)
        forget(loop, slot);
}

/* Those due at the beginning of the round only: one that arms itself anew at 0 ms must
 * not keep descriptors waiting. */
static void fire(struct coto_loop *loop)
{
    while (loop->heap_count > 0 && due_at(loop, 0) <= loop->now_us) {
        struct timer timer = loop->timers[loop->heap[0]];
        forget(loop, loop->heap[0]);
        if (timer.fn) /* always; the analyser cannot know */
            timer.fn(timer.arg);
    }
}

static int wait_ms(const struct coto_loop *loop)
{
    if (loop->heap_count == 0)
        return -1;
    int64_t left_us = due_at(loop, 0) - coto_clock_us();
    if (left_us <= 0)
        return 0;
    return left_us / 1000 >= INT_MAX ? INT_MAX : (int)((left_us + 999) / 1000);
}

/* ---- other threads ---- */

static void wake(struct coto_loop *loop)
{
    uint64_t one = 1;

    /* EAGAIN: it is awake already. Whatever else it is, nobody else would wake it. */
    for (int i = 0; i < 3 && write(loop->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN; i++)
        ;
}

int coto_loop_post(struct coto_loop *loop, coto_loop_fn *fn, void *arg)
{
    struct call *call = malloc(sizeof *call);

    if (!call)
        return -1;
    struct call *before = atomic_load(&loop->calls);
    do {
        *call = (struct call){.next = before, .fn = fn, .arg = arg};
    } while (!atomic_compare_exchange_weak(&loop->calls, &before, call));
    if (!before) /* else whoever found the list empty has woken the loop */
        wake(loop);
    return 0;
}

static void make_calls(void *arg, uint32_t events)
{
    struct coto_loop *loop = arg;
    struct call *ordered = NULL;
    uint64_t count;

    (void)events;
    (void)!read(loop->wake_fd, &count, sizeof count);
    for (struct call *call = atomic_exchange(&loop->calls, NULL), *next; call; call = next) {
        next = call->next;
        call->next = ordered;
        ordered = call;
    }
    while (ordered) {
        struct call *call = ordered;
        ordered = call->next;
        call->fn(call->arg);
        free(call);
    }
}

void coto_loop_stop(struct coto_loop *loop)
{
    atomic_store(&loop->stopped, true);
    wake(loop);
}

/* ---- the loop ---- */

int coto_loop_new(struct coto_loop **ret_loop, struct coto_err *err)
{
    struct coto_loop *loop = calloc(1, sizeof *loop);

    if (!loop)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "event loop");
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->now_us = coto_clock_us();
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        coto_loop_add(loop, loop->wake_fd, EPOLLIN, make_calls, loop) < 0) {
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "event loop");
        coto_loop_free(loop);
        return -1;
    }
    *ret_loop = loop;
    return 0;
}

void coto_loop_free(struct coto_loop *loop)
{
    if (!loop)
        return;
    while (loop->wake_fd >= 0 && atomic_load(&loop->calls))
        make_calls(loop, 0);
    coto_own_close(&loop->epoll_fd);
    coto_own_close(&loop->wake_fd);
    free(loop->watches);
    free(loop->timers);
    free(loop->heap);
    free(loop);
}

int coto_loop_run(struct coto_loop *loop, struct coto_err *err)
{
    struct epoll_event events[ROUND];

    while (!atomic_load(&loop->stopped)) {
        int count = epoll_wait(loop->epoll_fd, events, ROUND, wait_ms(loop));
        if (count < 0 && errno != EINTR)
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "event loop: epoll_wait");
        loop->now_us = coto_clock_us();
        for (int i = 0; i < count; i++)
            deliver(loop, &events[i]);
        /* After them: what was waiting to be read while we were stopped is not late. */
        fire(loop);
    }
    atomic_store(&loop->stopped, false);
    return 0;
}
