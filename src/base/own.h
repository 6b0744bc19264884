/* Ownership by attribute: a variable marked coto_auto_* is released when it
 * goes out of scope; coto_take_* moves the value out. Cleanups keep errno. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* An array of which most is never touched: behind everything small (`--sort-section=name`), which so has few pages. A page that
 * is written to costs a fault, and memory in every sandbox. */
#define COTO_LARGE __attribute__((section(".bss.~large")))

static inline void coto_own_close(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
        *fd = -1;
    }
}

static inline void coto_own_free(void *pointer)
{
    int saved = errno;
    void **owner = pointer;
    free(*owner);
    errno = saved;
    *owner = NULL;
}

static inline int coto_take_fd(int *fd)
{
    int out = *fd;
    *fd = -1;
    return out;
}

static inline void *coto_take_ptr_(void **pointer)
{
    void *out = *pointer;
    *pointer = NULL;
    return out;
}
#define coto_take_ptr(p) ((__typeof__(p))coto_take_ptr_((void **)&(p)))

#define coto_auto_fd __attribute__((cleanup(coto_own_close))) int
#define coto_auto_free __attribute__((cleanup(coto_own_free)))
