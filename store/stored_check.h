/* Inside the module: a bound on what is stored of a tenant, held in the transaction that adds. */
#ifndef EXECHOST_STORE_STORED_CHECK_H
#define EXECHOST_STORE_STORED_CHECK_H

#include "store/sql.h"

/* ERROR_QUOTA_EXCEEDED when `bytes` more would be over `max`; 0: no bound. */
int stored_check(struct sql *s, const char *tenant, int64_t bytes, int64_t max,
                 struct error *err) WARN_UNUSED;

#endif
