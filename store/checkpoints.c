#include "store/checkpoints.h"

#include "store/fields.h"
#include "store/idempotency_bind.h"
#include "store/stored_check.h"
#include "store/transaction.h"

#include "base/buf.h"

#define ALL(X)                                                                                     \
    X(tenant, FIELD_TEXT)                                                                          \
    X(checkpoint_id, FIELD_TEXT)                                                                   \
    X(source_execution_id, FIELD_TEXT)                                                             \
    X(source_incarnation, FIELD_UNSIGNED)                                                          \
    X(created_at, FIELD_TIME)                                                                      \
    X(manifest, FIELD_TEXT)                                                                        \
    X(content_bytes, FIELD_INT64)                                                                  \
    X(archive_bytes, FIELD_INT64)                                                                  \
    X(entries, FIELD_INT64)                                                                        \
    X(skipped, FIELD_INT64)                                                                        \
    X(archive_digest, FIELD_TEXT)                                                                  \
    X(durability, FIELD_TEXT)                                                                      \
    X(stored_at, FIELD_INT64)                                                                      \
    X(stored_bytes, FIELD_INT64)                                                                   \
    X(shared_uri, FIELD_TEXT)                                                                      \
    X(shared_digest, FIELD_TEXT)                                                                   \
    X(shared_at, FIELD_TIME)                                                                       \
    X(shared_sent, FIELD_INT64)                                                                    \
    X(shared_bytes, FIELD_INT64)                                                                   \
    X(shared_error, FIELD_TEXT)

#define MEMBER(name, type) {type, offsetof(struct store_checkpoint, name)},
static const struct field FIELDS[] = {ALL(MEMBER)};
static const struct field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), NULL, 0};

static const struct sql_points INSERT_POINTS = SQL_POINTS_POWER_LOSS("checkpoint.insert");
static const struct sql_points SHARE_POINTS = SQL_POINTS_POWER_LOSS("checkpoint.share");
static const struct sql_points DELETE_POINTS = SQL_POINTS_POWER_LOSS("checkpoint.delete");

void store_checkpoint_done(struct store_checkpoint *c)
{
    field_release(&TABLE, c);
}

void store_checkpoint_list_done(struct store_checkpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        store_checkpoint_done(&list->items[i]);
    }
    free(list->items);
    *list = (struct store_checkpoint_list){0};
}

/* --- writing --- */

