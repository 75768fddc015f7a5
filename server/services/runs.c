#include "server/services/runs_private.h"

#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/services/admission.h"
#include "server/services/executions.h"
#include "server/services/live.h"

#include <string.h>
#include <time.h>

enum { SPEC_TEXT_MAX = 64 * 1024 * 1024, RECORD_WAIT_MS = 10000 };

static const struct admission_share one_run = {.runs = 1};

/* --- the registry --- */

static unsigned bucket_of(const char *tenant, const char *run_id)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    for (const char *c = run_id; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    }
    for (const char *c = tenant; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    }
    return (unsigned)(hash % RUN_BUCKETS);
}

/* [registry] */
static struct run *find(struct runs *runs, const char *tenant, const char *run_id)
{
    struct run *r;
    LIST_FOREACH(r, &runs->buckets[bucket_of(tenant, run_id)], entry)
    {
        if (strcmp(r->run_id, run_id) == 0 && strcmp(r->tenant, tenant) == 0) {
            break;
        }
    }
    return r;
}

struct run *run_find(struct runs *runs, const char *tenant, const char *run_id)
{
    pthread_mutex_lock(&runs->lock);
    struct run *r = find(runs, tenant, run_id);
    if (r != NULL) {
        r->refs++;
    }
    pthread_mutex_unlock(&runs->lock);
    return r;
}

void run_ref(struct run *r)
{
    pthread_mutex_lock(&r->runs->lock);
    r->refs++;
    pthread_mutex_unlock(&r->runs->lock);
}

static void run_free(struct run *r)
{
    struct run_call *call;
    while ((call = TAILQ_FIRST(&r->pending)) != NULL) {
        TAILQ_REMOVE(&r->pending, call, entry);
        free(call->text);
        free(call);
    }
    store_run_log_close(r->log);
    buf_done(&r->result);
    free(r->answers);
    free(r->abort_reason);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->handle_lock);
    free(r);
}

void run_unref(struct run *r)
{
    if (r == NULL) {
        return;
    }
    struct runs *runs = r->runs;
    pthread_mutex_lock(&runs->lock);
    bool last = --r->refs == 0;
    pthread_mutex_unlock(&runs->lock);
    if (last) {
        run_free(r);
    }
}

/* Enters it with two references, the registry's and the caller's. */
static struct run *run_new(struct service *s, const char *tenant, const char *run_id,
                           struct error *err)
{
    struct runs *runs = s->runs;
    struct run *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        error_set(err, ERROR_INTERNAL, "out of memory");
        return NULL;
    }
    r->runs = runs;
    r->service = s;
    r->refs = 2;
    r->result_at = -1;
    r->trace = log_trace_now();
    snprintf(r->tenant, sizeof(r->tenant), "%s", tenant);
    snprintf(r->run_id, sizeof(r->run_id), "%s", run_id);
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->handle_lock, NULL);
    TAILQ_INIT(&r->pending);
    buf_init(&r->result, RUN_LINE_MAX);
    pthread_mutex_lock(&runs->lock);
    bool taken = find(runs, tenant, run_id) != NULL;
    bool stopping = runs->stopping;
    if (!taken && !stopping) {
        LIST_INSERT_HEAD(&runs->buckets[bucket_of(tenant, run_id)], r, entry);
        runs->living++;
    }
    pthread_mutex_unlock(&runs->lock);
    if (!taken && !stopping) {
        return r;
    }
    if (taken) {
        error_set_field(err, ERROR_ID_IN_USE, "/runId", "there is a run %s", run_id);
    } else {
        error_set(err, ERROR_OVERLOADED, "the service is stopping");
    }
    run_free(r);
    return NULL;
}

void run_leave(struct run *r)
{
    struct runs *runs = r->runs;
    pthread_mutex_lock(&runs->lock);
    LIST_REMOVE(r, entry);
    pthread_mutex_unlock(&runs->lock);
    admission_give(r->service->admission, r->tenant, &one_run);
    /* Before a service that stops goes on: who waits for the run is to have its answer. */
    run_notify(r);
    run_unref(r);
    pthread_mutex_lock(&runs->lock);
    runs->living--;
    pthread_cond_broadcast(&runs->changed);
    pthread_mutex_unlock(&runs->lock);
}

void runs_topic(char out[RUNS_TOPIC_SIZE], const char *tenant, const char *run_id)
{
    snprintf(out, RUNS_TOPIC_SIZE, "run/%s/%s", tenant, run_id);
}

