/* What the two ends of an async execution share: async.c is the front's, apart.c the process's that
 * runs it. */
#pragma once

#include "api/api.h"

#include <stdio.h>

#define API_ASYNC_PATH 4200

/* Descriptors that go to the starter with a job. */
enum { API_ASYNC_REQUEST, API_ASYNC_CHANNEL, API_ASYNC_LOCK, API_ASYNC_CANCEL, API_ASYNC_SPARE, API_ASYNC_FDS };

/* Read by this build, or one that was compiled from the same lines, and by nobody else. */
struct api_outcome {
    char build[32];
    struct coto_err err;
    char field[64];
    int status;
    bool has_result, lost;
    unsigned next_proc;
    struct coto_met before; /* with this one's */
    enum coto_verdict verdict;
    struct coto_facts facts;
    int exit_code;
    int64_t duration_us;
    char started_at[COTO_TIME_TEXT];
    char code_hash[COTO_SHA256_HEX], policy_hash[COTO_SHA256_HEX];
};
extern const char api_build[32];

static inline const char *api_async_path(const struct coto_api *api, const char *id,
                                         const char *what, char to[API_ASYNC_PATH])
{
    snprintf(to, API_ASYNC_PATH, "%s/async/%s%s%s", api->config.state_dir, id, *what ? "." : "", what);
    return to;
}
