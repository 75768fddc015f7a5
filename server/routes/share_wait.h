/* How a request waits for a checkpoint to be published. */
#ifndef EXECHOST_SERVER_ROUTES_SHARE_WAIT_H
#define EXECHOST_SERVER_ROUTES_SHARE_WAIT_H

#include "server/http/http.h"

/* Publishes the checkpoint, or joins who does, and answers with it and `status` once it is durable,
 * or says why it is not; without `wait` 202 at once. Ends the handler's turn, and takes the place
 * of its state. */
void route_await_share(struct http_exchange *x, const char *id, bool wait, unsigned status);

#endif
