/* The event loop: descriptors (epoll, level-triggered), one-shot timers, and calls
 * posted by other threads. Everything but coto_loop_post and coto_loop_stop belongs to the
 * thread that runs the loop.
 *
 * A callback may add, change and remove anything, itself included: an event that was
 * fetched before its descriptor was removed is not delivered. Remove a descriptor
 * before closing it.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/epoll.h>

struct coto_loop;
typedef void coto_loop_fd_fn(void *arg, uint32_t events); /* EPOLLIN, EPOLLOUT, ... */
typedef void coto_loop_fn(void *arg);

int coto_loop_new(struct coto_loop **ret_loop, struct coto_err *err);
/* Calls still posted are made, timers are forgotten, descriptors stay open. NULL is fine. */
void coto_loop_free(struct coto_loop *loop);
/* Runs until coto_loop_stop; 0, or -1 with the error of epoll. May be run again. */
int coto_loop_run(struct coto_loop *loop, struct coto_err *err);
void coto_loop_stop(struct coto_loop *loop); /* from any thread */

/* 0, or -1 with errno. A descriptor has one callback. */
int coto_loop_add(struct coto_loop *loop, int fd, uint32_t events, coto_loop_fd_fn *fn, void *arg);
int coto_loop_mod(struct coto_loop *loop, int fd, uint32_t events);
void coto_loop_del(struct coto_loop *loop, int fd);

/* Calls fn(arg) once, ms from now at the earliest. The id, or 0 with errno. */
uint64_t coto_loop_timer(struct coto_loop *loop, int64_t ms, coto_loop_fn *fn, void *arg);
/* Nothing happens for 0 and for a timer that has fired. */
void coto_loop_cancel(struct coto_loop *loop, uint64_t id);

/* Has the loop's thread call fn(arg), from any thread, in the order of posting per
 * thread. 0, or -1 with errno (no memory). */
int coto_loop_post(struct coto_loop *loop, coto_loop_fn *fn, void *arg);

/* Monotonic time in microseconds, as of when the present round of callbacks began. */
int64_t coto_loop_now_us(const struct coto_loop *loop);
