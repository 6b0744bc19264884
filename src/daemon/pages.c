#include "daemon/pages.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the linker has filled in lies in segments that can be written, also where it is read-only by now (RELRO). What was
 * changed in code goes: an operator's uprobes in libraries are to be set after the start. */
static int let_go(struct dl_phdr_info *info, size_t size, void *arg)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W))
            continue;
        uintptr_t from = (info->dlpi_addr + part->p_vaddr) & ~(page - 1);
        uintptr_t to = info->dlpi_addr + part->p_vaddr + part->p_filesz;
        madvise((void *)from, to - from, MADV_DONTNEED); /* the kernel's own page refuses */
    }
    return 0;
}

void coto_pages_let_go(void)
{
    malloc_trim(0);
    dl_iterate_phdr(let_go, NULL);
}
