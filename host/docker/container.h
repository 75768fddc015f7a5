/* What a container of an execution looks like: the engine's create body built from a plan, and the
 * engine's account of what it made compared with it, field by field. Pure JSON, no I/O; any thread.
 */
#ifndef EXECHOST_HOST_DOCKER_CONTAINER_H
#define EXECHOST_HOST_DOCKER_CONTAINER_H

#include "base/buf.h"
#include "base/error.h"
#include "host/host.h"

#include <jansson.h>

#define CONTAINER_WORKSPACE "/workspace"
#define CONTAINER_LABEL_INSTANCE "exechost.instance"
#define CONTAINER_LABEL_TENANT "exechost.tenant"
#define CONTAINER_LABEL_EXECUTION "exechost.execution"
#define CONTAINER_LABEL_INCARNATION "exechost.incarnation"
#define CONTAINER_LABEL_DEADLINE "exechost.deadline"     /* wall clock, ms */
#define CONTAINER_LABEL_OWNER "exechost.owner"           /* absent without owner */
#define CONTAINER_LABEL_FENCING "exechost.fencing-token" /* absent without owner */

enum { CONTAINER_ID_SIZE = 65, CONTAINER_NAME_MAX = 512, CONTAINER_USER_SIZE = 24 };

/* Bounds of what is derived from the plan. */
enum {
    CONTAINER_TMP_MIN = 1 << 20,
    CONTAINER_TMP_MAX = 16 << 20,
    CONTAINER_SHM_MIN = 64 << 10,
    CONTAINER_SHM_MAX = 16 << 20, /* unless configured otherwise */
    CONTAINER_INODES_MIN = 1024,  /* of the workspace: one for each block of disk, at least these */
    CONTAINER_INODES_MAX = 1 << 20, /* about 1 KiB of the machine's memory each */
    CONTAINER_TMP_INODES = 4096,
};

/* All borrowed. */
struct container_spec {
    const char *instance;
    struct host_identity id;
    const char *image; /* id, "sha256:…" */
    const char
        *search_path; /* where the idle process finds its programs: nothing a command can write */
    const struct host_limits *limits;
    char *const *environment; /* NULL-ended, or NULL */
    bool set_home;            /* neither image nor caller sets HOME */
    const char *owner_id;     /* or NULL */
    int64_t fencing_token;
    uint32_t uid;
    uint32_t gid;
    int64_t shm_bytes_max;
    int64_t sleep_s; /* the idle process ends then, and with it everything */
    int64_t deadline_wall_ms;
};

/* "exechost-<instance>-<tenant>-<execution>-<incarnation>"; of a tenant with a dash in its name
 * ".<length>.<tenant>", so that no two executions share one. Returns owned, NULL without memory. */
char *container_name(const char *instance, const struct host_identity *id);

/* The body of the engine's create call. Returns owned. */
json_t *container_body(const struct container_spec *spec, struct error *err);

/* The three names by which what was made is found again. */
struct container_handle {
    char id[CONTAINER_ID_SIZE]; /* "-": only volumes are left */
    char volumes[2]
                [CONTAINER_ID_SIZE]; /* the workspace's and the helper's; "-" when there is none */
};

/* Compares the engine's inspection with the body it was asked for: every key of the body, that
 * nothing was added which gives more, that exactly the two volumes are mounted, and that the
 * container runs. A difference is an ERROR_RESOURCE_LIMIT that names it. */
int container_verify(const json_t *body, const json_t *inspection, struct container_handle *handle,
                     struct error *err) WARN_UNUSED;

/* As text and back; strict. */
char *container_handle_format(const struct container_handle *handle);
int container_handle_parse(const char *text, struct container_handle *out) WARN_UNUSED;
/* The names of the volumes in an inspection's or a list item's Mounts. -1 when a name is none. */
int container_handle_from_mounts(const json_t *mounts_list,
                                 struct container_handle *handle) WARN_UNUSED;

/* Directories of `path` ("a:b") that no command can write to, and the usual ones behind them. A
 * search path that led into the workspace would let a command plant a program for the idle user. */
char *container_search_path(const char *path);

/* The wanted labels are all there. */
bool container_labels_match(const json_t *labels, const char *instance,
                            const struct host_identity *id);
bool container_id_valid(const char *id);

#endif
