/* Inside the module: URLs in the one form that libcurl signs rightly. Path and query are signed as
 * they stand: names sorted, each with its "=", all but A-Za-z0-9-_.~ percent-encoded in upper case.
 * Pure; any thread. */
#ifndef EXECHOST_STORE_OBJECTS_URL_H
#define EXECHOST_STORE_OBJECTS_URL_H

#include "base/buf.h"

#include <stdbool.h>

/* `slash` is kept as it is where it parts segments. */
int objects_url_escape(struct buf *out, const char *text, bool keep_slash) WARN_UNUSED;
/* "&name=value" (no "&" in front of the first). The caller goes by name order. */
int objects_url_query(struct buf *out, const char *name, const char *value) WARN_UNUSED;

struct objects_place {
    const char *endpoint;
    const char *bucket;
    bool path_style;
};
/* `query` NULL or "": none. `key` "": the bucket itself. */
int objects_url(struct buf *out, const struct objects_place *place, const char *key,
                const char *query) WARN_UNUSED;

#endif