static int check_id_free(struct sql *s, const struct store_checkpoint *c, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int taken;

    if (sql_prepare(s, "SELECT 1 FROM checkpoints WHERE tenant = :tenant AND checkpoint_id = :id",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", c->tenant);
    sql_bind_text(stmt, ":id", c->checkpoint_id);
    taken = sql_step(s, stmt, err);
    if (taken > 0) {
        return error_set(err, ERROR_ID_IN_USE, "there is a checkpoint %s", c->checkpoint_id);
    }
    return taken;
}

static int insert_checkpoint(struct sql *s, void *ctx, struct error *err)
{
    static const char INSERT[] =
        "INSERT INTO checkpoints (row" ALL(FIELD_COLUMN) ") VALUES (NULL" ALL(FIELD_PLACE) ")";
    struct store_checkpoint *c = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (check_id_free(s, c, err) != 0 ||
        stored_check(s, c->tenant, c->stored_bytes, c->stored_max, err) != 0 ||
        sql_prepare(s, INSERT, &stmt, err) != 0) {
        return -1;
    }
    field_bind(stmt, 1, &TABLE, 0, TABLE.count, c);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    c->row = sqlite3_last_insert_rowid(s->db);
    return idempotency_bind(s, c->claim, STORE_RESOURCE_CHECKPOINT, c->checkpoint_id, 0, err);
}

int store_checkpoint_insert(struct store *s, struct store_checkpoint *c, struct error *err)
{
    struct store_checkpoint inserted = *c; /* its texts stay the caller's */

    if (store_write(s, &INSERT_POINTS, insert_checkpoint, &inserted, err) != 0) {
        return -1;
    }
    c->row = inserted.row;
    return 0;
}

struct checkpoint_query {
    const char *tenant;
    const char *checkpoint_id;
    struct store_checkpoint *out;
};

static int not_found(const struct checkpoint_query *q, struct error *err)
{
    return error_set(err, ERROR_CHECKPOINT_NOT_FOUND, "there is no checkpoint %s",
                     q->checkpoint_id);
}

struct share_update {
    struct checkpoint_query query;
    const struct store_checkpoint_shared *shared;
};

static int share_checkpoint(struct sql *s, void *ctx, struct error *err)
{
    static const char UPDATE[] =
        "UPDATE checkpoints SET durability = :durability, shared_uri = :uri,"
        " shared_digest = :digest, shared_at = nullif(:at, 0), shared_sent = :sent,"
        " shared_bytes = :bytes, shared_error = :error"
        " WHERE tenant = :tenant AND checkpoint_id = :id";
    const struct share_update *u = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, UPDATE, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":durability", u->shared->durability);
    sql_bind_text(stmt, ":uri", u->shared->uri);
    sql_bind_text(stmt, ":digest", u->shared->digest);
    sql_bind_int(stmt, ":at", u->shared->at);
    sql_bind_int(stmt, ":sent", u->shared->sent);
    sql_bind_int(stmt, ":bytes", u->shared->bytes);
    sql_bind_text(stmt, ":error", u->shared->error);
    sql_bind_text(stmt, ":tenant", u->query.tenant);
    sql_bind_text(stmt, ":id", u->query.checkpoint_id);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    return sqlite3_changes(s->db) == 1 ? 0 : not_found(&u->query, err);
}

int store_checkpoint_set_shared(struct store *s, const char *tenant, const char *checkpoint_id,
                                const struct store_checkpoint_shared *shared, struct error *err)
{
    struct share_update u = {{tenant, checkpoint_id, NULL}, shared};

    return store_write(s, &SHARE_POINTS, share_checkpoint, &u, err);
}

static int delete_checkpoint(struct sql *s, void *ctx, struct error *err)
{
    const struct checkpoint_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM checkpoints WHERE tenant = :tenant AND checkpoint_id = :id",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    sql_bind_text(stmt, ":id", q->checkpoint_id);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    return sqlite3_changes(s->db) == 1 ? 0 : not_found(q, err);
}

int store_checkpoint_delete(struct store *s, const char *tenant, const char *checkpoint_id,
                            struct error *err)
{
    struct checkpoint_query q = {tenant, checkpoint_id, NULL};

    return store_write_freeing(s, &DELETE_POINTS, delete_checkpoint, &q, err);
}

/* --- reading --- */

static int read_row(sqlite3_stmt *stmt, struct store_checkpoint *out, struct error *err)
{
    struct store_checkpoint c = {.row = sqlite3_column_int64(stmt, 0)};

    if (field_read(stmt, 1, &TABLE, &c, err) != 0) {
        store_checkpoint_done(&c);
        return -1;
    }
    *out = c;
    return 0;
}

static int get_checkpoint(struct sql *s, void *ctx, struct error *err)
{
    static const char GET[] =
        "SELECT row" ALL(FIELD_COLUMN) " FROM checkpoints"
                                       " WHERE tenant = :tenant AND checkpoint_id = :id";
    const struct checkpoint_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    if (sql_prepare(s, GET, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    sql_bind_text(stmt, ":id", q->checkpoint_id);
    got = sql_step(s, stmt, err);
    if (got == 0) {
        return not_found(q, err);
    }
    return got < 0 ? -1 : read_row(stmt, q->out, err);
}

int store_checkpoint_get(struct store *s, const char *tenant, const char *checkpoint_id,
                         struct store_checkpoint *out, struct error *err)
{
    struct checkpoint_query q = {tenant, checkpoint_id, out};

    return store_read(s, get_checkpoint, &q, err);
}

enum { LIST_SQL_MAX = 1024 };

struct list_query {
    const struct store_checkpoint_filter *filter;
    const struct store_page *page;
    struct store_checkpoint_list *out;
};

static int build_list(struct buf *sql, const struct store_checkpoint_filter *f)
{
    const char *source = f->source_execution_id != NULL ? "_source" : "";
    const char *durability = f->durability != NULL ? "_durability" : "";

    if (buf_add_str(sql, "SELECT row" ALL(FIELD_COLUMN) " FROM checkpoints") != 0) {
        return -1;
    }
    /* As with executions: each set of filters has its index. */
    if (f->tenant != NULL &&
        buf_addf(sql, " INDEXED BY checkpoints_tenant%s%s", source, durability) != 0) {
        return -1;
    }
    return buf_addf(sql, " WHERE row < :before%s%s%s ORDER BY row DESC LIMIT :limit",
                    f->tenant != NULL ? " AND tenant = :tenant" : "",
                    *source != '\0' ? " AND source_execution_id = :source" : "",
                    *durability != '\0' ? " AND durability = :durability" : "");
}

static int prepare_list(struct sql *s, const struct list_query *q, sqlite3_stmt **stmt,
                        struct error *err)
{
    _cleanup_buf_ struct buf sql;

    buf_init(&sql, LIST_SQL_MAX);
    if (build_list(&sql, q->filter) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (sql_prepare_built(s, buf_str(&sql), stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(*stmt, ":before", q->page->before == 0 ? INT64_MAX : q->page->before);
    sql_bind_int(*stmt, ":limit", q->page->limit);
    sql_bind_text(*stmt, ":tenant", q->filter->tenant);
    sql_bind_text(*stmt, ":source", q->filter->source_execution_id);
    sql_bind_text(*stmt, ":durability", q->filter->durability);
    return 0;
}

static int list_checkpoints(struct sql *s, void *ctx, struct error *err)
{
    const struct list_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    store_checkpoint_list_done(q->out);
    if (prepare_list(s, q, &stmt, err) != 0) {
        return -1;
    }
    while ((got = sql_step(s, stmt, err)) > 0) {
        struct store_checkpoint *c =
            field_list_grow((void **)&q->out->items, &q->out->count, sizeof(*c));

        if (c == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        if (read_row(stmt, c, err) != 0) {
            return -1;
        }
    }
    return got;
}

int store_checkpoint_list(struct store *s, const struct store_checkpoint_filter *filter,
                          const struct store_page *page, struct store_checkpoint_list *out,
                          struct error *err)
{
    struct store_checkpoint_list list = {0};
    struct list_query q = {filter, page, &list};

    if (store_read(s, list_checkpoints, &q, err) != 0) {
        store_checkpoint_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}
