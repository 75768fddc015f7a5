/* Checkpoints that move between workers: published to a shared store, taken in from it, listed and
 * removed there. Exists only where a shared store is configured.
 *
 * Layout, for each tenant: <prefix>/<tenant>/blobs/sha256/<hex> holds an archive or a list of files
 * (as it is, not compressed) under the digest of its bytes; then
 * <prefix>/<tenant>/checkpoints/<id>/manifest.json tells of them. The manifest comes last and is
 * never replaced. A checkpoint is passed on by its shared reference: the manifest's URI and digest.
 *
 * Blobs are shared by checkpoints and workers, which know nothing of each other. So a blob goes
 * only when no manifest of its tenant refers to it and it is BLOB_KEPT_MS old, and who shares sends
 * one again that is BLOB_FRESH_MS old, looks for both once more after the manifest is there, and
 * sends again what has gone meanwhile.
 *
 * Any thread; what blocks says so. Errors of the store as in store/objects/objects.h. */
#ifndef EXECHOST_SERVER_SERVICES_SHARING_H
#define EXECHOST_SERVER_SERVICES_SHARING_H

#include "base/digest.h"
#include "server/services/checkpoints.h"

struct sharing;

/* `*out` is NULL where none is configured. ERROR_INVALID_REQUEST when the configuration or its
 * credentials are none. Talks to nobody. */
int sharing_new(struct service *s, struct sharing **out, struct error *err) WARN_UNUSED;
void sharing_free(struct sharing *sharing); /* NULL is fine */
/* Goes on with what the last run of the service left uploading, learns what the store can do, and
 * begins to look after it. */
void sharing_start(struct service *s);

/* ERROR_SHARED_STORE_NOT_CONFIGURED; `field` NULL: none. */
int sharing_check(const struct service *s, const char *field, struct error *err) WARN_UNUSED;

/* --- publishing --- */

/* One being published, or just published. Reference counted. */
struct share_job;
void share_job_unref(struct share_job *job); /* NULL is fine */
bool share_job_is_over(struct share_job *job);
/* 0 when it is durable, else why not. */
int share_job_outcome(struct share_job *job, struct error *err) WARN_UNUSED;

/* Publishes a checkpoint, or joins who does it already. The outcome is also in the checkpoint's
 * row. Who waits is told by the checkpoint's topic. Returns owned. ERROR_CHECKPOINT_NOT_FOUND. */
int sharing_begin(struct service *s, const char *tenant, const char *id, struct share_job **out,
                  struct error *err) WARN_UNUSED;
bool sharing_is_active(struct service *s, const char *tenant, const char *id);

/* `shared` of a checkpoint. Returns owned, or NULL: it was never shared. */
json_t *sharing_view(struct service *s, const struct store_checkpoint *row);

/* --- the shared store --- */

/* A shared reference. */
struct sharing_import {
    struct caller who;
    const char *uri;
    const char *digest; /* of the manifest */
    int64_t claim;      /* row of the idempotency key it is made under, 0: none */
};
/* Fetches, verifies, takes in. Blocks for all of it. ERROR_INVALID_REQUEST (/uri) for what is not
 * below the tenant's place, before anything is sent; ERROR_CHECKPOINT_NOT_FOUND, _INVALID,
 * ERROR_ID_IN_USE. `*made` as checkpoints_import. */
int sharing_import(struct service *s, const struct sharing_import *request, char id[ID_SIZE],
                   bool *made, struct error *err) WARN_UNUSED;

/* Removes the published manifest, and its blobs as far as the rule above lets them go. Not there is
 * fine. Blocks. */
int sharing_remove(struct service *s, const char *tenant, const char *id,
                   struct error *err) WARN_UNUSED;

/* A page of what is published, by id: those after `after` whose id begins with `prefix`. Returns
 * owned: {items, nextCursor} with the last id of the page as the cursor. Blocks. */
struct sharing_page {
    const char *tenant;
    const char *prefix; /* "" for all */
    const char *after;  /* "" from the first */
    int limit;
};
int sharing_list(struct service *s, const struct sharing_page *page, json_t **out,
                 struct error *err) WARN_UNUSED;

/* `sharedStore` of GET /v1/host. Returns owned; null where none is configured. */
json_t *sharing_describe(struct service *s);

#endif
