#include "server/service.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "host/docker/docker.h"
#include "host/native/native.h"
#include "server/audit.h"
#include "server/metrics.h"
#include "server/routes/routes.h"
#include "server/services/admission.h"
#include "server/services/checkpoints.h"
#include "server/services/ending.h"
#include "server/services/idempotency.h"
#include "server/services/live.h"
#include "server/services/retention.h"
#include "server/services/runs.h"
#include "server/services/sharing.h"
#include "store/events.h"

#include <string.h>
#include <time.h>

enum { SHM_BYTES_MAX = 16 * 1024 * 1024, DRAIN_STEP_MS = 20, OOM_REPORT_MS = 500 };

/* --- what hosts tell --- */

static struct live_execution *observed(struct service_host *h, const struct host_identity *id)
{
    struct live_execution *x = live_find(h->service->live, id->tenant, id->execution_id);
    if (x != NULL && (x->host != h || x->incarnation != id->incarnation)) {
        live_unref(x);
        x = NULL;
    }
    return x;
}

static void on_gone(void *ctx, const struct host_identity *id, const char *detail)
{
    struct live_execution *x = observed(ctx, id);
    if (x == NULL) {
        return;
    }
    live_lock(x->service->live);
    bool ready = x->phase == LIVE_READY;
    bool due = x->expires_at <= clock_wall_ms();
    live_unlock(x->service->live);
    if (ready && due) {
        ending_begin(x, END_EXPIRED, "the lifetime of the execution is over");
    } else if (ready) {
        ending_begin(x, END_HOST_LOST, detail);
    }
    live_unref(x);
}

/* Runs when the command has had the time to tell of it itself, with the peak. */
static void end_for_memory(void *arg)
{
    struct live_execution *x = arg;
    live_lock(x->service->live);
    bool running = x->current != NULL && x->current->serial == x->oom_serial;
    live_unlock(x->service->live);
    if (running) {
        char detail[96];
        snprintf(detail, sizeof(detail), "killed for memory: limit %lld bytes",
                 (long long)x->limits.memory_bytes);
        ending_begin(x, END_OOM, detail);
    }
    live_unref(x);
}

/* An OOM kill counts while a command runs; what was left behind in the background may die alone. */
static void on_oom(void *ctx, const struct host_identity *id)
{
    struct live_execution *x = observed(ctx, id);
    if (x == NULL) {
        return;
    }
    live_lock(x->service->live);
    bool running = x->current != NULL && x->current->is_command;
    if (running) {
        x->oom_serial = x->current->serial;
    }
    live_unlock(x->service->live);
    if (!running) {
        live_unref(x);
        return;
    }
    timers_add_held(x->service->timers, clock_mono_ms() + OOM_REPORT_MS, end_for_memory, live_drop,
                    x);
}

/* The first word after a start says what is known already: that start has compared. */
static void on_up(void *ctx, bool up)
{
    struct service_host *h = ctx;
    pthread_mutex_lock(&h->lock);
    bool returned = up && h->first_done && !h->status.available;
    if (!up) {
        h->reconciled = false;
        h->status.available = false;
        snprintf(h->status.reason, sizeof(h->status.reason),
                 "the connection to the engine is lost");
    }
    pthread_mutex_unlock(&h->lock);
    if (returned) {
        reconcile_request(h);
    }
}

/* --- parts --- */

/* Takes the place that the maker was shown; its observer speaks for that. */
static int add_host(struct service *s,
                    int (*make)(struct service_host *h, struct host **out, struct error *err),
                    struct error *err)
{
    struct service_host *h = &s->hosts[s->host_count];
    h->service = s;
    pthread_mutex_init(&h->lock, NULL);
    if (make(h, &h->host, err) != 0) {
        pthread_mutex_destroy(&h->lock);
        return -1;
    }
    h->name = h->host->ops->name;
    s->host_count++;
    return 0;
}

