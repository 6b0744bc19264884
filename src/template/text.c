/* The interpreter's code and variables, so that copies are cheap (heap.c).
 *
 * A page of a file is not copied by a fork but found again at its first use, which is a fault each, some forty of the
 * interpreter's own code in the shortest program; where its mapping has a page of its own all of them are copied, one by one.
 * So the code is copied to huge pages, once, which take its place: an entry each, and none to find. All of them can be
 * executed, the constants among the code too: a huge page has one protection. Where there are none to have, one page of each
 * of its mappings is written to, with what it has.
 *
 * Of its variables some are written to by each program, all over them. They are put where a huge page was made
 * and taken apart again: the kernel copies and drops the entries of such pages many at a time.
 *
 * Nobody else runs meanwhile, and what runs is of other files.
 */
#include "template/template.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

char *template_next_huge(char *data)
{
    return data + (HUGE - (uintptr_t)data % HUGE) % HUGE;
}

void template_huge(char *from, char *to)
{
    char *first = template_next_huge(from);
    char *last = (char *)((uintptr_t)to / HUGE * HUGE);

    /* MADV_HUGEPAGE, with which the kernel does it some time, would make it a mapping apart. */
    if (last > first && madvise(first, (size_t)(last - first), MADV_COLLAPSE))
        madvise(first, (size_t)(last - first), MADV_HUGEPAGE);
}

/* A copy of what is there takes its place. */
static int replace(char *from, size_t len, int protection)
{
    size_t size = (len + HUGE - 1) / HUGE * HUGE;
    char *data = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (data == MAP_FAILED)
        return -1;
    char *space = template_next_huge(data);
    int failed = madvise(space, size, MADV_HUGEPAGE);
    memcpy(space, from, len);
    /* Kernels that do not know it (EINVAL) have made them huge when they were written to. */
    failed = failed || (madvise(space, size, MADV_COLLAPSE) && errno != EINVAL) || mprotect(space, len, protection) ||
             mremap(space, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, from) != from;
    munmap(data, size + HUGE);
    return failed ? -1 : 0;
}

/* By the protection of the whole, so that it stays one mapping, and not by /proc/self/mem: a template whose files are all
 * read-only (launcher/view.c) cannot write to that. */
static void own_a_page(char *from, char *to, int protection)
{
    if (from >= to || mprotect(from, (size_t)(to - from), protection | PROT_WRITE))
        return;
    *(volatile char *)from = *from;
    mprotect(from, (size_t)(to - from), protection);
}

static void own_pages(const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t address = object->dlpi_addr + part->p_vaddr;
        char *from = (char *)(address - address % (uintptr_t)sysconf(_SC_PAGESIZE));
        if (part->p_type == PT_LOAD && !(part->p_flags & PF_W))
            own_a_page(from, (char *)(address + part->p_memsz), PROT_READ | (part->p_flags & PF_X ? PROT_EXEC : 0));
    }
}

static int settle(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct template_parts it;

    (void)size;
    (void)arg;
    if (!template_is_interpreter(object))
        return 0;
    if (!template_find_parts(object, &it)) {
        own_pages(object);
        return 0;
    }
    char *first = template_next_huge(it.code);
    char *last = (char *)((uintptr_t)it.linked / HUGE * HUGE);
    if (first >= last || replace(first, (size_t)(last - first), PROT_READ | PROT_EXEC))
        own_pages(object);
    else if (it.data < it.zeros)
        replace(it.data, (size_t)(it.zeros - it.data), PROT_READ | PROT_WRITE);
    return 0;
}

void template_text_settle(void)
{
    dl_iterate_phdr(settle, NULL);
}
