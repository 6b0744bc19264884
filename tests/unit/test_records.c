#include "records/records.h"

#include "base/fd.h"
#include "base/own.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a directory, a loop, records in it ---- */

static char dir[64];
static struct coto_loop *loop;
static struct coto_records *records;
static struct coto_err err;
static int done, failed; /* functions called, and with an error */
static struct coto_err last_err;

static int claim(int *ret_fd)
{
    return coto_records_claim(dir, geteuid(), getegid(), ret_fd, &err);
}

static int64_t keep_bytes;

static int open_with(enum coto_durable durable, int64_t keep_rows)
{
    struct coto_records_config config = {.dir = dir,
                                         .claim_fd = -1,
                                         .loop = loop,
                                         .durable = durable,
                                         .keep_rows = keep_rows,
                                         .keep_bytes = keep_bytes};

    err.kind = 0;
    done = failed = 0;
    if (claim(&config.claim_fd))
        return -1;
    return coto_records_open(&config, &records, &err);
}

static void reopen(void)
{
    coto_records_close(records);
    records = NULL;
    if (open_with(COTO_DURABLE_DISK, 0))
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/coto-test-records-XXXXXX");
    return !mkdtemp(dir) || coto_loop_new(&loop, &err) || open_with(COTO_DURABLE_DISK, 0);
}

static int tear_down(void **state)
{
    coto_auto_fd parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    coto_records_close(records);
    records = NULL;
    coto_loop_free(loop);
    chmod(dir, 0700);
    return coto_path_remove_tree(parent, strrchr(dir, '/') + 1);
}

static void on_done(void *arg, const struct coto_err *why)
{
    int *waiting = arg;

    done++;
    failed += !!why;
    if (why)
        last_err = *why;
    if (--*waiting == 0)
        coto_loop_stop(loop);
}

static struct coto_record *execution(int number, const char *verdict)
{
    struct coto_record *record = coto_record_new(COTO_RECORD_EXECUTION);
    struct coto_execution *e = &record->u.execution;

    snprintf(e->id, sizeof e->id, "%08d-0000-4000-8000-000000000000", number);
    strcpy(e->tenant, number % 2 ? "odd" : "even");
    strcpy(e->started, "2999-11-15T08:30:21.123Z");
    strcpy(e->verdict, verdict);
    strcpy(e->code_hash, "c");
    strcpy(e->policy_hash, "p");
    e->duration_us = *verdict ? 1234567 : -1;
    e->exit_code = *verdict ? 3 : -1;
    e->cpu_us = e->memory_peak_bytes = -1;
    return record;
}

static void put_and_wait(struct coto_record *record)
{
    int waiting = 1;

    record->done = on_done;
    record->arg = &waiting;
    coto_records_put(records, record);
    assert_int_equal(coto_loop_run(loop, &err), 0);
    assert_int_equal(waiting, 0);
}

#define BUSY_MS 30000 /* the writer's thread may be at it */

static int64_t number(const char *sql)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *st;

    snprintf(path, sizeof path, "%s/records.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, BUSY_MS);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return value;
}

static void change(const char *sql)
{
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/records.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, BUSY_MS);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void wait_for(const char *sql, int64_t wanted)
{
    for (int i = 0; i < 4000 && number(sql) != wanted; i++)
        usleep(5000);
    assert_int_equal(number(sql), wanted);
}

/* ---- writing and reading ---- */

static void an_execution_is_read_back(void **state)
{
    struct coto_execution e;
    struct coto_record *record = execution(7, "nonzero");

    (void)state;
    strcpy(record->u.execution.agent, "smith");
    put_and_wait(record);
    assert_int_equal(failed, 0);
    assert_int_equal(coto_records_get(records, "odd", "00000007-0000-4000-8000-000000000000", &e, &err), 1);
    assert_string_equal(e.verdict, "nonzero");
    assert_string_equal(e.agent, "smith");
    assert_string_equal(e.sandbox, "");
    assert_string_equal(e.started, "2999-11-15T08:30:21.123Z");
    assert_int_equal(e.duration_us, 1234567);
    assert_int_equal(e.exit_code, 3);
    assert_int_equal(e.cpu_us, -1);
    assert_int_equal(e.memory_peak_bytes, -1);
    /* not another tenant's */
    assert_int_equal(coto_records_get(records, "even", "00000007-0000-4000-8000-000000000000", &e, &err), 0);
}

