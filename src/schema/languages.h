/* Languages are data. One row: how a file of it is recognised, built and run,
 * which program that needs and which Debian package brings it, and the
 * hello-world that tests the row.
 *
 * In argument lists "{src}" is the path of the source inside the sandbox,
 * "{out}" a path for a built program, "{dir}" the workspace, "{scratch}" a
 * directory the tool may write to, "{memory}" the memory limit in bytes (an
 * argument that names it is left out when there is none). The program's own
 * arguments follow the run list. All lists end with NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define COTO_LANG_MAX_ARGS 12

struct coto_language {
    const char *name;
    const char *extensions; /* " .py .pyw " : each with its dot, spaces around */
    const char *shebangs;   /* " python python3 " : base names of the interpreter */
    const char *file;       /* name the code gets when it comes as text: "main.py" */
    const char *tool;       /* program that must exist in the sandbox */
    const char *package;    /* Debian package that provides it */
    const char *version;    /* for a shell: what the tool says of itself in its first line; NULL: nothing */
    bool by_extension;      /* the tool goes by the extension: a file has to have one of them */
    const char *build[COTO_LANG_MAX_ARGS]; /* empty: nothing to build */
    const char *run[COTO_LANG_MAX_ARGS];
    const char *env[8];     /* variables the tool needs, "K=V", NULL-terminated */
    const char *hello;      /* prints "hello from NAME\n" */
};

extern const struct coto_language coto_languages[];
extern const size_t coto_language_count;

/* By name (or alias such as "js", "cpp", "py"); NULL when unknown. */
const struct coto_language *coto_language_find(const char *name);
/* Whether the name ends in one of the language's extensions. */
bool coto_language_has_extension(const struct coto_language *language, const char *file_name);
/* By file name extension and first bytes (the #! line); NULL when unknown.
 * An ELF file is reported through *ret_is_elf. */
const struct coto_language *coto_language_detect(const char *file_name, const void *head,
                                                 size_t head_len, int *ret_is_elf);
