/* Checkpoints on the wire. Pure; any thread. */
#ifndef EXECHOST_API_CHECKPOINT_H
#define EXECHOST_API_CHECKPOINT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* POST /v1/executions/{id}/checkpoints; the body may be missing. `metadata` is checked by policy.
 */
struct api_checkpoint_create {
    json_t *root;              /* owned */
    const char *checkpoint_id; /* NULL when left out; else a valid id */
    json_t *metadata;          /* borrowed, or NULL */
    bool share;
    int64_t claim; /* not of the body: the idempotency key it came with, 0: none */
};

int api_checkpoint_create_decode(const char *body, size_t len, struct api_checkpoint_create *out,
                                 struct error *err) WARN_UNUSED;
void api_checkpoint_create_done(struct api_checkpoint_create *request);

/* POST /v1/checkpoints/{id}/restore; the body may be missing. Labels, owner and id are checked by
 * policy_restore() together with what the manifest says. */
struct api_checkpoint_restore {
    json_t *root;     /* owned */
    const char *host; /* NULL: the default one */
    json_t *labels;   /* borrowed, or NULL */
    json_t *owner;
    json_t *execution_id;
    int64_t claim; /* not of the body: the idempotency key it came with, 0: none */
};

int api_checkpoint_restore_decode(const char *body, size_t len, struct api_checkpoint_restore *out,
                                  struct error *err) WARN_UNUSED;
void api_checkpoint_restore_done(struct api_checkpoint_restore *request);

/* POST /v1/checkpoints/import with a JSON body: the shared reference of a checkpoint. */
struct api_checkpoint_import {
    json_t *root; /* owned */
    const char *uri;
    const char *digest; /* of the manifest, valid */
};

int api_checkpoint_import_decode(const char *body, size_t len, struct api_checkpoint_import *out,
                                 struct error *err) WARN_UNUSED;
void api_checkpoint_import_done(struct api_checkpoint_import *request);

/* A view; borrows everything. -1 and NULL are null: what a checkpoint being made does not know yet.
 */
struct api_checkpoint {
    const char *checkpoint_id;
    const char *source_execution_id;
    int64_t created_at;
    int64_t size_bytes;
    int64_t archive_bytes;
    const char *archive_digest;
    int64_t entries;
    int64_t skipped;
    const char *image;
    json_t *resources;
    json_t *metadata; /* object; NULL is an empty one */
    const char *durability;
    json_t *shared; /* NULL is null */
};

/* `shared` of a checkpoint. A view; borrows everything. */
struct api_shared_checkpoint {
    const char *uri;
    const char *digest;
    int64_t uploaded_at; /* -1 is null */
    int64_t bytes_sent;
    int64_t bytes_total;
    json_t *error; /* {code, detail, retryable}; NULL is null */
};
/* An item of GET /v1/shared-checkpoints. A view; borrows everything. What a manifest that can't be
 * read does not tell is -1 or NULL, and `problem` says why. */
struct api_shared_item {
    const char *checkpoint_id;
    const char *uri;
    const char *digest;
    int64_t uploaded_at;
    int64_t created_at;
    const char *source_execution_id;
    int64_t size_bytes;
    int64_t archive_bytes;
    const char *image;
    json_t *metadata;
    const char *problem; /* NULL is null */
};

/* All return owned; NULL when memory is out. */
json_t *api_shared_checkpoint_encode(const struct api_shared_checkpoint *view);
json_t *api_shared_item_encode(const struct api_shared_item *view);
json_t *api_checkpoint_encode(const struct api_checkpoint *view);
/* `ok` is true exactly when there are no problems. */
json_t *api_verification_encode(const char *const *problems, size_t count);

#endif
