#include "server/services/sharing.h"

#include "api/checkpoint.h"
#include "api/host.h"
#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/services/sharing_private.h"

#include <string.h>

enum {
    PROBE_FIRST_MS = 1000,
    PROBE_MAX_MS = 5 * 60 * 1000,
    SWEEP_FIRST_MS = 60 * 1000, /* or sooner where looks are more frequent than that */
    RESUME_PAGE = 100,
};

/* --- keys and URIs --- */

PRINTF_LIKE(3, 4)
static int make_key(char out[SHARED_KEY_SIZE], struct error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int len = vsnprintf(out, SHARED_KEY_SIZE, fmt, ap);
    va_end(ap);
    if (len < 0 || len >= SHARED_KEY_SIZE) {
        return error_set(err, ERROR_INTERNAL, "a key of the shared store is too long");
    }
    return 0;
}

int sharing_manifest_key(const struct sharing *sh, const char *tenant, const char *id,
                         char out[SHARED_KEY_SIZE], struct error *err)
{
    return make_key(out, err, "%s%s/checkpoints/%s/manifest.json", sh->prefix, tenant, id);
}

int sharing_blob_key(const struct sharing *sh, const char *tenant, const char *digest,
                     char out[SHARED_KEY_SIZE], struct error *err)
{
    return make_key(out, err, "%s%s/blobs/sha256/%s", sh->prefix, tenant,
                    digest + strlen("sha256:"));
}

int sharing_checkpoints_key(const struct sharing *sh, const char *tenant, char out[SHARED_KEY_SIZE],
                            struct error *err)
{
    return make_key(out, err, "%s%s/checkpoints/", sh->prefix, tenant);
}

char *sharing_uri(const struct sharing *sh, const char *key)
{
    char *uri = NULL;

    return asprintf(&uri, "s3://%s/%s", sh->service->config->shared_bucket, key) < 0 ? NULL : uri;
}

bool sharing_id_of_key(const char *prefix, const char *key, char id[ID_SIZE])
{
    size_t len = strlen(prefix);
    const char *slash;

    if (strncmp(key, prefix, len) != 0) {
        return false;
    }
    key += len;
    slash = strchr(key, '/');
    if (slash == NULL || strcmp(slash, "/manifest.json") != 0 || slash - key > ID_MAX) {
        return false;
    }
    snprintf(id, ID_SIZE, "%.*s", (int)(slash - key), key);
    return id_is_valid(id);
}

/* Not taken apart but compared: what is not exactly a place of the tenant's is refused, whatever it
 * means. */
int sharing_uri_read(const struct sharing *sh, const char *tenant, const char *uri,
                     char id[ID_SIZE], struct error *err)
{
    char key[SHARED_KEY_SIZE];
    _cleanup_free_ char *place = NULL;

    if (sharing_checkpoints_key(sh, tenant, key, err) != 0) {
        return -1;
    }
    place = sharing_uri(sh, key);
    if (place == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (!sharing_id_of_key(place, uri, id)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/uri",
                               "uri must be %s<checkpointId>/manifest.json", place);
    }
    return 0;
}

/* --- the registry --- */

static int check_credentials(const struct config *c, struct objects_credentials *out,
                             struct error *err)
{
    struct error cause = ERROR_INIT;

    if (objects_credentials_load(c->shared_credentials, out, &cause) != 0) {
        return error_set_field(err, cause.code, "sharedStore",
                               "the credentials of the shared store: %s", cause.detail);
    }
    return 0;
}

static int make_client(struct sharing *sh, struct error *err)
{
    const struct config *c = sh->service->config;
    struct objects_config config = {
        .endpoint = c->shared_endpoint,
        .region = c->shared_region,
        .bucket = c->shared_bucket,
        .path_style = c->shared_path_style,
        .ca_file = c->shared_ca_file,
        .attempts = (unsigned)c->shared_attempts,
        .stall_s = (unsigned)c->shared_stall_s,
        .multipart_bytes = c->shared_multipart,
        .part_bytes = c->shared_part,
        .parallel = (unsigned)c->shared_parallel,
    };

    if (check_credentials(c, &config.credentials, err) != 0) {
        return -1;
    }
    int result = objects_new(&config, &sh->objects, err);
    objects_credentials_done(&config.credentials);
    return result;
}

