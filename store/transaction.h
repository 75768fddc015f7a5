/* Inside the module: the connections of a store and the one wrapper that makes transactions and
 * retries SQLITE_BUSY, for at most five seconds. Any thread. A write waits for other writes; a read
 * waits for other reads only when all reader connections are taken. */
#ifndef EXECHOST_STORE_TRANSACTION_H
#define EXECHOST_STORE_TRANSACTION_H

#include "store/events.h"
#include "store/sql.h"
#include "store/store.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Work inside a transaction. May run again after SQLITE_BUSY, so it sets outputs as if for the
 * first time. */
typedef int (*sql_fn)(struct sql *s, void *ctx, struct error *err);

struct sql_pool;

/* `writer` is taken, also on failure; opens the readers beside it. Returns owned. */
int sql_pool_new(const char *path, struct sql *writer, struct sql_pool **out,
                 struct error *err) WARN_UNUSED;
void sql_pool_free(struct sql_pool *pool); /* NULL is fine; no call may be under way */

/* The wrapper itself, for a connection that nobody else uses. */
int sql_write(struct sql *writer, const struct sql_points *points, sql_fn fn, void *ctx,
              struct error *err) WARN_UNUSED;

/* The same for the writer of a store, one at a time. When it returns 0 it is committed: what is
 * answered then is still so after a SIGKILL, and after a power loss where `points` say so. */
int store_write(struct store *s, const struct sql_points *points, sql_fn fn, void *ctx,
                struct error *err) WARN_UNUSED;
/* The same for a write that makes room: on a full disk it goes on in the room that store.c keeps
 * for it. */
int store_write_freeing(struct store *s, const struct sql_points *points, sql_fn fn, void *ctx,
                        struct error *err) WARN_UNUSED;
/* For one statement, which sees everything that was committed before. */
int store_read(struct store *s, sql_fn fn, void *ctx, struct error *err) WARN_UNUSED;

/* What store.c keeps. */
struct store {
    struct sql_pool *pool;
    char *path;
    char *instance_id;
    int lock_fd;
    store_events_changed events_changed; /* NULL: nobody listens */
    void *events_ctx;
    struct store_readers *readers;
    char *reserve;           /* the path of a file that only takes room */
    atomic_bool reserve_out; /* it was let go and is to be made again */
};

/* Lets go of the reserve; false when there is none. */
bool store_reserve_use(struct store *s);
/* Makes it if it is not there and there is room. */
void store_reserve_make(struct store *s);

#endif
