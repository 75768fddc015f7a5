/* Inside the module: which member of a struct is which column. One table of fields serves insert,
 * update, select and release of a kind of row, so that they cannot disagree. Owns nothing; any
 * thread. */
#ifndef EXECHOST_STORE_FIELDS_H
#define EXECHOST_STORE_FIELDS_H

#include "base/error.h"

#include <sqlite3.h>
#include <stddef.h>

enum field_type {
    FIELD_TEXT,     /* char *, owned; NULL is NULL */
    FIELD_INT64,    /* int64_t */
    FIELD_COUNT,    /* int64_t; -1 is NULL */
    FIELD_TIME,     /* int64_t; 0 is NULL */
    FIELD_CODE,     /* int; -1 is NULL */
    FIELD_UNSIGNED, /* unsigned */
    FIELD_BOOL,     /* bool */
    FIELD_STATE,    /* an enum, as text by the table's names */
};

struct field {
    enum field_type type;
    size_t offset;
};

struct field_table {
    const struct field *fields;
    size_t count;
    const char *const *states;
    size_t state_count;
};

/* For lists of X(member, type); the member's name is the column's. */
#define FIELD_COLUMN(name, type) ", " #name
#define FIELD_PLACE(name, type) ", ?"
#define FIELD_SET(name, type) ", " #name " = ?"

/* Binds fields [first, first + count) to the places from `place` (1-based) on; texts are borrowed
 * until the statement is released. */
void field_bind(sqlite3_stmt *stmt, int place, const struct field_table *table, size_t first,
                size_t count, const void *record);
/* Reads all fields from the columns from `column` (0-based) on. On failure the caller releases what
 * was read: `record` is zero before. */
int field_read(sqlite3_stmt *stmt, int column, const struct field_table *table, void *record,
               struct error *err) WARN_UNUSED;
/* Gives `record`, a plain copy of another, texts of its own. On failure it holds none. */
int field_duplicate(const struct field_table *table, void *record, struct error *err) WARN_UNUSED;
/* Frees the texts and zeroes their members. */
void field_release(const struct field_table *table, void *record);

/* Makes room for one further item of `size` bytes in a growing array, zeroed; NULL when out of
 * memory. */
void *field_list_grow(void **items, size_t *count, size_t size);

#endif
