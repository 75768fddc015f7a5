#include "server/services/live.h"

#include "base/log.h"
#include "server/services/admission.h"
#include "server/services/ending.h"
#include "server/services/files.h"

#include <string.h>

TAILQ_HEAD(live_list, live_execution);
LIST_HEAD(live_bucket, live_execution);

enum { BUCKETS = 4096 };

struct live {
    pthread_mutex_t lock;
    pthread_cond_t changed;              /* by the monotonic clock */
    struct live_list executions;         /* in order of arrival */
    struct live_bucket buckets[BUCKETS]; /* the same by id */
};

static const struct {
    const char *name;
    enum error_code code;
} end_reasons[] = {
    [END_NONE] = {"", ERROR_NONE},
    [END_TERMINATED] = {"terminated", ERROR_NONE},
    [END_EXPIRED] = {"expired", ERROR_TIMEOUT},
    [END_TIMEOUT] = {"timeout", ERROR_TIMEOUT},
    [END_OUTPUT_LIMIT] = {"output-limit", ERROR_OUTPUT_LIMIT},
    [END_ABORTED] = {"aborted", ERROR_RUNTIME},
    [END_OOM] = {"oom", ERROR_RESOURCE_LIMIT},
    [END_RECLAIMED] = {"reclaimed", ERROR_NONE},
    [END_HOST_LOST] = {"host-lost", ERROR_RUNTIME},
    [END_PROVISION_FAILED] = {"provision-failed", ERROR_RUNTIME},
};

const char *end_reason_name(enum end_reason reason)
{
    return end_reasons[reason].name;
}

enum error_code end_reason_code(enum end_reason reason)
{
    return end_reasons[reason].code;
}

enum end_reason end_reason_from_name(const char *name)
{
    for (size_t i = 1; name != NULL && i < ARRAY_SIZE(end_reasons); i++) {
        if (strcmp(end_reasons[i].name, name) == 0) {
            return (enum end_reason)i;
        }
    }
    return END_NONE;
}

int live_new(struct live **out, struct error *err)
{
    struct live *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&l->lock, NULL);
    TAILQ_INIT(&l->executions);
    *out = l;
    return 0;
}

/* FNV-1a */
static struct live_bucket *bucket_of(struct live *l, const char *tenant, const char *execution_id)
{
    uint32_t hash = 2166136261U;
    const char *const parts[] = {tenant, "/", execution_id};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        for (const char *c = parts[i]; *c != '\0'; c++) {
            hash = (hash ^ (unsigned char)*c) * 16777619U;
        }
    }
    return &l->buckets[hash % BUCKETS];
}

static void execution_free(struct live_execution *x)
{
    files_abandon(x);
    free(x->view.text);
    cancel_unref(x->cancel);
    cancel_unref(x->files.cancel);
    store_execution_done(&x->record);
    pthread_mutex_destroy(&x->record_lock);
    pthread_mutex_destroy(&x->change_lock);
    free(x->handle);
    free(x);
}