struct listed {
    int count;
    char ids[16][COTO_RECORD_ID];
};

static void note(void *arg, const struct coto_execution *e)
{
    struct listed *listed = arg;

    assert_string_equal(e->tenant, "even");
    strcpy(listed->ids[listed->count++], e->id);
}

static void pages_are_of_one_tenant_and_newest_first(void **state)
{
    struct listed listed = {0};
    struct coto_records_query query = {.tenant = "even", .limit = 3};

    (void)state;
    for (int i = 1; i <= 10; i++)
        put_and_wait(execution(i, "ok"));
    assert_int_equal(coto_records_list(records, &query, note, &listed, &err), 1);
    assert_int_equal(listed.count, 3);
    assert_int_equal(atoi(listed.ids[0]), 10);
    assert_int_equal(atoi(listed.ids[2]), 6);
    query.before = listed.ids[2];
    assert_int_equal(coto_records_list(records, &query, note, &listed, &err), 1);
    assert_int_equal(listed.count, 5);
    assert_int_equal(atoi(listed.ids[4]), 2);
    query.before = "00000003-0000-4000-8000-000000000000"; /* of the other tenant */
    assert_int_equal(coto_records_list(records, &query, note, &listed, &err), 0);
}

#define THREADS 4
#define EACH 200

static void *put_many(void *arg)
{
    int *waiting = arg;
    static int thread;
    int first = 1000 * __atomic_fetch_add(&thread, 1, __ATOMIC_SEQ_CST);

    for (int i = 0; i < EACH; i++) {
        struct coto_record *record = execution(first + i, "ok");
        record->done = on_done;
        record->arg = waiting;
        coto_records_put(records, record);
    }
    return NULL;
}

static void many_share_a_transaction(void **state)
{
    pthread_t threads[THREADS];
    int waiting = THREADS * EACH;
    struct coto_records_stats stats;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, &waiting), 0);
    assert_int_equal(coto_loop_run(loop, &err), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    coto_records_get_stats(records, &stats);
    assert_int_equal(stats.rows, THREADS * EACH);
    assert_int_equal(failed, 0);
    assert_true(stats.commits >= THREADS * EACH / 100);
    assert_true(stats.commits < THREADS * EACH / 2);
    assert_int_equal(number("SELECT count(*) FROM executions"), THREADS * EACH);
}

static void a_start_is_written_unless_the_end_comes_first(void **state)
{
    struct coto_records_stats stats;

    (void)state;
    coto_records_put(records, execution(1, ""));
    put_and_wait(execution(1, "ok"));
    coto_records_get_stats(records, &stats);
    assert_int_equal(stats.rows + stats.merged, 2);
    coto_records_put(records, execution(2, ""));
    wait_for("SELECT count(*) FROM executions WHERE verdict IS NULL", 1);
    put_and_wait(execution(2, "ok"));
    assert_int_equal(number("SELECT count(*) FROM executions WHERE verdict = 'ok'"), 2);
    assert_int_equal(number("SELECT count(*) FROM executions"), 2);
}

static void what_ran_is_interrupted_after_a_restart(void **state)
{
    struct coto_record *record = coto_record_new(COTO_RECORD_SANDBOX);
    struct coto_records_stats stats;
    struct coto_execution e;

    (void)state;
    strcpy(record->u.sandbox.id, "s");
    strcpy(record->u.sandbox.tenant, "odd");
    strcpy(record->u.sandbox.created, "2999-11-15T08:30:21.123Z");
    strcpy(record->u.sandbox.token_hash, "h");
    record->u.sandbox.state = "alive";
    put_and_wait(record);
    put_and_wait(execution(1, "ok"));
    coto_records_put(records, execution(3, ""));
    reopen(); /* closing writes what was put */
    coto_records_get_stats(records, &stats);
    assert_int_equal(stats.interrupted, 1);
    assert_int_equal(coto_records_get(records, "odd", "00000003-0000-4000-8000-000000000000", &e, &err), 1);
    assert_string_equal(e.verdict, "interrupted");
    assert_int_equal(coto_records_get(records, "odd", "00000001-0000-4000-8000-000000000000", &e, &err), 1);
    assert_string_equal(e.verdict, "ok");
    assert_int_equal(number("SELECT count(*) FROM sandboxes WHERE state = 'interrupted'"
                            " AND ended IS NOT NULL"), 1);
}

