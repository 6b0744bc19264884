/* Files that the program left, from the service's words to a directory here. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>

struct coto_remote_artifacts {
    int dirfd;
    struct coto_strv came; /* names of those that are written */
    size_t told;           /* of them, what a result has named so far */
};

/* Writes one; name and bytes are another host's. */
int coto_remote_artifact(struct coto_remote_artifacts *to, const json_t *artifact,
                         struct coto_err *err);
/* Those of a result. One that has no bytes there, and did not come before, is an error. */
int coto_remote_artifacts(struct coto_remote_artifacts *to, const json_t *result,
                          struct coto_err *err);
