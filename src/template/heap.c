/* The template's memory, so that copies are cheap.
 *
 * To fork is to copy an entry for every page, and to end a process is to drop each of them: the
 * interpreter's own heap is put into huge pages, of which there are two where there were a thousand.
 *
 * Then every page that a copy writes to is copied, and of a huge page it takes the whole apart, for itself: as many entries as there
 * were to be saved. What a copy allocates would fill the holes all over the heap, so those are filled before, once, and what is
 * new lies together on small pages behind it; so does what is written to in every program (python.py: move_stdout, move_random). The rest of what
 * a copy writes to is the oldest of the interpreter's objects, on the first of the huge pages.
 *
 * The interpreter's code and variables: text.c.
 */
#include "template/python.h"
#include "template/template.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENAS (16 * HUGE)
#define SMALL_MAX 512 /* larger objects are the C library's */
#define FILLED_MAX ((size_t)8 << 20) /* of objects of one size */
#define LITTLE 64 /* of the C library's heap */
#define SMALL 4000 /* what a program takes of it */

static struct python_arenas usual;
static char *arenas, *arenas_next, *arenas_end;
static char *newest, *newest_end; /* arena */
static char *heap, *heap_small; /* its end, when all was imported */
static char *arguments, *arguments_end; /* where the kernel reads /proc/self/cmdline */

static void *new_arena(void *ctx, size_t size)
{
    (void)ctx;
    bool is_ours = (size_t)(arenas_end - arenas_next) >= size;
    char *data = is_ours ? arenas_next : usual.alloc(usual.ctx, size);
    if (is_ours)
        arenas_next += size;
    newest = data;
    newest_end = data ? data + size : NULL;
    return data;
}

static void drop_arena(void *ctx, void *data, size_t size)
{
    (void)ctx;
    if ((char *)data < arenas || (char *)data >= arenas_end)
        usual.free(usual.ctx, data, size);
    else
        madvise(data, size, MADV_DONTNEED);
}

/* The C library's heap begins so much before the next huge page. */
static char *align_heap(size_t before)
{
    char *end = sbrk(0);

    sbrk((template_next_huge(end + before) - before) - end);
    return sbrk(0);
}

static void begin(void)
{
    struct python_arenas own = {NULL, new_arena, drop_arena};
    char *data = mmap(NULL, ARENAS + HUGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    /* What the C library keeps about its heap, for one thread, is the first that it takes of it. */
    heap = align_heap((size_t)sysconf(_SC_PAGESIZE));
    if (data == MAP_FAILED)
        return;
    arenas = arenas_next = template_next_huge(data);
    arenas_end = arenas + ARENAS;
    if (arenas > data)
        munmap(data, (size_t)(arenas - data));
    munmap(arenas_end, HUGE - (size_t)(arenas - data));
    PyObject_GetArenaAllocator(&usual);
    PyObject_SetArenaAllocator(&own);
}

/* Loaded ahead of the interpreter it comes before the interpreter's first object. What that was asked
 * with is nobody's business afterwards. */
static __attribute__((constructor)) void begin_early(int argc, char **argv)
{
    char *path = getenv("LD_PRELOAD");

    if (!path || (!strstr(path, "coto-template") && strncmp(path, "/proc/self/fd/", 14) != 0))
        return;
    arguments = argv[0];
    arguments_end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
    unsetenv("LD_PRELOAD");
    memset(path - sizeof "LD_PRELOAD", 0, sizeof "LD_PRELOAD" + strlen(path)); /* where /proc/self/environ has it */
    begin();
    template_hash_begin();
}

/* ---- when everything is imported ---- */

/* Of which nothing is used by anything yet: whatever was free elsewhere is taken. */
static void go_to_new_arena(void)
{
    const char *before = newest;

    for (size_t i = 0; i < FILLED_MAX / SMALL_MAX && newest == before; i++)
        PyObject_Malloc(SMALL_MAX);
    if (newest == before) /* objects are not in arenas here */
        newest = NULL;
}

/* Until one comes from there. */
static void fill_pools(void)
{
    for (size_t size = 16; size <= SMALL_MAX && newest; size += 16)
        for (size_t i = 0; i < FILLED_MAX / size; i++) {
            char *data = PyObject_Malloc(size);
            if (!data || (data >= newest && data < newest_end))
                break;
        }
}

static char *heap_top(void)
{
    return (char *)sbrk(0) - mallinfo2().keepcost;
}

static void fill_bins(size_t largest, const char *end)
{
    /* The small ones are all the sizes there are: 8 of a chunk's 16 bytes are not the caller's. */
    for (size_t size = largest; size >= 24; size = size > 1160 ? size * 7 / 8 : (size - 24) / 16 * 16 + 8)
        for (int i = 0; i < 10000; i++) {
            /* That it stays is what it is for; volatile, or the compiler leaves it out. */
            char *volatile data = malloc(size);
            if (!data || data >= end)
                break;
        }
}

/* And what has nothing in it so far; it goes on at the next huge page. */
static void fill_heap(void)
{
    size_t left = mallinfo2().keepcost;
    char *volatile data = left > 2 * LITTLE ? malloc(left - LITTLE) : NULL;

    (void)data;
    align_heap(0);
}

/* Beside the objects, in as few pages. */
static void *take(size_t size)
{
    char *data = (char *)(((uintptr_t)arenas_next + 4095) / 4096 * 4096);

    if (data > arenas_end || (size_t)(arenas_end - data) < size)
        return NULL;
    arenas_next = data + size;
    return data;
}

/* What it was started with is not what its programs are. Zeros follow, the kernel lets nobody shorten it. */
void template_forget_arguments(void)
{
    static const char name[] = "python3";

    if (!arguments || arguments_end - arguments < (ptrdiff_t)sizeof name)
        return;
    memset(arguments, 0, (size_t)(arguments_end - arguments));
    memcpy(arguments, name, sizeof name);
}

void template_heap_settle(void)
{
    template_text_settle();
    template_libraries_settle();
    fill_bins(65536, heap_top());
    fill_heap();
    heap_small = sbrk(0);
    template_huge(template_next_huge(heap), heap_small);
    if (!arenas || !newest)
        return;
    template_hash_settle(take(template_hash_size()));
    arenas_next = template_next_huge(arenas_next);
    template_huge(arenas, arenas_next);
    madvise(arenas_next, (size_t)(arenas_end - arenas_next), MADV_NOHUGEPAGE);
    go_to_new_arena();
    fill_pools();
}

void template_heap_fill(void)
{
    PyGC_Collect();
    fill_bins(SMALL, heap_small);
    fill_pools();
}
