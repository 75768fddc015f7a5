/* What will be done: requests with every default resolved. Plans own their strings; the operations
 * only borrow them. One thread at a time. */
#ifndef EXECHOST_HOST_PLAN_H
#define EXECHOST_HOST_PLAN_H

#include "base/cancel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The six limits, all mandatory. */
struct host_limits {
    int64_t nano_cpus; /* 10⁻⁹ cpu */
    int64_t memory_bytes;
    int64_t disk_bytes;
    int64_t pids;
    int64_t runtime_ms;
    int64_t max_output_bytes;
};

struct host_range {
    int64_t min;
    int64_t max;
};

/* What a host accepts of each; nano_cpus as above. */
struct host_limit_ranges {
    struct host_range nano_cpus;
    struct host_range memory_bytes;
    struct host_range disk_bytes;
    struct host_range pids;
    struct host_range runtime_ms;
    struct host_range max_output_bytes;
};

/* An execution's name on a host; the instance is the host's own. Strings borrowed. */
struct host_identity {
    const char *tenant;
    const char *execution_id;
    unsigned incarnation; /* 1, 2, … */
};

enum host_workspace_kind { HOST_WORKSPACE_EMPTY, HOST_WORKSPACE_GIT, HOST_WORKSPACE_ARCHIVE };

struct host_provision_plan {
    char *tenant;
    char *execution_id;
    unsigned incarnation;
    char *image;
    struct host_limits limits;
    char **environment; /* NULL-ended "NAME=VALUE"; NULL when empty */
    enum host_workspace_kind workspace;
    char *repository_path; /* as asked; only for HOST_WORKSPACE_GIT */
    char *repository_root; /* the configured root it lies below */
    char *revision;
    char *owner_id; /* or NULL */
    int64_t fencing_token;
    bool disk_exceeds_memory; /* a warning for the resource */
    int64_t load_timeout_ms;  /* most time that creating and importing may take */
    struct cancel *cancel;    /* borrowed; set by the service before the call */
};

void host_provision_plan_done(struct host_provision_plan *plan);
struct host_identity host_provision_plan_identity(const struct host_provision_plan *plan);

struct host_checkpoint_plan {
    struct host_identity id;
    const char *handle; /* borrowed */
    struct host_limits limits;
    int64_t apparent_bytes_max; /* max(4 × diskBytes, 64 MiB): reading more is RESOURCE_LIMIT */
    int64_t deadline_mono_ms;   /* later is ERROR_TIMEOUT */
    struct cancel *cancel;      /* borrowed */
};

#endif