static struct coto_record *sandbox(int64_t lifetime_ms, int64_t idle_ms)
{
    struct coto_record *record = coto_record_new(COTO_RECORD_SANDBOX);
    struct coto_sandbox_record *s = &record->u.sandbox;

    strcpy(s->id, "s");
    strcpy(s->tenant, "odd");
    strcpy(s->created, "2999-11-15T08:30:21.123Z");
    strcpy(s->token_hash, "h");
    s->state = "alive";
    s->lifetime_ms = lifetime_ms;
    s->idle_ms = idle_ms;
    return record;
}

/* Also where an earlier coto has made the table, and after one that does not know of them. */
static void a_sandbox_has_its_times_again(void **state)
{
    struct coto_sandbox_kept kept;

    (void)state;
    put_and_wait(sandbox(0, 0));
    coto_records_close(records);
    records = NULL;
    change("ALTER TABLE sandboxes DROP COLUMN lifetime_ms; ALTER TABLE sandboxes DROP COLUMN idle_ms");
    reopen();
    assert_int_equal(coto_records_get_sandbox(records, "odd", "s", &kept, &err), 1);
    assert_true(kept.lifetime_ms == 0 && kept.idle_ms == 0 && kept.executions == 0);
    put_and_wait(sandbox(60000, 5000));
    put_and_wait(sandbox(70000, 5000));
    reopen();
    assert_int_equal(coto_records_get_sandbox(records, "odd", "s", &kept, &err), 1);
    assert_true(kept.lifetime_ms == 70000 && kept.idle_ms == 5000);
    assert_int_equal(coto_records_get_sandbox(records, "even", "s", &kept, &err), 0);
}

static void an_answer_is_kept_with_its_record(void **state)
{
    struct coto_record *record = execution(1, "ok");
    struct coto_kept kept = {.tenant = "odd", .key = "k"};

    (void)state;
    assert_int_equal(coto_records_get_kept(records, &kept, &err), 0);
    record->kept = calloc(1, sizeof *record->kept);
    *record->kept = kept;
    strcpy(record->kept->request_hash, "hash");
    record->kept->status = 200;
    coto_buf_add(&record->kept->reply, "a\0b", 3);
    put_and_wait(record);
    assert_int_equal(coto_records_get_kept(records, &kept, &err), 1);
    assert_int_equal(kept.status, 200);
    assert_string_equal(kept.request_hash, "hash");
    assert_int_equal(kept.reply.len, 3);
    assert_memory_equal(kept.reply.data, "a\0b", 3);
    coto_buf_fini(&kept.reply);
    strcpy(kept.tenant, "even");
    assert_int_equal(coto_records_get_kept(records, &kept, &err), 0);
}

static void count_revoked(void *arg, const struct coto_revoked *revoked)
{
    assert_string_equal(revoked->id, "jti");
    assert_int_equal(revoked->expires, 32503680000);
    ++*(int *)arg;
}

static void a_revoked_token_stays_revoked(void **state)
{
    int count = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct coto_record *record = coto_record_new(COTO_RECORD_REVOKED);
        strcpy(record->u.revoked.id, "jti");
        strcpy(record->u.revoked.tenant, "odd");
        record->u.revoked.expires = 32503680000;
        put_and_wait(record);
    }
    reopen();
    assert_int_equal(coto_records_each_revoked(records, count_revoked, &count, &err), 0);
    assert_int_equal(count, 1);
}

