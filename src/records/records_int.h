#pragma once

#include "records/records.h"

#include <pthread.h>
#include <sqlite3.h>

enum statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_EXECUTION,
    ST_SANDBOX,
    ST_REVOKED,
    ST_FORGOTTEN,
    ST_KEPT,
    ST_REQUEST,
    ST_OUTCOME,
    ST_FULFILLED,
    ST_WRITE_COUNT
};

struct queue {
    struct coto_record *first, **last;
    unsigned count;
};

struct coto_records {
    struct coto_records_config config;
    int claim_fd;

    /* of the writer's thread */
    sqlite3 *writer;
    sqlite3_stmt *write[ST_WRITE_COUNT];
    bool is_full_sync;
    int64_t prune_us; /* next time */
    int64_t grown;    /* bytes of answers and results since the last */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct queue starts; /* of executions; they wait for their end */
    struct queue ready;  /* somebody waits, or they have waited long enough */
    struct queue failed; /* tried and told; tried again */
    int64_t failed_bytes; /* of results in it */
    bool urgent;         /* in `ready` is one that somebody waits for */
    bool ending;
    bool is_failing, is_broken; /* broken: not tried again */
    struct coto_err failing;
    struct coto_records_stats stats;

    pthread_mutex_t read_lock;
    sqlite3 *reader;
};

#define RECORDS_VERSION "2"

/* store.c */
int records_open_store(struct coto_records *r, struct coto_err *err);
void records_close_store(struct coto_records *r);
int records_exec(sqlite3 *db, const char *sql);
/* The error of a connection in words, with a remedy. */
int records_fail(const struct coto_records *r, sqlite3 *db, const char *what, struct coto_err *err);

/* rows.c; they return SQLite's code */
int records_prepare(struct coto_records *r);
int records_write(struct coto_records *r, struct coto_record *record);
int records_step(sqlite3_stmt *statement);
/* Removes what is too old, some rows at a time. *ret_more: there is more. */
int records_prune(struct coto_records *r, bool *ret_more);

/* writer.c */
int records_start_writer(struct coto_records *r, struct coto_err *err);
void records_stop_writer(struct coto_records *r);
