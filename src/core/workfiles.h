/* Files of a sandbox in which nothing runs: put, get, list, collect, remove. coto-init does
 * it all, inside; here are the frames. Blocking, with a deadline on every step; the sandbox
 * belongs to the caller meanwhile.
 *
 * Functions return 0 or -1 with an error. When files->lost is set after one, the talk with
 * init broke off in the middle and the sandbox cannot be used any more.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "drivers/driver.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct coto_workfiles {
    struct coto_sandbox *sandbox;
    int cancel_fd; /* readable: give up; -1 none */
    bool lost;
    /* inside */
    struct coto_frame_reader reader;
    struct coto_buf out;
    struct coto_err put_err; /* what init said about a file that is on its way in */
    uint64_t names_left; /* that init was asked for; what comes past them is not its doing */
    int64_t bytes_left;
};
void coto_workfiles_fini(struct coto_workfiles *files);

/* ---- in ---- */

/* A file begins; `more` pieces follow or not. */
int coto_workfiles_put(struct coto_workfiles *files, const char *path, unsigned mode, const void *data,
                   size_t len, bool more, struct coto_err *err);
int coto_workfiles_put_more(struct coto_workfiles *files, const void *data, size_t len, bool more,
                        struct coto_err *err);
int coto_workfiles_mkdir(struct coto_workfiles *files, const char *path, struct coto_err *err);
/* Waits until all of it has happened; tells what did not, and the size of the file at path. */
int coto_workfiles_settle(struct coto_workfiles *files, const char *path, int64_t *ret_bytes,
                      struct coto_err *err);
int coto_workfiles_remove(struct coto_workfiles *files, const char *path, struct coto_err *err);

/* ---- out ---- */

/* What comes out; a function that returns other than 0 wants no more: the rest is thrown
 * away. name is as init sent it: any bytes but NUL. */
struct coto_workfiles_take {
    int (*begin)(void *arg, const char *name, mode_t mode, int64_t bytes);
    int (*data)(void *arg, const void *data, size_t len);
    void *arg;
    int64_t skipped; /* out */
};
/* A file ("." and its bytes; without them when it is larger than max) or a directory ("." and its names, at most max_names). */
int coto_workfiles_get(struct coto_workfiles *files, const char *path, int64_t max, unsigned max_names,
                   struct coto_workfiles_take *take, struct coto_err *err);
/* Every regular file below a directory, by its path from there. */
int coto_workfiles_collect(struct coto_workfiles *files, const char *path, int64_t max, unsigned max_files,
                       struct coto_workfiles_take *take, struct coto_err *err);
