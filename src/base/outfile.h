/* Files below a directory of the caller whose names somebody else chose. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Relative, and each part of it an ordinary name. */
bool coto_outfile_is_safe(const char *name, size_t len);
/* Creates it anew, with the directories above it; what has the name is replaced, never opened and
 * never followed. fd or -1 with errno. */
int coto_outfile_create(int dirfd, const char *name);
void coto_outfile_remove(int dirfd, const char *name);