static struct host_observer observer_of(struct service_host *h)
{
    return (struct host_observer){.gone = on_gone, .oom = on_oom, .up = on_up, .ctx = h};
}

static int make_docker(struct service_host *h, struct host **out, struct error *err)
{
    const struct config *c = h->service->config;
    const struct docker_host_config config = {
        .socket_path = c->docker_socket,
        .instance_id = store_instance_id(h->service->store),
        .scratch = h->service->scratch,
        .uid = (uint32_t)c->uid,
        .gid = (uint32_t)c->gid,
        .pull_missing = c->docker_pull,
        .allow_unpinned = c->allow_unpinned_images,
        .shm_bytes_max = SHM_BYTES_MAX,
        .load_timeout_ms = c->provision_timeout_ms,
        .grace_ms = c->grace_ms,
    };
    const struct host_observer observer = observer_of(h);
    return docker_host_new(&config, &observer, out, err);
}

static int make_native(struct service_host *h, struct host **out, struct error *err)
{
    const struct config *c = h->service->config;
    char directory[sizeof(h->service->scratch)];
    const struct native_host_config config = {
        .directory = directory,
        .images = c->native_images,
        .instance_id = store_instance_id(h->service->store),
        .scratch = h->service->scratch,
        .uid = (uint32_t)c->uid,
        .gid = (uint32_t)c->gid,
        .host_uid_first = (uint32_t)c->native_first_id,
        .host_uid_count = (uint32_t)c->native_id_count,
        .fetch_missing = c->native_fetch,
        .allow_unpinned = c->allow_unpinned_images,
        .shm_bytes_max = SHM_BYTES_MAX,
        .load_timeout_ms = c->provision_timeout_ms,
    };
    const struct host_observer observer = observer_of(h);
    snprintf(directory, sizeof(directory), "%s/native", c->data_dir);
    return native_host_new(&config, &observer, out, err);
}

/* What an earlier run left there is of no use to anybody. Only after the store's lock is held. */
static int make_scratch(struct service *s, struct error *err)
{
    int len = snprintf(s->scratch, sizeof(s->scratch), "%s/scratch", s->config->data_dir);
    if (len >= (int)sizeof(s->scratch)) {
        return error_set(err, ERROR_INVALID_REQUEST, "the data directory's path is too long");
    }
    return dir_empty(s->scratch, 0700, err);
}

static void on_events(void *ctx, const char *tenant)
{
    struct service *s = ctx;
    char topic[LIVE_TOPIC_SIZE];
    live_topic_tenant(topic, tenant);
    topics_notify(s->topics, topic);
}

/* Long handlers get fewer threads, because most of them are kept busy by the disk; calls for files
 * more, because programs can make them last. */
static int make_pool(struct service *s, struct error *err)
{
    unsigned threads = (unsigned)s->config->worker_threads;
    const unsigned kinds[POOL_KINDS] = {
        [WORK_REQUESTS] = threads,
        [WORK_LONG] = threads < 8 ? 2 : threads / 4,
        [WORK_PROVISIONS] = threads,
        [WORK_COMMANDS] = threads,
        [WORK_CHECKPOINTS] = threads,
        [WORK_FILES] = 4 * threads,
        [WORK_ENDS] = threads,
        [WORK_LIMIT_ENDS] = threads,
        [WORK_SHARES] = threads < 16 ? 2 : threads / 8,
    };
    return pool_new_of_kinds(kinds, (unsigned)s->config->worker_queue, &s->pool, err);
}

