/* Linked into the test build of coto and coto-init in front of the C library's allocator:
 * every allocation first makes a system call that no kernel has. Usually it is refused
 * and the allocation goes on; inject.c counts these calls like any others and lets
 * one of them fail with ENOMEM, and the allocation fails with it. */
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#define CALL_NUMBER 0xfa17

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int is_to_fail(void)
{
    int saved = errno;

    if (syscall(CALL_NUMBER) && errno == ENOMEM)
        return 1;
    errno = saved;
    return 0;
}

void *__wrap_malloc(size_t size)
{
    return is_to_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_to_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_to_fail() ? NULL : __real_realloc(old, size);
}