void run_notify(struct run *r)
{
    char topic[RUNS_TOPIC_SIZE];
    runs_topic(topic, r->tenant, r->run_id);
    topics_notify(r->service->topics, topic);
}

struct store_run_log_name run_log_name(struct service *s, const char *tenant, const char *run_id)
{
    return (struct store_run_log_name){s->config->data_dir, tenant, run_id};
}

/* --- requests --- */

struct asker {
    struct service *service;
    const char *tenant;
};

static int find_execution(void *ctx, const char *execution_id, struct ptc_execution *out,
                          struct error *err)
{
    const struct asker *asker = ctx;
    struct live_execution *x;
    if (executions_find_live(asker->service, asker->tenant, execution_id, &x, err) != 0) {
        return -1;
    }
    *out = (struct ptc_execution){
        .host = x->host->host, .memory_bytes = x->limits.memory_bytes, .pids = x->limits.pids};
    live_lock(asker->service->live);
    bool ready = x->phase == LIVE_READY && x->handle != NULL;
    snprintf(out->handle, sizeof(out->handle), "%s", ready ? x->handle : "");
    live_unlock(asker->service->live);
    const char *name = x->host->name;
    live_unref(x);
    if (out->host->ops->program == NULL) {
        return error_set_field(err, ERROR_PTC_INVALID_REQUEST, "/executionId",
                               "programs can't run inside of an execution of the host %s", name);
    }
    return ready ? 0
                 : error_set_field(err, ERROR_PTC_INVALID_REQUEST, "/executionId",
                                   "the execution is not provisioned yet");
}

int runs_resolve(struct service *s, const char *tenant, bool untimed, json_t *request,
                 struct ptc_spec *out, struct error *err)
{
    struct asker asker = {s, tenant};
    const struct ptc_scope scope = {
        .find_execution = find_execution,
        .ctx = &asker,
        .workspace_roots = config_ptc_roots_of(s->config, tenant),
        .untimed = untimed,
    };
    return ptc_resolve(request, &s->runs->rules, &scope, out, err);
}

