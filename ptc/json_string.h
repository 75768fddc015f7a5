/* Strings of JSON in their one form. Owns nothing; any thread. */
#ifndef EXECHOST_PTC_JSON_STRING_H
#define EXECHOST_PTC_JSON_STRING_H

#include "ptc/json.h"

enum ptc_string_fault { PTC_STRING_OK, PTC_STRING_BAD, PTC_STRING_MEMORY };

/* A string starts at data[*at] (its quote). On success *at is behind its end. Appends the one form
 * to `out` unless that is NULL. On a fault *at is where it is. */
enum ptc_string_fault ptc_json_string(struct ptc_text text, size_t *at,
                                      struct buf *out) WARN_UNUSED;

/* Appends the escape of a control character, a quote or a backslash, or the byte as it is. */
int ptc_json_add_unit(struct buf *out, unsigned unit) WARN_UNUSED;

#endif
