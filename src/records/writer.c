/* The thread that writes, and what is put for it. */
#include "records/records_int.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 100
#define BATCH_BYTES (16 * 1024 * 1024) /* of answers and results; one may be more */
#define WAIT_US 5000           /* of a record that nobody waits for */
#define RETRY_US 1000000       /* after a failure */
#define PRUNE_US 60000000       /* between looks for what is too old */
#define PRUNE_AGAIN_US 20000   /* while there is more of it */
#define PRUNE_LATE_US 250000   /* it is put off for those who wait, no longer than this */
#define FAILED_MAX 10000       /* rows kept for a better time */
#define FAILED_BYTES (128 * 1024 * 1024) /* of results with them; nobody's share of memory counts these any more */
#define WAITING_MAX 100000     /* rows that nobody waits for */
#define STACK_BYTES (256 * 1024)

/* ---- records ---- */

struct coto_record *coto_record_new(enum coto_record_kind kind)
{
    struct coto_record *record = calloc(1, sizeof *record);

    if (record)
        record->kind = kind;
    return record;
}

static void drop_kept(struct coto_record *record)
{
    if (record->kept)
        coto_buf_fini(&record->kept->reply);
    free(record->kept);
    record->kept = NULL;
}

static void drop_promise(struct coto_record *record)
{
    if (record->promise) {
        coto_buf_fini(&record->promise->request);
        coto_buf_fini(&record->promise->outcome);
        coto_buf_fini(&record->promise->instead);
    }
    free(record->promise);
    record->promise = NULL;
}

struct coto_promise *coto_record_promise(struct coto_record *record)
{
    if (!record->promise)
        record->promise = calloc(1, sizeof *record->promise);
    return record->promise;
}

void coto_record_free(struct coto_record *record)
{
    if (!record)
        return;
    drop_kept(record);
    drop_promise(record);
    free(record);
}

int coto_durable_parse(const char *text, enum coto_durable *ret_durable)
{
    static const char *const words[] = {"promises", "disk", "kernel", "off"};

    for (int i = 0; i < 4; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret_durable = (enum coto_durable)i;
            return 0;
        }
    return -1;
}

static void push(struct queue *queue, struct coto_record *record)
{
    record->next = NULL;
    *queue->last = record;
    queue->last = &record->next;
    queue->count++;
}

/* All of another, which is empty then. */
static void append(struct queue *queue, struct queue *other)
{
    if (!other->first)
        return;
    *queue->last = other->first;
    queue->last = other->last;
    queue->count += other->count;
    *other = (struct queue){.last = &other->first};
}

static struct coto_record *pop(struct queue *queue)
{
    struct coto_record *record = queue->first;

    if (!record)
        return NULL;
    queue->first = record->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->count--;
    return record;
}

/* ---- from any thread ---- */

static void call_done(void *arg)
{
    struct coto_record *record = arg;

    record->done(record->arg, record->err.kind ? &record->err : NULL);
    coto_record_free(record);
}

/* Hands a record to the loop, which frees it. */
static void tell(struct coto_records *r, struct coto_record *record)
{
    if (coto_loop_post(r->config.loop, call_done, record))
        abort(); /* no memory for a pointer: nothing sensible is left to do */
}

/* The start of an execution that has ended meanwhile need not be written. There are never more
 * of them than executions that run. */
static void forget_start(struct coto_records *r, const char *id)
{
    for (struct coto_record **at = &r->starts.first; *at; at = &(*at)->next) {
        struct coto_record *start = *at;
        if (strcmp(start->u.execution.id, id) != 0)
            continue;
        *at = start->next;
        if (!*at)
            r->starts.last = at;
        r->starts.count--;
        r->stats.merged++;
        coto_record_free(start);
        return;
    }
}

static bool is_start(const struct coto_record *record)
{
    return record->kind == COTO_RECORD_EXECUTION && !record->u.execution.verdict[0];
}

/* Without waiting for the disk: the caller is told now, a copy without him is written. */
static struct coto_record *detach(struct coto_records *r, struct coto_record *record)
{
    struct coto_record *copy = malloc(sizeof *copy);

