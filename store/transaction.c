#include "store/transaction.h"

#include "store/fields.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { READERS = 4, BUSY_LIMIT_MS = 5000, BUSY_PAUSE_MIN_US = 500, BUSY_PAUSE_MAX_US = 50000 };

struct sql_pool {
    pthread_mutex_t write_mutex;
    struct sql *writer;
    pthread_mutex_t read_mutex; /* guards the free list */
    pthread_cond_t returned;
    struct sql *readers[READERS];
    size_t free_readers;
};

int sql_pool_new(const char *path, struct sql *writer, struct sql_pool **out, struct error *err)
{
    struct sql_pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL) {
        sql_close(writer);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&pool->write_mutex, NULL);
    pthread_mutex_init(&pool->read_mutex, NULL);
    pthread_cond_init(&pool->returned, NULL);
    pool->writer = writer;
    /* All now: a service that has run out of descriptors can still be asked what it holds. */
    while (pool->free_readers < READERS) {
        if (sql_open(path, false, &pool->readers[pool->free_readers], err) != 0) {
            sql_pool_free(pool);
            return -1;
        }
        pool->free_readers++;
    }
    *out = pool;
    return 0;
}

void sql_pool_free(struct sql_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (size_t i = 0; i < pool->free_readers; i++) {
        sql_close(pool->readers[i]);
    }
    /* Last, so that it is the one that moves the log back into the file. */
    sql_close(pool->writer);
    pthread_cond_destroy(&pool->returned);
    pthread_mutex_destroy(&pool->read_mutex);
    pthread_mutex_destroy(&pool->write_mutex);
    free(pool);
}

static void pause_for(long us)
{
    struct timespec ts = {.tv_sec = 0, .tv_nsec = us * 1000};

    nanosleep(&ts, NULL);
}

/* Runs `once` until it is not SQLITE_BUSY that stops it, or the time is over. */
static int retry_busy(int (*once)(struct sql *, sql_fn, void *, struct error *), struct sql *s,
                      sql_fn fn, void *ctx, struct error *err)
{
    int64_t deadline = 0;
    long pause_us = BUSY_PAUSE_MIN_US;

    for (;;) {
        s->busy = false;
        if (once(s, fn, ctx, err) == 0) {
            return 0;
        }
        if (!s->busy) {
            return -1;
        }
        if (deadline == 0) {
            deadline = clock_mono_ms() + BUSY_LIMIT_MS;
        } else if (clock_mono_ms() >= deadline) {
            return -1;
        }
        error_clear(err);
        pause_for(pause_us);
        pause_us = pause_us * 2 > BUSY_PAUSE_MAX_US ? BUSY_PAUSE_MAX_US : pause_us * 2;
    }
}

static int read_once(struct sql *s, sql_fn fn, void *ctx, struct error *err)
{
    return fn(s, ctx, err);
}

static int fault_at(const char *name, const char *what, struct error *err)
{
    int errnum = fault_point(name);

    (void)name;
    if (errnum != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errnum, "the store cannot %s", what);
    }
    return 0;
}

static int run_text(struct sql *s, const char *text, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int rc;

    if (sql_prepare(s, text, &stmt, err) != 0) {
        return -1;
    }
    rc = sqlite3_step(stmt);
    if (rc != SQLITE_DONE) {
        return sql_fail(s, rc, "make a transaction", err);
    }
    return 0;
}

static int write_inside(struct sql *s, sql_fn fn, void *ctx, struct error *err)
{
    static const char COMMIT[] = "COMMIT";

    if (fn(s, ctx, err) != 0 || fault_at(s->points->commit, "commit", err) != 0) {
        return -1;
    }
    return run_text(s, COMMIT, err);
}

static int write_once(struct sql *s, sql_fn fn, void *ctx, struct error *err)
{
    static const char BEGIN[] = "BEGIN IMMEDIATE";
    static const char ROLLBACK[] = "ROLLBACK";
    struct error ignored = ERROR_INIT;

    s->first_event = 0;
    if (fault_at(s->points->begin, "begin", err) != 0 || run_text(s, BEGIN, err) != 0) {
        return -1;
    }
    if (write_inside(s, fn, ctx, err) == 0) {
        return 0;
    }
    /* A full disk makes SQLite roll back by itself. */
    if (sqlite3_get_autocommit(s->db) == 0) {
        bool busy = s->busy;

        if (run_text(s, ROLLBACK, &ignored) != 0) {
            error_add_cause(err, &ignored);
        }
        s->busy = busy;
    }
    return -1;
}

