/* What a service answers: events as they come, or one object. All of it is another host's. */
#pragma once

#include "remote/artifacts.h"
#include "report/escape.h"

#include <stdbool.h>

struct coto_remote_answer {
    struct coto_remote_artifacts artifacts; /* dirfd -1: they are not wanted */
    bool json;                              /* the object itself is what the caller wants */
    bool raw;                               /* a terminal gets the program's own bytes */
    bool quiet;                             /* no closing line */
    int fds[2];                             /* for what the program writes */
    struct coto_escape escape[2];
    char last[2];       /* byte that was written; 0 none */
    struct coto_buf in; /* what came and is not dealt with */
    size_t looked;      /* bytes of it in which no event ends */
    bool has_result;
    int exit_status;
};

/* More of it; -1: nothing further is wanted, err says why. An event that is an error sets err
 * too, and is no reason to stop. */
int coto_remote_answer_add(struct coto_remote_answer *answer, const char *data, size_t len,
                           bool is_stream, struct coto_err *err);
/* One in one piece is all there: the result, or why there is none. */
void coto_remote_answer_end(struct coto_remote_answer *answer, long status, struct coto_err *err);
void coto_remote_answer_fini(struct coto_remote_answer *answer);
