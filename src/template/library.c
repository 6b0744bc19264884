/* The libraries the interpreter has loaded, so that copies are cheap (heap.c).
 *
 * To fork is to copy a description of every mapping, and there are five to a library: what stands before its code, its code,
 * its constants, what was read-only once it was linked, and its variables. Twenty of them are loaded by the usual modules, and
 * the shortest program uses none. What was linked and the variables are pages of the template's own besides, each of which
 * would be copied.
 *
 * So what they are now is written to a file in memory, which nobody can change any more, and mapped where it was: all that is only
 * read as one mapping, executable, and the variables as another. A copy has pages of its own there when it writes to them.
 *
 * What runs meanwhile keeps its variables where they are. Where the host forbids any of this it stays as it was.
 */
#include "template/template.h"

#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_MAX ((size_t)2 << 20) /* of a larger one only what would be copied */
#define DATA_MAX ((size_t)1 << 20) /* more is mostly zeros, of which no page is there yet */
#define TOTAL_MAX ((off_t)16 << 20)

static char *page_of(uintptr_t address)
{
    return (char *)(address - address % (uintptr_t)sysconf(_SC_PAGESIZE));
}

bool template_is_interpreter(const struct dl_phdr_info *object)
{
    return object->dlpi_name[0] == '\0' || strstr(object->dlpi_name, "/libpython");
}

bool template_find_parts(const struct dl_phdr_info *object, struct template_parts *ret_parts)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct template_parts it = {0};
    char *fixed = NULL, *fixed_from = NULL;

    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t from = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_RELRO) {
            fixed_from = page_of(from);
            fixed = page_of(from + part->p_memsz);
        }
        if (part->p_type != PT_LOAD)
            continue;
        if ((it.end && page_of(from) > it.end) || (it.linked && !(part->p_flags & PF_W)) || (part->p_flags & PF_W && part->p_flags & PF_X))
            return false;
        if (!it.code)
            it.code = page_of(from);
        if (part->p_flags & PF_W && !it.linked)
            it.linked = page_of(from);
        it.zeros = page_of(from + part->p_filesz + page - 1);
        it.end = page_of(from + part->p_memsz + page - 1);
    }
    it.data = fixed > it.linked ? fixed : it.linked;
    *ret_parts = it;
    return it.linked && it.data < it.end && (!fixed || fixed_from == it.linked);
}

struct library_file {
    int fd;
    off_t end;
    struct mapping {
        char *from, *to;
        int protection;
        off_t at;
    } mappings[256];
    size_t count;
};

/* ---- what is mapped ---- */

static struct {
    const char *from, *to;
    bool is_read, is_written; /* only that, and by nobody else; neither of them: in another way */
} mapped[2048];
static size_t mapped_count;

/* "7f8a2000-7f8a4000 r-xp 00000000 fe:00 332870   /usr/lib/..." */
static void read_maps(void)
{
    coto_auto_fd fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    coto_auto_buf text = {0};

    if (fd < 0 || coto_fd_read_all(fd, (size_t)1 << 20, &text))
        return;
    for (const char *line = coto_buf_str(&text); *line && mapped_count < sizeof mapped / sizeof mapped[0]; mapped_count++) {
        char *rest;
        mapped[mapped_count].from = (const char *)strtoul(line, &rest, 16);
        mapped[mapped_count].to = (const char *)strtoul(rest + (*rest == '-'), &rest, 16);
        mapped[mapped_count].is_read = strncmp(rest, " r--p ", 6) == 0 || strncmp(rest, " r-xp ", 6) == 0;
        mapped[mapped_count].is_written = strncmp(rest, " rw-p ", 6) == 0;
        line = strchr(rest, '\n');
        if (!line++)
            return;
    }
}

/* Who has loaded it may have given pages of it to something else. */
static bool is_mapped(const char *from, const char *to, bool is_written)
{
    const char *at = from;

    for (size_t i = 0; i < mapped_count && at < to; i++) {
        if (mapped[i].to <= at)
            continue;
        if (mapped[i].from > at || !(is_written ? mapped[i].is_written : mapped[i].is_read))
            return false;
        at = mapped[i].to;
    }
    return at >= to;
}

/* ---- what takes its place ---- */

/* As they are now, to be mapped once all are there. */
static void add(struct library_file *file, char *from, char *to, int protection)
{
    const size_t len = (size_t)(to - from);

    if (from >= to || !is_mapped(from, to, protection & PROT_WRITE) || file->count == sizeof file->mappings / sizeof file->mappings[0] ||
        file->end + (off_t)len > TOTAL_MAX || pwrite(file->fd, from, len, file->end) != (ssize_t)len)
        return;
    file->mappings[file->count++] = (struct mapping){from, to, protection, file->end};
    file->end += (off_t)len;
}

static bool contains(const struct template_parts *it, const void *address)
{
    return (const char *)address >= it->code && (const char *)address < it->end;
}

static int add_object(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct library_file *file = arg;
    struct template_parts it;

    (void)size;
    if (template_is_interpreter(object) || !template_find_parts(object, &it) || contains(&it, (void *)getauxval(AT_SYSINFO_EHDR)))
        return 0;
    bool runs = contains(&it, (void *)add_object) || strstr(object->dlpi_name, "/libc.so") || strstr(object->dlpi_name, "/ld-linux");
    if ((size_t)(it.data - it.code) <= CODE_MAX)
        add(file, it.code, it.data, PROT_READ | PROT_EXEC);
    else
        add(file, it.linked, it.data, PROT_READ);
    if (!runs && (size_t)(it.end - it.data) <= DATA_MAX)
        add(file, it.data, it.end, PROT_READ | PROT_WRITE);
    return 0;
}

void template_libraries_settle(void)
{
    static struct library_file file; /* far too large for a stack that copies write to */
    coto_auto_fd fd = memfd_create("python3", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    file.fd = fd;
    if (fd < 0)
        return;
    read_maps();
    dl_iterate_phdr(add_object, &file);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
        return;
    for (size_t i = 0; i < file.count; i++) {
        const struct mapping *it = &file.mappings[i];
        if (mmap(it->from, (size_t)(it->to - it->from), it->protection, MAP_PRIVATE | MAP_FIXED, fd, it->at) == MAP_FAILED)
            return;
    }
}
