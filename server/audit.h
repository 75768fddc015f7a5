/* The record of what was asked to be changed: one line of JSON for each answered request that is no
 * GET, HEAD or OPTIONS, whatever came of it. Appended to a file of its own, for the operator; the
 * file is opened anew by audit_reopen, so that it can be moved away. Any thread. */
#ifndef EXECHOST_SERVER_AUDIT_H
#define EXECHOST_SERVER_AUDIT_H

#include "server/http/http.h"

struct audit;

/* Opens or makes the file, 0600. NULL path: nothing is recorded. */
int audit_new(const char *path, struct audit **out, struct error *err) WARN_UNUSED;
void audit_free(struct audit *a); /* NULL is fine */
/* On failure what was open stays. */
int audit_reopen(struct audit *a, struct error *err) WARN_UNUSED;
/* Once the answer is known. */
void audit_request(struct audit *a, const struct http_exchange *x);

#endif
