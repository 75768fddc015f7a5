/* The native host: executions as sandboxes of this machine's kernel, each held by a shim process
 * that survives the service. The only header of this module, images.h apart, that others include.
 */
#ifndef EXECHOST_HOST_NATIVE_NATIVE_H
#define EXECHOST_HOST_NATIVE_NATIVE_H

#include "host/host.h"

struct native_host_config {
    const char *directory;   /* "<data>/native"; made where it is missing */
    const char *images;      /* where the images are; NULL: <directory>/images */
    const char *instance_id; /* of the data directory; names the cgroups */
    const char *scratch;     /* an existing directory for what an import needs for a moment */
    uint32_t uid;            /* of commands, inside; ≥ 1 */
    uint32_t gid;
    uint32_t host_uid_first; /* outside: the range of user and group ids, two for each execution */
    uint32_t host_uid_count;
    bool fetch_missing; /* images, by skopeo */
    bool allow_unpinned;
    int64_t shm_bytes_max;
    int64_t load_timeout_ms;
};

/* Strings are copied, `observer` too. Does not need the machine to be fit: `probe` says what is
 * missing. Returns owned (free by ops->free). */
int native_host_new(const struct native_host_config *config, const struct host_observer *observer,
                    struct host **out, struct error *err) WARN_UNUSED;

#endif
