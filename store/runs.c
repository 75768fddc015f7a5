#include "store/runs.h"

#include "store/fields.h"
#include "store/idempotency_bind.h"
#include "store/schema.h"
#include "store/transaction.h"

#define FIXED(X)                                                                                   \
    X(tenant, FIELD_TEXT)                                                                          \
    X(run_id, FIELD_TEXT)                                                                          \
    X(description, FIELD_TEXT)                                                                     \
    X(requested_at, FIELD_TIME)

/* Written by the end, behind the state. */
#define CHANGING(X)                                                                                \
    X(started_at, FIELD_TIME)                                                                      \
    X(completed_at, FIELD_TIME)                                                                    \
    X(calls_total, FIELD_INT64)                                                                    \
    X(calls_answered, FIELD_INT64)                                                                 \
    X(calls_cancelled, FIELD_INT64)                                                                \
    X(outcome, FIELD_TEXT)                                                                         \
    X(result_place, FIELD_INT64)                                                                   \
    X(result_bytes, FIELD_INT64)                                                                   \
    X(log_bytes, FIELD_INT64)

#define MEMBER(name, type) {type, offsetof(struct store_run, name)},
static const struct field FIELDS[] = {FIXED(MEMBER) MEMBER(state, FIELD_STATE) CHANGING(MEMBER)
                                          MEMBER(spec, FIELD_TEXT)};
#define ONE(name, type) +1
enum { FIXED_COUNT = 0 FIXED(ONE), CHANGING_COUNT = 1 CHANGING(ONE) };

static const char *const STATES[] = {
    [STORE_RUN_STARTING] = "starting",
    [STORE_RUN_RUNNING] = "running",
    [STORE_RUN_SETTLED] = "settled",
};
static const struct field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), STATES, ARRAY_SIZE(STATES)};

#define COLUMNS "SELECT row" FIXED(FIELD_COLUMN) ", state" CHANGING(FIELD_COLUMN)
#define SELECT COLUMNS ", spec"

static const struct sql_points INSERT_POINTS = SQL_POINTS("run.insert");
static const struct sql_points INSERT_KEYED_POINTS = SQL_POINTS_POWER_LOSS("run.insert");
static const struct sql_points STARTED_POINTS = SQL_POINTS("run.started");
static const struct sql_points SETTLE_POINTS = SQL_POINTS("run.settle");
static const struct sql_points DELETE_POINTS = SQL_POINTS("run.delete");

void store_run_done(struct store_run *r)
{
    field_release(&TABLE, r);
}

void store_run_list_done(struct store_run_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        store_run_done(&list->items[i]);
    }
    free(list->items);
    *list = (struct store_run_list){0};
}

/* --- writing --- */

static int check_id_free(struct sql *s, const struct store_run *r, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int taken;

    if (sql_prepare(s, "SELECT 1 FROM runs WHERE tenant = :tenant AND run_id = :id", &stmt, err) !=
        0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", r->tenant);
    sql_bind_text(stmt, ":id", r->run_id);
    taken = sql_step(s, stmt, err);
    if (taken > 0) {
        return error_set_field(err, ERROR_ID_IN_USE, "/runId", "there is a run %s", r->run_id);
    }
    return taken;
}

static int insert_run(struct sql *s, void *ctx, struct error *err)
{
    static const char INSERT[] = "INSERT INTO runs (row" FIXED(FIELD_COLUMN) ", state" CHANGING(
        FIELD_COLUMN) ", spec) VALUES (NULL" FIXED(FIELD_PLACE) ", ?" CHANGING(FIELD_PLACE) ", "
                                                                                            "?"
                                                                                            ")";
    struct store_run *r = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (check_id_free(s, r, err) != 0 || sql_prepare(s, INSERT, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, 0, TABLE.count, r);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    r->row = sqlite3_last_insert_rowid(s->db);
    return idempotency_bind(s, r->claim, STORE_RESOURCE_RUN, r->run_id, r->row, err);
}

int store_run_insert(struct store *s, struct store_run *r, struct error *err)
{
    struct store_run inserted = *r; /* its texts stay the caller's */

    if (store_write(s, r->claim == 0 ? &INSERT_POINTS : &INSERT_KEYED_POINTS, insert_run, &inserted,
                    err) != 0) {
        return -1;
    }
    r->row = inserted.row;
    return 0;
}

struct run_start {
    int64_t row;
    int64_t at;
};

static int start_run(struct sql *s, void *ctx, struct error *err)
{
    const struct run_start *start = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s,
                    "UPDATE runs SET state = 'running', started_at = :at"
                    " WHERE row = :row AND state = 'starting'",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":at", start->at);
    sql_bind_int(stmt, ":row", start->row);
    return sql_run(s, stmt, err);
}

int store_run_started(struct store *s, int64_t row, int64_t started_at, struct error *err)
{
    struct run_start start = {row, started_at};

    return store_write(s, &STARTED_POINTS, start_run, &start, err);
}

static int settle_run(struct sql *s, void *ctx, struct error *err)
{
    static const char UPDATE[] =
        "UPDATE runs SET state = ?" CHANGING(FIELD_SET) " WHERE row = :row";
    const struct store_run *r = *(const struct store_run *const *)ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, UPDATE, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, FIXED_COUNT, CHANGING_COUNT, r);
    sql_bind_int(stmt, ":row", r->row);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    if (sqlite3_changes(s->db) != 1) {
        return error_set(err, ERROR_INTERNAL, "the row of run %s is gone", r->run_id);
    }
    return 0;
}

