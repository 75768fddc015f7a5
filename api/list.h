/* Lists: {"items": […], "nextCursor": …}, `limit` and `cursor`. Order is newest first by the
 * store's row numbers, so a cursor is "everything before this row". Pure; any thread. */
#ifndef EXECHOST_API_LIST_H
#define EXECHOST_API_LIST_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

enum { API_LIST_LIMIT_DEFAULT = 50, API_LIST_LIMIT_MAX = 200, API_CURSOR_SIZE = 64 };

struct api_page {
    unsigned limit;     /* 1 … API_LIST_LIMIT_MAX */
    int64_t before_row; /* INT64_MAX for the first page */
};

/* Either text may be NULL: not given. Faults are ERROR_INVALID_REQUEST naming "?limit" or
 * "?cursor". A cursor is good only for the list it came from; `kind` is that list's name, such as
 * "executions". */
int api_page_decode(const char *kind, const char *limit, const char *cursor, struct api_page *out,
                    struct error *err) WARN_UNUSED;

/* The cursor of the page after the one that ends with `last_row` (> 0). */
void api_cursor_encode(const char *kind, int64_t last_row, char out[API_CURSOR_SIZE]);

/* *Takes* `items`; `next_cursor` NULL at the end. Returns owned; NULL when memory is out. */
json_t *api_list_encode(json_t *items, const char *next_cursor);

#endif
