/* Feeds a workspace's entries to a helper that loads or unpacks them (guest/protocol.h). */
#ifndef EXECHOST_HOST_GUEST_LOAD_H
#define EXECHOST_HOST_GUEST_LOAD_H

#include "host/guest.h"
#include "workspace/entry.h"

/* Drives the sink; its error is the result. */
typedef int (*host_guest_feed_fn)(void *ctx, struct workspace_sink *sink, struct error *err);

/* Calls `feed` with a sink that sends what it is given, then waits until all of it is in place.
 * Special files are left out. Blocks. */
int host_guest_load(struct host_guest *g, host_guest_feed_fn feed, void *ctx,
                    struct error *err) WARN_UNUSED;

/* For host_guest_call: what `load` fails with. Content that does not fit is ERROR_RESOURCE_LIMIT.
 */
int host_guest_load_failed(int errnum, const char *text, struct error *err);

#endif
