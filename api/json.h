/* JSON text in and out: the checks that come before any field, and numbers that survive the way.
 * Pure; any thread. Request trees are the caller's own; nothing here keeps a reference. */
#ifndef EXECHOST_API_JSON_H
#define EXECHOST_API_JSON_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { API_JSON_DEPTH_MAX = 64 };

#define _cleanup_json_ _cleanup_(api_json_cleanup)
static inline void api_json_cleanup(json_t **value)
{
    json_decref(*value);
}

/* Syntax, duplicate keys, invalid UTF-8, NUL (\u0000 too), trailing bytes and nesting over
 * API_JSON_DEPTH_MAX are ERROR_INVALID_REQUEST with the position in the detail and no field.
 * Integers beyond int64 come as reals, numbers beyond double as ±DBL_MAX, so that the rule of their
 * field can refuse them by name. Returns owned. */
int api_json_parse(const char *data, size_t len, json_t **out, struct error *err) WARN_UNUSED;

/* As api_json_parse, and the text must be one object; no text at all is an empty one when
 * `optional`. */
int api_json_parse_object(const char *data, size_t len, bool optional, json_t **out,
                          struct error *err) WARN_UNUSED;

/* Compact, keys in their order, reals as the shortest text that reads back the same (0.1 stays
 * 0.1). Nesting over twice API_JSON_DEPTH_MAX, the buffer's cap, or no memory: -1. */
int api_json_dump(const json_t *value, struct buf *out) WARN_UNUSED;

/* The same as an owned string, at most `max` bytes; NULL on failure. */
char *api_json_text(const json_t *value, size_t max) WARN_UNUSED;

/* The value a stored text holds; -1 ERROR_INTERNAL when it is none. Returns owned. */
int api_json_load_stored(const char *text, json_t **out, struct error *err) WARN_UNUSED;

#endif