/* Whatever the clock says: one that is ahead for a while made it good again. */
static void a_revoked_token_goes_when_it_is_forgotten(void **state)
{
    (void)state;
    change("INSERT INTO tokens_revoked VALUES ('i', 't', 1, '2001-01-01T00:00:00.000Z'), ('i', 'u', 1, 'then'), ('j', 't', 1, 'then');"
           "INSERT INTO sandboxes (id, tenant, agent, created, state, ended, token_hash) VALUES ('i', 't', NULL, '2001-01-01T00:00:00.000Z', 'expired', '2001-01-01T00:00:00.000Z', 'h')");
    reopen();
    wait_for("SELECT count(*) FROM sandboxes", 0); /* control: it has looked for what is too old */
    reopen();
    assert_int_equal(number("SELECT count(*) FROM tokens_revoked"), 3);
    struct coto_record *record = coto_record_new(COTO_RECORD_FORGOTTEN);
    strcpy(record->u.revoked.id, "i");
    strcpy(record->u.revoked.tenant, "t");
    put_and_wait(record);
    assert_int_equal(failed, 0);
    assert_int_equal(number("SELECT count(*) FROM tokens_revoked WHERE (tenant, id) IN (('u', 'i'), ('t', 'j'))"), 2);
    assert_int_equal(number("SELECT count(*) FROM tokens_revoked"), 2);
}

static void off_waits_for_nothing(void **state)
{
    (void)state;
    coto_records_close(records);
    assert_int_equal(open_with(COTO_DURABLE_OFF, 0), 0);
    put_and_wait(execution(1, "ok"));
    assert_int_equal(failed, 0);
    reopen();
    assert_int_equal(number("SELECT count(*) FROM executions"), 1);
}

static struct coto_record *with_key(struct coto_record *record, const char *key)
{
    record->kept = calloc(1, sizeof *record->kept);
    strcpy(record->kept->tenant, record->u.execution.tenant);
    strcpy(record->kept->key, key);
    strcpy(record->kept->request_hash, "hash");
    record->kept->status = 200;
    coto_buf_add(&record->kept->reply, "{}", 2);
    return record;
}

static uint64_t synced_by(enum coto_durable durable, struct coto_record *record)
{
    struct coto_records_stats stats;

    coto_records_close(records);
    assert_int_equal(open_with(durable, 0), 0);
    put_and_wait(record);
    assert_int_equal(failed, 0);
    coto_records_get_stats(records, &stats);
    assert_true(stats.commits >= 1);
    return stats.synced;
}

static void only_what_is_relied_on_waits_for_the_disk(void **state)
{
    struct coto_record *promised = execution(3, "ok");

    (void)state;
    assert_non_null(coto_record_promise(promised));
    coto_buf_add(&promised->promise->outcome, "{}", 2);
    assert_int_equal(synced_by(COTO_DURABLE_PROMISES, execution(1, "ok")), 0);
    assert_int_equal(synced_by(COTO_DURABLE_PROMISES, promised), 1);
    assert_int_equal(synced_by(COTO_DURABLE_PROMISES, with_key(execution(4, "ok"), "key")), 1);
    assert_int_equal(synced_by(COTO_DURABLE_KERNEL, with_key(execution(5, "ok"), "another")), 0);
    assert_int_equal(synced_by(COTO_DURABLE_DISK, execution(6, "ok")), 1);
}

static void what_is_too_old_goes(void **state)
{
    (void)state;
    for (int i = 1; i <= 9; i++)
        put_and_wait(execution(i, "ok"));
    reopen();
    change("UPDATE executions SET started = '2001-01-01T00:00:00.000Z' WHERE seq <= 3;"
           "UPDATE executions SET verdict = NULL WHERE seq = 1;"
           "UPDATE executions SET verdict = 'queued' WHERE seq = 2;"
           "INSERT INTO promises (id, request) SELECT id, x'7b7d' FROM executions WHERE seq = 2;"
           "INSERT INTO idempotency VALUES ('t', 'k', 'h', 200, x'00', '2001-01-01T00:00:00.000Z');"
           "INSERT INTO sandboxes (id, tenant, agent, created, state, ended, token_hash) VALUES ('i', 't', NULL, '2001-01-01T00:00:00.000Z', 'expired',"
           " '2001-01-01T00:00:00.000Z', 'h')");
    reopen();
    wait_for("SELECT count(*) FROM executions", 7); /* the interrupted one goes too, it has ended; not what waits */
    wait_for("SELECT count(*) FROM idempotency", 0);
    wait_for("SELECT count(*) FROM sandboxes", 0);
    coto_records_close(records);
    assert_int_equal(open_with(COTO_DURABLE_DISK, 2), 0);
    wait_for("SELECT count(*) FROM executions", 3);
    assert_int_equal(number("SELECT min(seq) FROM executions WHERE verdict = 'ok'"), 8);
    assert_int_equal(number("SELECT seq FROM executions WHERE verdict = 'queued'"), 2);
}

