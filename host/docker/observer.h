/* The executions whose containers are in use, and what the engine tells of them unasked: out of
 * memory, ended. Any thread; the observer's callbacks run on the loop thread or on its own. */
#ifndef EXECHOST_HOST_DOCKER_OBSERVER_H
#define EXECHOST_HOST_DOCKER_OBSERVER_H

#include "host/docker/engine.h"
#include "host/host.h"

struct observer;

int observer_new(struct engine *engine, struct engine_loop *loop, const char *instance,
                 const struct host_observer *events, struct observer **out,
                 struct error *err) WARN_UNUSED;
/* After the loop was stopped: nothing is told any more. */
void observer_stop(struct observer *o);
/* Stops if need be. NULL is fine. */
void observer_free(struct observer *o);

/* From now on its end is noted, though not yet told. */
int observer_add(struct observer *o, const char *container, const struct host_identity *id,
                 struct error *err) WARN_UNUSED;
/* From now on its end is told. False: it has ended already. */
bool observer_publish(struct observer *o, const char *container);
/* From now on nothing is told of it. Unknown is fine. */
void observer_remove(struct observer *o, const char *container);

/* Whether the helper was put into the container, as far as is known. */
bool observer_helper_ready(struct observer *o, const char *container);
void observer_set_helper_ready(struct observer *o, const char *container);

#endif
