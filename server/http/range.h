/* Range, If-Range and If-None-Match of RFC 9110. Pure; any thread. */
#ifndef EXECHOST_SERVER_HTTP_RANGE_H
#define EXECHOST_SERVER_HTTP_RANGE_H

#include <stdbool.h>
#include <stdint.h>

enum range_result {
    RANGE_NONE, /* all of it: no bytes unit, several parts, malformed */
    RANGE_PART,
    RANGE_OUTSIDE, /* nothing of it is there */
};

/* `text` is the header's value. For RANGE_PART *first and *length lie within `size`. Of an empty
 * content everything that begins at 0 is asked for in vain but not wrongly: RANGE_NONE. */
enum range_result range_parse(const char *text, int64_t size, int64_t *first, int64_t *length);

/* Whether a list of entity tags (or "*") names `etag` (quoted); weak ones compare as strong. */
bool range_etag_listed(const char *list, const char *etag);
/* Whether If-Range's value is exactly this strong tag. Dates never match: no content has one. */
bool range_etag_same(const char *text, const char *etag);

#endif
