/* Inside the module: one SQLite connection and its prepared statements, which are kept for as long
 * as the connection lives. One thread at a time per connection; every call may block on the disk.
 *
 * Errors: ERROR_STORAGE_FULL when SQLite or the disk says so, else ERROR_INTERNAL. SQLITE_BUSY is
 * remembered in the connection, so that the transaction wrapper, and nobody else, can try again. */
#ifndef EXECHOST_STORE_SQL_H
#define EXECHOST_STORE_SQL_H

#include "base/error.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* One kind of write: its fault points, and what it must outlive. */
struct sql_points {
    const char *begin;     /* before the transaction */
    const char *step;      /* before each statement in it */
    const char *commit;    /* before it becomes durable */
    const char *committed; /* after it did: only kill and hang mean something here */
    bool power_loss;       /* on disk before it returns; else it is the kernel's to write */
};
#define SQL_POINTS_OF(name, power_loss)                                                            \
    {                                                                                              \
        "store." name ".begin", "store." name ".step", "store." name ".commit",                    \
            "store." name ".committed", power_loss                                                 \
    }
/* Outlives the end of the service, SIGKILL too. */
#define SQL_POINTS(name) SQL_POINTS_OF(name, false)
/* Outlives the end of the machine, with all that was written before it. */
#define SQL_POINTS_POWER_LOSS(name) SQL_POINTS_OF(name, true)

enum { SQL_CACHE_MAX = 48 };

struct sql_cached {
    const char *key; /* borrowed literal; NULL: found by its text */
    sqlite3_stmt *stmt;
    uint64_t used;
};

struct sql {
    sqlite3 *db;
    struct sql_cached cache[SQL_CACHE_MAX];
    size_t cached;
    uint64_t uses;
    const struct sql_points *points; /* of the write under way, else NULL */
    bool busy;                       /* the last failure was SQLITE_BUSY */
    int64_t first_event; /* row of the first one that the write under way made; 0: none */
};

/* Opens the file, which must exist, and sets the pragmas. A connection that is not `writer` refuses
 * to write. Returns owned. */
int sql_open(const char *path, bool writer, struct sql **out, struct error *err) WARN_UNUSED;
void sql_close(struct sql *s); /* NULL is fine */

/* Statements outside the cache, results ignored: pragmas and schema scripts. */
int sql_script(struct sql *s, const char *text, struct error *err) WARN_UNUSED;

/* A statement ready to be bound. `text` is a literal and found again by its address. Borrowed: the
 * connection owns it; it goes back with sql_release. */
int sql_prepare(struct sql *s, const char *text, sqlite3_stmt **out, struct error *err) WARN_UNUSED;
/* The same for a text that was put together; found again by its content. */
int sql_prepare_built(struct sql *s, const char *text, sqlite3_stmt **out,
                      struct error *err) WARN_UNUSED;
/* Resets the statement and forgets what was bound, so that no borrowed text is kept. */
void sql_release(sqlite3_stmt **stmt);
#define _cleanup_statement_ _cleanup_(sql_release)

/* 1 with a row, 0 at the end, -1. */
int sql_step(struct sql *s, sqlite3_stmt *stmt, struct error *err) WARN_UNUSED;
/* Steps once and takes a row or none. */
int sql_run(struct sql *s, sqlite3_stmt *stmt, struct error *err) WARN_UNUSED;

/* Binding cannot fail but for memory, which the step then reports as a missing value. Texts are
 * borrowed until sql_release. A name that the statement does not have is passed over. */
void sql_bind_text(sqlite3_stmt *stmt, const char *name, const char *value);
void sql_bind_int(sqlite3_stmt *stmt, const char *name, int64_t value);
/* NULL data is NULL; borrowed until sql_release. */
void sql_bind_blob(sqlite3_stmt *stmt, const char *name, const void *data, size_t len);

/* Writes the connection's last failure; -1. */
int sql_fail(struct sql *s, int rc, const char *what, struct error *err);

#endif
