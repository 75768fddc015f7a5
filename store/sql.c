#include "store/sql.h"

#include "base/fault.h"

#include <errno.h>
#include <string.h>

/* unix-excl: other processes are shut out by the kernel, and the WAL index lives in memory that the
 * connections of this process share, so that a read makes no locking calls and a full disk cannot
 * keep a reader from working. */
static const char VFS[] = "unix-excl";

/* `synchronous` is how an ordinary write is made; transaction.c raises it for those that must
 * outlive a power loss. A checkpoint of the log moves at most this much back before the log starts
 * again. */
static const char PRAGMAS_WRITER[] = "PRAGMA journal_mode = WAL;"
                                     "PRAGMA synchronous = NORMAL;"
                                     "PRAGMA foreign_keys = ON;"
                                     "PRAGMA trusted_schema = OFF;"
                                     "PRAGMA journal_size_limit = 4194304;"
                                     "PRAGMA cache_size = -2048;";
static const char PRAGMAS_READER[] = "PRAGMA query_only = ON;"
                                     "PRAGMA trusted_schema = OFF;"
                                     "PRAGMA cache_size = -512;";

static bool is_full(int errnum)
{
    return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
}

int sql_fail(struct sql *s, int rc, const char *what, struct error *err)
{
    int primary = rc & 0xff;

    s->busy = primary == SQLITE_BUSY || primary == SQLITE_LOCKED;
    if (primary == SQLITE_FULL ||
        (primary == SQLITE_IOERR && is_full(sqlite3_system_errno(s->db)))) {
        return error_set(err, ERROR_STORAGE_FULL, "the store cannot %s: the disk is full", what);
    }
    return error_set(err, ERROR_INTERNAL, "the store cannot %s: %s (%d)", what,
                     sqlite3_errmsg(s->db), rc);
}

int sql_script(struct sql *s, const char *text, struct error *err)
{
    int rc = sqlite3_exec(s->db, text, NULL, NULL, NULL);

    if (rc != SQLITE_OK) {
        return sql_fail(s, rc, "run its script", err);
    }
    return 0;
}

/* Rows rise, so the first one of a transaction tells all of them. */
static void on_change(void *ctx, int operation, const char *database, const char *table,
                      sqlite3_int64 row)
{
    struct sql *s = ctx;

    (void)database;
    if (operation == SQLITE_INSERT && s->first_event == 0 && strcmp(table, "events") == 0) {
        s->first_event = row;
    }
}

int sql_open(const char *path, bool writer, struct sql **out, struct error *err)
{
    struct sql *s = calloc(1, sizeof(*s));
    int rc;

    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, VFS);
    if (rc != SQLITE_OK) {
        sql_fail(s, rc, "open its file", err);
        sql_close(s);
        return -1;
    }
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, 0);
    if (writer) {
        sqlite3_update_hook(s->db, on_change, s);
    }
    if (sql_script(s, writer ? PRAGMAS_WRITER : PRAGMAS_READER, err) != 0) {
        int busy = s->busy;

        sql_close(s);
        if (busy) {
            error_clear(err);
            error_set(err, ERROR_INTERNAL, "%s is in use by another program", path);
        }
        return -1;
    }
    *out = s;
    return 0;
}

void sql_close(struct sql *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->cached; i++) {
        sqlite3_finalize(s->cache[i].stmt);
    }
    sqlite3_close(s->db);
    free(s);
}

/* Where the next statement goes: a free place, or that of the one unused for longest. */
static struct sql_cached *make_room(struct sql *s)
{
    struct sql_cached *oldest = NULL;

    if (s->cached < SQL_CACHE_MAX) {
        return &s->cache[s->cached++];
    }
    for (size_t i = 0; i < s->cached; i++) {
        bool running = sqlite3_stmt_busy(s->cache[i].stmt) != 0;

        if (!running && (oldest == NULL || s->cache[i].used < oldest->used)) {
            oldest = &s->cache[i];
        }
    }
    sqlite3_finalize(oldest->stmt);
    return oldest;
}

static int compile(struct sql *s, const char *text, const char *key, sqlite3_stmt **out,
                   struct error *err)
{
    sqlite3_stmt *stmt = NULL;
    struct sql_cached *place;
    int rc = sqlite3_prepare_v3(s->db, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);

    if (rc != SQLITE_OK) {
        return sql_fail(s, rc, "prepare a statement", err);
    }
    place = make_room(s);
    *place = (struct sql_cached){.key = key, .stmt = stmt, .used = ++s->uses};
    *out = stmt;
    return 0;
}

int sql_prepare(struct sql *s, const char *text, sqlite3_stmt **out, struct error *err)
{
    for (size_t i = 0; i < s->cached; i++) {
        if (s->cache[i].key == text) {
            s->cache[i].used = ++s->uses;
            *out = s->cache[i].stmt;
            return 0;
        }
    }
    return compile(s, text, text, out, err);
}

int sql_prepare_built(struct sql *s, const char *text, sqlite3_stmt **out, struct error *err)
{
    for (size_t i = 0; i < s->cached; i++) {
        if (s->cache[i].key == NULL && strcmp(sqlite3_sql(s->cache[i].stmt), text) == 0) {
            s->cache[i].used = ++s->uses;
            *out = s->cache[i].stmt;
            return 0;
        }
    }
    return compile(s, text, NULL, out, err);
}

void sql_release(sqlite3_stmt **stmt)
{
    if (*stmt != NULL) {
        sqlite3_reset(*stmt);
        sqlite3_clear_bindings(*stmt);
    }
}

int sql_step(struct sql *s, sqlite3_stmt *stmt, struct error *err)
{
    int errnum = s->points == NULL ? 0 : fault_point(s->points->step);
    int rc;

    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "the store cannot run a statement");
    }
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        return 1;
    }
    if (rc == SQLITE_DONE) {
        return 0;
    }
    return sql_fail(s, rc, "run a statement", err);
}

int sql_run(struct sql *s, sqlite3_stmt *stmt, struct error *err)
{
    return sql_step(s, stmt, err) < 0 ? -1 : 0;
}

void sql_bind_text(sqlite3_stmt *stmt, const char *name, const char *value)
{
    int at = sqlite3_bind_parameter_index(stmt, name);

    if (at > 0) {
        sqlite3_bind_text(stmt, at, value, -1, SQLITE_STATIC);
    }
}

void sql_bind_int(sqlite3_stmt *stmt, const char *name, int64_t value)
{
    int at = sqlite3_bind_parameter_index(stmt, name);

    if (at > 0) {
        sqlite3_bind_int64(stmt, at, value);
    }
}

void sql_bind_blob(sqlite3_stmt *stmt, const char *name, const void *data, size_t len)
{
    int at = sqlite3_bind_parameter_index(stmt, name);

    if (at > 0) {
        sqlite3_bind_blob64(stmt, at, data, len, SQLITE_STATIC);
    }
}
