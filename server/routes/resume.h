/* What a request answers whose idempotency key has made something already, in a run of the service
 * that is over: what its first POST would have answered, from what became of the resource. */
#ifndef EXECHOST_SERVER_ROUTES_RESUME_H
#define EXECHOST_SERVER_ROUTES_RESUME_H

#include "server/http/http.h"
#include "store/idempotency.h"

/* On a worker; ends the turn as a handler does. Where nothing was made, or its record is gone, the
 * route's own handler runs; what would have its effect twice (input, signals) is ERROR_RUNTIME
 * instead. */
void route_resume(struct http_exchange *x, const struct store_resource *resource);

/* Whether nothing more will become of the resource: it is final with nothing left to clean up, or
 * its record is gone. */
bool route_resource_is_final(struct http_exchange *x, const struct store_resource *resource);

/* How POST of a checkpoint that is made answers: 201. */
void route_reply_checkpoint_created(struct http_exchange *x, const char *id);

#endif
