/* The template's memory, so that copies are cheap.
 *
 * To fork is to copy an entry for every page, and to end a process is to drop each of them: the
 * interpreter's own heap is put into huge pages, of which there are two where there were a thousand.
 * The first write of a copy takes one apart, for itself, which still costs less.
 *
 * A page of a file is not copied by a fork but found again at its first use, which is a fault each, some forty
 * of the interpreter's own code in the shortest program; unless its mapping has a page of its own. So one page of it is
 * written to, with what it has.
 *
 * Then every page that a copy writes to is copied. What it allocates would fill the holes all
 * over the heap, a page each; so the holes are filled before, once, and a copy's new objects lie
 * together on pages that nothing else is on.
 */
#include "template/python.h"
#include "template/template.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE ((size_t)2 << 20)
#define ARENAS (16 * HUGE)
#define TOP (256 * 1024) /* free memory at the end of the heap */
#define SMALL_MAX 512 /* larger objects are the C library's */
#define POOL 16384
#define FIRST_IN_POOL 48

static struct python_arenas usual;
static char *arenas, *arenas_next, *arenas_end;
static char *arguments, *arguments_end; /* where the kernel reads /proc/self/cmdline */

static void *new_arena(void *ctx, size_t size)
{
    (void)ctx;
    if ((size_t)(arenas_end - arenas_next) < size)
        return usual.alloc(usual.ctx, size);
    void *data = arenas_next;
    arenas_next += size;
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

/* The C library's heap goes on at the next huge page. */
static void align_heap(void)
{
    sbrk((intptr_t)((HUGE - (uintptr_t)sbrk(0) % HUGE) % HUGE));
}

static void begin(void)
{
    struct python_arenas own = {NULL, new_arena, drop_arena};
    char *data = mmap(NULL, ARENAS + HUGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    align_heap();
    if (data == MAP_FAILED)
        return;
    arenas = arenas_next = data + (HUGE - (uintptr_t)data % HUGE) % HUGE;
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

/* Until one comes from where nothing was before. */
static void fill_pools(void)
{
    for (size_t size = 16; size <= SMALL_MAX; size += 16)
        for (size_t i = 0; i < 16 * POOL / size; i++) {
            void *data = PyObject_Malloc(size);
            if (!data || (uintptr_t)data % POOL == FIRST_IN_POOL)
                break;
        }
}

static void fill_bins(void)
{
    const char *top = (const char *)sbrk(0) - mallinfo2().keepcost;

    /* The small ones are all the sizes there are: 8 of a chunk's 16 bytes are not the caller's. */
    for (size_t size = 65536; size >= 24; size = size > 1160 ? size * 7 / 8 : (size - 24) / 16 * 16 + 8)
        for (int i = 0; i < 10000; i++) {
            /* That it stays is what it is for; volatile, or the compiler leaves it out. */
            char *volatile data = malloc(size);
            if (!data || data >= top)
                break;
        }
}

/* What children will not use ends here, and is never asked of the kernel. */
static void use_huge_pages(char *from, char *to)
{
    char *first = (char *)(((uintptr_t)from + HUGE - 1) / HUGE * HUGE);
    char *last = (char *)((uintptr_t)to / HUGE * HUGE);

    if (last <= first)
        return;
    madvise(first, (size_t)(last - first), MADV_HUGEPAGE);
    madvise(first, (size_t)(last - first), MADV_COLLAPSE);
}

/* By the protection of the whole, so that it stays one mapping, and not by /proc/self/mem: a template whose files are all
 * read-only (launcher/view.c) cannot write to that. Nobody else runs meanwhile. Where the host forbids it a copy has its faults. */
static int own_a_page(struct dl_phdr_info *object, size_t size, void *arg)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    bool is_used = object->dlpi_name[0] == '\0' || strstr(object->dlpi_name, "/libc.so");

    (void)size;
    (void)arg;
    for (int i = 0; is_used && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        char *first = (char *)((object->dlpi_addr + part->p_vaddr) / page * page);
        size_t len = object->dlpi_addr + part->p_vaddr + part->p_memsz - (uintptr_t)first;
        int protection = PROT_READ | (part->p_flags & PF_X ? PROT_EXEC : 0);
        if (part->p_type != PT_LOAD || part->p_flags & PF_W || mprotect(first, len, protection | PROT_WRITE))
            continue;
        *(volatile char *)first = *first;
        mprotect(first, len, protection);
    }
    return 0;
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
    malloc_trim(TOP);
    dl_iterate_phdr(own_a_page, NULL);
    fill_bins();
    fill_pools();
    char *heap_end = sbrk(0);
    align_heap();
    use_huge_pages(heap_end - mallinfo2().arena, sbrk(0));
    if (!arenas)
        return;
    template_hash_settle(take(template_hash_size()));
    char *used = arenas + ((size_t)(arenas_next - arenas) + HUGE - 1) / HUGE * HUGE;
    use_huge_pages(arenas, used);
}
