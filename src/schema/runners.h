/* Test runners are data. One row: which files make a folder its own, what it
 * needs, the shell text that runs it, and how its output is read.
 *
 * The text is run by sh in the workspace, after coto_runner_prelude, with stderr
 * joined to stdout so that the order of lines is kept. Rows are tried in order;
 * the first that fits is taken.
 */
#pragma once

#include <stddef.h>

/* Where tests run when the workspace is read-only. */
#define COTO_RUNNER_COPY "/tmp/work"

enum coto_runner_format {
    COTO_FORMAT_GO,       /* go test -v */
    COTO_FORMAT_PYTEST,   /* pytest -v */
    COTO_FORMAT_UNITTEST, /* unittest -v */
    COTO_FORMAT_TAP,      /* node --test */
    COTO_FORMAT_CTEST,    /* ctest */
    COTO_FORMAT_MAKE,     /* TAP, or PASS: and FAIL: lines, or nothing but a status */
};

struct coto_runner {
    const char *name;
    const char *files;   /* " *_test.go go.mod ": shell patterns of base names, any one */
    const char *target;  /* such a file must have this make target; NULL: no matter */
    const char *module;  /* globs with spaces between; a file of one of them must exist in the
                            sandbox; NULL: none */
    const char *tool;    /* program that must exist in the sandbox */
    const char *package; /* Debian package that provides it */
    const char *script;
    enum coto_runner_format format;
};

extern const struct coto_runner coto_runners[];
extern const size_t coto_runner_count;
extern const char coto_runner_prelude[];

/* By name; NULL when unknown. */
const struct coto_runner *coto_runner_find(const char *name);