int sharing_new(struct service *s, struct sharing **out, struct error *err)
{
    const char *prefix = s->config->shared_prefix;

    if (s->config->shared_endpoint == NULL) {
        *out = NULL;
        return 0;
    }
    struct sharing *sh = calloc(1, sizeof(*sh));
    if (sh == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    sh->service = s;
    pthread_mutex_init(&sh->lock, NULL);
    pthread_cond_init(&sh->turned, NULL);
    TAILQ_INIT(&sh->jobs);
    TAILQ_INIT(&sh->turns);
    if (prefix != NULL) {
        snprintf(sh->prefix, sizeof(sh->prefix), "%s/", prefix);
    }
    if (make_client(sh, err) != 0) {
        sharing_free(sh);
        return -1;
    }
    *out = sh;
    return 0;
}

void sharing_free(struct sharing *sharing)
{
    if (sharing == NULL) {
        return;
    }
    objects_free(sharing->objects);
    pthread_cond_destroy(&sharing->turned);
    pthread_mutex_destroy(&sharing->lock);
    free(sharing);
}

int sharing_check(const struct service *s, const char *field, struct error *err)
{
    if (s->sharing != NULL) {
        return 0;
    }
    if (field == NULL) {
        return error_set(err, ERROR_SHARED_STORE_NOT_CONFIGURED, "no shared store is configured");
    }
    return error_set_field(err, ERROR_SHARED_STORE_NOT_CONFIGURED, field,
                           "no shared store is configured");
}

struct objects_watch sharing_watch(const struct sharing *sh)
{
    return (struct objects_watch){.cancel = sh->service->stop};
}

/* [lock] */
static bool has_turn(const struct sharing *sh, const char *key)
{
    const struct blob_turn *t;

    TAILQ_FOREACH(t, &sh->turns, entry)
    {
        if (strcmp(t->key, key) == 0) {
            return true;
        }
    }
    return false;
}

void sharing_turn_begin(struct sharing *sh, struct blob_turn *turn, const char *key)
{
    turn->key = key;
    pthread_mutex_lock(&sh->lock);
    while (has_turn(sh, key)) {
        pthread_cond_wait(&sh->turned, &sh->lock);
    }
    TAILQ_INSERT_TAIL(&sh->turns, turn, entry);
    pthread_mutex_unlock(&sh->lock);
}

void sharing_turn_end(struct sharing *sh, struct blob_turn *turn)
{
    pthread_mutex_lock(&sh->lock);
    TAILQ_REMOVE(&sh->turns, turn, entry);
    pthread_cond_broadcast(&sh->turned);
    pthread_mutex_unlock(&sh->lock);
}

/* --- jobs --- */

void share_job_unref(struct share_job *job)
{
    if (job == NULL) {
        return;
    }
    struct sharing *sh = job->service->sharing;
    pthread_mutex_lock(&sh->lock);
    bool last = --job->refs == 0;
    pthread_mutex_unlock(&sh->lock);
    if (last) {
        free(job);
    }
}

bool share_job_is_over(struct share_job *job)
{
    struct sharing *sh = job->service->sharing;
    pthread_mutex_lock(&sh->lock);
    bool over = job->over;
    pthread_mutex_unlock(&sh->lock);
    return over;
}

int share_job_outcome(struct share_job *job, struct error *err)
{
    struct sharing *sh = job->service->sharing;
    pthread_mutex_lock(&sh->lock);
    bool failed = job->error.code != ERROR_NONE;
    if (failed) {
        *err = job->error;
    }
    pthread_mutex_unlock(&sh->lock);
    return failed ? -1 : 0;
}

/* [lock] */
static struct share_job *active(struct sharing *sh, const char *tenant, const char *id)
{
    struct share_job *job;

    TAILQ_FOREACH(job, &sh->jobs, entry)
    {
        if (strcmp(job->id, id) == 0 && strcmp(job->tenant, tenant) == 0) {
            return job;
        }
    }
    return NULL;
}

bool sharing_is_active(struct service *s, const char *tenant, const char *id)
{
    struct sharing *sh = s->sharing;

    if (sh == NULL) {
        return false;
    }
    pthread_mutex_lock(&sh->lock);
    bool is = active(sh, tenant, id) != NULL;
    pthread_mutex_unlock(&sh->lock);
    return is;
}

/* Whoever is answered that it is under way sees it so, and after a restart it is gone on with. */
static int announce(struct sharing *sh, struct share_job *job, struct error *err)
{
    _cleanup_(store_checkpoint_done) struct store_checkpoint row = {0};
    _cleanup_free_ char *uri = NULL;
    char key[SHARED_KEY_SIZE];
    char digest[DIGEST_TEXT_SIZE];

    if (store_checkpoint_get(sh->service->store, job->tenant, job->id, &row, err) != 0 ||
        sharing_manifest_key(sh, job->tenant, job->id, key, err) != 0) {
        return -1;
    }
    if (strcmp(row.durability, "durable") == 0) {
        return 0;
    }
    job->anew = strcmp(row.durability, "local") != 0;
    uri = sharing_uri(sh, key);
    if (uri == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    sharing_digest_of(row.manifest, strlen(row.manifest), digest);
    const struct store_checkpoint_shared shared = {
        .durability = "uploading",
        .uri = uri,
        .digest = digest,
        .bytes = row.archive_bytes + (int64_t)strlen(row.manifest),
    };
    return store_checkpoint_set_shared(sh->service->store, job->tenant, job->id, &shared, err);
}

static struct share_job *job_new(struct service *s, const char *tenant, const char *id)
{
    struct share_job *job = calloc(1, sizeof(*job));

    if (job != NULL) {
        job->service = s;
        job->refs = 2; /* the registry's and the caller's */
        snprintf(job->tenant, sizeof(job->tenant), "%s", tenant);
        snprintf(job->id, sizeof(job->id), "%s", id);
    }
    return job;
}

/* The job that is there, or else `made`; one of them alone writes the row. */
static struct share_job *enlist(struct sharing *sh, struct share_job *made)
{
    pthread_mutex_lock(&sh->lock);
    struct share_job *job = active(sh, made->tenant, made->id);
    if (job != NULL) {
        job->refs++;
    } else {
        job = made;
        TAILQ_INSERT_TAIL(&sh->jobs, made, entry);
    }
    pthread_mutex_unlock(&sh->lock);
    return job;
}

int sharing_begin(struct service *s, const char *tenant, const char *id, struct share_job **out,
                  struct error *err)
{
    struct sharing *sh = s->sharing;

    if (sharing_check(s, NULL, err) != 0) {
        return -1;
    }
    struct share_job *made = job_new(s, tenant, id);
    if (made == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    struct share_job *job = enlist(sh, made);
    if (job != made) {
        free(made);
    } else if (announce(sh, job, err) != 0) {
        sharing_finish(job, err);
        share_job_unref(job);
        return -1;
    } else {
        pool_submit_owned_always(s->pool, WORK_SHARES, job->tenant, sharing_run, job);
    }
    *out = job;
    return 0;
}

/* --- views --- */

static int64_t sent_of(struct service *s, const struct store_checkpoint *row)
{
    struct sharing *sh = s->sharing;
    int64_t sent = row->shared_sent;

    if (sh == NULL) {
        return sent;
    }
    pthread_mutex_lock(&sh->lock);
    struct share_job *job = active(sh, row->tenant, row->checkpoint_id);
    if (job != NULL && strcmp(row->durability, "uploading") == 0) {
        sent = job->sent;
    }
    pthread_mutex_unlock(&sh->lock);
    return sent < row->shared_bytes ? sent : row->shared_bytes;
}

json_t *sharing_view(struct service *s, const struct store_checkpoint *row)
{
    struct error ignored = ERROR_INIT;
    json_t *fault = NULL;

    if (row->shared_uri == NULL) {
        return NULL;
    }
    if (row->shared_error != NULL &&
        api_json_load_stored(row->shared_error, &fault, &ignored) != 0) {
        fault = NULL;
    }
    const struct api_shared_checkpoint view = {
        .uri = row->shared_uri,
        .digest = row->shared_digest,
        .uploaded_at = row->shared_at == 0 ? -1 : row->shared_at,
        .bytes_sent = sent_of(s, row),
        .bytes_total = row->shared_bytes,
        .error = fault,
    };
    json_t *json = api_shared_checkpoint_encode(&view);
    json_decref(fault);
    return json;
}

json_t *sharing_describe(struct service *s)
{
    const struct config *c = s->config;

    if (s->sharing == NULL) {
        return json_null();
    }
    int conditional = atomic_load(&s->sharing->conditional);
    const struct api_shared_store view = {
        .endpoint = c->shared_endpoint,
        .region = c->shared_region,
        .bucket = c->shared_bucket,
        .prefix = c->shared_prefix,
        .path_style = c->shared_path_style,
        .conditional_writes = conditional == CONDITIONAL_UNKNOWN
                                  ? API_UNKNOWN
                                  : (conditional == CONDITIONAL_HONOURED ? API_YES : API_NO),
    };
    return api_shared_store_encode(&view);
}

/* --- start --- */

static int resume_page(struct service *s, struct store_page *page, bool *more, struct error *err)
{
    const struct store_checkpoint_filter filter = {.durability = "uploading"};
    struct store_checkpoint_list list = {0};

    if (store_checkpoint_list(s->store, &filter, page, &list, err) != 0) {
        return -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        struct error one = ERROR_INIT;
        struct share_job *job = NULL;
        if (sharing_begin(s, list.items[i].tenant, list.items[i].checkpoint_id, &job, &one) != 0) {
            log_failure(LOG_LEVEL_WARN, &one, "an upload could not be gone on with", "checkpoint",
                        list.items[i].checkpoint_id, NULL);
        }
        share_job_unref(job);
        page->before = list.items[i].row;
    }
    *more = list.count == (size_t)page->limit;
    store_checkpoint_list_done(&list);
    return 0;
}

static void resume(struct service *s)
{
    struct error err = ERROR_INIT;
    struct store_page page = {0, RESUME_PAGE};
    bool more = true;

    while (more) {
        if (resume_page(s, &page, &more, &err) != 0) {
            log_failure(LOG_LEVEL_ERROR, &err, "what was being uploaded can't be read", NULL);
            return;
        }
    }
}

static void submit_probe(void *arg);

static void probe(void *arg)
{
    struct sharing *sh = arg;
    struct error err = ERROR_INIT;

    if (sharing_probe(sh, &err) == 0) {
        return;
    }
    if (sh->probes++ == 0) {
        log_failure(LOG_LEVEL_WARN, &err, "the shared store can't be worked with, trying on", NULL);
    }
    int64_t ms = PROBE_FIRST_MS << (sh->probes < 10 ? sh->probes : 10);
    timers_add(sh->service->timers, clock_mono_ms() + (ms < PROBE_MAX_MS ? ms : PROBE_MAX_MS),
               submit_probe, sh);
}

static void submit_probe(void *arg)
{
    struct sharing *sh = arg;
    pool_submit_kind_always(sh->service->pool, WORK_SHARES, probe, sh);
}

static int64_t sweep_ms(const struct sharing *sh)
{
    return sh->service->config->shared_sweep_s * 1000;
}

static void submit_sweep(void *arg);

static void sweep(void *arg)
{
    struct sharing *sh = arg;

    sharing_sweep(sh);
    timers_add(sh->service->timers, clock_mono_ms() + sweep_ms(sh), submit_sweep, sh);
}

static void submit_sweep(void *arg)
{
    struct sharing *sh = arg;
    pool_submit_kind_always(sh->service->pool, WORK_SHARES, sweep, sh);
}

/* A store that is not configured any more leaves nothing uploading for ever. */
static void give_up(struct service *s)
{
    const struct store_checkpoint_filter filter = {.durability = "uploading"};
    struct store_page page = {0, RESUME_PAGE};
    struct store_checkpoint_list list = {0};
    struct error err = ERROR_INIT;
    char failed[] = "failed";
    char reason[] = "{\"code\":\"SHARED_STORE_NOT_CONFIGURED\",\"detail\":\"no shared store is "
                    "configured any more\",\"retryable\":false}";
    int result = 0;

    do {
        store_checkpoint_list_done(&list);
        result = store_checkpoint_list(s->store, &filter, &page, &list, &err);
        for (size_t i = 0; result == 0 && i < list.count; i++) {
            struct store_checkpoint *row = &list.items[i];
            const struct store_checkpoint_shared shared = {
                failed, row->shared_uri, row->shared_digest, 0, row->shared_sent, row->shared_bytes,
                reason,
            };
            result = store_checkpoint_set_shared(s->store, row->tenant, row->checkpoint_id, &shared,
                                                 &err);
        }
    } while (result == 0 && list.count > 0);
    store_checkpoint_list_done(&list);
    if (result != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "what was being uploaded can't be given up", NULL);
    }
}

void sharing_start(struct service *s)
{
    if (s->sharing == NULL) {
        give_up(s);
        return;
    }
    resume(s);
    submit_probe(s->sharing);
    int64_t first = sweep_ms(s->sharing) < SWEEP_FIRST_MS ? sweep_ms(s->sharing) : SWEEP_FIRST_MS;
    timers_add(s->timers, clock_mono_ms() + first, submit_sweep, s->sharing);
}
