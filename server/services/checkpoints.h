/* Checkpoints: made in their execution's lane, kept as files and a row, read by verify and restore.
 */
#ifndef EXECHOST_SERVER_SERVICES_CHECKPOINTS_H
#define EXECHOST_SERVER_SERVICES_CHECKPOINTS_H

#include "api/checkpoint.h"
#include "server/services/live.h"
#include "server/services/provision.h"
#include "store/checkpoints.h"
#include "workspace/manifest.h"

#include <jansson.h>

/* The checkpoints being made and being read; owned by the service, any thread. */
struct checkpoints;
struct share_job;
int checkpoints_new(struct checkpoints **out, struct error *err) WARN_UNUSED;
void checkpoints_free(struct checkpoints *c); /* NULL is fine */

/* One being made, or just made. Reference counted. */
struct checkpoint_job;
void checkpoint_job_unref(struct checkpoint_job *job); /* NULL is fine */
const char *checkpoint_job_id(const struct checkpoint_job *job);
bool checkpoint_job_is_over(struct checkpoint_job *job);
/* The resource while it is made. Returns owned. */
json_t *checkpoint_job_view(struct checkpoint_job *job);
/* Of one that is to be shared and was made: who publishes it; borrowed. NULL: nobody. */
struct share_job *checkpoint_job_sharing(struct checkpoint_job *job);
/* 0 when it was made, else why not. */
int checkpoint_job_outcome(struct checkpoint_job *job, struct error *err) WARN_UNUSED;

/* Queues it in the execution's lane. Returns owned. ERROR_ID_IN_USE, ERROR_OVERLOADED. */
int checkpoints_create(struct live_execution *x, const struct quotas *quotas,
                       struct api_checkpoint_create *request, int64_t fencing_token,
                       struct checkpoint_job **out, struct error *err) WARN_UNUSED;

/* onLimit.checkpoint: makes one now, outside the lane, whose turn the command that hit the limit
 * still has. Blocks. */
int checkpoints_make_at_limit(struct live_execution *x, char id[ID_SIZE],
                              struct error *err) WARN_UNUSED;

/* The resource, also while it is made (`*pending`). Returns owned. */
int checkpoints_view(struct service *s, const char *tenant, const char *id, json_t **out,
                     bool *pending, struct error *err) WARN_UNUSED;
bool checkpoints_is_pending(struct service *s, const char *tenant, const char *id);
/* Returns owned; NULL: the row can't be shown. */
json_t *checkpoints_encode(struct service *s, const struct store_checkpoint *row);

/* Reads every byte (blocks). Returns owned: {ok, problems}. */
int checkpoints_verify(struct service *s, const char *tenant, const char *id, json_t **out,
                       struct error *err) WARN_UNUSED;
/* Unknown is fine. ERROR_CHECKPOINT_IN_USE while it is read or uploaded. `shared`: what is
 * published of it goes first (blocks on the shared store), and where that fails nothing has gone.
 */
int checkpoints_delete(struct service *s, const char *tenant, const char *id, bool shared,
                       struct error *err) WARN_UNUSED;

/* Starts an execution from it. Returns owned. */
int checkpoints_restore(struct service *s, const struct caller *who, const char *id,
                        struct api_checkpoint_restore *request, struct live_execution **out,
                        struct error *err) WARN_UNUSED;

/* --- files in and out (checkpoint_transfer.c) --- */

/* The files of a checkpoint for sending; they stay whole whatever DELETE does meanwhile. */
struct checkpoint_download {
    struct store_checkpoint_files files;
    struct workspace_manifest manifest;
    int64_t manifest_bytes;
    int64_t files_bytes;
    char manifest_digest[DIGEST_TEXT_SIZE];
};
/* ERROR_CHECKPOINT_INVALID when a file is missing or not as large as the manifest says; the bytes
 * are not verified. Blocks. */
int checkpoint_download_open(struct service *s, const char *tenant, const char *id,
                             struct checkpoint_download *out, struct error *err) WARN_UNUSED;
void checkpoint_download_done(struct checkpoint_download *d);

struct checkpoint_import {
    struct caller who;
    int fd; /* the export; borrowed */
    int64_t size;
    int64_t claim; /* row of the idempotency key it is made under, 0: none */
};
/* Takes in an exported checkpoint. All of it is verified before anything of it can be seen. `*made`
 * is false when the very same checkpoint was here already. ERROR_CHECKPOINT_INVALID,
 * ERROR_ID_IN_USE. Blocks for reading and writing all of it. */
int checkpoints_import(struct service *s, const struct checkpoint_import *request, char id[ID_SIZE],
                       bool *made, struct error *err) WARN_UNUSED;

/* --- for readers: keeps DELETE away while it is held --- */

struct checkpoint_reading; /* opaque */
/* Opens row and files and marks it as being read; the files' manifest must be the row's. */
int checkpoint_reading_open(struct service *s, const char *tenant, const char *id,
                            struct checkpoint_reading **out, struct error *err) WARN_UNUSED;
void checkpoint_reading_close(struct checkpoint_reading *r); /* NULL is fine */
const struct workspace_manifest *checkpoint_reading_manifest(const struct checkpoint_reading *r);
/* A reader over its files; one serves both passes of a restore. Returns owned. */
int checkpoint_reading_reader(struct checkpoint_reading *r, struct workspace_reader **out,
                              struct error *err) WARN_UNUSED;

#endif
