/* Shared by the parts of checkpoints: registry and views (checkpoints.c), making
 * (checkpoint_make.c), reading (checkpoint_read.c). */
#ifndef EXECHOST_SERVER_SERVICES_CHECKPOINTS_PRIVATE_H
#define EXECHOST_SERVER_SERVICES_CHECKPOINTS_PRIVATE_H

#include "server/services/checkpoints.h"
#include "workspace/manifest.h"

struct checkpoint_job {
    struct live_item item;
    struct service *service;
    TAILQ_ENTRY(checkpoint_job) entry; /* in the registry until it is over */
    unsigned refs;                     /* [lock] */
    char tenant[ID_SIZE];
    char id[ID_SIZE];
    json_t *metadata;
    int64_t created_at;
    int64_t claim;        /* of the POST's idempotency key, 0: none */
    json_t *view;         /* while it is pending */
    bool over;            /* [lock] */
    struct error error;   /* [lock] code NONE when it was made */
    struct error dropped; /* why it never had its turn */
};

struct checkpoint_reading {
    struct service *service;
    TAILQ_ENTRY(checkpoint_reading) entry;
    char tenant[ID_SIZE];
    char id[ID_SIZE];
    struct store_checkpoint_files files;
    struct workspace_manifest manifest;
};

TAILQ_HEAD(checkpoint_jobs, checkpoint_job);
TAILQ_HEAD(checkpoint_readings, checkpoint_reading);

struct checkpoints {
    pthread_mutex_t lock;
    struct checkpoint_jobs jobs;
    struct checkpoint_readings readings;
};

extern const struct live_item_ops checkpoint_item_ops;

/* Ends the job with its outcome: who waits is told, the lane's reference is gone. */
void checkpoint_job_finish(struct checkpoint_job *job, const struct error *err);

#endif
