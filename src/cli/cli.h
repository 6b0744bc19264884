/* What all verbs share: printing, and telling a failure. Only src/cli prints. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

/* "coto: TEXT" and "  remedy: REMEDY" on stderr, control characters escaped;
 * returns the exit status of the kind. */
int coto_cli_fail(const struct coto_err *err);
/* That, or {"error":{"code","message","remedy"}} on stdout. */
int coto_cli_fail_as(bool json, const struct coto_err *err);

/* Writes a finished text to stdout. 0, or the exit status of a failed write. */
int coto_cli_print(const struct coto_buf *text);
/* The help of a verb (NULL: of coto) on stdout; returns 0. `extra` may be NULL. */
struct coto_args_flag;
int coto_cli_help_verb(const char *verb, const struct coto_args_flag *extra);
void coto_cli_help_text(const char *verb, const struct coto_args_flag *extra,
                        struct coto_buf *out);

/* Appends text with control characters, C1 controls, direction overrides and bad UTF-8
 * made visible. */
void coto_cli_add_visible(struct coto_buf *out, const char *text);

/* A table with aligned columns: cells row by row, the first row is the header. */
void coto_cli_add_table(struct coto_buf *out, const struct coto_strv *cells, size_t columns);
