/* Files that the program left, from the service's words to a directory here. */
#pragma once

#include "base/err.h"

#include <jansson.h>

/* Writes one; name and bytes are another host's. */
int coto_remote_artifact(int dirfd, const json_t *artifact, struct coto_err *err);
/* Those of a result. One that has no bytes there, and did not come before, is an error. */
int coto_remote_artifacts(int dirfd, const json_t *result, struct coto_err *err);
