/* The database file: made, checked, brought to order. */
#include "records/records_int.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION 0x636f746f /* "coto" */
#define VERSION 2

/* What is as it should be needs no look at every page: a service with a million rows starts
 * as quickly as one with none. Damage that shows later is met by the writer. */
#define CHECK_BYTES (16LL * 1024 * 1024)

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE executions ("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, sandbox TEXT,"
    " agent TEXT, started TEXT NOT NULL, duration_ms REAL, verdict TEXT, exit_code INTEGER,"
    " code_hash TEXT NOT NULL, policy_hash TEXT NOT NULL, cpu_ms REAL, memory_peak INTEGER"
    ") STRICT;"
    "CREATE INDEX executions_tenant ON executions (tenant, seq);"
    "CREATE INDEX executions_running ON executions (seq) WHERE verdict IS NULL;"
    "CREATE INDEX executions_queued ON executions (seq) WHERE verdict = 'queued';"
    "CREATE TABLE sandboxes ("
    " id TEXT PRIMARY KEY NOT NULL, tenant TEXT NOT NULL, agent TEXT, created TEXT NOT NULL,"
    " state TEXT NOT NULL, ended TEXT, token_hash TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX sandboxes_alive ON sandboxes (id) WHERE ended IS NULL;"
    "CREATE INDEX sandboxes_ended ON sandboxes (ended);"
    "CREATE TABLE tokens_revoked ("
    " id TEXT NOT NULL, tenant TEXT NOT NULL, expires INTEGER NOT NULL, revoked TEXT NOT NULL,"
    " PRIMARY KEY (tenant, id)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE idempotency ("
    " tenant TEXT NOT NULL, key TEXT NOT NULL, request_hash TEXT NOT NULL,"
    " status INTEGER NOT NULL, reply BLOB NOT NULL, created TEXT NOT NULL,"
    " UNIQUE (tenant, key)"
    ") STRICT;"
    "CREATE INDEX idempotency_created ON idempotency (created);"
    "PRAGMA application_id = 1668248687;"
    "PRAGMA user_version = 1;"
    "COMMIT;";

/* From 1 to 2. */
static const char promises[] =
    "BEGIN;"
    "CREATE TABLE promises ("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request BLOB NOT NULL"
    ") STRICT;"
    "CREATE TABLE outcomes ("
    " id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, outcome BLOB NOT NULL, ended TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX outcomes_ended ON outcomes (ended);"
    "PRAGMA user_version = " RECORDS_VERSION ";"
    "COMMIT;";

/* No version of its own: those who do not know it keep it up to date all the same. Without it what one sandbox
 * has run is looked for among all that its tenant has. */
static const char of_sandboxes[] =
    "CREATE INDEX IF NOT EXISTS executions_sandbox ON executions (sandbox, seq) WHERE sandbox IS NOT NULL";

/* Nor have these: NULL, which who does not know them leaves, is what was before. */
static const char times[] =
    "BEGIN;"
    "ALTER TABLE sandboxes ADD COLUMN lifetime_ms INTEGER;"
    "ALTER TABLE sandboxes ADD COLUMN idle_ms INTEGER;"
    "COMMIT;";
static const char of_guests[] = "ALTER TABLE promises ADD COLUMN is_guests INTEGER";

int records_exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static const char *remedy_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return "make room on its disk; requests are taken again by themselves";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return "the directory and its files must belong to the service's user and be writable";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "restore a copy, or move records.db, -wal and -shm away and start again "
               "(tokens must then be revoked again)";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program holds a lock on it";
    default:
        return "see the disk and the kernel's log";
    }
}

int records_fail(const struct coto_records *r, sqlite3 *db, const char *what, struct coto_err *err)
{
    int code = db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM;
    const char *why = db ? sqlite3_errmsg(db) : "no memory";
    int error = db ? sqlite3_system_errno(db) : 0;
    /* What SQLite calls "disk I/O error" the kernel can say better. */
    bool by_kernel = error && ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN);

    bool damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;

    coto_err_set(err, damaged ? COTO_ERR_INPUT : COTO_ERR_SYSTEM, by_kernel ? error : 0,
                 "records in '%s': %s: %s", r->config.dir, what, why);
    return coto_err_remedy(err, "%s", remedy_of(code));
}

/* ---- opening ---- */

#define PATH 4200

static char *path_of(const struct coto_records *r, const char *name, char ret_path[PATH])
{
    snprintf(ret_path, PATH, "%s/%s", r->config.dir, name);
    return ret_path;
}

static int open_one(struct coto_records *r, const char *name, int flags, sqlite3 **ret_db,
                    struct coto_err *err)
{
    char path[PATH];

