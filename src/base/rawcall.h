/* A system call without a frame of its own and without errno: the result, or a negative
 * errno. For code that runs beside another in the same memory, where errno and stack
 * belong to that other. */
#pragma once

#include "base/sanitize.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__ && !COTO_ASAN
#define COTO_CAN_BORROW 1 /* a child may run in our memory until it executes */
#else
#define COTO_CAN_BORROW 0
#endif

static inline __attribute__((always_inline)) long coto_raw_call(long number, long a, long b, long c,
                                                                   long d)
{
#if COTO_CAN_BORROW
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
#else
    long result = syscall(number, a, b, c, d);
    return result < 0 ? -errno : result;
#endif
}
