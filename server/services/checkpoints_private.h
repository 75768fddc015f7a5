/* Shared by the parts of checkpoints: registry and views (checkpoints.c), making
 * (checkpoint_make.c), reading (checkpoint_read.c), files in and out (checkpoint_transfer.c). */
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
    int64_t stored_max;        /* of the tenant with this one, 0: any amount */
    int64_t claim;             /* of the POST's idempotency key, 0: none */
    bool share;                /* it is published once it is made */
    json_t *view;              /* while it is pending */
    struct share_job *sharing; /* set before it is over */
    bool over;                 /* [lock] */
    struct error error;        /* [lock] code NONE when it was made */
    struct error dropped;      /* why it never had its turn */
};

/* Who is at work with a checkpoint beyond one call of the store. */
enum checkpoint_hold_kind {
    CHECKPOINT_HOLD_READ,   /* its files are read: it is not deleted */
    CHECKPOINT_HOLD_IMPORT, /* its files are being written: imports of the id wait, no other is made
                             */
    CHECKPOINT_HOLD_DELETE, /* its files are being removed: who makes one of the id waits for it */
};

struct checkpoint_hold {
    enum checkpoint_hold_kind kind;
    TAILQ_ENTRY(checkpoint_hold) entry;
    char tenant[ID_SIZE];
    char id[ID_SIZE];
};

struct checkpoint_reading {
    struct service *service;
    struct checkpoint_hold hold;
    struct store_checkpoint_files files;
    struct workspace_manifest manifest;
};

TAILQ_HEAD(checkpoint_jobs, checkpoint_job);
TAILQ_HEAD(checkpoint_holds, checkpoint_hold);

struct checkpoints {
    pthread_mutex_t lock;
    struct checkpoint_jobs jobs;
    pthread_cond_t ended; /* a hold has */
    struct checkpoint_holds holds;
};

extern const struct live_item_ops checkpoint_item_ops;

/* Takes hold of a checkpoint until checkpoint_hold_end. ERROR_CHECKPOINT_IN_USE (DELETE while it is
 * read), ERROR_ID_IN_USE (IMPORT while one of the id is made). IMPORT may block for a DELETE and
 * for the other IMPORTs of the id. */
int checkpoint_hold_begin(struct checkpoints *c, struct checkpoint_hold *hold,
                          enum checkpoint_hold_kind kind, const char *tenant, const char *id,
                          struct error *err) WARN_UNUSED;
void checkpoint_hold_end(struct checkpoints *c, struct checkpoint_hold *hold);

/* Opens the files of a row; deleted meanwhile: ERROR_CHECKPOINT_NOT_FOUND. `files` and `manifest`
 * are empty, and released by the caller in every case. */
int checkpoint_files_open(struct service *s, const char *tenant, const char *id,
                          struct store_checkpoint_files *files, struct workspace_manifest *manifest,
                          struct error *err) WARN_UNUSED;

/* The most apparent bytes that an archive of this disk may have. */
int64_t checkpoint_apparent_bytes_max(int64_t disk_bytes);

/* The last steps of every checkpoint: the draft becomes its files, then the row tells of it. */
struct checkpoint_publication {
    const char *tenant;
    const struct workspace_manifest *manifest;
    const char *text;   /* the manifest's */
    int64_t claim;      /* row of the idempotency key it is made under, 0: none */
    int64_t stored_max; /* of the tenant with this one, 0: any amount */
    const struct store_checkpoint_shared *shared; /* NULL: it is local */
};
int checkpoint_publish(struct service *s, const struct checkpoint_publication *p,
                       struct store_checkpoint_draft *draft, struct error *err) WARN_UNUSED;

/* A checkpoint from elsewhere. `fill` writes the draft's two files, from their beginning. */
struct checkpoint_intake {
    const char *tenant;
    struct workspace_manifest *manifest; /* its apparent_bytes_max is set here */
    const char *text;                    /* the manifest's */
    int64_t claim;                       /* row of the idempotency key it is made under, 0: none */
    int64_t stored_max;                  /* of the tenant with this one, 0: any amount */
    const struct store_checkpoint_shared *shared; /* NULL: it is local */
    int (*fill)(void *ctx, const struct store_checkpoint_draft *draft, struct error *err);
    void *ctx;
};
/* Holds it to what a checkpoint made here could have, has its files written, verifies every byte of
 * them, publishes. Else as checkpoints_import. */
int checkpoint_take_in(struct service *s, const struct checkpoint_intake *intake, bool *made,
                       struct error *err) WARN_UNUSED;

/* Ends the job with its outcome: who waits is told, the lane's reference is gone. */
void checkpoint_job_finish(struct checkpoint_job *job, const struct error *err);

#endif