/* Whoever makes and destroys them all day long fills no disk. */
static void sandboxes_that_ended_are_not_too_many(void **state)
{
    (void)state;
    change("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9)"
           " INSERT INTO sandboxes (id, tenant, agent, created, state, ended, token_hash) SELECT 'ended' || i, 't', NULL, 'then', 'destroyed',"
           " strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || (10 - i) || ' minutes'), 'h' FROM n");
    coto_records_close(records);
    assert_int_equal(open_with(COTO_DURABLE_DISK, 4), 0);
    wait_for("SELECT count(*) FROM sandboxes WHERE ended IS NOT NULL", 4);
    assert_int_equal(number("SELECT count(*) FROM sandboxes WHERE id IN ('ended6', 'ended7', 'ended8', 'ended9')"), 4);
}

/* 1000 bytes a row, with what a row itself takes. */
#define ROWS(table, tenant, name, count, rest)                                                     \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT " count ")"              \
    " INSERT INTO " table " SELECT '" tenant "', '" name "' || i, " rest " FROM n;"
#define NOW "strftime('%Y-%m-%dT%H:%M:%fZ')"
#define ANSWERS(tenant, name, count)                                                               \
    ROWS("idempotency (tenant, key, request_hash, status, reply, created)", tenant, name, count,   \
         "'h', 200, zeroblob(800), " NOW)
#define RESULTS(tenant, name, count)                                                               \
    ROWS("outcomes (tenant, id, outcome, ended)", tenant, name, count, "zeroblob(800), " NOW)

static void who_fills_a_table_pushes_out_nobody_else(void **state)
{
    (void)state;
    change(ANSWERS("few", "a", "2") ANSWERS("many", "b", "9") RESULTS("few", "a", "2") RESULTS("many", "b", "9"));
    keep_bytes = 5000;
    reopen();
    keep_bytes = 0;
    wait_for("SELECT count(*) FROM idempotency", 5);
    wait_for("SELECT count(*) FROM outcomes", 5);
    assert_int_equal(number("SELECT count(*) FROM idempotency WHERE tenant = 'few'"), 2);
    assert_int_equal(number("SELECT count(*) FROM outcomes WHERE tenant = 'few'"), 2);
    /* of his own the newest stay */
    assert_int_equal(number("SELECT count(*) FROM idempotency WHERE key IN ('b7', 'b8', 'b9')"), 3);
    assert_int_equal(number("SELECT count(*) FROM outcomes WHERE id IN ('b7', 'b8', 'b9')"), 3);
}

/* One after the other, and somebody waits for each. */
static int left;

static void put_result(int *waiting)
{
    struct coto_record *record = execution(left--, "ok");

    coto_buf_addf(&coto_record_promise(record)->outcome, "%01000d", left);
    record->kept = calloc(1, sizeof *record->kept);
    strcpy(record->kept->tenant, record->u.execution.tenant);
    strcpy(record->kept->key, record->u.execution.id);
    coto_buf_addf(&record->kept->reply, "%01000d", left);
    record->arg = waiting;
    record->done = on_done;
    coto_records_put(records, record);
}

static void on_one_of_many(void *arg)
{
    int *waiting = arg;

    if (left > 0)
        put_result(waiting);
    if (left > 0)
        coto_loop_timer(loop, 1, on_one_of_many, arg);
}

static void who_never_pauses_fills_no_table(void **state)
{
    (void)state;
    keep_bytes = 5000;
    reopen();
    keep_bytes = 0;
    put_and_wait(execution(9999, "ok"));
    int waiting = left = 400;
    on_one_of_many(&waiting);
    on_one_of_many(&waiting);
    assert_int_equal(coto_loop_run(loop, &err), 0);
    assert_int_equal(failed, 0);
    /* long before the minute after which it is looked for what is too old */
    wait_for("SELECT sum(length(outcome)) <= 10000 FROM outcomes", 1);
    wait_for("SELECT sum(length(reply)) <= 10000 FROM idempotency", 1);
}

