#include "store/executions.h"

#include "store/fields.h"
#include "store/idempotency_bind.h"
#include "store/retention_measure.h"
#include "store/schema.h"
#include "store/transaction.h"

#include "base/buf.h"

/* Written once, with the intent. */
#define FIXED(X)                                                                                   \
    X(tenant, FIELD_TEXT)                                                                          \
    X(execution_id, FIELD_TEXT)                                                                    \
    X(incarnation, FIELD_UNSIGNED)                                                                 \
    X(host, FIELD_TEXT)                                                                            \
    X(image, FIELD_TEXT)                                                                           \
    X(nano_cpus, FIELD_INT64)                                                                      \
    X(memory_bytes, FIELD_INT64)                                                                   \
    X(disk_bytes, FIELD_INT64)                                                                     \
    X(pids, FIELD_INT64)                                                                           \
    X(runtime_ms, FIELD_INT64)                                                                     \
    X(max_output_bytes, FIELD_INT64)                                                               \
    X(requested_at, FIELD_TIME)

/* Written by each update, behind the state. */
#define CHANGING(X)                                                                                \
    X(handle, FIELD_TEXT)                                                                          \
    X(image_digests, FIELD_TEXT)                                                                   \
    X(workspace, FIELD_TEXT)                                                                       \
    X(environment, FIELD_TEXT)                                                                     \
    X(metadata, FIELD_TEXT)                                                                        \
    X(labels, FIELD_TEXT)                                                                          \
    X(warnings, FIELD_TEXT)                                                                        \
    X(owner_id, FIELD_TEXT)                                                                        \
    X(fencing_token, FIELD_INT64)                                                                  \
    X(restored_from, FIELD_TEXT)                                                                   \
    X(created_at, FIELD_TIME)                                                                      \
    X(expires_at, FIELD_TIME)                                                                      \
    X(terminated_at, FIELD_TIME)                                                                   \
    X(usage_cpu_ms, FIELD_COUNT)                                                                   \
    X(usage_memory_peak_bytes, FIELD_COUNT)                                                        \
    X(usage_pids_peak, FIELD_COUNT)                                                                \
    X(usage_workspace_bytes, FIELD_COUNT)                                                          \
    X(termination_reason, FIELD_TEXT)                                                              \
    X(termination_code, FIELD_TEXT)                                                                \
    X(termination_detail, FIELD_TEXT)                                                              \
    X(termination_at, FIELD_TIME)                                                                  \
    X(leftover, FIELD_BOOL)

#define MEMBER(name, type) {type, offsetof(struct store_execution, name)},
static const struct field FIELDS[] = {FIXED(MEMBER) MEMBER(state, FIELD_STATE) CHANGING(MEMBER)};
#define ONE(name, type) +1
enum { FIXED_COUNT = 0 FIXED(ONE) };

static const char *const STATES[] = {
    [STORE_PROVISIONING] = "provisioning",
    [STORE_PROVISIONED] = "provisioned",
    [STORE_TERMINATING] = "terminating",
    [STORE_TERMINATED] = "terminated",
    [STORE_FAILED] = "failed",
};
static const struct field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), STATES, ARRAY_SIZE(STATES)};

#define COLUMNS FIXED(FIELD_COLUMN) ", state" CHANGING(FIELD_COLUMN)

static const struct sql_points INSERT_POINTS = SQL_POINTS("execution.insert");
static const struct sql_points INSERT_KEYED_POINTS = SQL_POINTS_POWER_LOSS("execution.insert");
static const struct sql_points UPDATE_POINTS = SQL_POINTS("execution.update");

void store_execution_done(struct store_execution *e)
{
    field_release(&TABLE, e);
}

int store_execution_copy(struct store_execution *out, const struct store_execution *e,
                         struct error *err)
{
    *out = *e;
    return field_duplicate(&TABLE, out, err);
}

void store_execution_list_done(struct store_execution_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        store_execution_done(&list->items[i]);
    }
    free(list->items);
    *list = (struct store_execution_list){0};
}

/* --- writing --- */