/* The row and the log. */
static int record(struct run *r, const struct ptc_spec *spec, int64_t claim, struct error *err)
{
    struct service *s = r->service;
    _cleanup_free_ char *text = api_json_text(spec->json, SPEC_TEXT_MAX);
    if (text == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    struct store_run row = {
        .tenant = r->tenant,
        .run_id = r->run_id,
        .state = STORE_RUN_STARTING,
        .description = (char *)(uintptr_t)spec->description,
        .spec = text,
        .requested_at = clock_wall_ms(),
        .claim = claim,
    };
    if (store_run_insert(s->store, &row, err) != 0) {
        return -1;
    }
    r->row = row.row;
    struct store_run_log_name name = run_log_name(s, r->tenant, r->run_id);
    struct store_run_log *log = NULL;
    if (store_run_log_create(&name, &log, err) != 0) {
        return -1;
    }
    pthread_mutex_lock(&r->lock);
    r->log = log;
    pthread_mutex_unlock(&r->lock);
    return 0;
}

/* What never ran leaves no record. */
static void take_back(struct run *r)
{
    struct error err = ERROR_INIT;
    struct store_run_log_name name = run_log_name(r->service, r->tenant, r->run_id);
    if (r->row != 0 && (store_run_log_remove(&name, &err) != 0 ||
                        store_run_delete(r->service->store, r->row, &err) != 0)) {
        log_failure(LOG_LEVEL_WARN, &err, "a refused run stays recorded", "run", r->run_id, NULL);
    }
    run_leave(r);
}

/* NULL when it could not start. */
static struct ptc_engine *engine_of(struct runs *runs)
{
    pthread_mutex_lock(&runs->lock);
    while (runs->starting) {
        pthread_cond_wait(&runs->changed, &runs->lock);
    }
    struct ptc_engine *engine = runs->engine;
    pthread_mutex_unlock(&runs->lock);
    return engine;
}

/* The callbacks hold a reference of their own, until the end is on record. The first of them may
 * come before the handle: who answers or aborts what they tell of waits for it by the lock. */
static int start(struct run *r, const struct ptc_spec *spec, struct error *err)
{
    struct ptc_engine *engine = engine_of(r->runs);
    if (engine == NULL) {
        return error_set(err, ERROR_INTERNAL, "programs cannot be run: the engine did not start");
    }
    run_ref(r);
    pthread_mutex_lock(&r->handle_lock);
    int result = ptc_run_start(engine, spec, &run_recorder, r, &r->handle, err);
    if (result == 0 && r->abort_reason != NULL) {
        ptc_run_abort(r->handle, r->abort_reason);
    }
    pthread_mutex_unlock(&r->handle_lock);
    if (result != 0) {
        run_unref(r);
    }
    return result;
}

int runs_create(struct service *s, const struct caller *who, const struct ptc_spec *spec,
                int64_t claim, char run_id[ID_SIZE], struct error *err)
{
    if (admission_storing(s, who->tenant, who->quotas, 0, err) != 0 ||
        admission_take(s->admission, who->tenant, &one_run, who->quotas, err) != 0) {
        return -1;
    }
    char id[ID_SIZE];
    id_generate("run", id);
    if (spec->run_id != NULL) {
        snprintf(id, sizeof(id), "%s", spec->run_id);
    }
    struct run *r = run_new(s, who->tenant, id, err);
    if (r == NULL) {
        admission_give(s->admission, who->tenant, &one_run);
        return -1;
    }
    r->keyed = claim != 0;
    r->output_max = spec->limits.output_max;
    r->mode = spec->mode;
    int result = record(r, spec, claim, err);
    if (result == 0) {
        result = start(r, spec, err);
    }
    if (result != 0) {
        take_back(r);
    } else {
        memcpy(run_id, id, ID_SIZE);
    }
    run_unref(r);
    return result;
}

int runs_abort(struct service *s, const char *tenant, const char *run_id, const char *reason,
               bool *living, struct error *err)
{
    struct run *r = run_find(s->runs, tenant, run_id);
    if (r == NULL) {
        struct store_run row = {0};
        if (store_run_get(s->store, tenant, run_id, &row, err) != 0) {
            return -1;
        }
        store_run_done(&row);
        *living = false;
        return 0;
    }
    pthread_mutex_lock(&r->handle_lock);
    if (r->handle != NULL) {
        ptc_run_abort(r->handle, reason);
    } else if (!r->over && r->abort_reason == NULL) {
        r->abort_reason = strdup(reason == NULL ? "" : reason);
    }
    pthread_mutex_unlock(&r->handle_lock);
    run_unref(r);
    *living = true;
    return 0;
}

/* --- the whole --- */

static struct ptc_rules rules_of(const struct config *c, enum ptc_mode mode)
{
    return (struct ptc_rules){
        .timeout_default_ms = c->ptc_timeout_ms,
        .timeout_max_ms = c->ptc_timeout_max_ms,
        .mode = mode,
        .allow_danger = c->ptc_danger,
        .allow_network = c->ptc_network,
        .limits = {.memory_bytes = c->ptc_memory,
                   .pids = c->ptc_pids,
                   .cpu_ms = c->ptc_cpu_ms,
                   .heap_bytes = c->ptc_heap,
                   .output_max = c->ptc_output},
        .limits_max = {.memory_bytes = c->ptc_memory_max,
                       .pids = c->ptc_pids_max,
                       .cpu_ms = c->ptc_cpu_max_ms,
                       .heap_bytes = c->ptc_heap_max,
                       .output_max = c->ptc_output_max},
    };
}

/* The first executable of that name in PATH; returns owned or NULL. */
static char *find_program(const char *name)
{
    _cleanup_free_ char *path = strdup(getenv("PATH") == NULL ? "/usr/bin:/bin" : getenv("PATH"));
    char *rest = path;
    for (char *dir = strsep(&rest, ":"); dir != NULL; dir = strsep(&rest, ":")) {
        char *candidate = NULL;
        if (dir[0] != '/' || asprintf(&candidate, "%s/%s", dir, name) < 0) {
            continue;
        }
        if (access(candidate, X_OK) == 0) {
            return candidate;
        }
        free(candidate);
    }
    return NULL;
}

static int make_engine(struct runs *runs, struct ptc_engine **out, struct error *err)
{
    const struct config *c = runs->service->config;
    struct error missing = ERROR_INIT;
    _cleanup_free_ char *node = ptc_find_node(c->ptc_node, NULL, &missing);
    _cleanup_free_ char *bwrap =
        c->ptc_bwrap != NULL ? strdup(c->ptc_bwrap) : find_program("bwrap");
    const struct ptc_engine_config config = {
        .node = node != NULL ? node : "/usr/bin/node",
        .bwrap = bwrap != NULL ? bwrap : "/usr/bin/bwrap",
        .hidden = c->data_dir,
        .first_uid = (uint32_t)c->ptc_first_id,
        .uid_count = (uint32_t)c->ptc_id_count,
        .message_max = c->ptc_message_max,
        .pending_calls_max = c->ptc_pending_max,
        .grace_ms = c->grace_ms,
        .pool_size = c->ptc_pool_size,
        .pool_max = c->ptc_pool_max,
        .rules = runs->rules,
    };
    if (node == NULL) {
        log_failure(LOG_LEVEL_WARN, &missing, "no Node.js that can run programs", NULL);
    }
    return ptc_engine_new(&config, out, err);
}

/* On a worker: the service need not wait until it has looked at the machine. */
static void start_engine(void *arg)
{
    struct runs *runs = arg;
    struct error err = ERROR_INIT;
    struct ptc_engine *engine = NULL;
    if (make_engine(runs, &engine, &err) != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "programs cannot be run", NULL);
    } else if (ptc_engine_enforcement(engine) != PTC_ENFORCEMENT_FULL) {
        log_warn("programs cannot be confined as promised", "reason", ptc_engine_reason(engine),
                 NULL);
    }
    pthread_mutex_lock(&runs->lock);
    runs->engine = engine;
    runs->starting = false;
    pthread_cond_broadcast(&runs->changed);
    pthread_mutex_unlock(&runs->lock);
}

