#include "store/stored.h"

#include "store/stored_check.h"
#include "store/transaction.h"

#include <string.h>

struct stored_query {
    const char *tenant;
    struct store_stored *out;
};

static int64_t *slot_of(struct store_stored *stored, const char *kind)
{
    if (strcmp(kind, "checkpoints") == 0) {
        return &stored->checkpoints;
    }
    if (strcmp(kind, "transcripts") == 0) {
        return &stored->transcripts;
    }
    return strcmp(kind, "records") == 0 ? &stored->records : &stored->runs;
}

static int read_stored(struct sql *s, void *ctx, struct error *err)
{
    static const char OF_TENANT[] = "SELECT kind, bytes FROM stored WHERE tenant = :tenant";
    static const char OF_ALL[] = "SELECT kind, sum(bytes) FROM stored GROUP BY kind";
    const struct stored_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    *q->out = (struct store_stored){0};
    /* Each is found again by its address. */
    if ((q->tenant != NULL ? sql_prepare(s, OF_TENANT, &stmt, err)
                           : sql_prepare(s, OF_ALL, &stmt, err)) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    while ((got = sql_step(s, stmt, err)) > 0) {
        *slot_of(q->out, (const char *)sqlite3_column_text(stmt, 0)) =
            sqlite3_column_int64(stmt, 1);
    }
    return got;
}

int store_stored_bytes(struct store *s, const char *tenant, struct store_stored *out,
                       struct error *err)
{
    struct stored_query q = {tenant, out};

    return store_read(s, read_stored, &q, err);
}

int64_t store_stored_total(const struct store_stored *stored)
{
    return stored->checkpoints + stored->transcripts + stored->records + stored->runs;
}

int stored_check(struct sql *s, const char *tenant, int64_t bytes, int64_t max, struct error *err)
{
    struct store_stored stored;
    struct stored_query q = {tenant, &stored};
    int64_t used;

    if (max == 0) {
        return 0;
    }
    if (read_stored(s, &q, err) != 0) {
        return -1;
    }
    used = store_stored_total(&stored);
    if (bytes > max || used > max - bytes) {
        return error_set(
            err, ERROR_QUOTA_EXCEEDED,
            "the tenant's quota storedBytes: %lld in use, %lld asked for, %lld at most",
            (long long)used, (long long)bytes, (long long)max);
    }
    return 0;
}
