/* The Docker host's own parts, shared by its files; nobody else includes it. */
#ifndef EXECHOST_HOST_DOCKER_DOCKER_INTERNAL_H
#define EXECHOST_HOST_DOCKER_DOCKER_INTERNAL_H

#include "base/pool.h"
#include "host/docker/container.h"
#include "host/docker/docker.h"
#include "host/docker/engine.h"
#include "host/docker/images.h"
#include "host/docker/observer.h"
#include "host/docker/process.h"

#include <pthread.h>

struct docker_host {
    struct host base;
    char *instance;
    char *scratch;
    uint32_t uid;
    uint32_t gid;
    char user[CONTAINER_USER_SIZE];      /* of commands, "65532:65532" */
    char idle_user[CONTAINER_USER_SIZE]; /* of what ends the execution, "65533:65532" */
    int64_t shm_bytes_max;
    int64_t load_timeout_ms;
    int64_t grace_ms;
    struct engine *engine;
    struct engine_loop *loop;
    struct docker_running *running;
    struct pool *pool; /* asks the engine about streams that ended without a result */
    struct images *images;
    struct observer *observer;
    struct stuck *stuck; /* where programs inside hold up the engine */
};

static inline void docker_answer_done(struct engine_answer *a)
{
    engine_answer_done(a);
}
#define _cleanup_answer_ _cleanup_(docker_answer_done)

static inline void docker_json_done(json_t **json)
{
    json_decref(*json);
}
#define _cleanup_json_ _cleanup_(docker_json_done)

/* --- the operations, one file each --- */

/* lifecycle.c: container made, checked, started, filled. `archive` NULL: no archive. */
int docker_provision(struct docker_host *h, const struct host_provision_plan *plan,
                     struct workspace_reader *archive, struct host_provisioned *out,
                     struct error *err) WARN_UNUSED;

/* guard.c: replaces what sleeps for the deadline by a sleep of `seconds` from now. */
int docker_guard_arm(struct docker_host *h, const char *container, int64_t seconds,
                     struct error *err) WARN_UNUSED;

/* remove.c: destroys and proves it. The handle's volumes too. */
int docker_remove(struct docker_host *h, const struct container_handle *handle,
                  struct error *err) WARN_UNUSED;
/* Everything that bears this identity of this instance, or of `instance` when that is given. */
int docker_remove_identity(struct docker_host *h, const struct host_identity *id,
                           struct error *err) WARN_UNUSED;

/* transfer.c: */
int docker_checkpoint(struct docker_host *h, const struct host_checkpoint_plan *plan,
                      struct workspace_sink *sink, struct error *err) WARN_UNUSED;
int docker_load_workspace(struct docker_host *h, const char *container,
                          const struct host_provision_plan *plan, struct workspace_reader *archive,
                          int64_t deadline_mono_ms, struct error *err) WARN_UNUSED;
int docker_unpause(struct docker_host *h, const char *container, struct error *err) WARN_UNUSED;

/* sockets.c: how many sockets the workspace holds, to be asked before the freeze, since nothing can
 * be started behind it. 0 where that can't be learned: what programs do to the helper, and too
 * little memory for it, must not make a checkpoint fail. Bounded in time. */
int64_t docker_count_sockets(struct docker_host *h, const char *container,
                             const struct host_checkpoint_plan *plan);

/* recover.c: */
int docker_list(struct docker_host *h, struct host_found_list *out, struct error *err) WARN_UNUSED;
int docker_adopt(struct docker_host *h, const struct host_found *found,
                 struct error *err) WARN_UNUSED;

/* --- small calls that several need --- */

/* An engine call of `path` made by `fmt`, without a body. */
struct docker_call {
    const char *verb;
    const char *method;
    int64_t timeout_ms;
    struct cancel *cancel;
};
int docker_call(struct docker_host *h, const struct docker_call *call, struct engine_answer *out,
                struct error *err, const char *fmt, ...) WARN_UNUSED PRINTF_LIKE(5, 6);
/* The error for an answer that was not expected; returns -1. */
int docker_refused(struct error *err, const struct docker_call *call,
                   const struct engine_answer *answer);
/* Containers, running or not, and volumes that have all the labels, each "key=value" or "key". */
int docker_list_containers(struct docker_host *h, const json_t *labels, struct engine_answer *out,
                           struct error *err) WARN_UNUSED;
int docker_list_volumes(struct docker_host *h, const json_t *labels, struct engine_answer *out,
                        struct error *err) WARN_UNUSED;
/* The labels of one identity as a filter. Returns owned. */
json_t *docker_identity_filter(const char *instance, const struct host_identity *id);

/* docker.c: the helper goes in before its first use; most executions use it more than once. */
int docker_helper_ready(struct docker_host *h, const char *container, struct cancel *cancel,
                        struct error *err) WARN_UNUSED;

struct docker_process_context docker_context(const struct docker_host *h, const char *container);

#endif