/* ---- trouble ---- */

static void a_second_one_is_refused(void **state)
{
    int fd = -1;

    (void)state;
    assert_int_equal(claim(&fd), -1);
    assert_non_null(strstr(err.text, "in use by another coto serve"));
    coto_records_close(records);
    records = NULL;
    assert_int_equal(claim(&fd), 0); /* the lock goes with its holder */
    close(fd);
}

static void a_directory_for_all_is_refused(void **state)
{
    int fd = -1;

    (void)state;
    coto_records_close(records);
    records = NULL;
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(claim(&fd), -1);
    assert_non_null(strstr(err.text, "not private"));
}

static void expect_refusal(const char *text)
{
    for (int i = 0; i < 2; i++) { /* and again: nothing was changed on the way */
        assert_int_equal(open_with(COTO_DURABLE_DISK, 0), -1);
        if (!strstr(err.text, text))
            fail_msg("'%s' is not '%s'", err.text, text);
        assert_true(err.remedy[0]);
    }
}

static void a_newer_version_is_refused(void **state)
{
    (void)state;
    coto_records_close(records);
    records = NULL;
    change("PRAGMA user_version = 99");
    expect_refusal("written by a newer coto (version 99");
    assert_int_equal(number("PRAGMA user_version"), 99);
}

static void another_programs_database_is_refused(void **state)
{
    (void)state;
    coto_records_close(records);
    records = NULL;
    change("PRAGMA application_id = 1");
    expect_refusal("not of coto");
}

static void damage(off_t at, const char *bytes, size_t len, off_t cut)
{
    char path[128];

    snprintf(path, sizeof path, "%s/records.db", dir);
    coto_auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), len);
    if (cut)
        assert_int_equal(ftruncate(fd, cut), 0);
}

static void damage_is_refused(void **state)
{
    static const char noise[4096] = "no page at all";

    (void)state;
    for (int i = 0; i < 100; i++)
        coto_records_put(records, execution(i, "ok"));
    reopen();
    coto_records_close(records);
    records = NULL;
    damage(4096, noise, sizeof noise, 0);
    expect_refusal("damaged");
    damage(0, noise, sizeof noise, 0);
    expect_refusal("not a database");
}

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        coto_records_put(records, execution(i, "ok"));
    reopen();
    coto_records_close(records);
    records = NULL;
    damage(0, "SQLite format 3", 16, 3 * 4096);
    expect_refusal("records in");
}

static void an_empty_file_is_refused(void **state)
{
    char path[128];

    (void)state;
    coto_records_close(records);
    records = NULL;
    snprintf(path, sizeof path, "%s/records.db", dir);
    assert_int_equal(truncate(path, 0), 0);
    expect_refusal("it was cut");
}

static void a_file_for_others_is_refused(void **state)
{
    char path[128];

    (void)state;
    coto_records_close(records);
    records = NULL;
    snprintf(path, sizeof path, "%s/records.db", dir);
    assert_int_equal(chmod(path, 0666), 0);
    expect_refusal("not private (mode 0666)");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(open_with(COTO_DURABLE_DISK, 0), 0); /* control */
}

/* One that was killed while it made its file has left none, or that of another name. */
static void what_was_half_made_is_made_anew(void **state)
{
    char path[128];

    (void)state;
    coto_records_close(records);
    records = NULL;
    snprintf(path, sizeof path, "%s/records.db", dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/records.new", dir);
    coto_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(open_with(COTO_DURABLE_DISK, 0), 0);
    assert_int_equal(access(path, F_OK), -1);
    put_and_wait(execution(1, "ok"));
    assert_int_equal(failed, 0);
}

/* A limit on the size of files stands for the end of the disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_is_told_and_gets_over(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    put_and_wait(execution(1, "ok"));
    limit_files(4096);
    put_and_wait(execution(2, "ok"));
    assert_int_equal(failed, 1);
    assert_non_null(strstr(last_err.text, "write"));
    assert_int_equal(coto_records_check(records, &err), -1);
    assert_true(err.remedy[0]);
    limit_files(RLIM_INFINITY);
    for (int i = 0; i < 4000 && coto_records_check(records, &err); i++)
        usleep(5000);
    assert_int_equal(coto_records_check(records, &err), 0);
    put_and_wait(execution(3, "ok"));
    assert_int_equal(failed, 1);
    /* the one that failed has been written meanwhile */
    assert_int_equal(number("SELECT count(*) FROM executions"), 3);
}