    if (copy) {
        *copy = *record;
        copy->done = NULL;
        record->kept = NULL;
        record->promise = NULL;
    }
    tell(r, record);
    return copy;
}

void coto_records_put(struct coto_records *r, struct coto_record *record)
{
    if (r->config.durable == COTO_DURABLE_OFF && record->done)
        record = detach(r, record);
    if (!record)
        return;
    record->due_us = coto_clock_us() + WAIT_US;
    pthread_mutex_lock(&r->lock);
    if (record->kind == COTO_RECORD_EXECUTION && !is_start(record))
        forget_start(r, record->u.execution.id);
    bool sleeps = !r->urgent && r->ready.count < BATCH;
    if (!record->done && r->ready.count + r->starts.count >= WAITING_MAX) {
        r->stats.failed++;
        coto_record_free(record);
    } else if (is_start(record)) {
        sleeps = sleeps && r->starts.count == 0 && r->ready.count == 0;
        push(&r->starts, record);
    } else {
        sleeps = sleeps && (record->done || r->ready.count == 0);
        r->urgent = r->urgent || record->done;
        push(&r->ready, record);
    }
    pthread_mutex_unlock(&r->lock);
    if (sleeps) /* not before: it would wait for the lock */
        pthread_cond_signal(&r->wake);
}

int coto_records_check(struct coto_records *r, struct coto_err *err)
{
    pthread_mutex_lock(&r->lock);
    bool failing = r->is_failing && r->config.durable != COTO_DURABLE_OFF;
    if (failing)
        *err = r->failing;
    pthread_mutex_unlock(&r->lock);
    return failing ? -1 : 0;
}

void coto_records_get_stats(struct coto_records *r, struct coto_records_stats *ret_stats)
{
    pthread_mutex_lock(&r->lock);
    *ret_stats = r->stats;
    ret_stats->waiting = r->starts.count + r->ready.count + r->failed.count;
    pthread_mutex_unlock(&r->lock);
}

/* ---- the thread ---- */

/* A row that the table does not take is that row's fault alone. */
static bool is_of_the_row(int code)
{
    code &= 0xff;
    return code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH || code == SQLITE_TOOBIG;
}

