/* The request target, taken apart exactly: "/a/b%2Fc?name=value" into decoded segments and query
 * pairs. Owns its strings. No threads of its own. */
#ifndef EXECHOST_SERVER_HTTP_URI_H
#define EXECHOST_SERVER_HTTP_URI_H

#include "base/error.h"

#include <stdbool.h>

enum { URI_SEGMENTS_MAX = 10, URI_QUERY_MAX = 16 };

struct uri_pair {
    const char *name;
    const char *value;
};

struct uri {
    char *raw;                              /* as it came */
    char *path;                             /* the same without the query; for logs */
    char *authority;                        /* "host:port" of an absolute target, else NULL */
    char *text;                             /* what segments and pairs point into */
    const char *segments[URI_SEGMENTS_MAX]; /* "/" has one, which is empty */
    unsigned segment_count;
    bool path_valid; /* false: bad escape, NUL, invalid UTF-8, too many segments */
    struct uri_pair query[URI_QUERY_MAX];
    unsigned query_count;
    struct error *query_error; /* NULL when the query is well formed */
};

/* `raw` is the target of the request line, "/path?query" or "http://host/path?query". -1 only when
 * memory is out. Escapes are %XX; "+" in the query is a blank; "%2F" stays inside its segment. */
int uri_parse(struct uri *u, const char *raw) WARN_UNUSED;
void uri_done(struct uri *u);
/* NULL when absent; borrowed. */
const char *uri_query(const struct uri *u, const char *name);
/* ERROR_INVALID_REQUEST with "?name" as its field, as every fault of the query has; returns -1. */
int uri_query_fault(struct error *err, const char *name, const char *rule);

#endif