static int check_id_free(struct sql *s, const struct store_execution *e, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int taken;

    if (sql_prepare(s,
                    "SELECT 1 FROM executions INDEXED BY executions_live_id"
                    " WHERE tenant = :tenant AND execution_id = :id AND " SCHEMA_LIVE,
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", e->tenant);
    sql_bind_text(stmt, ":id", e->execution_id);
    taken = sql_step(s, stmt, err);
    if (taken > 0) {
        return error_set(err, ERROR_ALREADY_EXISTS, "there is an execution %s", e->execution_id);
    }
    return taken;
}

static int next_incarnation(struct sql *s, struct store_execution *e, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s,
                    "SELECT coalesce(max(incarnation), 0) + 1 FROM executions"
                    " WHERE tenant = :tenant AND execution_id = :id",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", e->tenant);
    sql_bind_text(stmt, ":id", e->execution_id);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    e->incarnation = (unsigned)sqlite3_column_int64(stmt, 0);
    return 0;
}

static int insert_row(struct sql *s, struct store_execution *e, struct error *err)
{
    static const char INSERT[] = "INSERT INTO executions (row" COLUMNS ")"
                                 " VALUES (NULL" FIXED(FIELD_PLACE) ", ?" CHANGING(FIELD_PLACE) ")";
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, INSERT, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, 0, TABLE.count, e);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    e->row = sqlite3_last_insert_rowid(s->db);
    return 0;
}

static int insert_labels(struct sql *s, const struct store_execution *e, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (e->labels == NULL) {
        return 0;
    }
    if (sql_prepare(s,
                    "INSERT INTO execution_labels (tenant, key, value, execution_row)"
                    " SELECT :tenant, key, value, :row FROM json_each(:labels)",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", e->tenant);
    sql_bind_int(stmt, ":row", e->row);
    sql_bind_text(stmt, ":labels", e->labels);
    return sql_run(s, stmt, err);
}

static int insert_execution(struct sql *s, void *ctx, struct error *err)
{
    struct store_execution *e = ctx;

    if (check_id_free(s, e, err) != 0 || next_incarnation(s, e, err) != 0 ||
        insert_row(s, e, err) != 0 ||
        idempotency_bind(s, e->claim, STORE_RESOURCE_EXECUTION, e->execution_id, e->incarnation,
                         err) != 0) {
        return -1;
    }
    return insert_labels(s, e, err);
}

int store_execution_insert(struct store *s, struct store_execution *e, struct error *err)
{
    struct store_execution inserted = *e; /* its texts stay the caller's */

    if (store_write(s, e->claim == 0 ? &INSERT_POINTS : &INSERT_KEYED_POINTS, insert_execution,
                    &inserted, err) != 0) {
        return -1;
    }
    e->row = inserted.row;
    e->incarnation = inserted.incarnation;
    return 0;
}

/* 1 when the row's labels are others, 0 when they are the same, -1. */
static int labels_differ(struct sql *s, const struct store_execution *e, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    if (sql_prepare(s, "SELECT labels IS NOT :labels FROM executions WHERE row = :row", &stmt,
                    err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":labels", e->labels);
    sql_bind_int(stmt, ":row", e->row);
    got = sql_step(s, stmt, err);
    if (got == 0) {
        return error_set(err, ERROR_INTERNAL, "the row of execution %s is gone", e->execution_id);
    }
    return got < 0 ? -1 : sqlite3_column_int(stmt, 0);
}

static int replace_labels(struct sql *s, const struct store_execution *e, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM execution_labels WHERE execution_row = :row", &stmt, err) !=
        0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", e->row);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    return insert_labels(s, e, err);
}

static int update_row(struct sql *s, const struct store_execution *e, struct error *err)
{
    static const char UPDATE[] =
        "UPDATE executions SET state = ?" CHANGING(FIELD_SET) " WHERE row = :row";
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, UPDATE, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, FIXED_COUNT, TABLE.count - FIXED_COUNT, e);
    sql_bind_int(stmt, ":row", e->row);
    return sql_run(s, stmt, err);
}

static int update_execution(struct sql *s, void *ctx, struct error *err)
{
    const struct store_execution *e = *(const struct store_execution *const *)ctx;
    bool ended = e->state == STORE_TERMINATED || e->state == STORE_FAILED;
    int differ = labels_differ(s, e, err);

    if (differ < 0 || update_row(s, e, err) != 0 ||
        (ended && retention_measure(s, e->row, err) != 0)) {
        return -1;
    }
    return differ > 0 ? replace_labels(s, e, err) : 0;
}

int store_execution_update(struct store *s, const struct store_execution *e, struct error *err)
{
    return store_write(s, &UPDATE_POINTS, update_execution, &e, err);
}

/* --- reading --- */

struct execution_query {
    const char *tenant;
    const char *execution_id;
    unsigned incarnation;
    struct store_execution *out;
    int64_t *row;
};

static int read_row(sqlite3_stmt *stmt, struct store_execution *out, struct error *err)
{
    struct store_execution e = {.row = sqlite3_column_int64(stmt, 0)};

    if (field_read(stmt, 1, &TABLE, &e, err) != 0) {
        store_execution_done(&e);
        return -1;
    }
    *out = e;
    return 0;
}

static int no_execution(const struct execution_query *q, struct error *err)
{
    return error_set(err, ERROR_NOT_FOUND, "there is no execution %s", q->execution_id);
}

/* 1 with the row under `stmt`, -1. */
static int find_execution(struct sql *s, const struct execution_query *q, const char *text,
                          sqlite3_stmt **stmt, struct error *err)
{
    int got;

    if (sql_prepare(s, text, stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(*stmt, ":tenant", q->tenant);
    sql_bind_text(*stmt, ":id", q->execution_id);
    sql_bind_int(*stmt, ":incarnation", q->incarnation);
    got = sql_step(s, *stmt, err);
    return got == 0 ? no_execution(q, err) : got;
}

#define NEWEST                                                                                     \
    " FROM executions WHERE tenant = :tenant AND execution_id = :id"                               \
    " ORDER BY incarnation DESC LIMIT 1"
#define ONE_OF                                                                                     \
    " FROM executions WHERE tenant = :tenant AND execution_id = :id"                               \
    " AND incarnation = :incarnation"

static int get_execution(struct sql *s, void *ctx, struct error *err)
{
    static const char GET_NEWEST[] = "SELECT row" COLUMNS NEWEST;
    static const char GET_ONE[] = "SELECT row" COLUMNS ONE_OF;
    const struct execution_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (find_execution(s, q, q->incarnation == 0 ? GET_NEWEST : GET_ONE, &stmt, err) < 0) {
        return -1;
    }
    return read_row(stmt, q->out, err);
}

int store_execution_get(struct store *s, const char *tenant, const char *execution_id,
                        unsigned incarnation, struct store_execution *out, struct error *err)
{
    struct execution_query q = {tenant, execution_id, incarnation, out, NULL};

    return store_read(s, get_execution, &q, err);
}

static int get_row(struct sql *s, void *ctx, struct error *err)
{
    static const char ROW_NEWEST[] = "SELECT row" NEWEST;
    static const char ROW_ONE[] = "SELECT row" ONE_OF;
    const struct execution_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (find_execution(s, q, q->incarnation == 0 ? ROW_NEWEST : ROW_ONE, &stmt, err) < 0) {
        return -1;
    }
    *q->row = sqlite3_column_int64(stmt, 0);
    return 0;
}

int store_execution_row(struct store *s, const char *tenant, const char *execution_id,
                        unsigned incarnation, int64_t *row, struct error *err)
{
    struct execution_query q = {tenant, execution_id, incarnation, NULL, row};

    return store_read(s, get_row, &q, err);
}

/* --- lists --- */

enum { LIST_SQL_MAX = 2048 };

struct list_query {
    const struct store_execution_filter *filter;
    const struct store_page *page;
    struct store_execution_list *out;
};

static bool asks_for_live(const struct store_execution_filter *f)
{
    return f->live_only || f->state == STORE_PROVISIONING || f->state == STORE_PROVISIONED ||
           f->state == STORE_TERMINATING;
}

/* Where the rows come from. The choice is not left to the planner, which knows no statistics: live
 * rows are few, a label is narrower than anything else, and each set of other filters has its
 * index. */
static int add_source(struct buf *sql, const struct store_execution_filter *f)
{
    if (asks_for_live(f)) {
        return buf_add_str(sql, " FROM executions AS e INDEXED BY executions_live WHERE "
                                "e.row < :before AND " SCHEMA_LIVE);
    }
    if (f->label_key != NULL) {
        return buf_add_str(sql, " FROM execution_labels AS l"
                                " CROSS JOIN executions AS e ON e.row = l.execution_row"
                                " WHERE l.execution_row < :before"
                                " AND l.key = :key AND l.value = :value");
    }
    if (f->tenant == NULL) {
        return buf_add_str(sql, " FROM executions AS e WHERE e.row < :before");
    }
    return buf_addf(sql,
                    " FROM executions AS e INDEXED BY executions_tenant%s%s%s"
                    " WHERE e.row < :before",
                    f->state >= 0 ? "_state" : "", f->host != NULL ? "_host" : "",
                    f->owner_id != NULL ? "_owner" : "");
}

static int add_conditions(struct buf *sql, const struct store_execution_filter *f)
{
    bool by_label = f->label_key != NULL && !asks_for_live(f);
    const struct {
        bool used;
        const char *text;
    } conditions[] = {
        {f->tenant != NULL, by_label ? " AND l.tenant = :tenant" : " AND e.tenant = :tenant"},
        {f->state >= 0, " AND e.state = :state"},
        {f->host != NULL, " AND e.host = :host"},
        {f->owner_id != NULL, " AND e.owner_id = :owner"},
        {f->label_key != NULL && !by_label,
         " AND EXISTS (SELECT 1 FROM execution_labels AS l WHERE l.tenant = e.tenant"
         " AND l.key = :key AND l.value = :value AND l.execution_row = e.row)"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(conditions); i++) {
        if (conditions[i].used && buf_add_str(sql, conditions[i].text) != 0) {
            return -1;
        }
    }
    return buf_add_str(sql, by_label ? " ORDER BY l.execution_row DESC LIMIT :limit"
                                     : " ORDER BY e.row DESC LIMIT :limit");
}

static void bind_filter(sqlite3_stmt *stmt, const struct list_query *q)
{
    const struct store_execution_filter *f = q->filter;

    sql_bind_int(stmt, ":before", q->page->before == 0 ? INT64_MAX : q->page->before);
    sql_bind_int(stmt, ":limit", q->page->limit);
    sql_bind_text(stmt, ":tenant", f->tenant);
    sql_bind_text(stmt, ":host", f->host);
    sql_bind_text(stmt, ":owner", f->owner_id);
    sql_bind_text(stmt, ":key", f->label_key);
    sql_bind_text(stmt, ":value", f->label_value);
    if (f->state >= 0 && (size_t)f->state < ARRAY_SIZE(STATES)) {
        sql_bind_text(stmt, ":state", STATES[f->state]);
    }
}

#define E_COLUMN(name, type) ", e." #name

static int prepare_list(struct sql *s, const struct list_query *q, sqlite3_stmt **stmt,
                        struct error *err)
{
    _cleanup_buf_ struct buf sql;

    buf_init(&sql, LIST_SQL_MAX);
    if (buf_add_str(&sql, "SELECT e.row" FIXED(E_COLUMN) ", e.state" CHANGING(E_COLUMN)) != 0 ||
        add_source(&sql, q->filter) != 0 || add_conditions(&sql, q->filter) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (sql_prepare_built(s, buf_str(&sql), stmt, err) != 0) {
        return -1;
    }
    bind_filter(*stmt, q);
    return 0;
}

static int list_executions(struct sql *s, void *ctx, struct error *err)
{
    const struct list_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    store_execution_list_done(q->out);
    if (prepare_list(s, q, &stmt, err) != 0) {
        return -1;
    }
    while ((got = sql_step(s, stmt, err)) > 0) {
        struct store_execution *e =
            field_list_grow((void **)&q->out->items, &q->out->count, sizeof(*e));

        if (e == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        if (read_row(stmt, e, err) != 0) {
            return -1;
        }
    }
    return got;
}

int store_execution_list(struct store *s, const struct store_execution_filter *filter,
                         const struct store_page *page, struct store_execution_list *out,
                         struct error *err)
{
    struct store_execution_list list = {0};
    struct list_query q = {filter, page, &list};

    if (store_read(s, list_executions, &q, err) != 0) {
        store_execution_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}
