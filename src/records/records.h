/* What the service remembers: executions, sandboxes, revoked tokens and the answers to
 * requests that carry a key. SQLite in one directory that belongs to one daemon.
 *
 * Theory of operation. One thread writes: it takes what was put and commits it as one transaction,
 * so that a hundred callers share one wait for the disk. A record with a `done` function is
 * committed at once and that function is called on the loop when the record is on the disk, or
 * when it could not be written. A record without one may wait some milliseconds for company.
 * The start of an execution is such a record; when the end comes first, the end alone is written.
 * Reads use a second connection and block: call them from a worker, never from the loop.
 *
 * When the disk is full or broken every `done` hears of it, coto_records_check says so until
 * a later attempt succeeds, and nothing here ends the process.
 *
 * Never kept: code, output, environment, tokens; with two exceptions. The kept answer of a keyed
 * request has the output of that one run; it is removed after a day. The request of an async
 * execution is kept until that has ended, and then its result for ten minutes, so that both
 * outlive the process that has accepted it.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define COTO_RECORD_ID 37
#define COTO_RECORD_NAME 129
#define COTO_RECORD_KEY 320

/* When a `done` function is called. */
enum coto_durable {
    COTO_DURABLE_PROMISES, /* on the disk what somebody comes back for, the rest written */
    COTO_DURABLE_DISK,   /* on the disk: survives a power failure */
    COTO_DURABLE_KERNEL, /* written: survives the end of this process, not of the machine */
    COTO_DURABLE_OFF,    /* at once: what was put last may be lost */
};
/* "promises", "disk", "kernel", "off". */
int coto_durable_parse(const char *text, enum coto_durable *ret_durable);

struct coto_execution {
    char id[COTO_RECORD_ID];
    char tenant[COTO_RECORD_NAME];
    char sandbox[COTO_RECORD_ID]; /* "" when it had one of its own */
    char agent[COTO_RECORD_NAME]; /* "" none */
    char started[COTO_TIME_TEXT];
    char verdict[16];    /* or "queued"; "" while it runs; "error": coto failed; "interrupted": so
                            did the service */
    int64_t duration_us; /* -1 unknown, as below */
    int exit_code;       /* -1 none */
    char code_hash[COTO_SHA256_HEX];
    char policy_hash[COTO_SHA256_HEX];
    int64_t cpu_us, memory_peak_bytes;
};

struct coto_sandbox_record {
    char id[COTO_RECORD_ID];
    char tenant[COTO_RECORD_NAME];
    char agent[COTO_RECORD_NAME];
    char created[COTO_TIME_TEXT];
    const char *state; /* "alive", "destroyed", "expired", "lost"; recovery: "interrupted" */
    char token_hash[COTO_SHA256_HEX];
    int64_t lifetime_ms, idle_ms; /* 0: the operator's */
};

/* What the next process must know of one that goes on. */
struct coto_sandbox_kept {
    unsigned executions;
    int64_t lifetime_ms, idle_ms;
};

struct coto_revoked {
    char id[COTO_RECORD_NAME]; /* jti */
    char tenant[COTO_RECORD_NAME];
    int64_t expires; /* Unix seconds. By whose clock that has come is not decided here: the row stays until it is forgotten */
};

/* The answer to a request with an Idempotency-Key. */
struct coto_kept {
    char tenant[COTO_RECORD_NAME];
    char key[COTO_RECORD_KEY];
    char request_hash[COTO_SHA256_HEX]; /* of method, path and body */
    int status;
    struct coto_buf reply;
};

/* Of an async execution. */
struct coto_promise {
    struct coto_buf request; /* with "queued": what was accepted; kept until there is an outcome */
    struct coto_buf outcome; /* with its end */
    struct coto_buf instead; /* of it, where too many wait for a disk that is full; empty: nothing is */
    bool is_guests;          /* whoever asked had the token of the sandbox only */
};

enum coto_record_kind {
    COTO_RECORD_EXECUTION,
    COTO_RECORD_SANDBOX,
    COTO_RECORD_REVOKED,
    COTO_RECORD_FORGOTTEN /* a revoked token is of no interest any more */
};

/* Called on the loop; err is NULL when the record is durable. */
typedef void coto_records_fn(void *arg, const struct coto_err *err);