    path_of(r, name, path);
    if (sqlite3_open_v2(path, ret_db, flags | SQLITE_OPEN_NOMUTEX, NULL))
        return records_fail(r, *ret_db, "open", err);
    sqlite3_extended_result_codes(*ret_db, 1);
    sqlite3_busy_timeout(*ret_db, 5000);
    /* Whoever can write the file must not get code run by it. */
    sqlite3_db_config(*ret_db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(*ret_db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (records_exec(*ret_db, "PRAGMA cache_size = -128; PRAGMA mmap_size = 0;"
                              "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;"))
        return records_fail(r, *ret_db, "open", err);
    return 0;
}

/* The one number or text a statement gives; -1 when it fails. */
static int ask(sqlite3 *db, const char *sql, int64_t *ret_number, char *ret_text, size_t size)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        if (ret_number)
            *ret_number = sqlite3_column_int64(statement, 0);
        if (ret_text)
            snprintf(ret_text, size, "%s", text ? (const char *)text : "");
    }
    return sqlite3_finalize(statement) == SQLITE_OK && code == SQLITE_ROW ? 0 : -1;
}

/* Never an empty file: it is made under another name, so that one that is empty was cut. */
static int make(struct coto_records *r, struct coto_err *err)
{
    char path[PATH], journal[PATH], final[PATH];
    sqlite3 *db = NULL;

    unlink(path_of(r, "records.new", path)); /* of a service that was killed here */
    unlink(path_of(r, "records.new-journal", journal));
    coto_auto_fd fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "records in '%s': open", r->config.dir);
        return coto_err_remedy(err, "%s", remedy_of(errno == ENOSPC ? SQLITE_FULL : SQLITE_CANTOPEN));
    }
    coto_own_close(&fd);
    int failed = open_one(r, "records.new", SQLITE_OPEN_READWRITE, &db, err);
    if (!failed && records_exec(db, schema))
        failed = records_fail(r, db, "make", err);
    sqlite3_close(db);
    if (!failed && (rename(path, path_of(r, "records.db", final)) ||
                    (r->claim_fd >= 0 && fsync(r->claim_fd))))
        failed = coto_err_set(err, COTO_ERR_SYSTEM, errno, "records in '%s': make", r->config.dir);
    if (failed)
        unlink(path);
    return failed;
}

static int check_file(struct coto_records *r, bool *ret_there, struct coto_err *err)
{
    char path[PATH];
    struct stat st;

    *ret_there = stat(path_of(r, "records.db", path), &st) == 0;
    if (!*ret_there)
        return 0;
    if (S_ISREG(st.st_mode) && st.st_size == 0) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "records in '%s': records.db is empty: it was cut", r->config.dir);
        return coto_err_remedy(err, "%s", remedy_of(SQLITE_CORRUPT));
    }
    if (!(st.st_mode & 077))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "records in '%s': records.db is not private (mode %04o)",
                 r->config.dir, (unsigned)(st.st_mode & 07777));
    return coto_err_remedy(err, "chmod 600 it; who could write to it may have");
}

static int check_version(struct coto_records *r, bool *ret_old, struct coto_err *err)
{
    int64_t application = 0, version = 0;

    if (ask(r->writer, "PRAGMA application_id", &application, NULL, 0) ||
        ask(r->writer, "PRAGMA user_version", &version, NULL, 0))
        return records_fail(r, r->writer, "read", err);
    *ret_old = version < VERSION;
    if (application != APPLICATION) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "records in '%s': records.db is not of coto", r->config.dir);
        return coto_err_remedy(err, "move it away, or use --state-dir DIR with another directory");
    }
    if (version > VERSION) {
        coto_err_set(err, COTO_ERR_INPUT, 0,
                     "records in '%s': written by a newer coto (version %lld, this one knows %d)",
                     r->config.dir, (long long)version, VERSION);
        return coto_err_remedy(err, "run that coto, or use --state-dir DIR with another directory");
    }
    return 0;
}

static int check_pages(struct coto_records *r, struct coto_err *err)
{
    int64_t pages = 0, size = 0;
    char word[200] = "";

    if (ask(r->writer, "PRAGMA page_count", &pages, NULL, 0) ||
        ask(r->writer, "PRAGMA page_size", &size, NULL, 0))
        return records_fail(r, r->writer, "read", err);
    if (pages * size > CHECK_BYTES)
        return 0;
    if (ask(r->writer, "PRAGMA quick_check(1)", NULL, word, sizeof word))
        return records_fail(r, r->writer, "check", err);
    if (strcmp(word, "ok") == 0)
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "records in '%s': damaged: %.150s", r->config.dir, word);
    return coto_err_remedy(err, "%s", remedy_of(SQLITE_CORRUPT));
}

