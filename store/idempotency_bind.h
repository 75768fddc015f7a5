/* Inside the module: binds what a request makes to its key, within the transaction that makes it.
 */
#ifndef EXECHOST_STORE_IDEMPOTENCY_BIND_H
#define EXECHOST_STORE_IDEMPOTENCY_BIND_H

#include "store/idempotency.h"
#include "store/sql.h"

/* `claim` is the key's row, 0: none and nothing to do. A key that is gone or answered stays as it
 * is: it does not speak for the resource any more. */
int idempotency_bind(struct sql *s, int64_t claim, enum store_resource_kind kind, const char *id,
                     int64_t number, struct error *err) WARN_UNUSED;

#endif