static int set_sync(struct coto_records *r, bool full)
{
    if (r->is_full_sync == full)
        return SQLITE_OK;
    int code = records_exec(r->writer, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    r->is_full_sync = full;
    return code;
}

/* A 202, a key and a revocation are relied on later; of an execution that was answered only the row is left. */
static bool is_relied_on(const struct coto_record *record)
{
    return record->promise || record->kept || record->kind == COTO_RECORD_REVOKED;
}

static bool is_for_the_disk(const struct coto_records *r, const struct coto_record *batch)
{
    if (r->config.durable != COTO_DURABLE_PROMISES)
        return r->config.durable == COTO_DURABLE_DISK;
    for (; batch; batch = batch->next)
        if (is_relied_on(batch))
            return true;
    return false;
}

/* One transaction. */
static int commit(struct coto_records *r, struct coto_record *batch, bool waited_for,
                  struct coto_err *err)
{
    int code = set_sync(r, waited_for && is_for_the_disk(r, batch));

    if (code == SQLITE_OK)
        code = records_step(r->write[ST_BEGIN]);
    for (struct coto_record *record = batch; record && code == SQLITE_OK; record = record->next) {
        record->err.kind = 0;
        code = records_write(r, record);
        if (is_of_the_row(code)) {
            records_fail(r, r->writer, "write", &record->err);
            code = SQLITE_OK;
        }
    }
    if (code == SQLITE_OK)
        code = records_step(r->write[ST_COMMIT]);
    if (code == SQLITE_OK)
        return 0;
    records_fail(r, r->writer, "write", err);
    if (!sqlite3_get_autocommit(r->writer))
        records_step(r->write[ST_ROLLBACK]);
    return code;
}

/* What it adds to the tables that have a limit of bytes. */
static int64_t bytes_of(const struct coto_record *record)
{
    return (record->kept ? (int64_t)record->kept->reply.len : 0) +
           (record->promise ? (int64_t)record->promise->outcome.len : 0);
}

/* Past the bound the row is kept, and says what is not. */
static void push_failed(struct coto_records *r, struct queue *failed, struct coto_record *record)
{
    if (r->failed_bytes + bytes_of(record) > FAILED_BYTES) {
        drop_kept(record);
        if (record->promise && record->promise->instead.len) {
            coto_buf_fini(&record->promise->outcome);
            record->promise->outcome = record->promise->instead;
            record->promise->instead = (struct coto_buf){0};
        }
    }
    r->failed_bytes += bytes_of(record);
    push(failed, record);
}

static struct coto_record *pop_failed(struct coto_records *r)
{
    struct coto_record *record = pop(&r->failed);

    r->failed_bytes -= bytes_of(record);
    return record;
}

/* Those who wait are told; the rows are tried again. */
static void keep_failed(struct coto_records *r, struct queue *failed, struct coto_record *record)
{
    if (record->done) {
        struct coto_record *row = malloc(sizeof *row);
        drop_kept(record);
        if (record->promise && record->promise->request.len)
            drop_promise(record); /* what is refused now must not run some day */
        if (row) {
            *row = *record;
            row->done = NULL;
            record->promise = NULL;
        }
        record->err = r->failing;
        tell(r, record);
        record = row;
    }
    if (record && r->failed.count + failed->count < FAILED_MAX && !r->is_broken) {
        push_failed(r, failed, record);
        return;
    }
    r->stats.failed++;
    coto_record_free(record);
}

/* The end of an execution must not be written before its start: what was tried comes before what was not, and that
 * before what has come meanwhile, which would only wait for the same answer. */
static void settle_failed(struct coto_records *r, struct coto_record *batch, int code, const struct coto_err *err)
{
    struct queue tried = {.last = &tried.first};

    r->failing = *err;
    r->is_broken = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    for (struct coto_record *record = batch, *next; record; record = next) {
        next = record->next;
        keep_failed(r, &tried, record);
    }
    append(&tried, &r->failed);
    while (r->ready.first)
        keep_failed(r, &tried, pop(&r->ready));
    append(&r->failed, &tried);
    r->urgent = false;
}

static void settle(struct coto_records *r, struct coto_record *batch, int code,
                   const struct coto_err *err)
{
    r->is_failing = code != SQLITE_OK;
    if (r->is_failing) {
        settle_failed(r, batch, code, err);
        return;
    }
    r->stats.commits++;
    r->stats.synced += r->is_full_sync;
    for (struct coto_record *record = batch, *next; record; record = next) {
        next = record->next;
        r->grown += bytes_of(record);
        r->stats.rows += !record->err.kind;
        r->stats.failed += !!record->err.kind;
        if (record->done)
            tell(r, record);
        else
            coto_record_free(record);
    }
}

static void move_due(struct queue *from, struct queue *to, int64_t now_us)
{
    while (from->first && from->first->due_us <= now_us)
        push(to, pop(from));
}

/* What to write now, oldest first: at most BATCH, and no more than a log should hold. */
static struct coto_record *take(struct coto_records *r, bool *ret_waited_for)
{
    struct queue batch = {.last = &batch.first};
    int64_t bytes = 0;

    *ret_waited_for = false;
    while (batch.count < BATCH && bytes < BATCH_BYTES && r->failed.first) {
        bytes += bytes_of(r->failed.first);
        push(&batch, pop_failed(r));
    }
    while (batch.count < BATCH && bytes < BATCH_BYTES && r->ready.first) {
        *ret_waited_for |= !!r->ready.first->done;
        bytes += bytes_of(r->ready.first);
        push(&batch, pop(&r->ready));
    }
    r->urgent = r->ready.count > 0;
    return batch.first;
}

static void sleep_until(struct coto_records *r, int64_t due_us)
{
    struct timespec ts = {.tv_sec = (time_t)(due_us / 1000000), .tv_nsec = (long)(due_us % 1000000) * 1000};

    pthread_cond_timedwait(&r->wake, &r->lock, &ts);
}

/* As much again as is kept has come since the last time: a minute would be the whole disk. */
static bool has_grown(const struct coto_records *r)
{
    return r->grown >= r->config.keep_bytes;
}

static bool must_prune(const struct coto_records *r, int64_t now_us)
{
    if (r->ending || (r->prune_us > now_us && !has_grown(r)))
        return false;
    return !r->urgent || has_grown(r) || now_us - r->prune_us > PRUNE_LATE_US;
}

/* There is room again, for more than one transaction writes. */
static bool must_go_on(const struct coto_records *r)
{
    return r->failed.first && !r->is_failing;
}

/* When there is something to do; now or before: at once. */
static int64_t next_due(const struct coto_records *r, int64_t retry_us)
{
    int64_t due = r->prune_us;

    if (r->urgent || r->ending || r->ready.count >= BATCH || has_grown(r) || must_go_on(r))
        return 0;
    if (r->ready.first && r->ready.first->due_us < due)
        due = r->ready.first->due_us;
    if (r->starts.first && r->starts.first->due_us < due)
        due = r->starts.first->due_us;
    if (r->is_failing && !r->is_broken && retry_us < due)
        due = retry_us;
    return due;
}

static void prune(struct coto_records *r, int64_t now_us)
{
    bool more = false;

    pthread_mutex_unlock(&r->lock);
    if (set_sync(r, false) == SQLITE_OK)
        records_prune(r, &more); /* what fails here fails for the next record too, and is told there */
    pthread_mutex_lock(&r->lock);
    r->prune_us = now_us + (more ? PRUNE_AGAIN_US : PRUNE_US);
    r->grown = 0;
}

/* An empty batch after a failure is a trial: BEGIN IMMEDIATE and COMMIT write nothing, so a
 * page is changed on purpose. */
static int try_again(struct coto_records *r, struct coto_err *err)
{
    if (records_exec(r->writer, "PRAGMA user_version = " RECORDS_VERSION) == SQLITE_OK)
        return SQLITE_OK;
    int code = sqlite3_errcode(r->writer);
    records_fail(r, r->writer, "write", err);
    return code;
}

static void *write_records(void *arg)
{
    struct coto_records *r = arg;
    struct coto_err err = {0};
    int64_t retry_us = 0;

    pthread_mutex_lock(&r->lock);
    while (!r->ending || r->ready.first || r->starts.first || must_go_on(r)) {
        int64_t now = coto_clock_us();
        int64_t due = next_due(r, retry_us);
        if (due > now) {
            sleep_until(r, due);
            continue;
        }
        if (must_prune(r, now))
            prune(r, now);
        move_due(&r->starts, &r->ready, r->ending ? INT64_MAX : now);
        bool waited_for;
        struct coto_record *batch = take(r, &waited_for);
        if (!batch && !r->is_failing)
            continue;
        pthread_mutex_unlock(&r->lock);
        int code = batch ? commit(r, batch, waited_for, &err) : try_again(r, &err);
        pthread_mutex_lock(&r->lock);
        settle(r, batch, code, &err);
        retry_us = coto_clock_us() + RETRY_US;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

int records_start_writer(struct coto_records *r, struct coto_err *err)
{
    pthread_condattr_t clock;
    pthread_attr_t attr;
    sigset_t all, before;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&r->thread, &attr, write_records, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    r->has_thread = error == 0;
    return error ? coto_err_set(err, COTO_ERR_LIMIT, error, "start the writer of records") : 0;
}

static void free_all(struct queue *queue)
{
    struct coto_record *record;

    while ((record = pop(queue)))
        coto_record_free(record);
}

void records_stop_writer(struct coto_records *r)
{
    if (!r->has_thread)
        return;
    pthread_mutex_lock(&r->lock);
    r->ending = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->has_thread = false;
    pthread_cond_destroy(&r->wake);
    free_all(&r->failed);
    free_all(&r->starts);
    free_all(&r->ready);
}
