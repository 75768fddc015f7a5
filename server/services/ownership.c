/* Owners, fencing tokens and what else changes a living execution's record. */
#include "api/json.h"
#include "base/clock.h"
#include "server/services/ending.h"
#include "server/services/executions.h"

#include <string.h>

enum { TEXT_MAX = 4 * 1024 * 1024 };
static const int64_t LIFETIME_MAX_MS = 24LL * 3600 * 1000;

static int fenced(struct error *err, int64_t token, int64_t recorded)
{
    return error_set_field(err, ERROR_OWNER_FENCED, "Fencing-Token",
                           "token %lld is lower than the owner's %lld", (long long)token,
                           (long long)recorded);
}

static void change_token(struct store_execution *record, void *ctx)
{
    record->fencing_token = *(const int64_t *)ctx;
}

/* With change_lock held, as all that compares with the record and then changes it: of two at a time
 * the lower token must not become the last. */
static int fence(struct live_execution *x, int64_t token, struct error *err)
{
    pthread_mutex_lock(&x->record_lock);
    bool owned = x->record.owner_id != NULL;
    int64_t recorded = x->record.fencing_token;
    pthread_mutex_unlock(&x->record_lock);
    if (!owned) {
        return 0;
    }
    if (token < 0) {
        return !x->service->config->require_fencing
                   ? 0
                   : error_set_field(err, ERROR_OWNER_FENCED, "Fencing-Token",
                                     "the execution has an owner: the header is mandatory");
    }
    if (token < recorded) {
        return fenced(err, token, recorded);
    }
    if (token > recorded) {
        if (live_record(x, change_token, &token, err) != 0) {
            return -1;
        }
        live_fence_out(x, token);
        live_notify(x);
    }
    return 0;
}

int executions_fence(struct live_execution *x, int64_t token, struct error *err)
{
    pthread_mutex_lock(&x->change_lock);
    int result = fence(x, token, err);
    pthread_mutex_unlock(&x->change_lock);
    return result;
}

int executions_may_reclaim(struct live_execution *x, int64_t token, struct error *err)
{
    pthread_mutex_lock(&x->record_lock);
    bool owned = x->record.owner_id != NULL;
    int64_t recorded = x->record.fencing_token;
    pthread_mutex_unlock(&x->record_lock);
    return owned && token < recorded ? fenced(err, token, recorded) : 0;
}

static void change_owner(struct store_execution *record, void *ctx)
{
    const struct api_owner *owner = ctx;
    store_text_set(&record->owner_id, owner->owner_id);
    record->fencing_token = owner->fencing_token;
}

static int set_owner(struct live_execution *x, const struct api_owner *owner, struct error *err)
{
    pthread_mutex_lock(&x->record_lock);
    bool owned = x->record.owner_id != NULL;
    int64_t recorded = x->record.fencing_token;
    bool other = owned && strcmp(x->record.owner_id, owner->owner_id) != 0;
    pthread_mutex_unlock(&x->record_lock);
    if (owned && owner->fencing_token < recorded) {
        return fenced(err, owner->fencing_token, recorded);
    }
    if (other && owner->fencing_token == recorded) {
        return error_set_field(err, ERROR_OWNER_FENCED, "/fencingToken",
                               "another owner holds token %lld", (long long)recorded);
    }
    struct api_owner next = *owner;
    if (live_record(x, change_owner, &next, err) != 0) {
        return -1;
    }
    live_fence_out(x, owner->fencing_token);
    live_notify(x);
    return 0;
}

int executions_set_owner(struct live_execution *x, const struct api_owner *owner, struct error *err)
{
    pthread_mutex_lock(&x->change_lock);
    int result = set_owner(x, owner, err);
    pthread_mutex_unlock(&x->change_lock);
    return result;
}

/* --- PATCH --- */

static int check_lifetime(struct live_execution *x, int64_t expires_at, struct error *err)
{
    pthread_mutex_lock(&x->record_lock);
    int64_t created_at = x->record.created_at;
    pthread_mutex_unlock(&x->record_lock);
    if (expires_at <= clock_wall_ms()) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/expiresAt", "it lies in the past");
    }
    if (created_at == 0 || expires_at > created_at + LIFETIME_MAX_MS) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/expiresAt",
                               "it is more than 24 hours after createdAt");
    }
    return 0;
}

