/* How POST of a command answers. */
#ifndef EXECHOST_SERVER_ROUTES_COMMAND_WAIT_H
#define EXECHOST_SERVER_ROUTES_COMMAND_WAIT_H

#include "server/http/http.h"
#include "server/services/live.h"
#include "store/commands.h"

/* For a command that an earlier request made: 201 when it is over, or 202 at once with ?wait=false.
 * Takes the reference to its execution (NULL: that has ended); borrows `row`. */
void route_await_command(struct http_exchange *x, const struct store_command *row,
                         struct live_execution *execution);

#endif
