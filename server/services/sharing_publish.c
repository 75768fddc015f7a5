/* A checkpoint's way into the shared store: blobs first, then the manifest. */
#include "api/json.h"
#include "api/problem.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/sharing_private.h"
#include "workspace/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { ROUNDS_MAX = 3 };

/* --- what a publication needs --- */

struct publication {
    struct share_job *job;
    struct sharing *sh;
    struct checkpoint_reading *reading; /* owned */
    bool durable;                       /* the row said so when this began */
    bool anew;                          /* an earlier attempt may have left parts */
    int list_fd;                        /* owned; the list of files, not compressed */
    int64_t list_bytes;
    char manifest_key[SHARED_KEY_SIZE];
    char archive_key[SHARED_KEY_SIZE];
    char list_key[SHARED_KEY_SIZE];
    char *uri;                     /* owned */
    char digest[DIGEST_TEXT_SIZE]; /* of the manifest */
    int64_t total;
    int64_t skipped; /* of what is in the store: it was there before */
};

static void publication_done(struct publication *p)
{
    cleanup_close(&p->list_fd);
    checkpoint_reading_close(p->reading);
    free(p->uri);
}

static void on_moved(void *ctx, int64_t bytes)
{
    struct publication *p = ctx;
    atomic_fetch_add(&p->job->sent, bytes);
}

static struct objects_watch watch_of(struct publication *p)
{
    struct objects_watch watch = sharing_watch(p->sh);
    watch.moved = on_moved;
    watch.ctx = p;
    return watch;
}

static int inflate(struct workspace_input *input, int fd, int64_t *bytes, struct error *err)
{
    const void *data;
    ssize_t n;

    while ((n = workspace_input_read(input, &data, err)) > 0) {
        if (file_write_all(fd, data, (size_t)n, err) != 0) {
            return -1;
        }
        *bytes += n;
    }
    return n < 0 ? -1 : 0;
}

