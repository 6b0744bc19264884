/* The two folders of coto test: what the student handed in, and the tests that
 * are laid over it. Read by descriptor, links never followed. */
#pragma once

#include "base/err.h"
#include "schema/runners.h"

#include <stdbool.h>

struct coto_testdirs {
    char *submission; /* canonical paths */
    char *tests;      /* NULL: the submission brings its own */
    int submission_fd;
    int tests_fd;
};

int coto_testdirs_open(const char *submission, const char *tests, struct coto_testdirs *ret_dirs,
                       struct coto_err *err);
void coto_testdirs_close(struct coto_testdirs *dirs);

/* Whether each file of the tests can take its place: where they have a file,
 * the submission must have a file or nothing; where they have a directory, a
 * directory or nothing. A link in the way would send a test elsewhere. Nor may the
 * submission have what make or Python would read instead of a test's file. */
int coto_testdirs_check(const struct coto_testdirs *dirs, struct coto_err *err);

/* The first runner whose files are in the tests; only where they have none of
 * any runner's, in the submission: it must not choose who judges it. `rootfs` is the root file
 * system of the sandbox, "" for the host's. */
int coto_testdirs_detect(const struct coto_testdirs *dirs, const char *rootfs,
                         const struct coto_runner **ret_runner, struct coto_err *err);

/* Whether a file (relative to the workspace) holds a text. */
bool coto_testdirs_file_holds(const struct coto_testdirs *dirs, const char *path,
                              const char *text);
