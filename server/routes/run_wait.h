/* How POST of a run answers. */
#ifndef EXECHOST_SERVER_ROUTES_RUN_WAIT_H
#define EXECHOST_SERVER_ROUTES_RUN_WAIT_H

#include "server/http/http.h"

/* For a run that an earlier request made: 201 when it is over, as a resource or as its events, or
 * 202 at once with ?wait=false. */
void route_await_run(struct http_exchange *x, const char *run_id);

#endif
