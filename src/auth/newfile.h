/* Files of keys and certificates: right from the start of their lives, never overwritten. */
#pragma once

#include "base/err.h"
#include "base/str.h"

/* A new file of exactly that mode, on disk when this returns; refused when the name exists. */
int coto_newfile_write(int dirfd, const char *name, unsigned mode, const struct coto_buf *text,
                       struct coto_err *err);
/* The same for a file that is there: it is the old or the new one at any time. */
int coto_newfile_replace(int dirfd, const char *name, unsigned mode, const struct coto_buf *text,
                         struct coto_err *err);
/* A directory (0700) with those above it (0755), as far as they are not there. */
int coto_newfile_make_dir(const char *dir, struct coto_err *err);
#define COTO_NEWFILE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
/* 1 to 64 letters, digits, '.', '_', '-', not beginning with '.' or '-'. */
int coto_newfile_check(const char *name, struct coto_err *err);
