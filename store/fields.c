#include "store/fields.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static void bind_or_null(sqlite3_stmt *stmt, int place, int64_t value, int64_t null)
{
    if (value == null) {
        sqlite3_bind_null(stmt, place);
    } else {
        sqlite3_bind_int64(stmt, place, value);
    }
}

static void bind_state(sqlite3_stmt *stmt, int place, const struct field_table *table,
                       unsigned state)
{
    /* Out of range becomes NULL, which the column refuses. */
    const char *name = state < table->state_count ? table->states[state] : NULL;

    sqlite3_bind_text(stmt, place, name, -1, SQLITE_STATIC);
}

static void bind_one(sqlite3_stmt *stmt, int place, const struct field_table *table,
                     const struct field *field, const void *record)
{
    const void *member = (const char *)record + field->offset;

    switch (field->type) {
    case FIELD_TEXT:
        sqlite3_bind_text(stmt, place, *(char *const *)member, -1, SQLITE_STATIC);
        break;
    case FIELD_INT64: sqlite3_bind_int64(stmt, place, *(const int64_t *)member); break;
    case FIELD_COUNT: bind_or_null(stmt, place, *(const int64_t *)member, -1); break;
    case FIELD_TIME: bind_or_null(stmt, place, *(const int64_t *)member, 0); break;
    case FIELD_CODE: bind_or_null(stmt, place, *(const int *)member, -1); break;
    case FIELD_UNSIGNED: sqlite3_bind_int64(stmt, place, *(const unsigned *)member); break;
    case FIELD_BOOL: sqlite3_bind_int(stmt, place, *(const bool *)member ? 1 : 0); break;
    case FIELD_STATE: bind_state(stmt, place, table, *(const unsigned *)member); break;
    }
}

void field_bind(sqlite3_stmt *stmt, int place, const struct field_table *table, size_t first,
                size_t count, const void *record)
{
    for (size_t i = 0; i < count; i++) {
        bind_one(stmt, place + (int)i, table, &table->fields[first + i], record);
    }
}

static int read_text(sqlite3_stmt *stmt, int column, char **out, struct error *err)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    size_t len = (size_t)sqlite3_column_bytes(stmt, column);

    if (text == NULL && sqlite3_column_type(stmt, column) == SQLITE_NULL) {
        return 0;
    }
    *out = text == NULL ? NULL : malloc(len + 1);
    if (*out == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    memcpy(*out, text, len + 1);
    return 0;
}

static int64_t read_or_null(sqlite3_stmt *stmt, int column, int64_t null)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? null
                                                            : sqlite3_column_int64(stmt, column);
}

static int read_state(sqlite3_stmt *stmt, int column, const struct field_table *table,
                      unsigned *out, struct error *err)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);

    for (size_t i = 0; i < table->state_count && text != NULL; i++) {
        if (strcmp(text, table->states[i]) == 0) {
            *out = (unsigned)i;
            return 0;
        }
    }
    return error_set(err, ERROR_INTERNAL, "a row has the unknown state %s",
                     text == NULL ? "NULL" : text);
}

static int read_one(sqlite3_stmt *stmt, int column, const struct field_table *table,
                    const struct field *field, void *record, struct error *err)
{
    void *member = (char *)record + field->offset;

    switch (field->type) {
    case FIELD_TEXT: return read_text(stmt, column, member, err);
    case FIELD_INT64: *(int64_t *)member = sqlite3_column_int64(stmt, column); break;
    case FIELD_COUNT: *(int64_t *)member = read_or_null(stmt, column, -1); break;
    case FIELD_TIME: *(int64_t *)member = read_or_null(stmt, column, 0); break;
    case FIELD_CODE: *(int *)member = (int)read_or_null(stmt, column, -1); break;
    case FIELD_UNSIGNED: *(unsigned *)member = (unsigned)sqlite3_column_int64(stmt, column); break;
    case FIELD_BOOL: *(bool *)member = sqlite3_column_int(stmt, column) != 0; break;
    case FIELD_STATE: return read_state(stmt, column, table, member, err);
    }
    return 0;
}

int field_read(sqlite3_stmt *stmt, int column, const struct field_table *table, void *record,
               struct error *err)
{
    for (size_t i = 0; i < table->count; i++) {
        if (read_one(stmt, column + (int)i, table, &table->fields[i], record, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int field_duplicate(const struct field_table *table, void *record, struct error *err)
{
    bool complete = true;

    for (size_t i = 0; i < table->count; i++) {
        if (table->fields[i].type == FIELD_TEXT) {
            char **text = (char **)((char *)record + table->fields[i].offset);

            if (*text != NULL) {
                *text = strdup(*text);
                complete &= *text != NULL;
            }
        }
    }
    if (!complete) {
        field_release(table, record);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

void field_release(const struct field_table *table, void *record)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->fields[i].type == FIELD_TEXT) {
            char **member = (char **)((char *)record + table->fields[i].offset);

            free(*member);
            *member = NULL;
        }
    }
}

void *field_list_grow(void **items, size_t *count, size_t size)
{
    size_t n = *count;
    void *item;

    /* Doubling at each power of two keeps appends cheap without a member for the room. */
    if ((n & (n - 1)) == 0) {
        void *grown = reallocarray(*items, n == 0 ? 1 : n * 2, size);

        if (grown == NULL) {
            return NULL;
        }
        *items = grown;
    }
    item = (char *)*items + n * size;
    memset(item, 0, size);
    *count = n + 1;
    return item;
}
