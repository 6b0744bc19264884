/* Reads, on a connection of their own. */
#include "records/records_int.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS                                                                                    \
    "id, tenant, sandbox, agent, started, duration_ms, verdict, exit_code, code_hash, "           \
    "policy_hash, cpu_ms, memory_peak"

static void take_text(sqlite3_stmt *st, int at, char *to, size_t size)
{
    const unsigned char *text = sqlite3_column_text(st, at);

    snprintf(to, size, "%s", text ? (const char *)text : "");
}

static int64_t take_us(sqlite3_stmt *st, int at)
{
    if (sqlite3_column_type(st, at) == SQLITE_NULL)
        return -1;
    return (int64_t)(sqlite3_column_double(st, at) * 1000 + 0.5);
}

static int64_t take_count(sqlite3_stmt *st, int at)
{
    return sqlite3_column_type(st, at) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, at);
}

static void take_execution(sqlite3_stmt *st, struct coto_execution *e)
{
    take_text(st, 0, e->id, sizeof e->id);
    take_text(st, 1, e->tenant, sizeof e->tenant);
    take_text(st, 2, e->sandbox, sizeof e->sandbox);
    take_text(st, 3, e->agent, sizeof e->agent);
    take_text(st, 4, e->started, sizeof e->started);
    e->duration_us = take_us(st, 5);
    take_text(st, 6, e->verdict, sizeof e->verdict);
    e->exit_code = (int)take_count(st, 7);
    take_text(st, 8, e->code_hash, sizeof e->code_hash);
    take_text(st, 9, e->policy_hash, sizeof e->policy_hash);
    e->cpu_us = take_us(st, 10);
    e->memory_peak_bytes = take_count(st, 11);
}