int runs_new(struct service *s, struct runs **out, struct error *err)
{
    enum ptc_mode mode = PTC_READ_ONLY;
    struct runs *runs = calloc(1, sizeof(*runs));
    if (runs == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    runs->service = s;
    pthread_mutex_init(&runs->lock, NULL);
    pthread_cond_init(&runs->changed, NULL);
    int known = ptc_mode_from_name(s->config->ptc_default_mode, &mode);
    runs->rules = rules_of(s->config, known == 0 ? mode : PTC_READ_ONLY);
    *out = runs;
    runs->starting = true;
    pool_submit_always(s->pool, start_engine, runs);
    return 0;
}

unsigned runs_living(struct service *s)
{
    pthread_mutex_lock(&s->runs->lock);
    unsigned living = s->runs->living;
    pthread_mutex_unlock(&s->runs->lock);
    return living;
}

int64_t runs_ready(struct service *s)
{
    pthread_mutex_lock(&s->runs->lock);
    struct ptc_engine *engine = s->runs->engine;
    pthread_mutex_unlock(&s->runs->lock);
    return engine != NULL ? ptc_engine_ready(engine) : 0;
}

void runs_stop(struct service *s, const char *reason)
{
    struct runs *runs = s->runs;
    if (runs == NULL) {
        return;
    }
    pthread_mutex_lock(&runs->lock);
    runs->stopping = true;
    pthread_mutex_unlock(&runs->lock);
    struct ptc_engine *engine = engine_of(runs);
    if (engine != NULL) {
        ptc_engine_stop(engine, reason);
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RECORD_WAIT_MS / 1000;
    int late = 0;
    pthread_mutex_lock(&runs->lock);
    while (runs->living > 0 && late == 0) {
        late = pthread_cond_timedwait(&runs->changed, &runs->lock, &until);
    }
    pthread_mutex_unlock(&runs->lock);
    if (late != 0) {
        log_warn("ends of runs are not on record; the next start settles them", NULL);
    }
}

void runs_free(struct runs *runs)
{
    if (runs == NULL) {
        return;
    }
    for (unsigned i = 0; i < RUN_BUCKETS; i++) {
        struct run *r;
        while ((r = LIST_FIRST(&runs->buckets[i])) != NULL) {
            LIST_REMOVE(r, entry);
            run_unref(r);
        }
    }
    ptc_engine_free(runs->engine);
    pthread_cond_destroy(&runs->changed);
    pthread_mutex_destroy(&runs->lock);
    free(runs);
}

enum ptc_enforcement runs_enforcement(struct service *s, const char **reason)
{
    struct ptc_engine *engine = engine_of(s->runs);
    *reason = engine == NULL ? "the engine did not start" : ptc_engine_reason(engine);
    return engine == NULL ? PTC_ENFORCEMENT_NONE : ptc_engine_enforcement(engine);
}

const char *runs_enforcement_name(enum ptc_enforcement enforcement)
{
    static const char *const names[] = {
        [PTC_ENFORCEMENT_FULL] = "full",
        [PTC_ENFORCEMENT_PARTIAL] = "partial",
        [PTC_ENFORCEMENT_NONE] = "none",
    };
    return names[enforcement];
}