void live_free(struct live *l)
{
    if (l == NULL) {
        return;
    }
    struct live_execution *x;
    while ((x = TAILQ_FIRST(&l->executions)) != NULL) {
        TAILQ_REMOVE(&l->executions, x, entry);
        execution_free(x);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void live_lock(struct live *l)
{
    pthread_mutex_lock(&l->lock);
}

void live_unlock(struct live *l)
{
    pthread_mutex_unlock(&l->lock);
}

void live_await(struct live *l, int64_t deadline_mono_ms)
{
    struct timespec until = {.tv_sec = deadline_mono_ms / 1000,
                             .tv_nsec = deadline_mono_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

void live_signal(struct live *l)
{
    pthread_cond_broadcast(&l->changed);
}

static struct host_limits limits_of(const struct store_execution *record)
{
    return (struct host_limits){
        .nano_cpus = record->nano_cpus,
        .memory_bytes = record->memory_bytes,
        .disk_bytes = record->disk_bytes,
        .pids = record->pids,
        .runtime_ms = record->runtime_ms,
        .max_output_bytes = record->max_output_bytes,
    };
}

static struct host_usage usage_of(const struct store_execution *record)
{
    return (struct host_usage){
        .cpu_ms = record->usage_cpu_ms,
        .memory_peak_bytes = record->usage_memory_peak_bytes,
        .pids_peak = record->usage_pids_peak,
        .workspace_bytes = record->usage_workspace_bytes,
    };
}

struct live_execution *live_add(struct service *s, struct service_host *host,
                                struct store_execution *record)
{
    struct live_execution *x = calloc(1, sizeof(*x));
    struct error err = ERROR_INIT;
    if (x == NULL || cancel_new(&x->cancel, &err) != 0) {
        free(x);
        return NULL;
    }
    x->service = s;
    x->host = host;
    x->refs = 2; /* the registry's and the caller's */
    snprintf(x->tenant, sizeof(x->tenant), "%s", record->tenant);
    snprintf(x->execution_id, sizeof(x->execution_id), "%s", record->execution_id);
    x->incarnation = record->incarnation;
    x->row = record->row;
    x->trace = log_trace_now();
    x->limits = limits_of(record);
    x->usage = usage_of(record);
    x->handle = record->handle == NULL ? NULL : strdup(record->handle);
    x->expires_at = record->expires_at;
    x->phase = record->state == STORE_PROVISIONED ? LIVE_READY : LIVE_PROVISIONING;
    TAILQ_INIT(&x->queue);
    TAILQ_INIT(&x->files.waiting);
    pthread_mutex_init(&x->record_lock, NULL);
    pthread_mutex_init(&x->change_lock, NULL);
    x->record = *record;
    *record = (struct store_execution){0};

    live_lock(s->live);
    TAILQ_INSERT_TAIL(&s->live->executions, x, entry);
    LIST_INSERT_HEAD(bucket_of(s->live, x->tenant, x->execution_id), x, same_hash);
    live_unlock(s->live);
    return x;
}

struct live_execution *live_ref(struct live_execution *x)
{
    live_lock(x->service->live);
    x->refs++;
    live_unlock(x->service->live);
    return x;
}

void live_unref(struct live_execution *x)
{
    if (x == NULL) {
        return;
    }
    live_lock(x->service->live);
    bool last = --x->refs == 0;
    live_unlock(x->service->live);
    if (last) {
        execution_free(x);
    }
}

void live_drop(void *x)
{
    live_unref(x);
}

/* An ended one may stand beside its successor for the moment between its row and its removal. */
struct live_execution *live_find(struct live *l, const char *tenant, const char *execution_id)
{
    struct live_execution *newest = NULL;
    struct live_execution *x;
    live_lock(l);
    LIST_FOREACH(x, bucket_of(l, tenant, execution_id), same_hash)
    {
        if (strcmp(x->execution_id, execution_id) == 0 && strcmp(x->tenant, tenant) == 0 &&
            (newest == NULL || x->incarnation > newest->incarnation)) {
            newest = x;
        }
    }
    if (newest != NULL) {
        newest->refs++;
    }
    live_unlock(l);
    return newest;
}

struct admission_share live_share(const struct host_limits *limits)
{
    return (struct admission_share){
        .executions = 1,
        .nano_cpus = limits->nano_cpus,
        .memory_bytes = limits->memory_bytes,
        .disk_bytes = limits->disk_bytes,
    };
}

void live_remove(struct live_execution *x)
{
    struct live *l = x->service->live;
    const struct admission_share share = live_share(&x->limits);
    live_lock(l);
    admission_give(x->service->admission, x->tenant, &share);
    TAILQ_REMOVE(&l->executions, x, entry);
    LIST_REMOVE(x, same_hash);
    x->phase = LIVE_ENDED;
    live_unlock(l);
    live_unref(x);
}

void live_changed(struct live_execution *x)
{
    x->changes++;
}

char *live_view_copy(struct live_execution *x, size_t *len, uint64_t *changes)
{
    char *copy = NULL;
    live_lock(x->service->live);
    *changes = x->changes;
    if (x->view.text != NULL && x->view.of == x->changes && !x->recording) {
        copy = malloc(x->view.len + 1);
    }
    if (copy != NULL) {
        memcpy(copy, x->view.text, x->view.len + 1);
        *len = x->view.len;
    }
    live_unlock(x->service->live);
    return copy;
}

void live_view_keep(struct live_execution *x, const char *text, size_t len, uint64_t changes)
{
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        return;
    }
    memcpy(copy, text, len + 1);
    live_lock(x->service->live);
    if (x->changes == changes && !x->recording) {
        char *old = x->view.text;
        x->view.text = copy;
        x->view.len = len;
        x->view.of = changes;
        copy = old;
    }
    live_unlock(x->service->live);
    free(copy);
}

void live_each(struct live *l, void (*each)(void *ctx, struct live_execution *x), void *ctx)
{
    live_lock(l);
    size_t count = 0;
    struct live_execution *x;
    TAILQ_FOREACH(x, &l->executions, entry)
    {
        count++;
    }
    struct live_execution **all = calloc(count + 1, sizeof(struct live_execution *));
    size_t taken = 0;
    TAILQ_FOREACH(x, &l->executions, entry)
    {
        if (all != NULL) {
            x->refs++;
            all[taken++] = x;
        }
    }
    live_unlock(l);
    for (size_t i = 0; i < taken; i++) {
        each(ctx, all[i]);
        live_unref(all[i]);
    }
    free(all);
}

static void interrupt(void *ctx, struct live_execution *x)
{
    (void)ctx;
    cancel_fire(x->cancel);
    files_interrupt(x);
}

void live_interrupt(struct live *l)
{
    live_each(l, interrupt, NULL);
}

void live_count(struct live *l, struct live_totals *out)
{
    *out = (struct live_totals){0};
    live_lock(l);
    struct live_execution *x;
    TAILQ_FOREACH(x, &l->executions, entry)
    {
        out->executions++;
        out->nano_cpus += x->limits.nano_cpus;
        out->memory_bytes += x->limits.memory_bytes;
        out->disk_bytes += x->limits.disk_bytes;
        out->turns += (x->current != NULL) + (int64_t)x->files.running;
        if (x->current != NULL && x->current->is_command) {
            out->commands_running++;
        }
        struct live_item *item;
        TAILQ_FOREACH(item, &x->queue, entry)
        {
            out->commands_queued += item->is_command;
        }
    }
    live_unlock(l);
}

void live_topic_execution(char out[LIVE_TOPIC_SIZE], const char *tenant, const char *execution_id)
{
    snprintf(out, LIVE_TOPIC_SIZE, "execution/%s/%s", tenant, execution_id);
}

void live_topic_command(char out[LIVE_TOPIC_SIZE], int64_t execution_row, const char *command_id)
{
    snprintf(out, LIVE_TOPIC_SIZE, "command/%lld/%s", (long long)execution_row, command_id);
}

void live_topic_command_end(char out[LIVE_TOPIC_SIZE], int64_t execution_row,
                            const char *command_id)
{
    snprintf(out, LIVE_TOPIC_SIZE, "command-end/%lld/%s", (long long)execution_row, command_id);
}

void live_topic_checkpoint(char out[LIVE_TOPIC_SIZE], const char *tenant, const char *id)
{
    snprintf(out, LIVE_TOPIC_SIZE, "checkpoint/%s/%s", tenant, id);
}

void live_topic_tenant(char out[LIVE_TOPIC_SIZE], const char *tenant)
{
    snprintf(out, LIVE_TOPIC_SIZE, "events/%s", tenant);
}

void live_notify(struct live_execution *x)
{
    char topic[LIVE_TOPIC_SIZE];
    live_topic_execution(topic, x->tenant, x->execution_id);
    topics_notify(x->service->topics, topic);
}

int live_record(struct live_execution *x, void (*change)(struct store_execution *record, void *ctx),
                void *ctx, struct error *err)
{
    pthread_mutex_lock(&x->record_lock);
    struct store_execution next;
    int result = store_execution_copy(&next, &x->record, err);
    if (result == 0) {
        live_lock(x->service->live);
        next.usage_cpu_ms = x->usage.cpu_ms;
        next.usage_memory_peak_bytes = x->usage.memory_peak_bytes;
        next.usage_pids_peak = x->usage.pids_peak;
        next.usage_workspace_bytes = x->usage.workspace_bytes;
        /* The store tells of the change before it is back here. */
        x->recording = true;
        live_unlock(x->service->live);
        change(&next, ctx);
        result = store_execution_update(x->service->store, &next, err);
        live_lock(x->service->live);
        x->recording = false;
        live_changed(x);
        live_unlock(x->service->live);
        if (result == 0) {
            store_execution_done(&x->record);
            x->record = next;
        } else {
            store_execution_done(&next);
        }
    }
    pthread_mutex_unlock(&x->record_lock);
    return result;
}
