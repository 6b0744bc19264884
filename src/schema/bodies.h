/* Every JSON object that goes in or out of the service, declared once: its fields with
 * type, range and meaning. A row feeds the check of requests (api/check.c), the OpenAPI
 * document and docs/API.md. To add a field, add a row in bodies.c and the code that honours it.
 */
#pragma once

#include "schema/options.h"

#include <stdint.h>

/* id, what it is. Requests first. */
#define COTO_BODIES(X)                                                                             \
    X(run, "Code to run in a new sandbox.")                                                        \
    X(create, "What the new sandbox is to be.")                                                    \
    X(execute, "Code to run in a sandbox.")                                                        \
    X(file, "A file for the workspace.")                                                           \
    X(extend, "How long a sandbox is to last from now on.")                                        \
    X(revoke, "A token that is to be good no longer.")                                             \
    X(result, "How a program ended, what it wrote, and which walls were up around it.")            \
    X(execution, "How an execution in a sandbox ended, and what it wrote.")                        \
    X(event_start, "Data of the first event of a stream.")                                         \
    X(event_output, "Data of an event with output; events of one stream, joined, are all of it.")  \
    X(metrics_of, "What an execution used.")                                                       \
    X(cpu, "CPU time of the whole process tree. Where no group of the kernel counts it (cgroup v1 or without root, unless `cpu_time` limits it) that of processes somebody has waited for: a program can keep its children out.")                                                  \
    X(artifact, "A file that the program left in output/.")                                        \
    X(artifacts, "Files in output/ of the sandbox.")                                               \
    X(accepted, "An execution that goes on without the caller.")                                   \
    X(record, "What is kept of an execution: neither code nor output.")                            \
    X(records, "The caller's executions, newest first.")                                           \
    X(callback, "How an async execution ended, as it is posted to `callback_url`.")                \
    X(created, "The new sandbox.")                                                                 \
    X(sandbox, "A sandbox.")                                                                       \
    X(in_force, "Limits of a sandbox, the defaults too; null: none.")                                 \
    X(sandboxes, "The caller's sandboxes.")                                                        \
    X(destroyed, "The end of a sandbox.")                                                          \
    X(revoked, "The end of a token.")                                                              \
    X(stored, "A file that was written.")                                                          \
    X(unpacked, "An archive that was unpacked.")                                                   \
    X(removed, "A file or directory that is gone.")                                                \
    X(entry, "A name in a directory.")                                                             \
    X(directory, "What a directory holds.")                                                        \
    X(capabilities, "What this host enforces, as read back from a sandbox of the default policy.") \
    X(high, "What isolation_level high stands for on this service.")                              \
    X(front, "The walls around the process that answers here, as its kernel confirms them.")       \
    X(privileged, "The walls around a process of the service that has rights, as its kernel confirms them.") \
    X(wall, "A wall or limit.")                                                                    \
    X(health, "How the service is.")                                                               \
    X(error, "Why a request was refused. Programs that fail are no errors: see verdict.")

enum coto_body {
    COTO_BODY_none,
    COTO_BODY_bytes, /* any bytes */
    COTO_BODY_tar,
    COTO_BODY_text,
    COTO_BODY_json, /* a document of its own */
#define X(id, doc) COTO_BODY_##id,
    COTO_BODIES(X)
#undef X
        COTO_BODY_COUNT
};
#define COTO_BODY_FIRST COTO_BODY_run
#define COTO_BODY_LAST_REQUEST COTO_BODY_revoke

enum coto_kind {
    COTO_KIND_TEXT,   /* max: bytes */
    COTO_KIND_NAME,   /* the same without controls: it is told in logs and tables */
    COTO_KIND_WORD,   /* one of `words` */
    COTO_KIND_UUID,
    COTO_KIND_TIME,   /* UTC, RFC 3339 */
    COTO_KIND_INT,    /* min to max */
    COTO_KIND_NUMBER, /* above min, at most max */
    COTO_KIND_BOOL,
    COTO_KIND_ANY,    /* any JSON value */
    COTO_KIND_TEXTS,  /* list of texts; max: how many */
    COTO_KIND_PAIRS,  /* object of texts; max: how many */
    COTO_KIND_OBJECT, /* of another body */
    COTO_KIND_LIST,   /* of another body; max: how many */
    COTO_KIND_MAP,    /* names to objects of another body */
    COTO_KIND_LIMITS, /* object of COTO_LIMITS */
    COTO_KIND_OUTCOME, /* what POST run or execute would have answered */
};

enum { COTO_FIELD_MUST = 1, COTO_FIELD_NULL = 2 /* may be null */ };

#define COTO_API_TIMEOUT 300 /* seconds */
#define COTO_API_LIFETIME 604800

struct coto_body_field {
    uint64_t bodies;
    const char *name;
    enum coto_kind kind;
    enum coto_body of;
    unsigned flags;
    int64_t min, max; /* max 0: none */
    const char *words;
    const char *doc;
};
extern const struct coto_body_field coto_body_fields[];
extern const unsigned coto_body_field_count;

struct coto_body_info {
    const char *name; /* of the schema; "" for what is no JSON object of ours */
    const char *doc;
};
extern const struct coto_body_info coto_bodies[COTO_BODY_COUNT];

/* A limit that a caller may set. Its meaning and range are in schema/options.h. */
struct coto_limit_row {
    const char *name;
    enum coto_opt opt;
    const char *unit;    /* "m": its numbers are MiB, and it takes no unit */
    const char *ceiling; /* the most the service allows; "": as the option's own range */
};
extern const struct coto_limit_row coto_limits[];
extern const unsigned coto_limit_count;

/* The row of a field, or NULL. */
const struct coto_body_field *coto_body_field(enum coto_body body, const char *name);
const struct coto_limit_row *coto_limit_find(const char *name);
