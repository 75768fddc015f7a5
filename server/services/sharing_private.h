/* Shared by the parts of sharing: registry and jobs (sharing.c), publishing (sharing_publish.c),
 * taking in (sharing_import.c), what lies in the store (sharing_store.c). */
#ifndef EXECHOST_SERVER_SERVICES_SHARING_PRIVATE_H
#define EXECHOST_SERVER_SERVICES_SHARING_PRIVATE_H

#include "server/services/checkpoints_private.h"
#include "server/services/sharing.h"
#include "store/objects/objects.h"

#include <stdatomic.h>

enum {
    SHARED_KEY_SIZE = 1024,
    SHARED_PREFIX_SIZE = 512,
    BLOB_FRESH_MS = 12 * 60 * 60 * 1000,
    BLOB_KEPT_MS = 24 * 60 * 60 * 1000,
    UPLOAD_KEPT_MS = 24 * 60 * 60 * 1000,
    PROBE_KEPT_MS = 24 * 60 * 60 * 1000,
};
/* Below the prefix of all: the objects that conditional writes are tried on. */
#define SHARED_PROBES ".probes/"

struct share_job {
    TAILQ_ENTRY(share_job) entry; /* in the registry until it is over */
    struct service *service;
    unsigned refs; /* [lock] */
    char tenant[ID_SIZE];
    char id[ID_SIZE];
    bool anew;            /* an earlier attempt may have left parts */
    _Atomic int64_t sent; /* bytes that are in the store */
    bool over;            /* [lock] */
    struct error error;   /* [lock] code NONE: durable */
};
TAILQ_HEAD(share_jobs, share_job);

/* A blob that is being sent: another that needs it waits and then finds it. */
struct blob_turn {
    TAILQ_ENTRY(blob_turn) entry;
    const char *key;
};
TAILQ_HEAD(blob_turns, blob_turn);

enum sharing_conditional { CONDITIONAL_UNKNOWN, CONDITIONAL_HONOURED, CONDITIONAL_IGNORED };

struct sharing {
    struct service *service;
    struct objects *objects;
    char prefix[SHARED_PREFIX_SIZE]; /* "" or with a slash at its end */
    pthread_mutex_t lock;
    pthread_cond_t turned; /* a blob's turn is over */
    struct share_jobs jobs;
    struct blob_turns turns;
    atomic_int conditional; /* enum sharing_conditional */
    unsigned probes;        /* failed ones in a row; one thread at a time */
};

/* --- keys and URIs --- */

int sharing_manifest_key(const struct sharing *sh, const char *tenant, const char *id,
                         char out[SHARED_KEY_SIZE], struct error *err) WARN_UNUSED;
/* `digest` is "sha256:…". */
int sharing_blob_key(const struct sharing *sh, const char *tenant, const char *digest,
                     char out[SHARED_KEY_SIZE], struct error *err) WARN_UNUSED;
/* <prefix>/<tenant>/checkpoints/ */
int sharing_checkpoints_key(const struct sharing *sh, const char *tenant, char out[SHARED_KEY_SIZE],
                            struct error *err) WARN_UNUSED;
/* The URI of a key. Returns owned. */
char *sharing_uri(const struct sharing *sh, const char *key);
/* The id of the checkpoint that a URI of the tenant names; ERROR_INVALID_REQUEST (/uri). */
int sharing_uri_read(const struct sharing *sh, const char *tenant, const char *uri,
                     char id[ID_SIZE], struct error *err) WARN_UNUSED;
/* The id in a manifest's key below `prefix`; false when the key is none. */
bool sharing_id_of_key(const char *prefix, const char *key, char id[ID_SIZE]);

/* --- parts --- */

/* Runs a share_job to its end; on a worker. */
void sharing_run(void *arg);
/* Ends a job with its outcome: who waits is told, the registry's reference is gone. */
void sharing_finish(struct share_job *job, const struct error *err);
/* Asks the store once how it takes conditional writes; blocks. */
int sharing_probe(struct sharing *sh, struct error *err) WARN_UNUSED;
/* Waits for the key to be free of other jobs of this service. */
void sharing_turn_begin(struct sharing *sh, struct blob_turn *turn, const char *key);
void sharing_turn_end(struct sharing *sh, struct blob_turn *turn);
struct objects_watch sharing_watch(const struct sharing *sh);

void sharing_digest_of(const char *text, size_t len, char out[DIGEST_TEXT_SIZE]);
/* Reads a published manifest and decodes it; `*exists` false: there is none. `text` and `m` are
 * initialised and empty. */
struct sharing_manifest {
    struct buf text;
    struct workspace_manifest m;
    char digest[DIGEST_TEXT_SIZE];
    struct objects_head head;
};
void sharing_manifest_init(struct sharing_manifest *out);
void sharing_manifest_done(struct sharing_manifest *out);
int sharing_manifest_fetch(struct sharing *sh, const char *key, struct sharing_manifest *out,
                           struct error *err) WARN_UNUSED;
/* ERROR_CHECKPOINT_INVALID when it is no manifest. */
int sharing_manifest_decode(struct sharing_manifest *out, struct error *err) WARN_UNUSED;

/* Looks after the store of a struct sharing: uploads that nobody ends, blobs that nothing refers
 * to, probes that were cut off; on a worker. */
void sharing_sweep(void *arg);

#endif
