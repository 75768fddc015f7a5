#include "store/idempotency.h"

#include "store/fields.h"
#include "store/idempotency_bind.h"
#include "store/transaction.h"

#include <string.h>
#include <zlib.h>

/* Shorter bodies gain nothing worth the time. */
enum { COMPRESS_MIN = 1024, COMPRESS_LEVEL = 1 };

static const struct sql_points CLAIM_POINTS = SQL_POINTS("idempotency.claim");
static const struct sql_points ANSWER_POINTS = SQL_POINTS_POWER_LOSS("idempotency.answer");
static const struct sql_points RELEASE_POINTS = SQL_POINTS("idempotency.release");
static const struct sql_points SWEEP_POINTS = SQL_POINTS("idempotency.sweep");

static const char *const KINDS[] = {
    [STORE_RESOURCE_NONE] = "",           [STORE_RESOURCE_EXECUTION] = "execution",
    [STORE_RESOURCE_COMMAND] = "command", [STORE_RESOURCE_CHECKPOINT] = "checkpoint",
    [STORE_RESOURCE_RUN] = "run",
};

void store_answer_done(struct store_answer *a)
{
    free(a->type);
    free(a->headers);
    free(a->body);
    *a = (struct store_answer){0};
}

void store_idempotency_done(struct store_idempotency *k)
{
    free(k->digest);
    store_answer_done(&k->answer);
    *k = (struct store_idempotency){0};
}

/* --- reading --- */

enum {
    COLUMN_ROW,
    COLUMN_DIGEST,
    COLUMN_EXPIRES_AT,
    COLUMN_KIND,
    COLUMN_ID,
    COLUMN_NUMBER,
    COLUMN_STATUS,
    COLUMN_TYPE,
    COLUMN_HEADERS,
    COLUMN_BODY,
    COLUMN_BODY_SIZE,
};

static const char SELECT[] =
    "SELECT row, digest, expires_at, resource_kind, resource_id, resource_number, status,"
    " content_type, headers, body, body_size FROM idempotency_keys"
    " WHERE tenant = :tenant AND key = :key";

static char *copy_text(sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);

    return text == NULL ? NULL : strdup((const char *)text);
}

static enum store_resource_kind kind_of(const char *name)
{
    for (size_t i = 1; name != NULL && i < ARRAY_SIZE(KINDS); i++) {
        if (strcmp(KINDS[i], name) == 0) {
            return (enum store_resource_kind)i;
        }
    }
    return STORE_RESOURCE_NONE;
}