static void what_failed_is_written_in_order(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    put_and_wait(execution(1, "ok"));
    limit_files(4096);
    put_and_wait(execution(2, "ok"));
    for (int n = 10; n < 260; n++)
        coto_records_put(records, execution(n, ""));
    usleep(50000); /* no longer to be forgotten for their ends */
    for (int n = 10; n < 260; n++)
        put_and_wait(execution(n, "ok"));
    limit_files(RLIM_INFINITY);
    for (int i = 0; i < 4000 && number("SELECT count(*) FROM executions") < 252; i++)
        usleep(5000);
    struct coto_records_stats stats;
    for (int i = 0; i < 4000 && (coto_records_get_stats(records, &stats), stats.waiting); i++)
        usleep(5000);
    assert_int_equal(number("SELECT count(*) FROM executions"), 252);
    assert_int_equal(number("SELECT count(*) FROM executions WHERE verdict = 'ok'"), 252);
}

/* 30 MB each, of which four have room. */
static void put_large(int n)
{
    struct coto_record *record = execution(n, "ok");
    struct coto_promise *promise = coto_record_promise(record);

    for (int i = 0; i < 30000000 / 1000; i++)
        coto_buf_addf(&promise->outcome, "%01000d", n);
    coto_buf_addf(&promise->instead, "instead of %d", n);
    put_and_wait(record);
}

static void results_that_wait_for_the_disk_have_an_end(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    keep_bytes = 1 << 30;
    reopen();
    keep_bytes = 0;
    put_and_wait(execution(1, "ok"));
    limit_files(4096);
    for (int n = 2; n < 8; n++)
        put_large(n);
    assert_int_equal(failed, 6);
    limit_files(RLIM_INFINITY);
    for (int i = 0; i < 4000 && number("SELECT count(*) FROM outcomes") < 6; i++)
        usleep(5000);
    assert_int_equal(number("SELECT count(*) FROM executions WHERE verdict = 'ok'"), 7);
    assert_int_equal(number("SELECT count(*) FROM outcomes WHERE length(outcome) = 30000000"), 4);
    assert_int_equal(number("SELECT count(*) FROM outcomes WHERE CAST(outcome AS TEXT) LIKE 'instead of _'"), 2);
    /* and there is room again */
    limit_files(4096);
    put_large(8);
    limit_files(RLIM_INFINITY);
    for (int i = 0; i < 4000 && number("SELECT count(*) FROM outcomes") < 7; i++)
        usleep(5000);
    assert_int_equal(number("SELECT count(*) FROM outcomes WHERE length(outcome) = 30000000"), 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_execution_is_read_back),
        TEST(pages_are_of_one_tenant_and_newest_first),
        TEST(many_share_a_transaction),
        TEST(a_start_is_written_unless_the_end_comes_first),
        TEST(what_ran_is_interrupted_after_a_restart),
        TEST(a_sandbox_has_its_times_again),
        TEST(an_answer_is_kept_with_its_record),
        TEST(a_revoked_token_stays_revoked),
        TEST(a_revoked_token_goes_when_it_is_forgotten),
        TEST(off_waits_for_nothing),
        TEST(only_what_is_relied_on_waits_for_the_disk),
        TEST(what_is_too_old_goes),
        TEST(sandboxes_that_ended_are_not_too_many),
        TEST(who_fills_a_table_pushes_out_nobody_else),
        TEST(who_never_pauses_fills_no_table),
        TEST(a_second_one_is_refused),
        TEST(a_directory_for_all_is_refused),
        TEST(a_newer_version_is_refused),
        TEST(another_programs_database_is_refused),
        TEST(damage_is_refused),
        TEST(a_cut_file_is_refused),
        TEST(an_empty_file_is_refused),
        TEST(a_file_for_others_is_refused),
        TEST(what_was_half_made_is_made_anew),
        TEST(a_full_disk_is_told_and_gets_over),
        TEST(what_failed_is_written_in_order),
        TEST(results_that_wait_for_the_disk_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
