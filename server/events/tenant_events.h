/* What changes of a tenant's executions, commands, checkpoints and runs, as a stream of events.
 * Holds its place between two fills and nothing else. Where events are gone between the place and
 * the oldest one kept, or the place is behind the newest one (the store is another than it was), a
 * `gap` event says from where on the stream is whole. One thread at a time; blocks for reads of the
 * store. */
#ifndef EXECHOST_SERVER_EVENTS_TENANT_EVENTS_H
#define EXECHOST_SERVER_EVENTS_TENANT_EVENTS_H

#include "api/event.h"
#include "server/http/http.h"
#include "store/events.h"

struct tenant_events;

static const int64_t TENANT_EVENTS_OLDEST = -1; /* from the oldest one kept */
static const int64_t TENANT_EVENTS_LATEST = -2; /* what happens from now on */

struct tenant_events_config {
    struct store *store;
    const char *tenant; /* copied */
    enum api_event_format format;
    bool follow;
    int64_t after; /* or one of the two above */
};

/* Returns owned. */
int tenant_events_new(const struct tenant_events_config *config, struct tenant_events **out,
                      struct error *err) WARN_UNUSED;
void tenant_events_free(struct tenant_events *e); /* NULL is fine */

/* The stream: its state is a struct tenant_events. */
extern const struct http_stream_ops tenant_events_ops;

#endif
