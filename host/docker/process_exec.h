/* One exec of the engine: create, start, ask about its end. Private to the process runner. All
 * block. */
#ifndef EXECHOST_HOST_DOCKER_PROCESS_EXEC_H
#define EXECHOST_HOST_DOCKER_PROCESS_EXEC_H

#include "host/docker/process.h"

enum { DOCKER_EXEC_ID_SIZE = 129, DOCKER_EXEC_EARLY_MAX = 1024 * 1024 };

struct docker_exec_spec {
    const char *const *command;     /* NULL-ended, as the guest's own words */
    const char *const *arguments;   /* NULL-ended and appended, or NULL */
    const char *const *environment; /* NULL-ended "NAME=VALUE", or NULL */
    bool has_stdin;
    struct cancel *cancel; /* borrowed, may be NULL */
};

struct docker_exec {
    char id[DOCKER_EXEC_ID_SIZE];
    int fd;                  /* nonblocking; -1 when closed */
    struct buf early;        /* what came with the answer */
    struct stuck_wait *wait; /* until something is heard of it */
    bool held;               /* a program inside had stopped it on its way in; it was killed */
};

/* Creates and starts it; `out` is to be given to docker_exec_done. */
int docker_exec_open(const struct docker_process_context *context,
                     const struct docker_exec_spec *spec, struct docker_exec *out,
                     struct error *err) WARN_UNUSED;
void docker_exec_done(struct docker_exec *exec);

/* Something came by its stream, or that has ended: it is no longer on its way in. */
void docker_exec_heard(struct docker_exec *exec);

/* How an exec ended, as far as the engine tells; waits a little for what the engine has still to
 * learn. */
struct docker_exec_end {
    bool known;    /* the exec has ended with `exit_code` and its container lives on */
    int exit_code; /* 0..255 */
    bool container_lives;
    bool held; /* the caller's: nothing ran, the runtime was stopped on its way in and killed */
};
void docker_exec_ask(const struct docker_process_context *context, const char *exec_id,
                     struct docker_exec_end *out);

#endif
