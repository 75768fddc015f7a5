#include "store/retention.h"

#include "store/retention_measure.h"
#include "store/schema.h"
#include "store/transaction.h"

#include <string.h>

enum { COMMANDS_AT_ONCE = 64 };

static const struct sql_points TRANSCRIPTS_POINTS = SQL_POINTS("retention.transcripts");
static const struct sql_points RECORD_POINTS = SQL_POINTS("retention.record");

/* Each pair reads an index of its own, in its order: no table is walked. */
static const char TOTAL_CHECKPOINTS[] =
    "SELECT coalesce(sum(stored_bytes), 0) FROM checkpoints INDEXED BY checkpoints_stored";
static const char OLDEST_CHECKPOINTS[] =
    "SELECT row, 0, tenant, checkpoint_id, stored_at, stored_bytes"
    " FROM checkpoints INDEXED BY checkpoints_stored WHERE durability <> 'uploading'"
    " ORDER BY stored_at LIMIT :limit";
static const char TOTAL_TRANSCRIPTS[] =
    "SELECT coalesce(sum(transcript_bytes), 0) FROM commands INDEXED BY commands_transcripts"
    " WHERE " SCHEMA_TRANSCRIPT;
static const char OLDEST_TRANSCRIPTS[] =
    "SELECT row, execution_row, tenant, command_id, completed_at, transcript_bytes"
    " FROM commands INDEXED BY commands_transcripts WHERE " SCHEMA_TRANSCRIPT
    " ORDER BY completed_at LIMIT :limit";
static const char TOTAL_RECORDS[] =
    "SELECT coalesce(sum(record_bytes), 0) FROM executions INDEXED BY executions_ended"
    " WHERE " SCHEMA_ENDED;
static const char OLDEST_RECORDS[] =
    "SELECT e.row, e.row, e.tenant, e.execution_id, e.terminated_at, e.record_bytes"
    " FROM executions AS e INDEXED BY executions_ended WHERE " SCHEMA_ENDED
    " AND NOT EXISTS (SELECT 1 FROM commands AS c INDEXED BY commands_execution"
    "  WHERE c.execution_row = e.row AND c." SCHEMA_UNFINISHED ")"
    " ORDER BY e.terminated_at LIMIT :limit";

static const char TOTAL_RUNS[] =
    "SELECT coalesce(sum(record_bytes), 0) FROM runs INDEXED BY runs_settled"
    " WHERE state = 'settled'";
static const char OLDEST_RUNS[] =
    "SELECT row, 0, tenant, run_id, completed_at, record_bytes FROM runs INDEXED BY runs_settled"
    " WHERE state = 'settled' ORDER BY completed_at LIMIT :limit";

static const struct {
    const char *total;
    const char *oldest;
} STATEMENTS[] = {
    [STORE_KEPT_CHECKPOINTS] = {TOTAL_CHECKPOINTS, OLDEST_CHECKPOINTS},
    [STORE_KEPT_TRANSCRIPTS] = {TOTAL_TRANSCRIPTS, OLDEST_TRANSCRIPTS},
    [STORE_KEPT_RECORDS] = {TOTAL_RECORDS, OLDEST_RECORDS},
    [STORE_KEPT_RUNS] = {TOTAL_RUNS, OLDEST_RUNS},
};

struct overdue_query {
    enum store_kept kind;
    int64_t before;
    int64_t bytes_max;
    int64_t total;
    struct store_overdue_list *out;
};

static int read_total(struct sql *s, void *ctx, struct error *err)
{
    struct overdue_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, STATEMENTS[q->kind].total, &stmt, err) != 0 || sql_run(s, stmt, err) != 0) {
        return -1;
    }
    q->total = sqlite3_column_int64(stmt, 0);
    return 0;
}

static void copy_text(sqlite3_stmt *stmt, int column, char out[ID_SIZE])
{
    const unsigned char *text = sqlite3_column_text(stmt, column);

    snprintf(out, ID_SIZE, "%s", text == NULL ? "" : (const char *)text);
}