/* Between these two the reader is ours. Ends the read: what is left open holds the log back. */
static sqlite3_stmt *begin(struct coto_records *r, const char *sql, const char *first,
                           const char *second)
{
    sqlite3_stmt *st = NULL;

    pthread_mutex_lock(&r->read_lock);
    if (sqlite3_prepare_v2(r->reader, sql, -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_text(st, 1, first, -1, SQLITE_STATIC);
        if (second)
            sqlite3_bind_text(st, 2, second, -1, SQLITE_STATIC);
    }
    return st;
}

static int end(struct coto_records *r, sqlite3_stmt *st, int code, struct coto_err *err)
{
    int found = code == SQLITE_ROW || code == SQLITE_DONE ? 0 : records_fail(r, r->reader, "read", err);

    sqlite3_finalize(st);
    pthread_mutex_unlock(&r->read_lock);
    return found;
}

static int step(sqlite3_stmt *st)
{
    return st ? sqlite3_step(st) : SQLITE_ERROR;
}

int coto_records_get(struct coto_records *r, const char *tenant, const char *id,
                     struct coto_execution *ret_execution, struct coto_err *err)
{
    sqlite3_stmt *st =
        begin(r, "SELECT " COLUMNS " FROM executions WHERE tenant = ?1 AND id = ?2", tenant, id);
    int code = step(st);

    if (code == SQLITE_ROW)
        take_execution(st, ret_execution);
    return end(r, st, code, err) ? -1 : code == SQLITE_ROW;
}

/* Where to begin; 1 found, 0 not, -1. */
static int find_seq(struct coto_records *r, const struct coto_records_query *query, int64_t *ret_seq,
                    struct coto_err *err)
{
    *ret_seq = INT64_MAX;
    if (!query->before)
        return 1;
    sqlite3_stmt *st = begin(r, "SELECT seq FROM executions WHERE tenant = ?1 AND id = ?2",
                             query->tenant, query->before);
    int code = step(st);
    if (code == SQLITE_ROW)
        *ret_seq = sqlite3_column_int64(st, 0);
    return end(r, st, code, err) ? -1 : code == SQLITE_ROW;
}

int coto_records_list(struct coto_records *r, const struct coto_records_query *query,
                      coto_execution_fn *fn, void *arg, struct coto_err *err)
{
    struct coto_execution execution;
    int64_t seq;
    int found = find_seq(r, query, &seq, err);

    if (found <= 0)
        return found;
    const char *sql = query->sandbox ? "SELECT " COLUMNS " FROM executions INDEXED BY executions_sandbox"
                                       " WHERE tenant = ?1 AND sandbox = ?2 AND seq < ?3"
                                       " ORDER BY seq DESC LIMIT ?4"
                                     : "SELECT " COLUMNS " FROM executions WHERE tenant = ?1 AND seq < ?3"
                                       " ORDER BY seq DESC LIMIT ?4";
    sqlite3_stmt *st = begin(r, sql, query->tenant, query->sandbox);
    int code = SQLITE_ERROR;
    if (st) {
        sqlite3_bind_int64(st, 3, seq);
        sqlite3_bind_int64(st, 4, query->limit);
        while ((code = sqlite3_step(st)) == SQLITE_ROW) {
            take_execution(st, &execution);
            fn(arg, &execution);
        }
    }
    return end(r, st, code, err) ? -1 : 1;
}

int coto_records_get_kept(struct coto_records *r, struct coto_kept *kept, struct coto_err *err)
{
    sqlite3_stmt *st = begin(r, "SELECT request_hash, status, reply FROM idempotency"
                                " WHERE tenant = ?1 AND key = ?2",
                             kept->tenant, kept->key);
    int code = step(st);

    if (code == SQLITE_ROW) {
        take_text(st, 0, kept->request_hash, sizeof kept->request_hash);
        kept->status = sqlite3_column_int(st, 1);
        coto_buf_add(&kept->reply, sqlite3_column_blob(st, 2), (size_t)sqlite3_column_bytes(st, 2));
    }
    return end(r, st, code, err) ? -1 : code == SQLITE_ROW;
}

int coto_records_each_promise(struct coto_records *r, coto_promise_fn *fn, void *arg,
                              struct coto_err *err)
{
    struct coto_execution execution;
    sqlite3_stmt *st = begin(r, "SELECT " COLUMNS ", request, is_guests FROM promises JOIN executions USING (id)"
                                " WHERE ?1 IS NULL ORDER BY promises.seq",
                             NULL, NULL);
    int code;

    while ((code = step(st)) == SQLITE_ROW) {
        struct coto_promise promise = {.is_guests = sqlite3_column_int(st, 13)};
        take_execution(st, &execution);
        coto_buf_add(&promise.request, sqlite3_column_blob(st, 12), (size_t)sqlite3_column_bytes(st, 12));
        fn(arg, &execution, &promise);
        coto_buf_fini(&promise.request);
    }
    return end(r, st, code, err);
}

int coto_records_get_outcome(struct coto_records *r, const char *tenant, const char *id,
                             struct coto_buf *ret_outcome, struct coto_err *err)
{
    sqlite3_stmt *st = begin(r, "SELECT outcome FROM outcomes WHERE tenant = ?1 AND id = ?2", tenant, id);
    int code = step(st);

    if (code == SQLITE_ROW)
        coto_buf_add(ret_outcome, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
    return end(r, st, code, err) ? -1 : code == SQLITE_ROW;
}

int coto_records_get_sandbox(struct coto_records *r, const char *tenant, const char *id,
                             struct coto_sandbox_kept *ret_kept, struct coto_err *err)
{
    sqlite3_stmt *st = begin(r, "SELECT (SELECT count(*) FROM executions INDEXED BY executions_sandbox"
                                " WHERE tenant = ?1 AND sandbox = ?2), lifetime_ms, idle_ms FROM sandboxes WHERE tenant = ?1 AND id = ?2"
                                " AND state IN ('alive', 'interrupted')",
                             tenant, id);
    int code = step(st);

    if (code == SQLITE_ROW)
        *ret_kept = (struct coto_sandbox_kept){.executions = (unsigned)sqlite3_column_int64(st, 0),
                                               .lifetime_ms = sqlite3_column_int64(st, 1),
                                               .idle_ms = sqlite3_column_int64(st, 2)};
    return end(r, st, code, err) ? -1 : code == SQLITE_ROW;
}

int coto_records_each_revoked(struct coto_records *r, coto_revoked_fn *fn, void *arg,
                              struct coto_err *err)
{
    struct coto_revoked revoked;
    sqlite3_stmt *st = begin(r, "SELECT id, tenant, expires FROM tokens_revoked WHERE ?1 IS NULL",
                             NULL, NULL);
    int code;

    while ((code = step(st)) == SQLITE_ROW) {
        take_text(st, 0, revoked.id, sizeof revoked.id);
        take_text(st, 1, revoked.tenant, sizeof revoked.tenant);
        revoked.expires = sqlite3_column_int64(st, 2);
        fn(arg, &revoked);
    }
    return end(r, st, code, err);
}