struct coto_record {
    enum coto_record_kind kind;
    union {
        struct coto_execution execution;
        struct coto_sandbox_record sandbox;
        struct coto_revoked revoked;
    } u;
    struct coto_kept *kept; /* committed with it; owned, may be NULL */
    struct coto_promise *promise; /* the same */
    coto_records_fn *done;  /* NULL: nobody waits */
    void *arg;
    /* of the writer */
    struct coto_err err;
    int64_t due_us;
    struct coto_record *next;
};

struct coto_records_config {
    const char *dir;
    int claim_fd; /* of coto_records_claim; taken, also on failure */
    struct coto_loop *loop;
    enum coto_durable durable;
    unsigned keep_days; /* executions and sandboxes that ended; 0: 30 */
    int64_t keep_rows;  /* executions, and ended sandboxes, at most; 0: a million */
    int64_t keep_bytes; /* of answers with a key, and of results of async executions; 0: 64 MiB */
};

struct coto_records;

/* Whether another service has it; one that is not there yet nobody has. */
int coto_records_check_claim(const char *dir, unsigned uid, struct coto_err *err);
/* Makes the directory when it is not there, checks that it is private, gives it to uid (when the
 * caller is root) and locks it for as long as *ret_fd is open: a second daemon is refused. */
int coto_records_claim(const char *dir, unsigned uid, unsigned gid, int *ret_fd,
                       struct coto_err *err);
/* Opens or makes the database, marks what an earlier life left running as interrupted and
 * starts the writer. A database that is damaged or of a newer coto is refused and left as it is. */
int coto_records_open(const struct coto_records_config *config, struct coto_records **ret_records,
                      struct coto_err *err);
/* Writes what was put, then closes. `done` functions are still called by the loop. NULL is fine. */
void coto_records_close(struct coto_records *records);

/* ---- writing; from any thread ---- */

struct coto_record *coto_record_new(enum coto_record_kind kind); /* NULL: no memory */
struct coto_promise *coto_record_promise(struct coto_record *record); /* makes it; NULL: no memory */
void coto_record_free(struct coto_record *record);
void coto_records_put(struct coto_records *records, struct coto_record *record); /* takes it */
/* 0, or -1 with why records cannot be written at present. */
int coto_records_check(struct coto_records *records, struct coto_err *err);

struct coto_records_stats {
    uint64_t rows, commits, failed; /* written, transactions, rows that were given up */
    uint64_t synced;                /* of the transactions, those that waited for the disk */
    uint64_t waiting;               /* put and not yet written */
    uint64_t merged;                /* starts whose end came first */
    unsigned interrupted;           /* executions found running at the start */
};
void coto_records_get_stats(struct coto_records *records, struct coto_records_stats *ret_stats);

/* ---- reading; blocks ---- */

struct coto_records_query {
    const char *tenant;
    const char *sandbox; /* NULL: all */
    const char *before;  /* id of an execution: those older than it; NULL: the newest */
    unsigned limit;
};
typedef void coto_execution_fn(void *arg, const struct coto_execution *execution);

/* 1 found, 0 not there or somebody else's, -1. */
int coto_records_get(struct coto_records *records, const char *tenant, const char *id,
                     struct coto_execution *ret_execution, struct coto_err *err);
/* Newest first. 1, 0 when `before` is not an execution of the tenant, -1. */
int coto_records_list(struct coto_records *records, const struct coto_records_query *query,
                      coto_execution_fn *fn, void *arg, struct coto_err *err);
/* 1 with the request's hash, status and reply filled in, 0 unknown, -1. */
int coto_records_get_kept(struct coto_records *records, struct coto_kept *kept,
                          struct coto_err *err);
/* Executions that were accepted and have no outcome yet, oldest first. */
typedef void coto_promise_fn(void *arg, const struct coto_execution *execution,
                             const struct coto_promise *promise);
int coto_records_each_promise(struct coto_records *records, coto_promise_fn *fn, void *arg,
                              struct coto_err *err);
/* Appends it. 1 found, 0 not (or no more), -1. */
int coto_records_get_outcome(struct coto_records *records, const char *tenant, const char *id,
                             struct coto_buf *ret_outcome, struct coto_err *err);
/* 1 when this sandbox was told to its owner and not ended by him, 0 not, -1. */
int coto_records_get_sandbox(struct coto_records *records, const char *tenant, const char *id,
                             struct coto_sandbox_kept *ret_kept, struct coto_err *err);
typedef void coto_revoked_fn(void *arg, const struct coto_revoked *revoked);
int coto_records_each_revoked(struct coto_records *records, coto_revoked_fn *fn, void *arg,
                              struct coto_err *err);
