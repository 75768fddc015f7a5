/* The rules: a request and a host's limits in, a resolved plan or a violation out. Pure, no I/O,
 * waits for nothing; any thread. Faults name the field by JSON pointer and have PHASE_VALIDATE.
 *
 * Order of checking: image, workspace, network, resources, environment, metadata, labels, owner,
 * id; the first fault is the answer. */
#ifndef EXECHOST_POLICY_POLICY_H
#define EXECHOST_POLICY_POLICY_H

#include "api/checkpoint.h"
#include "api/execution.h"
#include "base/error.h"
#include "host/plan.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the configuration and the chosen host say. Borrows everything. */
struct policy_context {
    const char *tenant;
    bool allow_unpinned_images;
    const char *const *git_roots; /* of the tenant, NULL-ended absolute paths; NULL: none */
    const struct host_limit_ranges *ranges; /* of the host; NULL: the general ones only */
    int64_t load_timeout_ms;
};

/* POST /v1/executions. On success the plan is owned and complete but for `incarnation` and
 * `cancel`; an id that was left out is generated. Nulls are dropped from the request's tree, so
 * that what is echoed of it is what was understood. */
int policy_provision(struct api_execution_create *request, const struct policy_context *context,
                     struct host_provision_plan *plan, struct error *err) WARN_UNUSED;

/* What a checkpoint's manifest says, as far as a restore needs it; borrowed. */
struct policy_manifest {
    const char *image;
    json_t *resources;
    json_t *network;
    json_t *environment;
    json_t *metadata;
};

/* POST /v1/checkpoints/{id}/restore: the manifest under today's rules, then labels, owner and id of
 * the request. A fault of the manifest has the code of its rule and a field such as
 * "/resources/cpus" of the manifest, and its detail says that the checkpoint is meant. The
 * workspace is an empty one. */
int policy_restore(struct api_checkpoint_restore *request, const struct policy_manifest *manifest,
                   const struct policy_context *context, struct host_provision_plan *plan,
                   struct error *err) WARN_UNUSED;

/* --- single rules --- */

/* `[A-Za-z0-9][A-Za-z0-9._/:@-]*@sha256:<64 lowercase hex>`, at most 1024 bytes; with
 * `allow_unpinned` the digest may be missing. */
int policy_image_reference(const char *reference, bool allow_unpinned, const char *field,
                           struct error *err) WARN_UNUSED;

/* The environment of a command, or of an execution: an object (NULL: empty) of strings to a
 * NULL-ended "NAME=VALUE" array; `*out` is owned, NULL when empty. */
int policy_environment(json_t *environment, const char *pointer, char ***out,
                       struct error *err) WARN_UNUSED;
void policy_environment_free(char **environment); /* NULL is fine */

/* A command's cwd: relative, "." and "x/.." resolved; absolute or leading ".." refused. `*out` is
 * owned,
 * "" is the workspace. NULL is the workspace. */
int policy_cwd(const char *cwd, char **out, struct error *err) WARN_UNUSED;

/* An object, at most 32 deep (itself counted) and 64 KiB as compact text. NULL is fine. */
int policy_metadata(const json_t *metadata, const char *pointer, struct error *err) WARN_UNUSED;
/* An object of strings: at most 64, keys and values by their rules; drops nulls. NULL is fine. */
int policy_labels(json_t *labels, const char *pointer, struct error *err) WARN_UNUSED;

/* Six members in their ranges, of the general rules and of the host (NULL: general only); every
 * fault is ERROR_RESOURCE_LIMIT. */
int policy_resources(json_t *resources, const char *pointer, const struct host_limit_ranges *ranges,
                     struct host_limits *out, struct error *err) WARN_UNUSED;
/* The same limits as a resource shows them: cpus an integer where it is whole. Returns owned. */
json_t *policy_resources_encode(const struct host_limits *limits);
/* The ranges that hold on every host. */
const struct host_limit_ranges *policy_general_ranges(void);

/* Exactly {"mode": "none"}; every other value and NULL are ERROR_NETWORK_POLICY. */
int policy_network(json_t *network, const char *pointer, struct error *err) WARN_UNUSED;

/* The root that an absolute, lexically clean path lies strictly below or is; NULL when none. Real
 * paths are looked at when the repository is opened. */
const char *policy_git_root(const char *path, const char *const *roots);

/* ["DISK_EXCEEDS_MEMORY"] or [] for the plan. Returns owned. */
json_t *policy_warnings_encode(const struct host_provision_plan *plan);

#endif
