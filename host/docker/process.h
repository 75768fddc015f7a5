/* The process runner: programs inside a container, by way of the guest. Knows exec create, exec
 * start, frames; knows nothing of policy or lifecycle. */
#ifndef EXECHOST_HOST_DOCKER_PROCESS_H
#define EXECHOST_HOST_DOCKER_PROCESS_H

#include "base/pool.h"
#include "host/docker/engine.h"
#include "host/docker/stuck.h"
#include "host/guest_load.h"
#include "host/host.h"

/* What runs, so that input and signals find it. Its loop is borrowed; to be freed after that has
 * stopped. */
struct docker_running;
int docker_running_new(struct engine_loop *loop, struct docker_running **out,
                       struct error *err) WARN_UNUSED;
void docker_running_free(struct docker_running *list); /* NULL is fine */

struct docker_process_context {
    struct engine *engine;
    struct engine_loop *loop;
    struct docker_running *running; /* of `loop` */
    struct pool *pool; /* where the engine is asked about a stream that ended without a result */
    struct stuck
        *stuck;       /* what starts is helped by it where a program inside holds it up; or NULL */
    int64_t grace_ms; /* how long the engine may take to learn how a command ended; 0: 3 s */
    const char *container; /* id or name */
    const char *user;      /* "65532:65532" */
};

/* Starts `plan`'s program through the guest, which must be in place; events as host.h says, on the
 * loop thread. Of the context only engine, loop, running, pool and stuck must outlive the command.
 * When the stream ends without GUEST_EXIT, the engine is asked on the pool (exec inspect), and
 * `finished` is called there: the runtime could not start the guest → not started, with its words;
 * exit code known and the container alive → reported with detail "the command's runner was killed
 * from inside"; else lost. A container that is gone, stopped or paused: ERROR_RUNTIME with the
 * engine's words. */
int docker_process_start(const struct docker_process_context *context,
                         const struct host_exec_plan *plan, const struct host_exec_events *events,
                         struct error *err) WARN_UNUSED;

/* exec_input and exec_signal of host.h; they queue and return. */
struct docker_command_name {
    const char *container; /* as the context named it */
    const char *command_id;
};
struct docker_input {
    const void *data; /* copied */
    size_t len;
    bool eof;
};
int docker_process_input(struct docker_running *list, const struct docker_command_name *name,
                         const struct docker_input *input, struct error *err) WARN_UNUSED;
int docker_process_signal(struct docker_running *list, const struct docker_command_name *name,
                          int signo, struct error *err) WARN_UNUSED;

/* Starts the helper for a conversation (host/guest.h); it must be in place. Of the context only
 * engine and stuck must outlive it. Blocks. */
int docker_process_guest(const struct docker_process_context *context,
                         const struct host_guest_call *call, struct host_guest **out,
                         struct error *err) WARN_UNUSED;

/* Feeds a workspace into the container through `guest load /workspace` (blocks). `feed` is called
 * with the sink and drives it; its error is the result. Special files are left out. Content that
 * does not fit: ERROR_RESOURCE_LIMIT; deadline: ERROR_TIMEOUT; everything else that the guest
 * meets: ERROR_RUNTIME. */
struct docker_load {
    int64_t deadline_mono_ms;
    struct cancel *cancel;
    host_guest_feed_fn feed;
    void *ctx;
};
int docker_process_load(const struct docker_process_context *context,
                        const struct docker_load *load, struct error *err) WARN_UNUSED;

/* Puts the guest binary (embedded at build time) into the container's helper volume. */
int docker_process_install_guest(const struct docker_process_context *context,
                                 struct cancel *cancel, struct error *err) WARN_UNUSED;

#endif