static int open_parts(struct service *s, struct error *err)
{
    const struct config *c = s->config;
    if (dir_make(c->data_dir, 0700, err) != 0 || dir_make(c->checkpoint_dir, 0700, err) != 0 ||
        store_open(c->data_dir, &s->store, err) != 0 || make_scratch(s, err) != 0 ||
        cancel_new(&s->stop, err) != 0 || make_pool(s, err) != 0 ||
        timers_new(&s->timers, err) != 0 || topics_new(&s->topics, err) != 0 ||
        metrics_new(routes_count(), &s->metrics, err) != 0 ||
        audit_new(c->audit_log, &s->audit, err) != 0 || admission_new(c, &s->admission, err) != 0 ||
        live_new(&s->live, err) != 0 || checkpoints_new(&s->checkpoints, err) != 0 ||
        idempotency_new(s, &s->idempotency, err) != 0 || runs_new(s, &s->runs, err) != 0 ||
        sharing_new(s, &s->sharing, err) != 0) {
        return -1;
    }
    store_event_watch(s->store, on_events, s);
    /* In the order of preference. */
    return add_host(s, make_native, err) != 0 ? -1 : add_host(s, make_docker, err);
}

static void on_completed(const struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct http_outcome o;
    http_outcome(x, &o);
    if (o.status != 0) {
        metrics_request(s->metrics, routes_index(http_route(x)), o.status);
    }
    audit_request(s->audit, x);
}

static int listen_http(struct service *s, struct error *err)
{
    size_t count;
    const struct http_route *routes = routes_table(s->config, &count);
    const struct http_config config = {
        .guard = &routes_guard,
        .routes = routes,
        .route_count = count,
        .service = s,
        .pool = s->pool,
        .long_kind = WORK_LONG,
        .timers = s->timers,
        .listen = s->config->listen,
        .unix_mode = config_socket_mode(s->config),
        .tls_certificate = s->config->tls_certificate,
        .tls_key = s->config->tls_key,
        .threads = (unsigned)s->config->port_threads,
        .connections_max = (unsigned)s->config->connections_max,
        .head_timeout_s = (unsigned)s->config->head_timeout_s,
        .whole_head_s = (unsigned)s->config->whole_head_s,
        .whole_body_s = (unsigned)s->config->whole_body_s,
        .body_rate = s->config->body_rate,
        .cors_origins = (const char *const *)s->config->cors_origins,
        .loopback_rules = s->config->token_count == 0,
        .tokens = s->config->tokens,
        .token_count = s->config->token_count,
        .quotas = &s->config->quotas,
        .topics = s->topics,
        .completed = on_completed,
        .scratch = s->scratch,
    };
    return http_server_new(&config, &s->http, err);
}

int service_start(const struct config *config, struct service **out, struct error *err)
{
    struct service *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    s->config = config;
    pthread_mutex_init(&s->report_lock, NULL);
    if (open_parts(s, err) != 0 || reconcile_load(s, err) != 0 || runs_reconcile(s, err) != 0) {
        service_free(s);
        return -1;
    }
    for (unsigned i = 0; i < s->host_count; i++) {
        struct error one = ERROR_INIT;
        if (reconcile_host(&s->hosts[i], &one) != 0) {
            log_failure(LOG_LEVEL_WARN, &one, "starting without a host, trying on", "host",
                        s->hosts[i].name, NULL);
        }
    }
    if (listen_http(s, err) != 0) {
        service_free(s);
        return -1;
    }
    retention_start(s);
    sharing_start(s);
    *out = s;
    return 0;
}

const char *service_address(const struct service *s)
{
    return http_server_address(s->http);
}

static int reload_part(int result, const char *what, const struct error *err)
{
    if (result != 0) {
        log_failure(LOG_LEVEL_ERROR, err, "reloading failed, what was there stays", "part", what,
                    NULL);
    }
    return result;
}

void service_reload(struct service *s, const struct config *fresh)
{
    struct error err = ERROR_INIT;
    int failed = reload_part(
        http_server_set_tokens(s->http, fresh->tokens, fresh->token_count, &fresh->quotas, &err),
        "tokens", &err);
    error_clear(&err);
    failed |= reload_part(http_server_reload_tls(s->http, &err), "tls", &err);
    error_clear(&err);
    failed |= reload_part(audit_reopen(s->audit, &err), "auditLog", &err);
    if (failed == 0) {
        log_info("reloaded", NULL);
    }
}