static int read_oldest(struct sql *s, void *ctx, struct error *err)
{
    struct overdue_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int64_t excess = q->total - q->bytes_max;
    int got;

    q->out->count = 0;
    if (sql_prepare(s, STATEMENTS[q->kind].oldest, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":limit", STORE_OVERDUE_MAX);
    while ((got = sql_step(s, stmt, err)) > 0) {
        struct store_overdue *o = &q->out->items[q->out->count];

        if (sqlite3_column_int64(stmt, 4) >= q->before && excess <= 0) {
            return 0;
        }
        excess -= sqlite3_column_int64(stmt, 5);
        o->row = sqlite3_column_int64(stmt, 0);
        o->execution_row = sqlite3_column_int64(stmt, 1);
        copy_text(stmt, 2, o->tenant);
        copy_text(stmt, 3, o->id);
        q->out->count++;
    }
    return got;
}

int store_retention_overdue(struct store *s, enum store_kept kind, int64_t before_ms,
                            int64_t bytes_max, struct store_overdue_list *out, struct error *err)
{
    struct overdue_query q = {.kind = kind, .before = before_ms, .bytes_max = bytes_max};
    struct store_overdue_list list = {.count = 0};

    q.out = &list;
    if (store_read(s, read_total, &q, err) != 0 || store_read(s, read_oldest, &q, err) != 0) {
        return -1;
    }
    *out = list;
    return 0;
}

/* --- how much there is --- */

int retention_measure(struct sql *s, int64_t execution_row, struct error *err)
{
    static const char MEASURE[] =
        "UPDATE executions SET record_bytes = 1024 + length(image)"
        " + coalesce(length(image_digests), 0) + coalesce(length(workspace), 0)"
        " + coalesce(length(environment), 0) + coalesce(length(metadata), 0)"
        " + 2 * coalesce(length(labels), 0) + coalesce(length(warnings), 0)"
        " + (SELECT coalesce(sum(512 + length(command) + coalesce(length(args), 0)"
        "    + coalesce(length(cwd), 0) + coalesce(length(environment), 0)), 0)"
        "    FROM commands WHERE execution_row = :row)"
        " WHERE row = :row AND " SCHEMA_ENDED;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, MEASURE, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", execution_row);
    return sql_run(s, stmt, err);
}

/* --- letting go --- */

static int forget_transcripts(struct sql *s, void *ctx, struct error *err)
{
    const struct store_overdue_list *gone = *(const struct store_overdue_list *const *)ctx;

    for (size_t i = 0; i < gone->count; i++) {
        _cleanup_statement_ sqlite3_stmt *stmt = NULL;

        if (sql_prepare(s, "UPDATE commands SET transcript_bytes = 0 WHERE row = :row", &stmt,
                        err) != 0) {
            return -1;
        }
        sql_bind_int(stmt, ":row", gone->items[i].row);
        if (sql_run(s, stmt, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int store_retention_transcripts_gone(struct store *s, const struct store_overdue_list *gone,
                                     struct error *err)
{
    return store_write_freeing(s, &TRANSCRIPTS_POINTS, forget_transcripts, &gone, err);
}

struct record_deletion {
    int64_t row;
    bool gone;
};

/* 1 when the execution has more commands than can go with it in one transaction. */
static int has_many_commands(struct sql *s, const struct record_deletion *d, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "SELECT 1 FROM commands WHERE execution_row = :row LIMIT 1 OFFSET :limit",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", d->row);
    sql_bind_int(stmt, ":limit", COMMANDS_AT_ONCE);
    return sql_step(s, stmt, err);
}

static int delete_commands(struct sql *s, const struct record_deletion *d, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s,
                    "DELETE FROM commands WHERE row IN"
                    " (SELECT row FROM commands WHERE execution_row = :row LIMIT :limit)",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", d->row);
    sql_bind_int(stmt, ":limit", COMMANDS_AT_ONCE);
    return sql_run(s, stmt, err);
}

/* Its commands and labels go with it. */
static int delete_execution(struct sql *s, const struct record_deletion *d, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM executions WHERE row = :row AND " SCHEMA_ENDED, &stmt, err) !=
        0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", d->row);
    return sql_run(s, stmt, err);
}

static int delete_record(struct sql *s, void *ctx, struct error *err)
{
    struct record_deletion *d = ctx;
    int many = has_many_commands(s, d, err);

    if (many < 0) {
        return -1;
    }
    d->gone = many == 0;
    return many > 0 ? delete_commands(s, d, err) : delete_execution(s, d, err);
}

int store_retention_record_delete(struct store *s, int64_t execution_row, bool *gone,
                                  struct error *err)
{
    struct record_deletion d = {execution_row, false};

    if (store_write_freeing(s, &RECORD_POINTS, delete_record, &d, err) != 0) {
        return -1;
    }
    *gone = d.gone;
    return 0;
}
