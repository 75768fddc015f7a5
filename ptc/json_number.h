/* Numbers as ECMAScript prints them. Owns nothing; any thread. */
#ifndef EXECHOST_PTC_JSON_NUMBER_H
#define EXECHOST_PTC_JSON_NUMBER_H

#include "ptc/json.h"

enum ptc_number_fault {
    PTC_NUMBER_OK,
    PTC_NUMBER_MINUS_ZERO,
    PTC_NUMBER_TOO_LARGE,
    PTC_NUMBER_MEMORY
};

/* `text` has the grammar of a JSON number. Appends its one form to `out` unless that is NULL.
 * PTC_NUMBER_MEMORY: `out` is full, too. */
enum ptc_number_fault ptc_json_number(struct ptc_text text, struct buf *out) WARN_UNUSED;

#endif
