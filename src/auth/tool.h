/* What coto-pki and coto-token share: verbs and flags as tables, help made from them, and
 * errors with remedies. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* A flag sets one of the three. */
struct coto_tool_flag {
    const char *name;    /* without dashes; NULL ends the table */
    const char *metavar; /* NULL: takes no value */
    const char *help;
    const char **value;      /* borrowed from argv */
    struct coto_strv *list;  /* may be given more than once; commas separate too */
    bool *is_set;
};

struct coto_tool_verb {
    const char *name; /* NULL ends the table */
    const char *operands;
    int least, most;   /* how many operands */
    const char *flags; /* " dir days " with a space around each */
    const char *help;
    int (*run)(char **operands, struct coto_err *err);
};

struct coto_tool {
    const char *name;  /* "pki" */
    const char *intro; /* what it is for, before the verbs in --help */
    const char *outro; /* examples, after the flags */
    const struct coto_tool_verb *verbs;
    const struct coto_tool_flag *flags;
};

/* Parses, runs, prints errors. The exit status. */
int coto_tool_main(const struct coto_tool *tool, char **argv);
/* Writes to standard output. */
int coto_tool_print(const struct coto_buf *text, struct coto_err *err);
/* Appends text from elsewhere so that a terminal shows it and does nothing else. */
void coto_tool_add_visible(struct coto_buf *out, const char *text);
/* "2026-11-15 08:30:21 UTC" */
void coto_tool_add_time(struct coto_buf *out, int64_t seconds);
