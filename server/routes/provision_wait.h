/* How POST of an execution and of a restore answer. */
#ifndef EXECHOST_SERVER_ROUTES_PROVISION_WAIT_H
#define EXECHOST_SERVER_ROUTES_PROVISION_WAIT_H

#include "server/http/http.h"
#include "server/services/live.h"

/* 202 at once, or 201 (or the problem) when it has settled. Takes the reference. */
void route_await_provision(struct http_exchange *x, struct live_execution *execution, bool wait);

#endif
