/* A checkpoint's turn: freeze and read into a draft, publish the files, then the row. */
#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/checkpoints_private.h"
#include "server/services/ending.h"
#include "server/services/files.h"
#include "server/services/sharing.h"
#include "workspace/archive.h"

#include <string.h>

/* --- the files --- */

static int read_workspace(struct checkpoint_job *job, struct workspace_writer *writer,
                          struct error *err)
{
    struct live_execution *x = job->item.execution;
    struct host *host = x->host->host;
    const struct host_checkpoint_plan plan = {
        .id = {x->tenant, x->execution_id, x->incarnation},
        .handle = x->handle,
        .limits = x->limits,
        .apparent_bytes_max = checkpoint_apparent_bytes_max(x->limits.disk_bytes),
        .deadline_mono_ms = clock_mono_ms() + job->service->config->checkpoint_timeout_ms,
        .cancel = x->cancel,
    };
    /* What calls for files have begun is whole before it is read. */
    int result = files_freeze(x, plan.deadline_mono_ms, err);
    if (result == 0) {
        result = host->ops->checkpoint(host, &plan, workspace_writer_sink(writer), err);
    }
    files_thaw(x);
    return result;
}

static int write_files(struct checkpoint_job *job, const struct store_checkpoint_draft *draft,
                       struct workspace_archive_facts *facts, struct error *err)
{
    const struct config *config = job->service->config;
    const struct workspace_writer_spec spec = {
        .archive_fd = draft->archive_fd,
        .files_fd = draft->files_fd,
        .compression =
            config->compress_checkpoints ? WORKSPACE_COMPRESSION_ZSTD : WORKSPACE_COMPRESSION_NONE,
        .level = (int)config->zstd_level,
        .apparent_bytes_max = checkpoint_apparent_bytes_max(job->item.execution->limits.disk_bytes),
    };
    struct workspace_writer *writer = NULL;
    if (workspace_writer_new(&spec, &writer, err) != 0) {
        return -1;
    }
    int result = read_workspace(job, writer, err);
    if (result == 0) {
        result = workspace_writer_finish(writer, facts, err);
    }
    workspace_writer_free(writer);
    return result;
}

/* --- the manifest --- */

static void fill_resources(struct workspace_manifest_resources *out,
                           const struct host_limits *limits)
{
    *out = (struct workspace_manifest_resources){
        .cpus = (double)limits->nano_cpus / 1e9,
        .memory_bytes = limits->memory_bytes,
        .disk_bytes = limits->disk_bytes,
        .pids = limits->pids,
        .runtime_ms = limits->runtime_ms,
        .max_output_bytes = limits->max_output_bytes,
    };
}

static int fill_from_record(struct workspace_manifest *m, struct live_execution *x,
                            struct error *err)
{
    pthread_mutex_lock(&x->record_lock);
    m->image = strdup(x->record.image);
    int result = api_json_load_stored(x->record.environment, &m->environment, err);
    result |= api_json_load_stored(x->record.image_digests, &m->image_digests, err);
    pthread_mutex_unlock(&x->record_lock);
    return result;
}

/* `m` is empty; the caller releases it in every case. */
static int fill_manifest(struct workspace_manifest *m, struct checkpoint_job *job,
                         const struct workspace_archive_facts *facts, struct error *err)
{
    struct live_execution *x = job->item.execution;
    memcpy(m->checkpoint_id, job->id, ID_SIZE);
    memcpy(m->source_execution_id, x->execution_id, ID_SIZE);
    m->source_incarnation = x->incarnation;
    m->created_at = job->created_at;
    m->network = json_pack("{s:s}", "mode", "none");
    m->metadata = json_incref(job->metadata);
    m->facts = *facts;
    fill_resources(&m->resources, &x->limits);
    return fill_from_record(m, x, err);
}

/* --- publishing --- */

static int insert_row(struct service *s, const struct checkpoint_publication *p,
                      int64_t stored_bytes, struct error *err)
{
    const struct workspace_manifest *m = p->manifest;
    static const struct store_checkpoint_shared local = {.durability = "local"};
    const struct store_checkpoint_shared *shared = p->shared != NULL ? p->shared : &local;
    struct store_checkpoint row = {
        .tenant = (char *)(uintptr_t)p->tenant,
        .checkpoint_id = (char *)(uintptr_t)m->checkpoint_id,
        .source_execution_id = (char *)(uintptr_t)m->source_execution_id,
        .source_incarnation = (unsigned)m->source_incarnation,
        .created_at = m->created_at,
        .manifest = (char *)(uintptr_t)p->text,
        .content_bytes = m->facts.content_bytes,
        .archive_bytes = m->facts.archive_bytes,
        .entries = m->facts.entries,
        .skipped = m->facts.skipped,
        .archive_digest = (char *)(uintptr_t)m->facts.archive_digest,
        .durability = (char *)(uintptr_t)shared->durability,
        .shared_uri = (char *)(uintptr_t)shared->uri,
        .shared_digest = (char *)(uintptr_t)shared->digest,
        .shared_at = shared->at,
        .shared_sent = shared->sent,
        .shared_bytes = shared->bytes,
        .claim = p->claim,
        .stored_max = p->stored_max,
        .stored_at = clock_wall_ms(),
        .stored_bytes = stored_bytes,
    };
    return store_checkpoint_insert(s->store, &row, err);
}

