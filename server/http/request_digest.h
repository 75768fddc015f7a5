/* Inside of the HTTP adapter: whether two requests ask for the same. */
#ifndef EXECHOST_SERVER_HTTP_REQUEST_DIGEST_H
#define EXECHOST_SERVER_HTTP_REQUEST_DIGEST_H

#include "base/digest.h"
#include "base/error.h"
#include "server/http/uri.h"

#include <stdint.h>

struct request_body {
    const void *data;
    int64_t size;
    int fd; /* >= 0: the body is that file from offset 0 on, and `data` is not looked at */
};

/* Over method, path and query as they were decoded (so that an escape more or less makes no
 * difference, nor does the order of the query's names), and every byte of the body. The query's
 * `except` does not count. Blocks where the body is in a file; ERROR_INTERNAL when that can't be
 * read. */
int request_digest(const char *method, const struct uri *uri, const char *except,
                   const struct request_body *body, char out[DIGEST_TEXT_SIZE],
                   struct error *err) WARN_UNUSED;

#endif
