/* The Docker host: executions as containers of an engine, spoken to over its socket. The only
 * header of this module that others include. */
#ifndef EXECHOST_HOST_DOCKER_DOCKER_H
#define EXECHOST_HOST_DOCKER_DOCKER_H

#include "host/host.h"

struct docker_host_config {
    const char *socket_path; /* /var/run/docker.sock */
    const char *instance_id; /* of the data directory; part of every name and label */
    const char
        *scratch;      /* an existing directory for what an import needs for a moment; NULL: /tmp */
    uint32_t uid;      /* of commands; ≥ 1; the idle process runs as uid + 1 */
    uint32_t gid;      /* ≥ 1 */
    bool pull_missing; /* `pull`: missing or never */
    bool allow_unpinned;
    int64_t shm_bytes_max;
    int64_t load_timeout_ms;
    int64_t grace_ms; /* how long the end of a killed command is awaited; 0: 3 s */
};

/* Strings are copied. Starts the loop thread; does not need the engine to be up. `observer` is
 * copied. Returns owned (free by ops->free). */
int docker_host_new(const struct docker_host_config *config, const struct host_observer *observer,
                    struct host **out, struct error *err) WARN_UNUSED;

#endif