/* The list is published as its digest speaks of it: not compressed. */
static int open_list(struct publication *p, struct error *err)
{
    struct workspace_input *input = NULL;

    p->list_fd = open(p->sh->service->scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (p->list_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot make a scratch file");
    }
    if (workspace_input_new(p->reading->files.files_fd, p->reading->manifest.facts.compression,
                            "file list", &input, err) != 0) {
        return -1;
    }
    int result = inflate(input, p->list_fd, &p->list_bytes, err);
    workspace_input_free(input);
    return result;
}

static int name_blobs(struct publication *p, struct error *err)
{
    const struct workspace_archive_facts *facts = &p->reading->manifest.facts;
    const char *tenant = p->job->tenant;

    return sharing_blob_key(p->sh, tenant, facts->archive_digest, p->archive_key, err) != 0
               ? -1
               : sharing_blob_key(p->sh, tenant, facts->files_digest, p->list_key, err);
}

/* What is known without its files, which may be damaged. */
static int look_at_row(struct publication *p, struct error *err)
{
    _cleanup_(store_checkpoint_done) struct store_checkpoint row = {0};
    const struct share_job *job = p->job;

    if (store_checkpoint_get(p->sh->service->store, job->tenant, job->id, &row, err) != 0 ||
        sharing_manifest_key(p->sh, job->tenant, job->id, p->manifest_key, err) != 0) {
        return -1;
    }
    p->durable = strcmp(row.durability, "durable") == 0;
    p->anew = job->anew || strcmp(row.durability, "failed") == 0;
    p->total = row.archive_bytes + (int64_t)strlen(row.manifest);
    sharing_digest_of(row.manifest, strlen(row.manifest), p->digest);
    p->uri = sharing_uri(p->sh, p->manifest_key);
    return p->uri != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

static int open_files(struct publication *p, struct error *err)
{
    if (checkpoint_reading_open(p->sh->service, p->job->tenant, p->job->id, &p->reading, err) !=
            0 ||
        name_blobs(p, err) != 0 || open_list(p, err) != 0) {
        return -1;
    }
    p->total += p->list_bytes;
    return 0;
}

/* --- the row --- */

static int record(struct publication *p, const char *durability, const char *reason,
                  struct error *err)
{
    bool durable = strcmp(durability, "durable") == 0;
    const struct store_checkpoint_shared shared = {
        .durability = durability,
        .uri = p->uri,
        .digest = p->digest,
        .at = durable ? clock_wall_ms() : 0,
        .sent = durable ? p->total : atomic_load(&p->job->sent),
        .bytes = p->total,
        .error = reason,
    };
    return store_checkpoint_set_shared(p->sh->service->store, p->job->tenant, p->job->id, &shared,
                                       err);
}

/* What is shown of a failure says no more than its problem document. */
static void record_failure(struct publication *p, const struct error *why)
{
    struct error err = ERROR_INIT;
    _cleanup_json_ json_t *reason = json_pack("{s:s, s:s, s:b}", "code", error_code_name(why->code),
                                              "detail", api_problem_detail(why->code, why->detail),
                                              "retryable", api_problem_kind(why->code)->retryable);
    char *text = reason == NULL ? NULL : json_dumps(reason, JSON_COMPACT);

    if (record(p, "failed", text, &err) != 0 && err.code != ERROR_CHECKPOINT_NOT_FOUND) {
        log_failure(LOG_LEVEL_ERROR, &err, "a failed upload can't be recorded", "checkpoint",
                    p->job->id, NULL);
    }
    free(text);
}

/* --- blobs --- */

static int is_fresh(struct publication *p, const char *key, int64_t size, bool *fresh,
                    struct error *err)
{
    struct objects_head head;
    const struct objects_watch watch = watch_of(p);

    if (objects_head(p->sh->objects, key, &watch, &head, err) != 0) {
        return -1;
    }
    *fresh = head.exists && head.size == size && head.age_ms < BLOB_FRESH_MS;
    return 0;
}

/* In its turn. */
static int put_blob(struct publication *p, const char *key, const struct objects_source *source,
                    struct error *err)
{
    const struct objects_watch watch = watch_of(p);
    bool fresh = false;
    int aborted = 0;

    if (p->anew && source->size > p->sh->service->config->shared_multipart &&
        objects_abort_all(p->sh->objects, key, &watch, &aborted, err) != 0) {
        return -1;
    }
    if (is_fresh(p, key, source->size, &fresh, err) != 0) {
        return -1;
    }
    if (fresh) {
        p->skipped += source->size;
        on_moved(p, source->size);
        return 0;
    }
    return objects_put_file(p->sh->objects, key, source, &watch, err);
}

static int send_blob(struct publication *p, const char *key, const struct objects_source *source,
                     struct error *err)
{
    struct blob_turn turn;

    sharing_turn_begin(p->sh, &turn, key);
    int result = put_blob(p, key, source, err);
    sharing_turn_end(p->sh, &turn);
    return result;
}

static struct objects_source archive_of(const struct publication *p)
{
    return (struct objects_source){
        .fd = p->reading->files.archive_fd,
        .size = p->reading->manifest.facts.archive_bytes,
        .digest = p->reading->manifest.facts.archive_digest,
        .name = "archive",
    };
}

static struct objects_source list_of(const struct publication *p)
{
    return (struct objects_source){
        .fd = p->list_fd,
        .size = p->list_bytes,
        .digest = p->reading->manifest.facts.files_digest,
        .name = "file list",
    };
}

static int send_blobs(struct publication *p, struct error *err)
{
    const struct objects_source archive = archive_of(p);
    const struct objects_source list = list_of(p);

    atomic_store(&p->job->sent, 0);
    p->skipped = 0;
    if (send_blob(p, p->archive_key, &archive, err) != 0) {
        return -1;
    }
    return send_blob(p, p->list_key, &list, err);
}

/* --- the manifest --- */

enum published { PUBLISHED_NOT, PUBLISHED_SAME, PUBLISHED_OTHER };

static int look_published(struct publication *p, enum published *out, struct error *err)
{
    struct sharing_manifest found;

    sharing_manifest_init(&found);
    int result = sharing_manifest_fetch(p->sh, p->manifest_key, &found, err);
    if (result == 0) {
        bool same = strcmp(found.digest, p->digest) == 0;
        *out = !found.head.exists ? PUBLISHED_NOT : (same ? PUBLISHED_SAME : PUBLISHED_OTHER);
    }
    sharing_manifest_done(&found);
    return result;
}

static int judge(struct publication *p, enum published found, struct error *err)
{
    if (found == PUBLISHED_SAME) {
        return 0;
    }
    if (found == PUBLISHED_OTHER) {
        return error_set(err, ERROR_SHARED_CONFLICT,
                         "the shared store has a checkpoint %s with another manifest than %s",
                         p->job->id, p->digest);
    }
    return error_set(err, ERROR_SHARED_STORE_UNAVAILABLE,
                     "the manifest is gone again: somebody removes it");
}

int sharing_probe(struct sharing *sh, struct error *err)
{
    char prefix[SHARED_KEY_SIZE];
    const struct objects_watch watch = sharing_watch(sh);
    bool honoured = false;

    if (atomic_load(&sh->conditional) != CONDITIONAL_UNKNOWN) {
        return 0;
    }
    snprintf(prefix, sizeof(prefix), "%s" SHARED_PROBES, sh->prefix);
    if (objects_probe_conditional(sh->objects, prefix, &watch, &honoured, err) != 0) {
        return -1;
    }
    atomic_store(&sh->conditional, honoured ? CONDITIONAL_HONOURED : CONDITIONAL_IGNORED);
    log_info("shared store", "conditionalWrites", honoured ? "true" : "false", NULL);
    return 0;
}

static int put_manifest(struct publication *p, bool only_if_absent, struct error *err)
{
    const struct objects_watch watch = sharing_watch(p->sh);
    const char *manifest = p->reading->files.manifest;
    const struct objects_text text = {manifest, strlen(manifest), only_if_absent};
    enum objects_put_result done;

    return objects_put(p->sh->objects, p->manifest_key, &text, &watch, &done, err);
}

/* Where the store does not help: look, write, read back. Of two that write at the same moment each
 * reads the last one's, or its own just before; then the other sees the difference. */
static int publish_manifest(struct publication *p, struct error *err)
{
    enum published found = PUBLISHED_NOT;

    if (sharing_probe(p->sh, err) != 0) {
        return -1;
    }
    bool conditional = atomic_load(&p->sh->conditional) == CONDITIONAL_HONOURED;
    if (!conditional && look_published(p, &found, err) != 0) {
        return -1;
    }
    if (found == PUBLISHED_NOT && put_manifest(p, conditional, err) != 0) {
        return -1;
    }
    /* Read back in every case: an attempt may have been heard though its answer was lost. */
    return look_published(p, &found, err) != 0 ? -1 : judge(p, found, err);
}

/* --- the whole --- */

/* The blobs may have gone since they were looked for: whoever removed the last manifest that
 * referred to them has not seen this one. */
static int are_there(struct publication *p, bool *there, struct error *err)
{
    struct objects_head archive;
    struct objects_head list;
    const struct objects_watch watch = sharing_watch(p->sh);

    if (objects_head(p->sh->objects, p->archive_key, &watch, &archive, err) != 0 ||
        objects_head(p->sh->objects, p->list_key, &watch, &list, err) != 0) {
        return -1;
    }
    *there = archive.exists && archive.size == p->reading->manifest.facts.archive_bytes &&
             list.exists && list.size == p->list_bytes;
    return 0;
}

static int publish(struct publication *p, struct error *err)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool there = false;
        if (send_blobs(p, err) != 0 || publish_manifest(p, err) != 0 ||
            are_there(p, &there, err) != 0) {
            return -1;
        }
        if (there) {
            return 0;
        }
    }
    return error_set(err, ERROR_SHARED_STORE_UNAVAILABLE,
                     "what was sent is gone again: somebody removes it");
}

