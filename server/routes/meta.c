/* The service about itself. */
#include "api/host.h"
#include "openapi/document.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/services/admission.h"
#include "server/services/sharing.h"
#include "store/stored.h"

#include <string.h>

/* --- /v1/host --- */

static const char *const enforced[] = {
    "cpus",
    "memory",
    "disk",
    "pids",
    "runtime",
    "output",
    "no-network",
    "seccomp",
    "no-new-privileges",
    "no-capabilities",
    "read-only-root",
    "non-root-user",
    NULL,
};

static struct api_range range_of(const struct host_range *r)
{
    return (struct api_range){r->min, r->max};
}

static struct api_host host_view(const struct service_host *h, const struct host_status *status,
                                 bool is_default)
{
    return (struct api_host){
        .name = h->name,
        .available = status->available,
        .reason = status->reason,
        .is_default = is_default,
        .engine_version = status->engine_version,
        .engine_api = status->engine_api,
        .nano_cpus = range_of(&status->ranges.nano_cpus),
        .memory_bytes = range_of(&status->ranges.memory_bytes),
        .disk_bytes = range_of(&status->ranges.disk_bytes),
        .pids = range_of(&status->ranges.pids),
        .runtime_ms = range_of(&status->ranges.runtime_ms),
        .max_output_bytes = range_of(&status->ranges.max_output_bytes),
        .enforces = enforced,
    };
}

/* `problems` has room for RECONCILE_PROBLEMS_MAX and borrows from the report. */
static struct api_reconciliation reconciliation_view(const struct reconcile_report *r,
                                                     const char **problems)
{
    for (int i = 0; i < r->problem_count; i++) {
        problems[i] = r->problems[i];
    }
    return (struct api_reconciliation){
        .started_at = r->started_at,
        .completed_at = r->completed_at == 0 ? -1 : r->completed_at,
        .adopted = r->adopted,
        .host_lost = r->host_lost,
        .expired = r->expired,
        .destroyed_unrecorded = r->destroyed_unrecorded,
        .thawed = r->thawed,
        .terminations_finished = r->terminations_finished,
        .checkpoints_removed = r->checkpoints_removed,
        .transcripts_repaired = r->transcripts_repaired,
        .foreign_left_alone = r->foreign_left_alone,
        .problems = problems,
        .problem_count = (size_t)r->problem_count,
    };
}

static struct api_capacity capacity_of(struct service *s)
{
    struct live_totals totals;
    struct admission_share most;
    live_count(s->live, &totals);
    admission_capacity(s->admission, &most);
    return (struct api_capacity){
        .executions = totals.executions,
        .commands_running = totals.commands_running,
        .commands_queued = totals.commands_queued,
        .nano_cpus = totals.nano_cpus,
        .memory_bytes = totals.memory_bytes,
        .disk_bytes = totals.disk_bytes,
        .limits = {.executions = most.executions,
                   .nano_cpus = most.nano_cpus,
                   .memory_bytes = most.memory_bytes,
                   .disk_bytes = most.disk_bytes,
                   .runs = most.runs},
    };
}

enum { QUOTA_COUNT = 8 };

static int quotas_of(struct http_exchange *x, struct api_quota out[QUOTA_COUNT], struct error *err)
{
    static const int64_t nano = 1000000000;
    struct service *s = http_service(x);
    const struct quotas *q = http_quotas(x);
    struct admission_share used;
    struct store_stored stored = {0};
    if (store_stored_bytes(s->store, http_tenant(x), &stored, err) != 0) {
        return -1;
    }
    admission_used(s->admission, http_tenant(x), &used);
    const struct api_quota all[QUOTA_COUNT] = {
        {"executions", q->executions, used.executions, 1},
        {"cpus", q->cpus * nano, used.nano_cpus, nano},
        {"memoryBytes", q->memory_bytes, used.memory_bytes, 1},
        {"diskBytes", q->disk_bytes, used.disk_bytes, 1},
        {"commands", q->commands, used.commands, 1},
        {"runs", q->runs, used.runs, 1},
        {"storedBytes", q->stored_bytes, store_stored_total(&stored), 1},
        {"requestsPerSecond", q->requests_per_second, -1, 1},
    };
    memcpy(out, all, sizeof(all));
    return 0;
}

void route_host(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct host_status statuses[SERVICE_HOSTS_MAX];
    struct api_host hosts[SERVICE_HOSTS_MAX];
    struct service_host *standard = NULL;
    struct error ignored = ERROR_INIT;
    struct error err = ERROR_INIT;
    struct api_quota quotas[QUOTA_COUNT];
    if (quotas_of(x, quotas, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (service_host_find(s, NULL, &standard, &ignored) != 0) {
        standard = NULL;
    }
    for (unsigned i = 0; i < s->host_count; i++) {
        pthread_mutex_lock(&s->hosts[i].lock);
        statuses[i] = s->hosts[i].status;
        pthread_mutex_unlock(&s->hosts[i].lock);
        hosts[i] = host_view(&s->hosts[i], &statuses[i], &s->hosts[i] == standard);
    }
    pthread_mutex_lock(&s->report_lock);
    struct reconcile_report report = s->report;
    pthread_mutex_unlock(&s->report_lock);
    const char *problems[RECONCILE_PROBLEMS_MAX];
    struct api_reconciliation last = reconciliation_view(&report, problems);
    /* It speaks of all tenants. */
    bool tells = report.started_at != 0 && http_has_scope(x, SCOPE_ADMIN);
    json_t *shared = sharing_describe(s);
    const struct api_service view = {
        .version = EXECHOST_VERSION,
        .instance_id = store_instance_id(s->store),
        .hosts = hosts,
        .host_count = s->host_count,
        .capacity = capacity_of(s),
        .quotas = quotas,
        .quota_count = QUOTA_COUNT,
        .last_reconciliation = tells ? &last : NULL,
        .shared_store = shared,
    };
    http_reply_json(x, 200, api_service_encode(&view));
    json_decref(shared);
}

/* --- probes --- */

void route_health(struct http_exchange *x)
{
    http_reply_json(x, 200, json_pack("{s:s}", "status", "ok"));
}

void route_ready(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct service_host *h = NULL;
    /* Work that names no host goes to the default one. */
    if (service_accepts_work(s, &err) != 0 || service_host_find(s, NULL, &h, &err) != 0 ||
        service_host_ready(h, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, 200, json_pack("{s:s}", "status", "ready"));
}

/* --- the document --- */

void route_openapi_json(struct http_exchange *x)
{
    size_t len;
    const char *text = openapi_document_json(&len);
    http_reply_bytes(x, 200, "application/json", text, len, false);
}

void route_openapi_yaml(struct http_exchange *x)
{
    size_t len;
    const char *text = openapi_document_yaml(&len);
    http_reply_bytes(x, 200, "application/yaml", text, len, false);
}
