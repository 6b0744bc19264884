/* Programs that belong to coto but are not linked into it (coto-policy, and
 * coto-VERB for verbs that need heavy libraries): where they are. */
#pragma once

#include "base/str.h"

#include <stddef.h>

/* Where make install puts them, seen from the directory of coto: an installed tree
 * works wherever it is moved to. */
#ifndef COTO_LIBEXEC_FROM_BIN
#define COTO_LIBEXEC_FROM_BIN "../libexec/coto"
#endif

/* Looked in before anything else when set; for tests that run in a build tree. */
extern const char *coto_helper_dir;

/* Path of an executable found beside the running program, in the libexec directory
 * of the tree it lies in, or in the one compiled in as COTO_LIBEXECDIR. 0, or -1 when
 * there is none. */
int coto_helper_find(const char *name, char *ret_path, size_t size);
/* The directories looked in, for messages: "/usr/bin, /usr/libexec/coto". */
void coto_helper_places(char *ret_text, size_t size);

/* Runs one with no descriptor but its three, no new privileges and no core; it dies with us. */
struct coto_helper_call {
    const char *path;
    char *const *argv;
    char *const *envp;
    int in_fd; /* above 2, see coto_helper_lift */
    unsigned cpu_seconds;
};
/* Its two outputs and wait status come back. It may write 4 KiB to stderr at most, and
 * after all of stdout or before a byte of it, so reading in turn cannot block it. */
int coto_helper_run(const struct coto_helper_call *call, struct coto_buf *answer,
                    struct coto_buf *complaint, int *ret_status);
/* Moves a descriptor above 2. */
int coto_helper_lift(int *fd);