/* One that is published already stays durable whatever an attempt to look says. 1: it is there. */
static int check_durable(struct publication *p, struct error *err)
{
    enum published found = PUBLISHED_NOT;
    bool there = false;

    if (!p->durable) {
        return 0;
    }
    if (look_published(p, &found, err) != 0 || are_there(p, &there, err) != 0) {
        return -1;
    }
    if (found == PUBLISHED_OTHER) {
        return judge(p, found, err);
    }
    return found == PUBLISHED_SAME && there ? 1 : 0;
}

/* The store's faults are told as those of the upload, whether worth another attempt or not. */
static void name_failure(struct error *err)
{
    struct error why = *err;

    if (why.code == ERROR_SHARED_STORE_UNAVAILABLE || why.code == ERROR_SHARED_STORE_REFUSED) {
        bool later = why.code == ERROR_SHARED_STORE_UNAVAILABLE;
        error_set(err, later ? ERROR_UPLOAD_INTERRUPTED : ERROR_UPLOAD_FAILED, "%s", why.detail);
    }
    (void)error_in_phase(err, PHASE_UPLOAD);
}

static int send(struct publication *p, struct error *err)
{
    int there = check_durable(p, err);
    if (there != 0) {
        return there > 0 ? 0 : -1;
    }
    p->durable = false;
    if (record(p, "uploading", NULL, err) != 0 || publish(p, err) != 0) {
        return -1;
    }
    (void)fault_point("share.published");
    return record(p, "durable", NULL, err);
}

static int work(struct publication *p, struct error *err)
{
    if (look_at_row(p, err) != 0) {
        return -1;
    }
    int result = open_files(p, err);
    if (result == 0) {
        result = send(p, err);
    }
    /* What the end of the service cut off is gone on with at its next start. */
    if (result != 0 && !p->durable && !cancel_fired(p->sh->service->stop)) {
        name_failure(err);
        record_failure(p, err);
    }
    return result;
}

void sharing_finish(struct share_job *job, const struct error *err)
{
    struct service *s = job->service;
    struct sharing *sh = s->sharing;
    char topic[LIVE_TOPIC_SIZE];

    pthread_mutex_lock(&sh->lock);
    job->error = *err;
    job->over = true;
    TAILQ_REMOVE(&sh->jobs, job, entry);
    pthread_mutex_unlock(&sh->lock);
    live_topic_checkpoint(topic, job->tenant, job->id);
    topics_notify(s->topics, topic);
    share_job_unref(job);
}

void sharing_run(void *arg)
{
    struct share_job *job = arg;
    struct publication p = {.job = job, .sh = job->service->sharing, .list_fd = -1};
    struct error err = ERROR_INIT;

    int64_t begun = clock_mono_us();

    int result = work(&p, &err);
    metrics_transfer(job->service->metrics, METRICS_UPLOAD, result == 0,
                     atomic_load(&job->sent) - p.skipped, clock_mono_us() - begun);
    if (result != 0) {
        service_name_the_stop(job->service, &err);
        name_failure(&err);
        log_failure(LOG_LEVEL_WARN, &err, "a checkpoint could not be published", "checkpoint",
                    job->id, "tenant", job->tenant, NULL);
    } else {
        error_clear(&err);
        log_info("checkpoint published", "checkpoint", job->id, "tenant", job->tenant, NULL);
    }
    publication_done(&p);
    sharing_finish(job, &err);
}
