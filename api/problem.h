/* Problem documents (RFC 9457), and the one table that says which status a code has. Pure; any
 * thread. */
#ifndef EXECHOST_API_PROBLEM_H
#define EXECHOST_API_PROBLEM_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct api_problem_kind {
    int status;
    const char *title;
    bool retryable;
};

/* Static; ERROR_NONE and unknown codes are INTERNAL's. */
const struct api_problem_kind *api_problem_kind(enum error_code code);

/* What a client may read of a fault: where the service itself has failed its details name paths and
 * statements, which are for the log. Borrowed from `detail`, or static. */
const char *api_problem_detail(enum error_code code, const char *detail);

/* type, title, status, detail, code, retryable, requestId, and field, phase, causes where there are
 * any. Returns owned; NULL when memory is out. */
json_t *api_problem_encode(const struct error *err, const char *request_id);

#endif
