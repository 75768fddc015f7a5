/* What the loop and its watches share; nobody else includes it. */
#ifndef EXECHOST_HOST_DOCKER_ENGINE_LOOP_INTERNAL_H
#define EXECHOST_HOST_DOCKER_ENGINE_LOOP_INTERNAL_H

#include "host/docker/engine_internal.h"

struct engine_watch;

/* Returns owned; not yet connected. Strings copied. */
int engine_watch_new(struct engine *e, const char *label, const struct engine_watch_events *handler,
                     struct engine_watch **out, struct error *err) WARN_UNUSED;
/* The loop thread only. Connects when it is time to; returns milliseconds until it wants to be
 * asked again, -1 when it waits for the engine. */
int64_t engine_watch_tick(struct engine_watch *w, CURLM *multi);
/* Whether this transfer is its own; then it has ended and is taken out of `multi`. */
bool engine_watch_ended(struct engine_watch *w, CURLM *multi, CURL *easy);
void engine_watch_free(struct engine_watch *w, CURLM *multi);

struct engine_watch **engine_watch_next(struct engine_watch *w); /* the link of the loop's list */

#endif
