/* Memory of coto-init, in place of the C library's allocator.
 *
 * That one asks the kernel for a mapping of its own for each size it has not seen yet, two faults and two system
 * calls each: a tenth of what it takes to start a sandbox, for a dozen small pieces. Here they lie side by
 * side in memory the program has from the start; a piece is as large as the next power of two, and is given to
 * the next one who asks for that size once it is free. What is large is mapped and unmapped.
 *
 * Each piece has a head with its size, and a mark of whether it is in use that depends on where it lies: whoever frees
 * something twice, or something beyond which was written, ends here. There is one thread that allocates.
 */
#include "base/own.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define SMALLEST 5 /* 2^5 bytes */
#define LARGEST 16 /* beyond it is mapped */
#define ROOM_MAX ((size_t)1 << 28)
#define ALIGN 16u
#define USED 0x75736564u
#define FREE 0x66726565u

struct head {
    size_t size; /* of what follows it; mapped: more than 2^LARGEST */
    uint64_t mark;
    struct head *next[]; /* one, where the data was, while it is free */
};

_Static_assert(sizeof(struct head) == ALIGN, "what follows it is aligned");

static COTO_LARGE _Alignas(ALIGN) char first[256 << 10]; /* pages that nobody touches cost nothing */
static char *next = first, *end = first + sizeof first;
static struct head *freed[LARGEST + 1];
static uint64_t secret; /* nobody can make up a mark */

static uint64_t mark_of(const struct head *head, uint32_t state)
{
    if (!secret) {
        const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes of the kernel's */
        memcpy(&secret, random ? random : &state, random ? sizeof secret : sizeof state);
        secret |= 1;
    }
    return secret ^ (uint64_t)(uintptr_t)head << 16 ^ head->size << 1 ^ state;
}

static struct head *head_of(void *data)
{
    struct head *head = (struct head *)data - 1;

    if (head->mark != mark_of(head, USED))
        abort();
    return head;
}

static void *hand_out(struct head *head, size_t size)
{
    head->size = size;
    head->mark = mark_of(head, USED);
    return head + 1;
}

/* With room to grow: lists do, an item at a time. */
static void *map(size_t size)
{
    size_t room = (size_t)1 << (LARGEST + 1);

    while (room < size && room < ROOM_MAX)
        room *= 2;
    size = room < size ? size : room;
    struct head *head = mmap(NULL, size + sizeof *head, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return head == MAP_FAILED ? NULL : hand_out(head, size);
}

/* What is left of the memory before is less than the largest piece, and stays unused. */
static int get_more(void)
{
    void *more = mmap(NULL, sizeof first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (more == MAP_FAILED)
        return -1;
    next = more;
    end = next + sizeof first;
    return 0;
}

static int class_of(size_t size)
{
    int class = SMALLEST;

    while ((size_t)1 << class < size)
        class++;
    return class;
}

void *malloc(size_t size)
{
    if (size > PTRDIFF_MAX - 4096) {
        errno = ENOMEM;
        return NULL;
    }
    if (size > (size_t)1 << LARGEST)
        return map(size);
    int class = class_of(size);
    size = (size_t)1 << class;
    struct head *head = freed[class];
    if (head) {
        if (head->mark != mark_of(head, FREE))
            abort();
        freed[class] = head->next[0];
        return hand_out(head, size);
    }
    if ((size_t)(end - next) < size + sizeof *head && get_more())
        return NULL;
    head = (struct head *)(void *)next;
    next += size + sizeof *head;
    return hand_out(head, size);
}

void free(void *data)
{
    int saved = errno;

    if (!data)
        return;
    struct head *head = head_of(data);
    if (head->size > (size_t)1 << LARGEST) {
        munmap(head, head->size + sizeof *head);
        errno = saved;
        return;
    }
    int class = class_of(head->size);
    head->mark = mark_of(head, FREE);
    head->next[0] = freed[class];
    freed[class] = head;
}

void *calloc(size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    void *data = malloc(total);
    return data ? memset(data, 0, total) : NULL;
}

void *realloc(void *data, size_t size)
{
    if (!data)
        return malloc(size);
    struct head *head = head_of(data);
    if (size <= head->size)
        return data;
    void *larger = malloc(size);
    if (!larger)
        return NULL;
    memcpy(larger, data, size < head->size ? size : head->size);
    free(data);
    return larger;
}