static void change_patch(struct store_execution *record, void *ctx)
{
    const struct api_execution_patch *patch = ctx;
    char *labels = patch->labels == NULL ? NULL : api_json_text(patch->labels, TEXT_MAX);
    char *metadata = patch->metadata == NULL ? NULL : api_json_text(patch->metadata, TEXT_MAX);
    if (labels != NULL) {
        free(record->labels);
        record->labels = labels;
    }
    if (metadata != NULL) {
        free(record->metadata);
        record->metadata = metadata;
    }
    if (patch->expires_at >= 0) {
        record->expires_at = patch->expires_at;
    }
}

/* With change_lock held: what is armed last is what is on record. */
static int apply_patch(struct live_execution *x, const struct api_execution_patch *patch,
                       struct error *err)
{
    bool lifetime = patch->expires_at >= 0;
    struct host_identity id = {x->tenant, x->execution_id, x->incarnation};
    struct host *host = x->host->host;
    /* The deadline inside first: a record must not promise more than what is armed. */
    if (lifetime && (check_lifetime(x, patch->expires_at, err) != 0 ||
                     host->ops->extend(host, &id, x->handle, patch->expires_at, err) != 0)) {
        return -1;
    }
    struct api_execution_patch next = *patch;
    if (live_record(x, change_patch, &next, err) != 0) {
        return -1;
    }
    if (lifetime) {
        live_lock(x->service->live);
        x->expires_at = patch->expires_at;
        live_unlock(x->service->live);
        ending_arm_expiry(x);
    }
    live_notify(x);
    return 0;
}

int executions_patch(struct live_execution *x, const struct api_execution_patch *patch,
                     struct error *err)
{
    if (policy_labels(patch->labels, "/labels", err) != 0 ||
        policy_metadata(patch->metadata, "/metadata", err) != 0) {
        return -1;
    }
    pthread_mutex_lock(&x->change_lock);
    int result = apply_patch(x, patch, err);
    pthread_mutex_unlock(&x->change_lock);
    return result;
}

/* --- reclaim --- */

static bool foreign_match(const struct host_found *f, const char *tenant, const char *execution_id)
{
    return !f->ours && strcmp(f->tenant, tenant) == 0 && strcmp(f->execution_id, execution_id) == 0;
}

static int reclaim_found(struct host *host, const struct host_found_list *list, const char *tenant,
                         const char *execution_id, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct host_found *f = &list->items[i];
        if (foreign_match(f, tenant, execution_id) && host->ops->destroy(host, f, err) != 0) {
            return error_in_phase(err, PHASE_CLEANUP);
        }
    }
    return 0;
}

static int reclaim_allowed(const struct host_found_list *list, const char *tenant,
                           const char *execution_id, int64_t token, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct host_found *f = &list->items[i];
        if (foreign_match(f, tenant, execution_id) && f->owner_id != NULL &&
            token < f->fencing_token) {
            return fenced(err, token, f->fencing_token);
        }
    }
    return 0;
}

/* An optional host that was never there in this life of the service has nothing to tell. */
static bool may_skip(struct service *s, struct service_host *h)
{
    struct service_host *preferred = NULL;
    struct error ignored = ERROR_INIT;
    bool found = service_host_find(s, NULL, &preferred, &ignored) == 0;
    pthread_mutex_lock(&h->lock);
    bool seen = h->first_done;
    pthread_mutex_unlock(&h->lock);
    return !seen && found && h != preferred;
}

int executions_reclaim_foreign(struct service *s, const char *tenant, const char *execution_id,
                               int64_t token, struct error *err)
{
    for (unsigned i = 0; i < s->host_count; i++) {
        struct host *host = s->hosts[i].host;
        struct host_found_list list = {0};
        if (may_skip(s, &s->hosts[i])) {
            continue;
        }
        if (host->ops->list(host, &list, err) != 0) {
            return -1;
        }
        int result = reclaim_allowed(&list, tenant, execution_id, token, err);
        if (result == 0) {
            result = reclaim_found(host, &list, tenant, execution_id, err);
        }
        host_found_list_done(&list);
        if (result != 0) {
            return -1;
        }
    }
    return 0;
}
