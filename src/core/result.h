/* Facts about a finished run, and the result made of them.
 *
 * Facts marked (host) are measured outside the sandbox; (init) are told by
 * coto-init before or after user code ran; nothing here is told by user code.
 */
#pragma once

#include "base/clock.h"
#include "base/str.h"
#include "drivers/driver.h"
#include "policy/plan.h"
#include "schema/verdict.h"
#include "schema/walls.h"

struct coto_stream_result {
    struct coto_buf data; /* kept bytes, when captured */
    int64_t seen;         /* bytes the program wrote */
    int64_t kept;         /* bytes passed on or captured */
    bool truncated;
    char last; /* last byte passed on, where it was seen; 0 unknown */
};

struct coto_artifact {
    char *name; /* relative to output/, as the program named it; raw bytes */
    int64_t bytes;
    const char *type; /* media type by extension */
    char sha256[COTO_SHA256_HEX];
    struct coto_buf content; /* its bytes, where is_kept */
    bool is_kept;
};

/* Why the host ended the run, if it did. */
enum coto_end_cause {
    COTO_END_SELF, /* the program ended by itself */
    COTO_END_WALL_TIME,
    COTO_END_CPU_TIME,
    COTO_END_MEMORY, /* the kernel would let it go on */
    COTO_END_OUTPUT,
    COTO_END_CANCEL,
    COTO_END_LIFETIME, /* its sandbox's time was over */
    COTO_END_LOST,
};

struct coto_facts {
    enum coto_end_cause cause;
    bool exited;      /* a wait status is known */
    int wait_status;  /* of the stage's main process (init) */
    int stage;        /* index of the last stage that ran */
    bool cpu_limited; /* the plan has a CPU-time limit, and it is used up */
    bool state_kept;  /* its interpreter waits, as it left it, for the next program (init) */
    bool state_found; /* it began where another program had left off (init) */
    bool disk_full;   /* a writable file system had no block or inode left (init) */
    struct coto_usage usage;
};

struct coto_result {
    char id[COTO_ID_TEXT];
    char profile[64];
    char policy_hash[COTO_SHA256_HEX];
    char code_hash[COTO_SHA256_HEX];
    char filter_hash[COTO_SHA256_HEX];
    char started_at[COTO_TIME_TEXT];
    const char *driver; /* "native", "subprocess", "oci", "docker" */
    char runtime[160];  /* of a container, with its version; "" none */
    const char *stage;  /* "build" or "run" */
    struct coto_facts facts;
    enum coto_verdict verdict;
    const char *limit; /* option name of the limit that ended it, or NULL */
    int exit_code;     /* program's own status, -1 when it has none */
    int signal;        /* signal that killed it, 0 none */
    int exit_status;   /* what the coto command exits with */
    int64_t duration_us;
    struct coto_stream_result out, err;
    struct coto_artifact *artifacts;
    size_t artifact_count;
    int64_t artifacts_skipped; /* links, devices, unreadable, over the limit */
    struct coto_wall_state walls[COTO_WALL_COUNT];
};

void coto_result_fini(struct coto_result *result);

/* The one function that turns facts into a word, the limit and the exit codes. */
void coto_verdict_decide(const struct coto_facts *facts, struct coto_result *result);