/* What a process before this one has left. Sandboxes that are still there, and executions that were
 * promised, are taken over afterwards by those who find them. */
static int recover(struct coto_records *r, struct coto_err *err)
{
    if (records_exec(r->writer,
                     "BEGIN IMMEDIATE;"
                     "UPDATE sandboxes SET state = 'interrupted',"
                     " ended = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE ended IS NULL;"
                     "UPDATE executions SET verdict = 'interrupted' WHERE verdict IS NULL"
                     " AND id NOT IN (SELECT id FROM promises);"))
        return records_fail(r, r->writer, "recover", err);
    r->stats.interrupted = (unsigned)sqlite3_changes(r->writer);
    if (records_exec(r->writer,
                     "UPDATE executions SET verdict = 'interrupted' WHERE verdict = 'queued'"
                     " AND id NOT IN (SELECT id FROM promises)"))
        return records_fail(r, r->writer, "recover", err);
    r->stats.interrupted += (unsigned)sqlite3_changes(r->writer);
    if (records_exec(r->writer, "COMMIT"))
        return records_fail(r, r->writer, "recover", err);
    return 0;
}

static int set_journal(struct coto_records *r, struct coto_err *err)
{
    char word[16] = "";

    if (ask(r->writer, "PRAGMA journal_mode = WAL", NULL, word, sizeof word))
        return records_fail(r, r->writer, "open", err);
    if (strcmp(word, "wal") != 0) {
        coto_err_set(err, COTO_ERR_SYSTEM, 0, "records in '%s': this file system cannot hold them",
                     r->config.dir);
        return coto_err_remedy(err, "use --state-dir DIR on a local file system");
    }
    r->is_full_sync = true;
    if (records_exec(r->writer, "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304;"))
        return records_fail(r, r->writer, "open", err);
    return 0;
}

static int add_columns(struct coto_records *r, const char *is_there, const char *how)
{
    int64_t found = 0;
    int code = ask(r->writer, is_there, &found, NULL, 0);

    return code || found ? code : records_exec(r->writer, how);
}

int records_open_store(struct coto_records *r, struct coto_err *err)
{
    bool is_there = false;
    bool is_old = false;

    if (check_file(r, &is_there, err) || (!is_there && make(r, err)) ||
        open_one(r, "records.db", SQLITE_OPEN_READWRITE, &r->writer, err) ||
        check_version(r, &is_old, err) || check_pages(r, err) || set_journal(r, err))
        return -1;
    if ((is_old && records_exec(r->writer, promises)) || records_exec(r->writer, of_sandboxes) ||
        add_columns(r, "SELECT count(*) FROM pragma_table_info('sandboxes') WHERE name = 'idle_ms'", times) ||
        add_columns(r, "SELECT count(*) FROM pragma_table_info('promises') WHERE name = 'is_guests'", of_guests))
        return records_fail(r, r->writer, "make", err);
    if (recover(r, err))
        return -1;
    if (records_prepare(r))
        return records_fail(r, r->writer, "prepare", err);
    return open_one(r, "records.db", SQLITE_OPEN_READONLY, &r->reader, err);
}

void records_close_store(struct coto_records *r)
{
    for (int i = 0; i < ST_WRITE_COUNT; i++)
        sqlite3_finalize(r->write[i]);
    /* The reader first: the last connection with the right to write tidies up. */
    sqlite3_close(r->reader);
    sqlite3_close(r->writer);
}

/* ---- life ---- */

int coto_records_open(const struct coto_records_config *config, struct coto_records **ret_records,
                      struct coto_err *err)
{
    coto_auto_fd claim = config->claim_fd;
    struct coto_records *r = calloc(1, sizeof *r);

    if (!r)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "records");
    r->config = *config;
    r->config.dir = strdup(config->dir);
    r->claim_fd = coto_take_fd(&claim);
    r->config.keep_days = config->keep_days ? config->keep_days : 30;
    r->config.keep_rows = config->keep_rows ? config->keep_rows : 1000000;
    r->config.keep_bytes = config->keep_bytes ? config->keep_bytes : 64LL * 1024 * 1024;
    r->starts.last = &r->starts.first;
    r->ready.last = &r->ready.first;
    r->failed.last = &r->failed.first;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->read_lock, NULL);
    if (!r->config.dir)
        coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "records");
    else if (records_open_store(r, err) == 0 && records_start_writer(r, err) == 0) {
        *ret_records = r;
        return 0;
    }
    coto_records_close(r);
    return -1;
}

void coto_records_close(struct coto_records *r)
{
    if (!r)
        return;
    records_stop_writer(r);
    records_close_store(r);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->read_lock);
    free((char *)r->config.dir);
    coto_own_close(&r->claim_fd);
    free(r);
}
