/* The statements of the writer. */
#include "records/records_int.h"

#include <stdlib.h>
#include <string.h>

#define NOW "strftime('%Y-%m-%dT%H:%M:%fZ')"
#define PRUNE_ROWS "1000"

static const char *const texts[ST_WRITE_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    /* The end of an execution comes after its start, or instead of it. */
    [ST_EXECUTION] =
        "INSERT INTO executions (id, tenant, sandbox, agent, started, duration_ms, verdict,"
        " exit_code, code_hash, policy_hash, cpu_ms, memory_peak)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        " ON CONFLICT (id) DO UPDATE SET started = excluded.started,"
        " duration_ms = excluded.duration_ms, verdict = excluded.verdict,"
        " exit_code = excluded.exit_code, code_hash = excluded.code_hash,"
        " policy_hash = excluded.policy_hash, cpu_ms = excluded.cpu_ms,"
        " memory_peak = excluded.memory_peak",
    [ST_SANDBOX] =
        "INSERT INTO sandboxes (id, tenant, agent, created, state, token_hash, ended, lifetime_ms, idle_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, CASE ?5 WHEN 'alive' THEN NULL ELSE " NOW " END, ?7, ?8)"
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended,"
        " lifetime_ms = excluded.lifetime_ms, idle_ms = excluded.idle_ms",
    [ST_REVOKED] = "INSERT INTO tokens_revoked (id, tenant, expires, revoked)"
                   " VALUES (?1, ?2, ?3, " NOW ") ON CONFLICT DO NOTHING",
    [ST_FORGOTTEN] = "DELETE FROM tokens_revoked WHERE id = ?1 AND tenant = ?2",
    [ST_KEPT] = "INSERT INTO idempotency (tenant, key, request_hash, status, reply, created)"
                " VALUES (?1, ?2, ?3, ?4, ?5, " NOW ") ON CONFLICT (tenant, key) DO UPDATE SET"
                " request_hash = excluded.request_hash, status = excluded.status,"
                " reply = excluded.reply, created = excluded.created",
    [ST_REQUEST] = "INSERT INTO promises (id, request, is_guests) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    [ST_OUTCOME] = "INSERT INTO outcomes (id, tenant, outcome, ended)"
                   " VALUES (?1, ?3, ?2, " NOW ") ON CONFLICT DO NOTHING",
    [ST_FULFILLED] = "DELETE FROM promises WHERE id = ?1",
};

int records_prepare(struct coto_records *r)
{
    for (int i = 0; i < ST_WRITE_COUNT; i++) {
        int code = sqlite3_prepare_v3(r->writer, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &r->write[i], NULL);
        if (code)
            return code;
    }
    return SQLITE_OK;
}

int records_step(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);

    sqlite3_reset(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

/* ---- values; "" and -1 become NULL where the row may lack them ---- */

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
    sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static void bind_optional(sqlite3_stmt *st, int at, const char *text)
{
    if (*text)
        bind_text(st, at, text);
    else
        sqlite3_bind_null(st, at);
}

static void bind_ms(sqlite3_stmt *st, int at, int64_t microseconds)
{
    if (microseconds >= 0)
        sqlite3_bind_double(st, at, (double)microseconds / 1000);
    else
        sqlite3_bind_null(st, at);
}

static void bind_count(sqlite3_stmt *st, int at, int64_t value)
{
    if (value >= 0)
        sqlite3_bind_int64(st, at, value);
    else
        sqlite3_bind_null(st, at);
}

static int write_execution(sqlite3_stmt *st, const struct coto_execution *e)
{
    bind_text(st, 1, e->id);
    bind_text(st, 2, e->tenant);
    bind_optional(st, 3, e->sandbox);
    bind_optional(st, 4, e->agent);
    bind_text(st, 5, e->started);
    bind_ms(st, 6, e->duration_us);
    bind_optional(st, 7, e->verdict);
    bind_count(st, 8, e->exit_code);
    bind_text(st, 9, e->code_hash);
    bind_text(st, 10, e->policy_hash);
    bind_ms(st, 11, e->cpu_us);
    bind_count(st, 12, e->memory_peak_bytes);
    return records_step(st);
}

static int write_sandbox(sqlite3_stmt *st, const struct coto_sandbox_record *s)
{
    bind_text(st, 1, s->id);
    bind_text(st, 2, s->tenant);
    bind_optional(st, 3, s->agent);
    bind_text(st, 4, s->created);
    bind_text(st, 5, s->state);
    bind_text(st, 6, s->token_hash);
    bind_count(st, 7, s->lifetime_ms ? s->lifetime_ms : -1);
    bind_count(st, 8, s->idle_ms ? s->idle_ms : -1);
    return records_step(st);
}

static int write_revoked(sqlite3_stmt *st, const struct coto_revoked *revoked)
{
    bind_text(st, 1, revoked->id);
    bind_text(st, 2, revoked->tenant);
    if (sqlite3_bind_parameter_count(st) > 2)
        sqlite3_bind_int64(st, 3, revoked->expires);
    return records_step(st);
}

static int write_kept(sqlite3_stmt *st, const struct coto_kept *kept)
{
    bind_text(st, 1, kept->tenant);
    bind_text(st, 2, kept->key);
    bind_text(st, 3, kept->request_hash);
    sqlite3_bind_int(st, 4, kept->status);
    sqlite3_bind_blob64(st, 5, coto_buf_str(&kept->reply), kept->reply.len, SQLITE_STATIC);
    int code = records_step(st);
    sqlite3_clear_bindings(st);
    return code;
}

static int write_text(sqlite3_stmt *st, const struct coto_execution *e, const struct coto_buf *text)
{
    bind_text(st, 1, e->id);
    sqlite3_bind_blob64(st, 2, coto_buf_str(text), text->len, SQLITE_STATIC);
    int code = records_step(st);
    sqlite3_clear_bindings(st);
    return code;
}

static int write_promise(struct coto_records *r, const struct coto_record *record)
{
    const struct coto_execution *e = &record->u.execution;
    int code = SQLITE_OK;

    sqlite3_bind_int(r->write[ST_REQUEST], 3, record->promise->is_guests);
    if (record->promise->request.len)
        code = write_text(r->write[ST_REQUEST], e, &record->promise->request);
    if (code != SQLITE_OK || !record->promise->outcome.len)
        return code;
    bind_text(r->write[ST_OUTCOME], 3, e->tenant);
    code = write_text(r->write[ST_OUTCOME], e, &record->promise->outcome);
    bind_text(r->write[ST_FULFILLED], 1, e->id);
    return code == SQLITE_OK ? records_step(r->write[ST_FULFILLED]) : code;
}

int records_write(struct coto_records *r, struct coto_record *record)
{
    int code = SQLITE_MISUSE;

    switch (record->kind) {
    case COTO_RECORD_EXECUTION:
        code = write_execution(r->write[ST_EXECUTION], &record->u.execution);
        break;
    case COTO_RECORD_SANDBOX:
        code = write_sandbox(r->write[ST_SANDBOX], &record->u.sandbox);
        break;
    case COTO_RECORD_REVOKED:
        code = write_revoked(r->write[ST_REVOKED], &record->u.revoked);
        break;
    case COTO_RECORD_FORGOTTEN:
        code = write_revoked(r->write[ST_FORGOTTEN], &record->u.revoked);
        break;
    }
    if (code == SQLITE_OK && record->promise)
        code = write_promise(r, record);
    return code == SQLITE_OK && record->kept ? write_kept(r->write[ST_KEPT], record->kept) : code;
}

/* ---- retention ---- */

struct prune {
    const char *sql;
    int64_t value;
};

static int prune_one(struct coto_records *r, const struct prune *prune, bool *ret_more)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(r->writer, prune->sql, -1, &statement, NULL);

    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, prune->value);
        code = records_step(statement);
        *ret_more |= sqlite3_changes(r->writer) >= atoi(PRUNE_ROWS);
    }
    sqlite3_finalize(statement);
    return code;
}

