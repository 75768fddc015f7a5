#include "server/services/checkpoints.h"

#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "policy/policy.h"
#include "server/services/admission.h"
#include "server/services/checkpoints_private.h"
#include "server/services/ending.h"
#include "server/services/executions.h"
#include "server/services/sharing.h"
#include "workspace/manifest.h"

#include <string.h>

/* --- the registry --- */

int checkpoints_new(struct checkpoints **out, struct error *err)
{
    struct checkpoints *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ended, NULL);
    TAILQ_INIT(&c->jobs);
    TAILQ_INIT(&c->holds);
    *out = c;
    return 0;
}

void checkpoints_free(struct checkpoints *c)
{
    if (c == NULL) {
        return;
    }
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void checkpoint_job_unref(struct checkpoint_job *job)
{
    if (job == NULL) {
        return;
    }
    struct checkpoints *c = job->service->checkpoints;
    pthread_mutex_lock(&c->lock);
    bool last = --job->refs == 0;
    pthread_mutex_unlock(&c->lock);
    if (last) {
        json_decref(job->view);
        json_decref(job->metadata);
        share_job_unref(job->sharing);
        free(job);
    }
}

const char *checkpoint_job_id(const struct checkpoint_job *job)
{
    return job->id;
}

bool checkpoint_job_is_over(struct checkpoint_job *job)
{
    struct checkpoints *c = job->service->checkpoints;
    pthread_mutex_lock(&c->lock);
    bool over = job->over;
    pthread_mutex_unlock(&c->lock);
    return over;
}

struct share_job *checkpoint_job_sharing(struct checkpoint_job *job)
{
    return checkpoint_job_is_over(job) ? job->sharing : NULL;
}

json_t *checkpoint_job_view(struct checkpoint_job *job)
{
    return json_deep_copy(job->view);
}

int checkpoint_job_outcome(struct checkpoint_job *job, struct error *err)
{
    struct checkpoints *c = job->service->checkpoints;
    pthread_mutex_lock(&c->lock);
    int result = job->error.code == ERROR_NONE ? 0 : -1;
    if (result != 0) {
        *err = job->error;
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

/* [lock] */
static struct checkpoint_job *pending_job(struct checkpoints *c, const char *tenant, const char *id)
{
    struct checkpoint_job *job;
    TAILQ_FOREACH(job, &c->jobs, entry)
    {
        if (strcmp(job->id, id) == 0 && strcmp(job->tenant, tenant) == 0) {
            return job;
        }
    }
    return NULL;
}

/* [lock] */
static bool is_held(struct checkpoints *c, enum checkpoint_hold_kind kind, const char *tenant,
                    const char *id)
{
    struct checkpoint_hold *h;
    TAILQ_FOREACH(h, &c->holds, entry)
    {
        if (h->kind == kind && strcmp(h->id, id) == 0 && strcmp(h->tenant, tenant) == 0) {
            return true;
        }
    }
    return false;
}

/* [lock] */
static int check_unmade(struct checkpoints *c, const char *tenant, const char *id,
                        struct error *err)
{
    return pending_job(c, tenant, id) == NULL
               ? 0
               : error_set_field(err, ERROR_ID_IN_USE, "/checkpointId",
                                 "checkpoint %s is being made", id);
}

/* [lock] Whether files of the id are being written. Who has seen that a checkpoint is gone may make
 * another of its id: the removal of its files is waited for. */
static int check_unchanging(struct checkpoints *c, const char *tenant, const char *id,
                            struct error *err)
{
    while (is_held(c, CHECKPOINT_HOLD_DELETE, tenant, id)) {
        pthread_cond_wait(&c->ended, &c->lock);
    }
    if (is_held(c, CHECKPOINT_HOLD_IMPORT, tenant, id)) {
        return error_set_field(err, ERROR_ID_IN_USE, "/checkpointId",
                               "checkpoint %s is being imported", id);
    }
    return check_unmade(c, tenant, id, err);
}

/* [lock] Whether two imports bring the same shows once the first has ended. */
static int await_turn(struct checkpoints *c, const char *tenant, const char *id, struct error *err)
{
    while (is_held(c, CHECKPOINT_HOLD_IMPORT, tenant, id) ||
           is_held(c, CHECKPOINT_HOLD_DELETE, tenant, id)) {
        pthread_cond_wait(&c->ended, &c->lock);
    }
    return check_unmade(c, tenant, id, err);
}

int checkpoint_hold_begin(struct checkpoints *c, struct checkpoint_hold *hold,
                          enum checkpoint_hold_kind kind, const char *tenant, const char *id,
                          struct error *err)
{
    int result = 0;
    hold->kind = kind;
    snprintf(hold->tenant, sizeof(hold->tenant), "%s", tenant);
    snprintf(hold->id, sizeof(hold->id), "%s", id);
    pthread_mutex_lock(&c->lock);
    if (kind == CHECKPOINT_HOLD_DELETE && is_held(c, CHECKPOINT_HOLD_READ, tenant, id)) {
        result =
            error_set(err, ERROR_CHECKPOINT_IN_USE, "checkpoint %s is being read or uploaded", id);
    } else if (kind == CHECKPOINT_HOLD_IMPORT) {
        result = await_turn(c, tenant, id, err);
    }
    if (result == 0) {
        TAILQ_INSERT_TAIL(&c->holds, hold, entry);
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

void checkpoint_hold_end(struct checkpoints *c, struct checkpoint_hold *hold)
{
    pthread_mutex_lock(&c->lock);
    TAILQ_REMOVE(&c->holds, hold, entry);
    pthread_cond_broadcast(&c->ended);
    pthread_mutex_unlock(&c->lock);
}

/* The job's last word; whoever waits reads it. */
void checkpoint_job_finish(struct checkpoint_job *job, const struct error *err)
{
    struct checkpoints *c = job->service->checkpoints;
    char topic[LIVE_TOPIC_SIZE];
    pthread_mutex_lock(&c->lock);
    job->error = *err;
    job->over = true;
    TAILQ_REMOVE(&c->jobs, job, entry);
    live_topic_checkpoint(topic, job->tenant, job->id);
    struct topics *topics = job->service->topics;
    pthread_mutex_unlock(&c->lock);
    topics_notify(topics, topic);
    checkpoint_job_unref(job);
}

/* --- create --- */

/* What a client sees while it is made. Returns owned. */
static json_t *pending_view(const struct checkpoint_job *job, const struct store_execution *record)
{
    struct host_limits limits = job->item.execution->limits;
    _cleanup_json_ json_t *resources = policy_resources_encode(&limits);
    const struct api_checkpoint view = {
        .checkpoint_id = job->id,
        .source_execution_id = record->execution_id,
        .created_at = job->created_at,
        .size_bytes = -1,
        .archive_bytes = -1,
        .entries = -1,
        .skipped = -1,
        .image = record->image,
        .resources = resources,
        .metadata = job->metadata,
        .durability = "local",
    };
    return api_checkpoint_encode(&view);
}

static int check_id_free(struct service *s, const char *tenant, const char *id, struct error *err)
{
    struct store_checkpoint row = {0};
    struct error absent = ERROR_INIT;
    int found = store_checkpoint_get(s->store, tenant, id, &row, &absent);
    store_checkpoint_done(&row);
    if (found == 0) {
        return error_set_field(err, ERROR_ID_IN_USE, "/checkpointId", "checkpoint %s exists", id);
    }
    if (absent.code != ERROR_CHECKPOINT_NOT_FOUND) {
        *err = absent;
        return -1;
    }
    return 0;
}

static int enlist(struct checkpoints *c, struct checkpoint_job *job, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    int result = check_unchanging(c, job->tenant, job->id, err);
    if (result == 0) {
        job->refs = 2; /* the lane's and the caller's */
        TAILQ_INSERT_TAIL(&c->jobs, job, entry);
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

static void delist(struct checkpoints *c, struct checkpoint_job *job)
{
    pthread_mutex_lock(&c->lock);
    TAILQ_REMOVE(&c->jobs, job, entry);
    pthread_mutex_unlock(&c->lock);
}

static struct checkpoint_job *job_new(struct live_execution *x,
                                      const struct api_checkpoint_create *request,
                                      int64_t fencing_token)
{
    struct checkpoint_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return NULL;
    }
    char id[ID_SIZE];
    id_generate("checkpoint", id);
    job->item.ops = &checkpoint_item_ops;
    job->item.fencing_token = fencing_token;
    job->item.execution = x;
    job->service = x->service;
    job->refs = 1;
    snprintf(job->tenant, sizeof(job->tenant), "%s", x->tenant);
    snprintf(job->id, sizeof(job->id), "%s",
             request->checkpoint_id != NULL ? request->checkpoint_id : id);
    job->metadata = request->metadata != NULL ? json_deep_copy(request->metadata) : json_object();
    job->created_at = clock_wall_ms();
    job->claim = request->claim;
    job->share = request->share;
    pthread_mutex_lock(&x->record_lock);
    job->view = pending_view(job, &x->record);
    pthread_mutex_unlock(&x->record_lock);
    return job;
}

int checkpoints_create(struct live_execution *x, const struct quotas *quotas,
                       struct api_checkpoint_create *request, int64_t fencing_token,
                       struct checkpoint_job **out, struct error *err)
{
    struct service *s = x->service;
    if (request->share && sharing_check(s, "/share", err) != 0) {
        return -1;
    }
    if (policy_metadata(request->metadata, "/metadata", err) != 0) {
        return -1;
    }
    if (admission_storing(s, x->tenant, quotas, 0, err) != 0) {
        return -1;
    }
    struct checkpoint_job *job = job_new(x, request, fencing_token);
    if (job != NULL) {
        job->stored_max = quotas->stored_bytes;
    }
    if (job == NULL || job->view == NULL || job->metadata == NULL) {
        checkpoint_job_unref(job);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (check_id_free(s, job->tenant, job->id, err) != 0 || enlist(s->checkpoints, job, err) != 0) {
        checkpoint_job_unref(job);
        return -1;
    }
    if (live_push(x, &job->item, err) != 0) {
        delist(s->checkpoints, job);
        checkpoint_job_unref(job);
        checkpoint_job_unref(job);
        return -1;
    }
    *out = job;
    return 0;
}

/* --- show --- */

static json_t *resources_of(const struct workspace_manifest_resources *r)
{
    struct host_limits limits = {
        .nano_cpus = (int64_t)(r->cpus * 1e9 + 0.5),
        .memory_bytes = r->memory_bytes,
        .disk_bytes = r->disk_bytes,
        .pids = r->pids,
        .runtime_ms = r->runtime_ms,
        .max_output_bytes = r->max_output_bytes,
    };
    return policy_resources_encode(&limits);
}

json_t *checkpoints_encode(struct service *s, const struct store_checkpoint *row)
{
    struct error err = ERROR_INIT;
    _cleanup_manifest_ struct workspace_manifest manifest;
    workspace_manifest_init(&manifest);
    if (workspace_manifest_decode(&manifest, row->manifest, strlen(row->manifest), &err) != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "a recorded manifest can't be read", "checkpoint",
                    row->checkpoint_id, NULL);
        return NULL;
    }
    _cleanup_json_ json_t *resources = resources_of(&manifest.resources);
    _cleanup_json_ json_t *shared = sharing_view(s, row);
    const struct api_checkpoint view = {
        .checkpoint_id = row->checkpoint_id,
        .source_execution_id = row->source_execution_id,
        .created_at = row->created_at,
        .size_bytes = row->content_bytes,
        .archive_bytes = row->archive_bytes,
        .archive_digest = row->archive_digest,
        .entries = row->entries,
        .skipped = row->skipped,
        .image = manifest.image,
        .resources = resources,
        .metadata = manifest.metadata,
        .durability = row->durability,
        .shared = shared,
    };
    return api_checkpoint_encode(&view);
}

bool checkpoints_is_pending(struct service *s, const char *tenant, const char *id)
{
    struct checkpoints *c = s->checkpoints;
    pthread_mutex_lock(&c->lock);
    bool pending = pending_job(c, tenant, id) != NULL;
    pthread_mutex_unlock(&c->lock);
    return pending;
}

int checkpoints_view(struct service *s, const char *tenant, const char *id, json_t **out,
                     bool *pending, struct error *err)
{
    struct checkpoints *c = s->checkpoints;
    pthread_mutex_lock(&c->lock);
    struct checkpoint_job *job = pending_job(c, tenant, id);
    json_t *view = job == NULL ? NULL : json_deep_copy(job->view);
    pthread_mutex_unlock(&c->lock);
    *pending = view != NULL;
    if (view == NULL) {
        _cleanup_(store_checkpoint_done) struct store_checkpoint row = {0};
        if (store_checkpoint_get(s->store, tenant, id, &row, err) != 0) {
            return -1;
        }
        view = checkpoints_encode(s, &row);
    }
    if (view == NULL) {
        return error_set(err, ERROR_INTERNAL, "the checkpoint can't be shown");
    }
    *out = view;
    return 0;
}

/* --- delete --- */

/* Also in the moment before its upload takes hold of it, and after a restart. */
static int check_not_uploading(struct service *s, const char *tenant, const char *id,
                               struct error *err)
{
    _cleanup_(store_checkpoint_done) struct store_checkpoint row = {0};
    if (store_checkpoint_get(s->store, tenant, id, &row, err) != 0) {
        if (err->code != ERROR_CHECKPOINT_NOT_FOUND) {
            return -1;
        }
        error_clear(err);
        return 0;
    }
    if (strcmp(row.durability, "uploading") == 0) {
        return error_set(err, ERROR_CHECKPOINT_IN_USE, "checkpoint %s is being uploaded", id);
    }
    return 0;
}

/* The row first: who has not found it before does not look for the files. */
static int delete_held(struct service *s, const char *tenant, const char *id, struct error *err)
{
    if (store_checkpoint_delete(s->store, tenant, id, err) != 0) {
        if (err->code != ERROR_CHECKPOINT_NOT_FOUND) {
            return -1;
        }
        error_clear(err);
        return 0;
    }
    return store_checkpoint_files_remove(s->config->checkpoint_dir, tenant, id, err);
}

int checkpoints_delete(struct service *s, const char *tenant, const char *id, bool shared,
                       struct error *err)
{
    struct checkpoint_hold hold;
    if (checkpoint_hold_begin(s->checkpoints, &hold, CHECKPOINT_HOLD_DELETE, tenant, id, err) !=
        0) {
        return -1;
    }
    int result = check_not_uploading(s, tenant, id, err);
    if (result == 0 && shared) {
        result = sharing_remove(s, tenant, id, err);
    }
    if (result == 0) {
        result = delete_held(s, tenant, id, err);
    }
    checkpoint_hold_end(s->checkpoints, &hold);
    return result;
}
