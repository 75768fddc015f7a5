/* The commands that run, by container and id, so that input and signals find them. Private to the
 * process runner. Any thread; nothing blocks. */
#ifndef EXECHOST_HOST_DOCKER_PROCESS_RUNNING_H
#define EXECHOST_HOST_DOCKER_PROCESS_RUNNING_H

#include "host/docker/engine.h"
#include "host/docker/process.h"
#include "host/input.h"

#include <sys/queue.h>

/* Embedded first in what is to be found. */
struct running {
    char *container;              /* owned */
    char *command_id;             /* owned; NULL: nobody can name it */
    struct engine_stream *stream; /* [lock] */
    struct host_input input;      /* [lock] */
    TAILQ_ENTRY(running) entry;
};

/* Puts it into the loop and the list at once. */
int running_add(struct docker_running *list, struct running *r, struct engine_loop *loop, int fd,
                const struct engine_stream_events *handler, struct error *err) WARN_UNUSED;
/* Nobody finds it from now on. Before its stream goes. */
void running_remove(struct docker_running *list, struct running *r);

/* Around the use of `input`. */
void running_lock(struct docker_running *list);
void running_unlock(struct docker_running *list);

#endif