/* With FULL the log is synced by the commit, before anybody sees the rows. */
static int sync_commits(struct sql *s, bool full, struct error *err)
{
    return sql_script(s, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
}

static int write_durably(struct sql *s, sql_fn fn, void *ctx, struct error *err)
{
    struct error ignored = ERROR_INIT;
    int result;

    if (sync_commits(s, true, err) != 0) {
        return -1;
    }
    result = retry_busy(write_once, s, fn, ctx, err);
    /* Where it fails the next writes only take longer. */
    if (sync_commits(s, false, &ignored) != 0) {
        log_failure(LOG_LEVEL_WARN, &ignored, "every write waits for the disk", NULL);
    }
    return result;
}

int sql_write(struct sql *writer, const struct sql_points *points, sql_fn fn, void *ctx,
              struct error *err)
{
    int result;

    writer->points = points;
    result = points->power_loss ? write_durably(writer, fn, ctx, err)
                                : retry_busy(write_once, writer, fn, ctx, err);
    writer->points = NULL;
    if (result == 0) {
        (void)fault_point(points->committed);
    }
    return result;
}

/* --- who hears of it --- */

struct tenants {
    char **names; /* owned, with their texts */
    size_t count;
};

static void tenants_done(struct tenants *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->names[i]);
    }
    free(t->names);
}

static int add_tenant(struct tenants *t, const char *name, struct error *err)
{
    char **place;

    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->names[i], name) == 0) {
            return 0;
        }
    }
    place = field_list_grow((void **)&t->names, &t->count, sizeof(*place));
    if (place == NULL || (*place = strdup(name)) == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

/* Whose events the committed write made; it still has the writer to itself. By the rows' numbers:
 * asked for them without repeats, SQLite walks the index of all tenants. */
static int list_tenants(struct sql *s, struct tenants *out, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    if (sql_prepare(s, "SELECT tenant FROM events NOT INDEXED WHERE row >= :first", &stmt, err) !=
        0) {
        return -1;
    }
    sql_bind_int(stmt, ":first", s->first_event);
    while ((got = sql_step(s, stmt, err)) > 0) {
        if (add_tenant(out, (const char *)sqlite3_column_text(stmt, 0), err) != 0) {
            return -1;
        }
    }
    return got;
}

static void tell(const struct store *s, const struct tenants *tenants)
{
    for (size_t i = 0; i < tenants->count; i++) {
        if (tenants->names[i] != NULL) {
            s->events_changed(s->events_ctx, tenants->names[i]);
        }
    }
}

void store_event_watch(struct store *s, store_events_changed changed, void *ctx)
{
    s->events_changed = changed;
    s->events_ctx = ctx;
}

int store_write(struct store *s, const struct sql_points *points, sql_fn fn, void *ctx,
                struct error *err)
{
    _cleanup_(tenants_done) struct tenants tenants = {0};
    struct error ignored = ERROR_INIT;
    struct sql *writer = s->pool->writer;
    int result;

    pthread_mutex_lock(&s->pool->write_mutex);
    result = sql_write(writer, points, fn, ctx, err);
    if (result == 0 && writer->first_event != 0 && s->events_changed != NULL &&
        list_tenants(writer, &tenants, &ignored) != 0) {
        log_failure(LOG_LEVEL_WARN, &ignored, "followers of events hear of one late", NULL);
    }
    pthread_mutex_unlock(&s->pool->write_mutex);
    tell(s, &tenants);
    return result;
}

int store_write_freeing(struct store *s, const struct sql_points *points, sql_fn fn, void *ctx,
                        struct error *err)
{
    int result = store_write(s, points, fn, ctx, err);

    if (result != 0 && err->code == ERROR_STORAGE_FULL && store_reserve_use(s)) {
        error_clear(err);
        result = store_write(s, points, fn, ctx, err);
    }
    if (result == 0) {
        store_keep_reserve(s);
    }
    return result;
}

static struct sql *take_reader(struct sql_pool *pool)
{
    struct sql *reader;

    pthread_mutex_lock(&pool->read_mutex);
    while (pool->free_readers == 0) {
        pthread_cond_wait(&pool->returned, &pool->read_mutex);
    }
    reader = pool->readers[--pool->free_readers];
    pthread_mutex_unlock(&pool->read_mutex);
    return reader;
}

static void return_reader(struct sql_pool *pool, struct sql *reader)
{
    pthread_mutex_lock(&pool->read_mutex);
    pool->readers[pool->free_readers++] = reader;
    pthread_cond_signal(&pool->returned);
    pthread_mutex_unlock(&pool->read_mutex);
}

int store_read(struct store *s, sql_fn fn, void *ctx, struct error *err)
{
    struct sql *reader = take_reader(s->pool);
    int result = retry_busy(read_once, reader, fn, ctx, err);

    return_reader(s->pool, reader);
    return result;
}
