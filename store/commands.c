#include "store/commands.h"

#include "store/fields.h"
#include "store/idempotency_bind.h"
#include "store/schema.h"
#include "store/transaction.h"

#define FIXED(X)                                                                                   \
    X(tenant, FIELD_TEXT)                                                                          \
    X(command_id, FIELD_TEXT)                                                                      \
    X(command, FIELD_TEXT)                                                                         \
    X(args, FIELD_TEXT)                                                                            \
    X(cwd, FIELD_TEXT)                                                                             \
    X(environment, FIELD_TEXT)                                                                     \
    X(timeout_ms, FIELD_COUNT)                                                                     \
    X(queued_at, FIELD_TIME)

/* Written by each update, behind the state. */
#define CHANGING(X)                                                                                \
    X(started_at, FIELD_TIME)                                                                      \
    X(completed_at, FIELD_TIME)                                                                    \
    X(exit_code, FIELD_CODE)                                                                       \
    X(signal, FIELD_TEXT)                                                                          \
    X(stdout_bytes, FIELD_INT64)                                                                   \
    X(stderr_bytes, FIELD_INT64)                                                                   \
    X(truncated, FIELD_BOOL)                                                                       \
    X(usage_cpu_ms, FIELD_COUNT)                                                                   \
    X(usage_memory_peak_bytes, FIELD_COUNT)                                                        \
    X(usage_wall_ms, FIELD_COUNT)                                                                  \
    X(termination_reason, FIELD_TEXT)                                                              \
    X(termination_code, FIELD_TEXT)                                                                \
    X(termination_detail, FIELD_TEXT)                                                              \
    X(termination_checkpoint_id, FIELD_TEXT)                                                       \
    X(transcript_bytes, FIELD_INT64)

#define MEMBER(name, type) {type, offsetof(struct store_command, name)},
static const struct field FIELDS[] = {FIXED(MEMBER) MEMBER(state, FIELD_STATE) CHANGING(MEMBER)};
#define ONE(name, type) +1
enum { FIXED_COUNT = 0 FIXED(ONE) };

static const char *const STATES[] = {
    [STORE_COMMAND_QUEUED] = "queued",
    [STORE_COMMAND_RUNNING] = "running",
    [STORE_COMMAND_EXITED] = "exited",
    [STORE_COMMAND_FAILED] = "failed",
};
static const struct field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), STATES, ARRAY_SIZE(STATES)};

/* What comes with the execution's row stands behind the table's own columns. */
static const struct field EXECUTION_FIELDS[] = {MEMBER(execution_id, FIELD_TEXT)
                                                    MEMBER(incarnation, FIELD_UNSIGNED)};
static const struct field_table EXECUTION_TABLE = {EXECUTION_FIELDS, ARRAY_SIZE(EXECUTION_FIELDS),
                                                   NULL, 0};

#define C_COLUMN(name, type) ", c." #name
#define SELECT                                                                                     \
    "SELECT c.row, c.execution_row" FIXED(C_COLUMN) ", c.state" CHANGING(                          \
        C_COLUMN) ", e.execution_id, e.incarnation"

static const struct sql_points INSERT_POINTS = SQL_POINTS("command.insert");
static const struct sql_points INSERT_KEYED_POINTS = SQL_POINTS_POWER_LOSS("command.insert");
static const struct sql_points UPDATE_POINTS = SQL_POINTS("command.update");
static const struct sql_points DELETE_POINTS = SQL_POINTS("command.delete");

void store_command_done(struct store_command *c)
{
    field_release(&TABLE, c);
    field_release(&EXECUTION_TABLE, c);
}

bool store_command_is_final(const struct store_command *c)
{
    return c->state == STORE_COMMAND_EXITED || c->state == STORE_COMMAND_FAILED;
}

void store_command_list_done(struct store_command_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        store_command_done(&list->items[i]);
    }
    free(list->items);
    *list = (struct store_command_list){0};
}

/* --- writing --- */