void service_drain(struct service *s)
{
    atomic_store(&s->draining, true);
    int64_t until = clock_mono_ms() + s->config->drain_ms;
    struct live_totals totals;
    live_count(s->live, &totals);
    log_info("draining", NULL);
    while ((totals.turns > 0 || runs_living(s) > 0) && clock_mono_ms() < until) {
        nanosleep(&(struct timespec){.tv_nsec = DRAIN_STEP_MS * 1000000L}, NULL);
        live_count(s->live, &totals);
    }
    runs_stop(s, "the service is stopping");
}

void service_free(struct service *s)
{
    if (s == NULL) {
        return;
    }
    /* Requests first, then what produces work (timers, hosts), then the workers, then what they
     * used. */
    http_server_stop(s->http);
    if (s->live != NULL) {
        cancel_fire(s->stop);
        live_interrupt(s->live);
    }
    http_server_free(s->http);
    for (unsigned i = 0; i < s->host_count; i++) {
        s->hosts[i].host->ops->stop(s->hosts[i].host);
    }
    runs_stop(s, "the service is stopping");
    if (s->timers != NULL) {
        timers_stop(s->timers);
    }
    pool_free(s->pool);
    timers_free(s->timers);
    for (unsigned i = 0; i < s->host_count; i++) {
        s->hosts[i].host->ops->free(s->hosts[i].host);
        pthread_mutex_destroy(&s->hosts[i].lock);
    }
    runs_free(s->runs);
    sharing_free(s->sharing);
    idempotency_free(s->idempotency);
    checkpoints_free(s->checkpoints);
    live_free(s->live);
    admission_free(s->admission);
    audit_free(s->audit);
    metrics_free(s->metrics);
    topics_free(s->topics);
    store_close(s->store);
    cancel_unref(s->stop);
    pthread_mutex_destroy(&s->report_lock);
    free(s);
}

/* --- hosts --- */

static bool is_available(struct service_host *h)
{
    pthread_mutex_lock(&h->lock);
    bool available = h->status.available;
    pthread_mutex_unlock(&h->lock);
    return available;
}

/* As configured, else the first that can work: hosts stand in the order of preference. */
static struct service_host *default_host(struct service *s)
{
    for (unsigned i = 0; i < s->host_count; i++) {
        if (s->config->default_host != NULL ? strcmp(s->hosts[i].name, s->config->default_host) == 0
                                            : is_available(&s->hosts[i])) {
            return &s->hosts[i];
        }
    }
    return &s->hosts[0];
}

int service_host_find(struct service *s, const char *name, struct service_host **out,
                      struct error *err)
{
    if (name == NULL) {
        *out = default_host(s);
        return 0;
    }
    for (unsigned i = 0; i < s->host_count; i++) {
        if (strcmp(s->hosts[i].name, name) == 0) {
            *out = &s->hosts[i];
            return 0;
        }
    }
    return error_set_field(err, ERROR_INVALID_REQUEST, "/host", "there is no host \"%.64s\"", name);
}

int service_host_ready(struct service_host *h, struct error *err)
{
    pthread_mutex_lock(&h->lock);
    bool ready = h->reconciled;
    bool available = h->status.available;
    if (!ready) {
        error_set(err, ERROR_HOST_UNAVAILABLE, "host %s: %s", h->name,
                  available ? "it is being compared with the records" : h->status.reason);
    }
    pthread_mutex_unlock(&h->lock);
    return ready ? 0 : -1;
}

void service_name_the_stop(const struct service *s, struct error *err)
{
    if (cancel_fired(s->stop)) {
        error_clear(err);
        error_set(err, ERROR_OVERLOADED, "the service is stopping");
    }
}

int service_accepts_work(const struct service *s, struct error *err)
{
    if (atomic_load(&s->draining)) {
        return error_set(err, ERROR_OVERLOADED, "the service is stopping");
    }
    return 0;
}