int store_run_settle(struct store *s, const struct store_run *r, struct error *err)
{
    return store_write_freeing(s, &SETTLE_POINTS, settle_run, &r, err);
}

static int delete_run(struct sql *s, void *ctx, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM runs WHERE row = :row", &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", *(const int64_t *)ctx);
    return sql_run(s, stmt, err);
}

int store_run_delete(struct store *s, int64_t row, struct error *err)
{
    return store_write_freeing(s, &DELETE_POINTS, delete_run, &row, err);
}

/* --- reading --- */

struct run_query {
    const char *tenant;
    const char *run_id;
    const struct store_page *page;
    struct store_run *out;
    struct store_run_list *list;
};

/* The spec is the last column, which lists leave out. */
static const struct field_table LIST_TABLE = {FIELDS, ARRAY_SIZE(FIELDS) - 1, STATES,
                                              ARRAY_SIZE(STATES)};

static int read_row(sqlite3_stmt *stmt, const struct field_table *table, struct store_run *out,
                    struct error *err)
{
    struct store_run r = {.row = sqlite3_column_int64(stmt, 0)};

    if (field_read(stmt, 1, table, &r, err) != 0) {
        store_run_done(&r);
        return -1;
    }
    *out = r;
    return 0;
}

static int get_run(struct sql *s, void *ctx, struct error *err)
{
    static const char GET[] = SELECT " FROM runs WHERE tenant = :tenant AND run_id = :id";
    const struct run_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    if (sql_prepare(s, GET, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    sql_bind_text(stmt, ":id", q->run_id);
    got = sql_step(s, stmt, err);
    if (got == 0) {
        return error_set(err, ERROR_PTC_RUN_NOT_FOUND, "there is no run %.64s", q->run_id);
    }
    return got < 0 ? -1 : read_row(stmt, &TABLE, q->out, err);
}

int store_run_get(struct store *s, const char *tenant, const char *run_id, struct store_run *out,
                  struct error *err)
{
    struct run_query q = {.tenant = tenant, .run_id = run_id, .out = out};

    return store_read(s, get_run, &q, err);
}

static int read_list(struct sql *s, sqlite3_stmt *stmt, const struct field_table *table,
                     struct store_run_list *out, struct error *err)
{
    int got;

    while ((got = sql_step(s, stmt, err)) > 0) {
        struct store_run *r = field_list_grow((void **)&out->items, &out->count, sizeof(*r));

        if (r == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        if (read_row(stmt, table, r, err) != 0) {
            return -1;
        }
    }
    return got;
}

static int list_runs(struct sql *s, void *ctx, struct error *err)
{
    static const char LIST[] = COLUMNS " FROM runs INDEXED BY runs_tenant"
                                       " WHERE tenant = :tenant AND row < :before"
                                       " ORDER BY row DESC LIMIT :limit";
    const struct run_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    store_run_list_done(q->list);
    if (sql_prepare(s, LIST, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    sql_bind_int(stmt, ":before", q->page->before == 0 ? INT64_MAX : q->page->before);
    sql_bind_int(stmt, ":limit", q->page->limit);
    return read_list(s, stmt, &LIST_TABLE, q->list, err);
}

static int list_unfinished(struct sql *s, void *ctx, struct error *err)
{
    static const char LIST[] = SELECT " FROM runs INDEXED BY runs_unfinished"
                                      " WHERE " SCHEMA_RUN_UNFINISHED " ORDER BY row";
    const struct run_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    store_run_list_done(q->list);
    if (sql_prepare(s, LIST, &stmt, err) != 0) {
        return -1;
    }
    return read_list(s, stmt, &TABLE, q->list, err);
}

static int read_runs(struct store *s, sql_fn fn, struct run_query *q, struct store_run_list *out,
                     struct error *err)
{
    struct store_run_list list = {0};

    q->list = &list;
    if (store_read(s, fn, q, err) != 0) {
        store_run_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}

int store_run_list(struct store *s, const char *tenant, const struct store_page *page,
                   struct store_run_list *out, struct error *err)
{
    struct run_query q = {.tenant = tenant, .page = page};

    return read_runs(s, list_runs, &q, out, err);
}

int store_run_list_unfinished(struct store *s, struct store_run_list *out, struct error *err)
{
    struct run_query q = {0};

    return read_runs(s, list_unfinished, &q, out, err);
}