int checkpoint_publish(struct service *s, const struct checkpoint_publication *p,
                       struct store_checkpoint_draft *draft, struct error *err)
{
    if (store_checkpoint_draft_publish(draft, p->text, err) != 0) {
        return -1;
    }
    if (insert_row(s, p, draft->stored_bytes, err) == 0) {
        return 0;
    }
    struct error undo = ERROR_INIT;
    if (store_checkpoint_files_remove(s->config->checkpoint_dir, p->tenant,
                                      p->manifest->checkpoint_id, &undo) != 0) {
        error_add_cause(err, &undo); /* the next start sweeps files without a row */
    }
    return -1;
}

static int publish(struct checkpoint_job *job, struct store_checkpoint_draft *draft,
                   struct workspace_archive_facts *facts, struct error *err)
{
    _cleanup_manifest_ struct workspace_manifest m;
    _cleanup_buf_ struct buf text;
    workspace_manifest_init(&m);
    buf_init(&text, WORKSPACE_MANIFEST_MAX);
    if (fill_manifest(&m, job, facts, err) != 0 || workspace_manifest_encode(&m, &text, err) != 0) {
        return -1;
    }
    /* One that is to be shared says so from the first: a restart goes on with it. */
    const struct store_checkpoint_shared uploading = {.durability = "uploading"};
    const struct checkpoint_publication publication = {
        job->tenant,     &m,
        buf_str(&text),  job->claim,
        job->stored_max, job->share ? &uploading : NULL};
    return checkpoint_publish(job->service, &publication, draft, err);
}

static int make(struct checkpoint_job *job, struct error *err)
{
    const struct config *config = job->service->config;
    struct store_checkpoint_draft draft = {.archive_fd = -1, .files_fd = -1};
    struct workspace_archive_facts facts = {0};
    if (store_checkpoint_draft_open(config->checkpoint_dir, job->tenant, job->id,
                                    config->compress_checkpoints, &draft, err) != 0) {
        return -1;
    }
    int result = write_files(job, &draft, &facts, err);
    if (result == 0) {
        result = publish(job, &draft, &facts, err);
    }
    store_checkpoint_draft_done(&draft);
    return result;
}

/* --- the turn --- */

/* A checkpoint that the end of its execution cut off is told so, whatever the host made of it. */
static void name_the_end(struct live_execution *x, struct error *err)
{
    live_lock(x->service->live);
    enum end_reason ending = x->ending;
    live_unlock(x->service->live);
    if (err->code != ERROR_NONE && ending != END_NONE) {
        struct error cause = *err;
        ending_error(ending, x->execution_id, err);
        error_add_cause(err, &cause);
    }
}

/* Where it can't be begun the row says `uploading`, and the next start goes on with it. */
static void share(struct checkpoint_job *job)
{
    struct error err = ERROR_INIT;
    struct share_job *sharing = NULL;
    if (job->share && sharing_begin(job->service, job->tenant, job->id, &sharing, &err) != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "a checkpoint's upload could not be begun", "checkpoint",
                    job->id, NULL);
        return;
    }
    job->sharing = sharing;
}

static void start(struct live_item *item)
{
    struct checkpoint_job *job = (struct checkpoint_job *)item;
    struct live_execution *x = item->execution;
    struct error err = ERROR_INIT;
    int64_t began = clock_mono_us();
    int result = make(job, &err);
    metrics_operation(x->service->metrics, METRICS_CHECKPOINT, x->host->name, result == 0,
                      clock_mono_us() - began);
    if (result != 0) {
        name_the_end(x, &err);
        error_in_phase(&err, PHASE_EXPORT);
        log_failure(LOG_LEVEL_WARN, &err, "a checkpoint failed", "execution", x->execution_id,
                    "checkpoint", job->id, NULL);
    } else {
        share(job);
        log_info("checkpoint made", "execution", x->execution_id, "checkpoint", job->id, NULL);
    }
    live_item_done(item);
    checkpoint_job_finish(job, &err);
}

static void drop(struct live_item *item, enum end_reason reason, const char *detail)
{
    struct checkpoint_job *job = (struct checkpoint_job *)item;
    struct error err = ERROR_INIT;
    if (reason == END_ABORTED) {
        error_set(&err, ERROR_OWNER_FENCED, "%s", detail);
    } else {
        ending_error(reason, item->execution->execution_id, &err);
    }
    job->dropped = err;
}

static void release(struct live_item *item)
{
    struct checkpoint_job *job = (struct checkpoint_job *)item;
    checkpoint_job_finish(job, &job->dropped);
}

/* A checkpoint is never parked: its end is what the destruction waits for. */
const struct live_item_ops checkpoint_item_ops = {.work = WORK_CHECKPOINTS,
                                                  .start = start,
                                                  .settle = NULL,
                                                  .drop = drop,
                                                  .release = release};

/* --- at a limit --- */

int checkpoints_make_at_limit(struct live_execution *x, char id[ID_SIZE], struct error *err)
{
    struct checkpoint_job job = {
        .item = {.execution = x},
        .service = x->service,
        .created_at = clock_wall_ms(),
    };
    live_lock(x->service->live);
    job.stored_max = x->current != NULL ? x->current->stored_max : 0;
    live_unlock(x->service->live);
    id_generate("checkpoint", job.id);
    memcpy(job.tenant, x->tenant, ID_SIZE);
    job.metadata = json_object();
    int result =
        job.metadata == NULL ? error_set(err, ERROR_INTERNAL, "out of memory") : make(&job, err);
    json_decref(job.metadata);
    if (result == 0) {
        memcpy(id, job.id, ID_SIZE);
    }
    return result;
}