#define CUTOFF(unit) "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || ?1 || ' " unit "')"

/* Rows beyond so many bytes. Each counts what its own tenant has put since, itself included, and those with the highest
 * count go: whoever fills the table loses his own oldest rows, and nobody else's. */
#define TOO_MUCH(table, column)                                                                    \
    "DELETE FROM " table " WHERE rowid IN (SELECT rowid FROM (SELECT rowid,"                       \
    " sum(size) OVER (ORDER BY own, rowid DESC) AS total FROM (SELECT rowid, length(" column       \
    ") + 200 AS size, sum(length(" column ") + 200) OVER (PARTITION BY tenant ORDER BY rowid DESC)" \
    " AS own FROM " table ")) WHERE total > ?1 LIMIT " PRUNE_ROWS ")"

/* What waits, runs or is alive stays, however old; so do revoked tokens: this clock may be wrong for a while. */
#define IS_OVER "verdict IS NOT NULL AND verdict <> 'queued'"
int records_prune(struct coto_records *r, bool *ret_more)
{
    const struct prune all[] = {
        {"DELETE FROM executions WHERE seq IN (SELECT seq FROM executions"
         " WHERE seq <= (SELECT max(seq) FROM executions) - ?1 AND " IS_OVER
         " LIMIT " PRUNE_ROWS ")",
         r->config.keep_rows},
        /* Oldest first, and these are nearly in order: the search ends at the first that stays. */
        {"DELETE FROM executions WHERE seq IN (SELECT seq FROM"
         " (SELECT seq, started, verdict FROM executions ORDER BY seq LIMIT " PRUNE_ROWS ")"
         " WHERE " IS_OVER " AND started < " CUTOFF("days") ")",
         r->config.keep_days},
        {"DELETE FROM sandboxes WHERE id IN (SELECT id FROM sandboxes"
         " WHERE ended < " CUTOFF("days") " LIMIT " PRUNE_ROWS ")",
         r->config.keep_days},
        {"DELETE FROM sandboxes WHERE id IN (SELECT id FROM sandboxes"
         " WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT " PRUNE_ROWS " OFFSET ?1)",
         r->config.keep_rows},
        {"DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency"
         " WHERE created < " CUTOFF("hours") " LIMIT " PRUNE_ROWS ")",
         24},
        {TOO_MUCH("idempotency", "reply"), r->config.keep_bytes},
        {"DELETE FROM outcomes WHERE rowid IN (SELECT rowid FROM outcomes"
         " WHERE ended < " CUTOFF("minutes") " LIMIT " PRUNE_ROWS ")",
         10},
        {TOO_MUCH("outcomes", "outcome"), r->config.keep_bytes},
    };
    int code = SQLITE_OK;

    *ret_more = false;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && code == SQLITE_OK; i++)
        code = prune_one(r, &all[i], ret_more);
    return code;
}