static int check_id_free(struct sql *s, const struct store_command *c, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int taken;

    if (sql_prepare(s, "SELECT 1 FROM commands WHERE tenant = :tenant AND command_id = :id", &stmt,
                    err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", c->tenant);
    sql_bind_text(stmt, ":id", c->command_id);
    taken = sql_step(s, stmt, err);
    if (taken > 0) {
        return error_set(err, ERROR_ID_IN_USE, "there is a command %s", c->command_id);
    }
    return taken;
}

static int insert_command(struct sql *s, void *ctx, struct error *err)
{
    /* From the execution's row, so that a command can belong only to one of its own tenant. */
    static const char INSERT[] =
        "INSERT INTO commands (execution_row" FIXED(FIELD_COLUMN) ", state" CHANGING(
            FIELD_COLUMN) ") SELECT row" FIXED(FIELD_PLACE) ", ?" CHANGING(FIELD_PLACE) " FROM "
                                                                                        "executions"
                                                                                        " WHERE "
                                                                                        "row = "
                                                                                        ":execution"
                                                                                        " AND "
                                                                                        "tenant = "
                                                                                        ":tenant";
    struct store_command *c = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (check_id_free(s, c, err) != 0 || sql_prepare(s, INSERT, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, 0, TABLE.count, c);
    sql_bind_int(stmt, ":execution", c->execution_row);
    sql_bind_text(stmt, ":tenant", c->tenant);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    if (sqlite3_changes(s->db) != 1) {
        return error_set(err, ERROR_INTERNAL, "the execution of command %s is gone", c->command_id);
    }
    c->row = sqlite3_last_insert_rowid(s->db);
    return idempotency_bind(s, c->claim, STORE_RESOURCE_COMMAND, c->command_id, c->execution_row,
                            err);
}

int store_command_insert(struct store *s, struct store_command *c, struct error *err)
{
    struct store_command inserted = *c; /* its texts stay the caller's */

    if (store_write(s, c->claim == 0 ? &INSERT_POINTS : &INSERT_KEYED_POINTS, insert_command,
                    &inserted, err) != 0) {
        return -1;
    }
    c->row = inserted.row;
    return 0;
}

static int update_command(struct sql *s, void *ctx, struct error *err)
{
    static const char UPDATE[] =
        "UPDATE commands SET state = ?" CHANGING(FIELD_SET) " WHERE row = :row";
    const struct store_command *c = *(const struct store_command *const *)ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, UPDATE, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, FIXED_COUNT, TABLE.count - FIXED_COUNT, c);
    sql_bind_int(stmt, ":row", c->row);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    if (sqlite3_changes(s->db) != 1) {
        return error_set(err, ERROR_INTERNAL, "the row of command %s is gone", c->command_id);
    }
    return 0;
}

int store_command_update(struct store *s, const struct store_command *c, struct error *err)
{
    return store_write(s, &UPDATE_POINTS, update_command, &c, err);
}

static int delete_command(struct sql *s, void *ctx, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM commands WHERE row = :row", &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", *(const int64_t *)ctx);
    return sql_run(s, stmt, err);
}

int store_command_delete(struct store *s, int64_t row, struct error *err)
{
    return store_write(s, &DELETE_POINTS, delete_command, &row, err);
}

/* --- reading --- */

struct command_query {
    int64_t execution_row;
    const char *command_id;
    const struct store_page *page;
    struct store_command *out;
    struct store_command_list *list;
};

static int read_row(sqlite3_stmt *stmt, struct store_command *out, struct error *err)
{
    struct store_command c = {
        .row = sqlite3_column_int64(stmt, 0),
        .execution_row = sqlite3_column_int64(stmt, 1),
    };

    if (field_read(stmt, 2, &TABLE, &c, err) != 0 ||
        field_read(stmt, 2 + (int)TABLE.count, &EXECUTION_TABLE, &c, err) != 0) {
        store_command_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}

static int get_command(struct sql *s, void *ctx, struct error *err)
{
    /* The plus keeps the planner from walking the execution's commands: the id finds the row. */
    static const char GET[] = SELECT " FROM executions AS e CROSS JOIN commands AS c"
                                     " ON c.tenant = e.tenant AND c.command_id = :id"
                                     " WHERE e.row = :execution AND +c.execution_row = e.row";
    const struct command_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    if (sql_prepare(s, GET, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":execution", q->execution_row);
    sql_bind_text(stmt, ":id", q->command_id);
    got = sql_step(s, stmt, err);
    if (got == 0) {
        return error_set(err, ERROR_COMMAND_NOT_FOUND, "there is no command %s", q->command_id);
    }
    return got < 0 ? -1 : read_row(stmt, q->out, err);
}

int store_command_get(struct store *s, int64_t execution_row, const char *command_id,
                      struct store_command *out, struct error *err)
{
    struct command_query q = {.execution_row = execution_row, .command_id = command_id, .out = out};

    return store_read(s, get_command, &q, err);
}

static int read_list(struct sql *s, sqlite3_stmt *stmt, struct store_command_list *out,
                     struct error *err)
{
    int got;

    while ((got = sql_step(s, stmt, err)) > 0) {
        struct store_command *c = field_list_grow((void **)&out->items, &out->count, sizeof(*c));

        if (c == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        if (read_row(stmt, c, err) != 0) {
            return -1;
        }
    }
    return got;
}

static int list_of_execution(struct sql *s, void *ctx, struct error *err)
{
    static const char LIST[] =
        SELECT " FROM commands AS c INDEXED BY commands_execution CROSS JOIN executions AS e"
               " ON e.row = c.execution_row WHERE c.execution_row = :execution AND c.row < :before"
               " ORDER BY c.row DESC LIMIT :limit";
    const struct command_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    store_command_list_done(q->list);
    if (sql_prepare(s, LIST, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":execution", q->execution_row);
    sql_bind_int(stmt, ":before", q->page->before == 0 ? INT64_MAX : q->page->before);
    sql_bind_int(stmt, ":limit", q->page->limit);
    return read_list(s, stmt, q->list, err);
}

static int list_unfinished(struct sql *s, void *ctx, struct error *err)
{
    static const char LIST[] =
        SELECT " FROM commands AS c INDEXED BY commands_unfinished CROSS JOIN executions AS e"
               " ON e.row = c.execution_row WHERE c." SCHEMA_UNFINISHED " ORDER BY c.row";
    const struct command_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    store_command_list_done(q->list);
    if (sql_prepare(s, LIST, &stmt, err) != 0) {
        return -1;
    }
    return read_list(s, stmt, q->list, err);
}

static int read_commands(struct store *s, sql_fn fn, struct command_query *q,
                         struct store_command_list *out, struct error *err)
{
    struct store_command_list list = {0};

    q->list = &list;
    if (store_read(s, fn, q, err) != 0) {
        store_command_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}

int store_command_list(struct store *s, int64_t execution_row, const struct store_page *page,
                       struct store_command_list *out, struct error *err)
{
    struct command_query q = {.execution_row = execution_row, .page = page};

    return read_commands(s, list_of_execution, &q, out, err);
}

int store_command_list_unfinished(struct store *s, struct store_command_list *out,
                                  struct error *err)
{
    struct command_query q = {0};

    return read_commands(s, list_unfinished, &q, out, err);
}
