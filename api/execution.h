/* Executions on the wire. Requests own the tree they were read from and everything else borrows
 * from it; views borrow all they hold. Pure; any thread. */
#ifndef EXECHOST_API_EXECUTION_H
#define EXECHOST_API_EXECUTION_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- requests --- */

/* POST /v1/executions. Only the shape of the body, unknown fields and the type of `host` are
 * checked here: the rest is left raw, so that policy_provision() can check it in the order of the
 * rules. */
struct api_execution_create {
    json_t *root;     /* owned */
    const char *host; /* NULL: the default one */
    json_t *image;    /* all borrowed from root; NULL when left out */
    json_t *workspace;
    json_t *network;
    json_t *resources;
    json_t *environment;
    json_t *metadata;
    json_t *labels;
    json_t *owner;
    json_t *execution_id;
    int64_t claim; /* not of the body: the idempotency key it came with, 0: none */
};

int api_execution_create_decode(const char *body, size_t len, struct api_execution_create *out,
                                struct error *err) WARN_UNUSED;
void api_execution_create_done(struct api_execution_create *request);

/* PATCH /v1/executions/{id}. At least one field; labels and metadata are checked by policy. */
struct api_execution_patch {
    json_t *root; /* owned */
    json_t *labels;
    json_t *metadata;
    int64_t expires_at; /* wall ms, -1 when left out */
};

int api_execution_patch_decode(const char *body, size_t len, struct api_execution_patch *out,
                               struct error *err) WARN_UNUSED;
void api_execution_patch_done(struct api_execution_patch *request);

enum { API_OWNER_ID_SIZE = 65 };

/* {ownerId, fencingToken}: an id, and 0 … 2⁵³-1. */
struct api_owner {
    char owner_id[API_OWNER_ID_SIZE];
    int64_t fencing_token;
};

/* PUT /v1/executions/{id}/owner. */
int api_owner_decode(const char *body, size_t len, struct api_owner *out,
                     struct error *err) WARN_UNUSED;
/* The same for a value inside a body; `pointer` names it. */
int api_owner_read(json_t *value, const char *pointer, struct api_owner *out,
                   struct error *err) WARN_UNUSED;
/* The `Fencing-Token` header: decimal digits, 0 … 2⁵³-1; the fault names the header. */
int api_fencing_token_decode(const char *text, int64_t *out, struct error *err) WARN_UNUSED;

/* --- view --- */

/* Times are wall ms, counts as they are; -1 is null. NULL strings are null. */
struct api_execution {
    const char *execution_id;
    int64_t incarnation;
    const char *state; /* provisioning, provisioned, terminating, terminated, failed */
    const char *host;
    const char *image;
    int64_t requested_at;
    int64_t created_at;
    int64_t expires_at;
    int64_t terminated_at;
    json_t *resources; /* JSON-valued members are borrowed; objects, never NULL */
    json_t *network;
    json_t *workspace;
    json_t *environment;
    json_t *metadata;
    json_t *labels;
    const char *owner_id; /* NULL: no owner */
    int64_t fencing_token;
    const char *restored_from;
    int64_t cpu_ms;
    int64_t memory_peak_bytes;
    int64_t pids_peak;
    int64_t workspace_bytes;
    const char *termination_reason; /* NULL until it ended */
    const char *termination_code;
    const char *termination_detail;
    int64_t termination_at;
    json_t *warnings; /* array; NULL is empty */
};

/* Returns owned; NULL when memory is out. */
json_t *api_execution_encode(const struct api_execution *view);

#endif