/* A body that was stored shorter than it is was compressed. */
static int read_body(sqlite3_stmt *stmt, struct store_answer *out, struct error *err)
{
    const void *stored = sqlite3_column_blob(stmt, COLUMN_BODY);
    size_t stored_len = (size_t)sqlite3_column_bytes(stmt, COLUMN_BODY);
    uLongf len = (uLongf)sqlite3_column_int64(stmt, COLUMN_BODY_SIZE);

    if (stored == NULL || len == 0) {
        return 0;
    }
    out->body = malloc(len);
    if (out->body == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    out->body_len = len;
    if (stored_len == len) {
        memcpy(out->body, stored, len);
        return 0;
    }
    if (uncompress((Bytef *)out->body, &len, stored, (uLong)stored_len) != Z_OK ||
        len != out->body_len) {
        return error_set(err, ERROR_INTERNAL, "a stored answer can't be read");
    }
    return 0;
}

static int read_key(sqlite3_stmt *stmt, struct store_idempotency *out, struct error *err)
{
    const char *id = (const char *)sqlite3_column_text(stmt, COLUMN_ID);

    *out = (struct store_idempotency){
        .row = sqlite3_column_int64(stmt, COLUMN_ROW),
        .digest = copy_text(stmt, COLUMN_DIGEST),
        .resource.kind = kind_of((const char *)sqlite3_column_text(stmt, COLUMN_KIND)),
        .resource.number = sqlite3_column_int64(stmt, COLUMN_NUMBER),
        .answered = sqlite3_column_type(stmt, COLUMN_STATUS) != SQLITE_NULL,
        .answer.status = sqlite3_column_int(stmt, COLUMN_STATUS),
        .answer.type = copy_text(stmt, COLUMN_TYPE),
        .answer.headers = copy_text(stmt, COLUMN_HEADERS),
    };
    snprintf(out->resource.id, sizeof(out->resource.id), "%s", id == NULL ? "" : id);
    if (out->digest == NULL) {
        store_idempotency_done(out);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (read_body(stmt, &out->answer, err) != 0) {
        store_idempotency_done(out);
        return -1;
    }
    return 0;
}

struct key_query {
    const struct store_idempotency_request *request;
    struct store_idempotency *out;
    bool fresh;
};

/* 1 with a key that counts in *out, 0 without, -1. */
static int find_key(struct sql *s, const struct key_query *q, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;
    int got;

    store_idempotency_done(q->out);
    if (sql_prepare(s, SELECT, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->request->tenant);
    sql_bind_text(stmt, ":key", q->request->key);
    got = sql_step(s, stmt, err);
    if (got > 0 && sqlite3_column_int64(stmt, COLUMN_EXPIRES_AT) <= q->request->now) {
        return 0;
    }
    return got > 0 && read_key(stmt, q->out, err) != 0 ? -1 : got;
}

static int get_key(struct sql *s, void *ctx, struct error *err)
{
    int got = find_key(s, ctx, err);

    return got == 0 ? error_set(err, ERROR_NOT_FOUND, "there is no such key") : got > 0 ? 0 : -1;
}

int store_idempotency_get(struct store *s, const struct store_idempotency_request *request,
                          struct store_idempotency *out, struct error *err)
{
    struct store_idempotency found = {0};
    struct key_query q = {request, &found, false};

    if (store_read(s, get_key, &q, err) != 0) {
        store_idempotency_done(&found);
        return -1;
    }
    *out = found;
    return 0;
}

/* --- writing --- */

static int delete_expired(struct sql *s, const struct key_query *q, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM idempotency_keys WHERE tenant = :tenant AND key = :key", &stmt,
                    err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->request->tenant);
    sql_bind_text(stmt, ":key", q->request->key);
    return sql_run(s, stmt, err);
}

static int insert_key(struct sql *s, const struct key_query *q, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s,
                    "INSERT INTO idempotency_keys (tenant, key, digest, expires_at)"
                    " VALUES (:tenant, :key, :digest, :expires)",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":tenant", q->request->tenant);
    sql_bind_text(stmt, ":key", q->request->key);
    sql_bind_text(stmt, ":digest", q->request->digest);
    sql_bind_int(stmt, ":expires", q->request->expires_at);
    return sql_run(s, stmt, err);
}

static int claim_key(struct sql *s, void *ctx, struct error *err)
{
    struct key_query *q = ctx;
    int got = find_key(s, q, err);

    q->fresh = got == 0;
    if (got != 0) {
        return got > 0 ? 0 : -1;
    }
    if (delete_expired(s, q, err) != 0 || insert_key(s, q, err) != 0) {
        return -1;
    }
    q->out->row = sqlite3_last_insert_rowid(s->db);
    q->out->digest = strdup(q->request->digest);
    return q->out->digest != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

int store_idempotency_claim(struct store *s, const struct store_idempotency_request *request,
                            struct store_idempotency *out, bool *fresh, struct error *err)
{
    struct store_idempotency found = {0};
    struct key_query q = {request, &found, false};

    if (store_write(s, &CLAIM_POINTS, claim_key, &q, err) != 0) {
        store_idempotency_done(&found);
        return -1;
    }
    *out = found;
    *fresh = q.fresh;
    return 0;
}

int idempotency_bind(struct sql *s, int64_t claim, enum store_resource_kind kind, const char *id,
                     int64_t number, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (claim == 0) {
        return 0;
    }
    if (sql_prepare(s,
                    "UPDATE idempotency_keys SET resource_kind = :kind, resource_id = :id,"
                    " resource_number = :number WHERE row = :row AND status IS NULL",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_text(stmt, ":kind", KINDS[kind]);
    sql_bind_text(stmt, ":id", id);
    sql_bind_int(stmt, ":number", number);
    sql_bind_int(stmt, ":row", claim);
    return sql_run(s, stmt, err);
}

/* --- the answer --- */

struct answer_write {
    int64_t row;
    int64_t expires_at;
    const struct store_answer *answer;
    const void *body; /* as it is stored */
    size_t body_len;
};

static int write_answer(struct sql *s, void *ctx, struct error *err)
{
    static const char UPDATE[] =
        "UPDATE idempotency_keys SET status = :status, content_type = :type, headers = :headers,"
        " body = :body, body_size = :size, expires_at = :expires WHERE row = :row";
    const struct answer_write *w = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, UPDATE, &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":status", w->answer->status);
    sql_bind_text(stmt, ":type", w->answer->type);
    sql_bind_text(stmt, ":headers", w->answer->headers);
    sql_bind_blob(stmt, ":body", w->body, w->body_len);
    sql_bind_int(stmt, ":size", (int64_t)w->answer->body_len);
    sql_bind_int(stmt, ":expires", w->expires_at);
    sql_bind_int(stmt, ":row", w->row);
    return sql_run(s, stmt, err);
}

/* NULL where it would not become shorter. Returns owned. */
static void *compressed(const struct store_answer *answer, size_t *len)
{
    uLongf packed_len = compressBound((uLong)answer->body_len);
    Bytef *packed = answer->body_len < COMPRESS_MIN ? NULL : malloc(packed_len);

    if (packed != NULL &&
        compress2(packed, &packed_len, (const Bytef *)answer->body, (uLong)answer->body_len,
                  COMPRESS_LEVEL) == Z_OK &&
        packed_len < answer->body_len) {
        *len = packed_len;
        return packed;
    }
    free(packed);
    return NULL;
}

int store_idempotency_answer(struct store *s, int64_t row, const struct store_answer *answer,
                             int64_t expires_at, struct error *err)
{
    size_t packed_len = 0;
    _cleanup_free_ void *packed = compressed(answer, &packed_len);
    struct answer_write w = {
        .row = row,
        .expires_at = expires_at,
        .answer = answer,
        .body = packed != NULL ? packed : answer->body,
        .body_len = packed != NULL ? packed_len : answer->body_len,
    };

    return store_write(s, &ANSWER_POINTS, write_answer, &w, err);
}

static int delete_key(struct sql *s, void *ctx, struct error *err)
{
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s, "DELETE FROM idempotency_keys WHERE row = :row", &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":row", *(const int64_t *)ctx);
    return sql_run(s, stmt, err);
}

int store_idempotency_release(struct store *s, int64_t row, struct error *err)
{
    return store_write(s, &RELEASE_POINTS, delete_key, &row, err);
}

struct sweep {
    int64_t now;
    int removed;
};

static int sweep_keys(struct sql *s, void *ctx, struct error *err)
{
    struct sweep *sweep = ctx;
    _cleanup_statement_ sqlite3_stmt *stmt = NULL;

    if (sql_prepare(s,
                    "DELETE FROM idempotency_keys WHERE row IN (SELECT row FROM idempotency_keys"
                    " INDEXED BY idempotency_keys_expiry WHERE expires_at <= :now LIMIT :limit)",
                    &stmt, err) != 0) {
        return -1;
    }
    sql_bind_int(stmt, ":now", sweep->now);
    sql_bind_int(stmt, ":limit", STORE_IDEMPOTENCY_SWEEP);
    if (sql_run(s, stmt, err) != 0) {
        return -1;
    }
    sweep->removed = sqlite3_changes(s->db);
    return 0;
}

int store_idempotency_sweep(struct store *s, int64_t now, int *removed, struct error *err)
{
    struct sweep sweep = {now, 0};

    if (store_write(s, &SWEEP_POINTS, sweep_keys, &sweep, err) != 0) {
        return -1;
    }
    *removed = sweep.removed;
    return 0;
}
