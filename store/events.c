#include "store/events.h"

#include "store/fields.h"
#include "store/transaction.h"

#define ALL(X)                                                                                     \
    X(seq, FIELD_INT64)                                                                            \
    X(at, FIELD_INT64)                                                                             \
    X(type, FIELD_TEXT)                                                                            \
    X(execution_id, FIELD_TEXT)                                                                    \
    X(incarnation, FIELD_UNSIGNED)                                                                 \
    X(command_id, FIELD_TEXT)                                                                      \
    X(checkpoint_id, FIELD_TEXT)                                                                   \
    X(run_id, FIELD_TEXT)                                                                          \
    X(state, FIELD_TEXT)                                                                           \
    X(host, FIELD_TEXT)                                                                            \
    X(expires_at, FIELD_TIME)                                                                      \
    X(exit_code, FIELD_CODE)                                                                       \
    X(reason, FIELD_TEXT)

#define MEMBER(name, type) {type, offsetof(struct store_event, name)},
static const struct field FIELDS[] = {ALL(MEMBER)};
static const struct field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), NULL, 0};

void store_event_list_done(struct store_event_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        field_release(&TABLE, &list->items[i]);
    }
    free(list->items);
    *list = (struct store_event_list){0};
}

struct event_query {
    const char *tenant;
    int64_t after;
    int limit;
    struct store_event_list *list;
    int64_t *seq;
};

static int list_events(struct sql *s, void *ctx, struct error *err)
{
    static const char LIST[] = "SELECT row" ALL(FIELD_COLUMN) " FROM events"
                                                              " WHERE tenant = :tenant"
                                                              " AND seq > :after"
                                                              " ORDER BY seq LIMIT :limit";
    const struct event_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    store_event_list_done(q->list);
    if (sql_prepare(s, LIST, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    sql_bind_int(stmt, ":after", q->after);
    sql_bind_int(stmt, ":limit", q->limit);
    while ((got = sql_step(s, stmt, err)) > 0) {
        struct store_event *e =
            field_list_grow((void **)&q->list->items, &q->list->count, sizeof(*e));

        if (e == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        if (field_read(stmt, 1, &TABLE, e, err) != 0) {
            return -1;
        }
    }
    return got;
}

int store_event_list(struct store *s, const char *tenant, int64_t after, int limit,
                     struct store_event_list *out, struct error *err)
{
    struct store_event_list list = {0};
    struct event_query q = {.tenant = tenant, .after = after, .limit = limit, .list = &list};

    if (store_read(s, list_events, &q, err) != 0) {
        store_event_list_done(&list);
        return -1;
    }
    *out = list;
    return 0;
}

static int newest_event(struct sql *s, void *ctx, struct error *err)
{
    static const char NEWEST[] = "SELECT coalesce(max(seq), 0) FROM events WHERE tenant = :tenant";
    const struct event_query *q = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, NEWEST, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->tenant);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    *q->seq = sqlite3_column_int64(stmt, 0);
    return 0;
}

int store_event_newest(struct store *s, const char *tenant, int64_t *seq, struct error *err)
{
    struct event_query q = {.tenant = tenant, .seq = seq};

    return store_read(s, newest_event, &q, err);
}
