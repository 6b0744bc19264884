/* The library's own parts. */
#pragma once

#include "init/spec.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* What template_go returns beside -1. */
enum { TEMPLATE_NEW_ENVIRONMENT = 1, TEMPLATE_IS_CONTEXT = 2 };

/* template.c. Returns in each copy, as template_go does; in the template only when the launcher
 * is gone, with -1. is_simple: one thread and nothing that has to be told of a fork. */
int template_serve(int control_fd, bool is_simple);
/* As serve, for an interpreter that is in the sandbox already, with the channel to init as its stdin:
 * nothing is forked. */
int template_park(void);
/* Comes back in the copy, behind all walls, when there is code to run; -1: never. `forget`: what there is to do when another
 * program has come, before it has its streams. */
int template_go(void (*forget)(void));
/* A context's program has ended with this status. 0: there may be another; -1: there is none. */
int template_done(int status);
/* What is to be run. */
const struct init_spec *template_program(void);

/* heap.c. As few of the template's pages as can be are written to, and so copied, by a copy. settle: when everything is
 * imported. fill: after a rehearsal, what that has given back. */
#define HUGE ((size_t)2 << 20)
void template_heap_settle(void);
void template_heap_fill(void);
void template_forget_arguments(void);

/* text.c. The interpreter's code and variables. huge: as many huge pages as lie between the two. */
void template_text_settle(void);
void template_huge(char *from, char *to);
char *template_next_huge(char *data);

/* library.c. The libraries it has loaded. */
void template_libraries_settle(void);
/* What is loaded of one, or of the interpreter itself; each begins where the one before it ends, at a page. */
struct template_parts {
    char *code;
    char *linked; /* read-only since it was linked */
    char *data, *zeros, *end;
};
/* false: there are holes in it, it is in another order, or nothing is written to. */
bool template_find_parts(const struct dl_phdr_info *object, struct template_parts *ret_parts);
bool template_is_interpreter(const struct dl_phdr_info *object);

/* hash.c. Texts that the template has not hashed are hashed in each copy with a secret of its own. begin:
 * before the interpreter's first text. settle: when everything is imported, what it knows goes into
 * `space` of that size (NULL: it stays). is_ready: this interpreter can be given another secret.
 * renew: in the copy; -1 when there are no random numbers. */
void template_hash_begin(void);
size_t template_hash_size(void);
void template_hash_settle(void *space);
bool template_hash_is_ready(void);
int template_hash_renew(void);
