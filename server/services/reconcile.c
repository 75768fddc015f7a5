#include "server/services/reconcile.h"

#include "api/problem.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/admission.h"
#include "server/services/commands.h"
#include "server/services/ending.h"
#include "server/services/live.h"
#include "store/checkpoints.h"

#include <string.h>

enum { RETRY_FIRST_MS = 500, RETRY_MAX_MS = 15000, TOLD_ATTEMPTS = 3 };

/* --- the report --- */

static void begin_report(struct service *s)
{
    pthread_mutex_lock(&s->report_lock);
    s->report = (struct reconcile_report){.started_at = clock_wall_ms()};
    pthread_mutex_unlock(&s->report_lock);
}

static void problem(struct service *s, const char *what, const struct error *err)
{
    pthread_mutex_lock(&s->report_lock);
    if (s->report.problem_count < RECONCILE_PROBLEMS_MAX) {
        snprintf(s->report.problems[s->report.problem_count++], RECONCILE_PROBLEM_SIZE,
                 "%.80s: %.160s", what, api_problem_detail(err->code, err->detail));
    }
    pthread_mutex_unlock(&s->report_lock);
    log_failure(LOG_LEVEL_WARN, err, what, NULL);
}

static void count(struct service *s, int64_t *counter, int64_t by)
{
    pthread_mutex_lock(&s->report_lock);
    *counter += by;
    pthread_mutex_unlock(&s->report_lock);
}

static void log_report(struct service *s, const char *host)
{
    pthread_mutex_lock(&s->report_lock);
    struct reconcile_report r = s->report;
    pthread_mutex_unlock(&s->report_lock);
    char text[256];
    snprintf(text, sizeof(text),
             "adopted %lld, host-lost %lld, expired %lld, destroyed unrecorded %lld, thawed %lld, "
             "terminations finished %lld, foreign left alone %lld, problems %d",
             (long long)r.adopted, (long long)r.host_lost, (long long)r.expired,
             (long long)r.destroyed_unrecorded, (long long)r.thawed,
             (long long)r.terminations_finished, (long long)r.foreign_left_alone, r.problem_count);
    log_info("reconciled", "host", host, "report", text, NULL);
}

/* --- at start: what the rows say --- */

static bool has_checkpoint_row(void *ctx, const char *tenant, const char *id)
{
    struct service *s = ctx;
    struct error err = ERROR_INIT;
    struct store_checkpoint row = {0};
    int result = store_checkpoint_get(s->store, tenant, id, &row, &err);
    store_checkpoint_done(&row);
    /* Only a certain "no" may cost files. */
    return result == 0 || err.code != ERROR_CHECKPOINT_NOT_FOUND;
}

static void sweep_checkpoints(struct service *s)
{
    struct error err = ERROR_INIT;
    int removed = 0;
    if (store_checkpoint_files_sweep(s->config->checkpoint_dir, has_checkpoint_row, s, &removed,
                                     &err) != 0) {
        problem(s, "checkpoint files could not be swept", &err);
        return;
    }
    count(s, &s->report.checkpoints_removed, removed);
}

static struct service_host *host_named(struct service *s, const char *name)
{
    for (unsigned i = 0; i < s->host_count; i++) {
        if (strcmp(s->hosts[i].name, name) == 0) {
            return &s->hosts[i];
        }
    }
    return NULL;
}

static int load_one(struct service *s, struct store_execution *row, struct error *err)
{
    struct service_host *host = host_named(s, row->host);
    if (host == NULL) {
        return error_set(err, ERROR_INTERNAL, "execution %s is on host %s, which is not configured",
                         row->execution_id, row->host);
    }
    const struct host_limits limits = {.nano_cpus = row->nano_cpus,
                                       .memory_bytes = row->memory_bytes,
                                       .disk_bytes = row->disk_bytes};
    const struct admission_share share = live_share(&limits);
    if (admission_take(s->admission, row->tenant, &share, NULL, err) != 0) {
        return -1;
    }
    struct live_execution *x = live_add(s, host, row);
    if (x == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    live_unref(x);
    return 0;
}

static int load_rows(struct service *s, struct error *err)
{
    const struct store_execution_filter filter = {.state = -1, .live_only = true};
    struct store_page page = {.before = 0, .limit = 200};
    int result = 0;
    for (bool more = true; more && result == 0;) {
        struct store_execution_list list = {0};
        result = store_execution_list(s->store, &filter, &page, &list, err);
        more = result == 0 && list.count == (size_t)page.limit;
        for (size_t i = 0; i < list.count; i++) {
            page.before = list.items[i].row;
            struct error one = ERROR_INIT;
            if (load_one(s, &list.items[i], &one) != 0) {
                problem(s, "an execution could not be taken over", &one);
            }
        }
        store_execution_list_done(&list);
    }
    return result;
}

int reconcile_load(struct service *s, struct error *err)
{
    begin_report(s);
    sweep_checkpoints(s);
    return load_rows(s, err);
}

/* --- commands the last run left unfinished --- */

/* Nobody can tell what a command that ran has done to the workspace: its execution ends with it. */
static void end_with_command(struct service *s, struct live_execution *x)
{
    live_lock(s->live);
    bool expired = x->expires_at <= clock_wall_ms();
    live_unlock(s->live);
    if (expired) {
        ending_begin(x, END_EXPIRED, "the lifetime of the execution is over");
        count(s, &s->report.expired, 1);
    } else {
        ending_begin(x, END_HOST_LOST, "the service stopped while a command was running");
        count(s, &s->report.host_lost, 1);
    }
}

/* The execution of a command of this host; NULL with `*other` set: of another host. */
static struct live_execution *execution_of(struct service_host *h, const struct store_command *c,
                                           bool *other)
{
    struct live_execution *x = live_find(h->service->live, c->tenant, c->execution_id);
    *other = x != NULL && x->host != h;
    if (x != NULL && (*other || x->incarnation != c->incarnation)) {
        live_unref(x);
        x = NULL;
    }
    return x;
}

static void end_command(struct service *s, struct live_execution *x, struct store_command *c)
{
    struct error err = ERROR_INIT;
    bool ran = c->state == STORE_COMMAND_RUNNING;
    bool repaired = false;
    if (commands_settle_after_restart(s, x, c, &repaired, &err) != 0) {
        problem(s, "a command of the last run could not be settled", &err);
    }
    count(s, &s->report.transcripts_repaired, repaired);
    if (x != NULL && ran) {
        end_with_command(s, x);
    }
}

/* True when it went on; what its execution shares with it is the end otherwise. */
static bool go_on(struct service *s, struct live_execution *x, struct store_command *c)
{
    struct error err = ERROR_INIT;
    live_lock(s->live);
    bool usable = x->phase == LIVE_READY && x->ending == END_NONE;
    live_unlock(s->live);
    if (!usable) {
        return false;
    }
    if (commands_resume(x, c, &err) != 0) {
        problem(s, "a command that survived could not be taken up", &err);
        return false;
    }
    return true;
}

/* Which commands a turn is about. */
enum commands_pass {
    BEFORE_HOST, /* those that are certainly over: queued ones, and all where none survives */
    AFTER_HOST,  /* those that may run on in an execution that was adopted by now */
};

static void pass_command(struct service_host *h, struct store_command *c, enum commands_pass pass)
{
    struct service *s = h->service;
    bool other;
    struct live_execution *x = execution_of(h, c, &other);
    bool may_run = x != NULL && h->host->ops->commands_survive && c->state == STORE_COMMAND_RUNNING;
    if (other || (may_run && pass == BEFORE_HOST)) {
        if (may_run) {
            live_lock(s->live);
            x->has_survivor = true;
            live_unlock(s->live);
        }
        live_unref(x);
        return;
    }
    if (!may_run || !go_on(s, x, c)) {
        end_command(s, x, c);
    }
    live_unref(x);
}

/* A command that ran is lost with its execution, unless it survives on its host; one that had not
 * begun ends, its execution lives. */
static void settle_commands(struct service_host *h, enum commands_pass pass)
{
    struct service *s = h->service;
    struct error err = ERROR_INIT;
    struct store_command_list list = {0};
    if (store_command_list_unfinished(s->store, &list, &err) != 0) {
        problem(s, "unfinished commands could not be listed", &err);
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        pass_command(h, &list.items[i], pass);
    }
    store_command_list_done(&list);
}

/* --- one host --- */

struct comparison {
    struct service_host *host;
    struct host_found_list found;
    bool *matched;
    struct live_execution **known; /* referenced; those that were ready, or from the last run,
                                      before the host was asked */
    size_t known_count;
};

static void collect(void *ctx, struct live_execution *x)
{
    struct comparison *c = ctx;
    live_lock(x->service->live);
    /* What is being provisioned by this run takes care of itself. */
    bool ours = x->host == c->host && (x->phase == LIVE_READY || x->current == NULL);
    live_unlock(x->service->live);
    if (!ours) {
        return;
    }
    struct live_execution **grown =
        realloc(c->known, (c->known_count + 1) * sizeof(struct live_execution *));
    if (grown != NULL) {
        c->known = grown;
        c->known[c->known_count++] = live_ref(x);
    }
}

static bool same(const struct host_found *f, const struct live_execution *x)
{
    return f->ours && f->incarnation == x->incarnation && strcmp(f->tenant, x->tenant) == 0 &&
           strcmp(f->execution_id, x->execution_id) == 0;
}

static const struct host_found *match(struct comparison *c, const struct live_execution *x)
{
    for (size_t i = 0; i < c->found.count; i++) {
        if (same(&c->found.items[i], x)) {
            c->matched[i] = true;
            return &c->found.items[i];
        }
    }
    return NULL;
}

static void adopt(struct service_host *h, struct live_execution *x, const struct host_found *found)
{
    struct service *s = h->service;
    struct error err = ERROR_INIT;
    if (h->host->ops->adopt(h->host, found, &err) != 0) {
        problem(s, "an execution could not be adopted", &err);
        ending_begin(x, END_HOST_LOST, api_problem_detail(err.code, err.detail));
        count(s, &s->report.host_lost, 1);
        return;
    }
    count(s, &s->report.adopted, 1);
    count(s, &s->report.thawed, found->frozen);
    ending_arm_expiry(x);
}

/* What the row says of an end that the last run began; END_NONE when it says nothing. */
static enum end_reason recorded_end(struct live_execution *x, char detail[sizeof(x->ending_detail)])
{
    pthread_mutex_lock(&x->record_lock);
    enum end_reason reason = end_reason_from_name(x->record.termination_reason);
    const char *text = x->record.termination_detail;
    snprintf(detail, sizeof(x->ending_detail), "%s", text == NULL ? "" : text);
    if (reason == END_NONE && x->record.state == STORE_TERMINATING) {
        reason = END_TERMINATED;
    }
    pthread_mutex_unlock(&x->record_lock);
    return reason;
}

/* What a row and the host say of one execution, and what follows. */
static void settle(struct comparison *c, struct live_execution *x)
{
    struct service *s = c->host->service;
    const struct host_found *found = match(c, x);
    live_lock(s->live);
    enum live_phase phase = x->phase;
    bool ending = x->ending != END_NONE;
    int64_t expires_at = x->expires_at;
    bool survivor = x->has_survivor;
    live_unlock(s->live);
    if (phase == LIVE_ENDED || ending) {
        return; /* on its way already */
    }
    char detail[sizeof(x->ending_detail)];
    enum end_reason recorded = recorded_end(x, detail);
    if (recorded != END_NONE) {
        ending_begin(x, recorded, detail);
        count(s, &s->report.terminations_finished, 1);
    } else if (phase == LIVE_PROVISIONING) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_RUNTIME, "the service stopped while it was being provisioned");
        ending_begin_failed(x, &err);
    } else if (expires_at <= clock_wall_ms()) {
        ending_begin(x, END_EXPIRED, "the lifetime of the execution is over");
        count(s, &s->report.expired, 1);
    } else if (found != NULL && !found->running && survivor) {
        /* Its command has ended it: which limit it was is for the command to say. */
        ending_arm_expiry(x);
    } else if (found == NULL || !found->running) {
        ending_begin(x, END_HOST_LOST, "the execution is gone from its host");
        count(s, &s->report.host_lost, 1);
    } else {
        adopt(c->host, x, found);
    }
}

static bool recorded_by_now(struct service *s, const struct host_found *f)
{
    struct live_execution *x = live_find(s->live, f->tenant, f->execution_id);
    bool known = x != NULL && same(f, x);
    live_unref(x);
    return known;
}

static void destroy_unrecorded(struct comparison *c)
{
    struct service *s = c->host->service;
    for (size_t i = 0; i < c->found.count; i++) {
        const struct host_found *f = &c->found.items[i];
        if (!f->ours) {
            count(s, &s->report.foreign_left_alone, 1);
            continue;
        }
        if (c->matched[i] || recorded_by_now(s, f)) {
            continue;
        }
        struct error err = ERROR_INIT;
        if (c->host->host->ops->destroy(c->host->host, f, &err) != 0) {
            problem(s, "an unrecorded execution could not be destroyed", &err);
            continue;
        }
        log_warn("destroyed what no record knows", "execution", f->execution_id, "tenant",
                 f->tenant, NULL);
        count(s, &s->report.destroyed_unrecorded, 1);
    }
}

static int compare(struct service_host *h, struct error *err)
{
    struct comparison c = {.host = h};
    live_each(h->service->live, collect, &c);
    int result = h->host->ops->list(h->host, &c.found, err);
    if (result == 0) {
        c.matched = calloc(c.found.count + 1, sizeof(bool));
        result = c.matched == NULL ? error_set(err, ERROR_INTERNAL, "out of memory") : 0;
    }
    for (size_t i = 0; i < c.known_count; i++) {
        if (result == 0) {
            settle(&c, c.known[i]);
        }
        live_unref(c.known[i]);
    }
    if (result == 0) {
        destroy_unrecorded(&c);
    }
    host_found_list_done(&c.found);
    free(c.matched);
    free(c.known);
    return result;
}

static int look(struct service_host *h, struct error *err)
{
    struct host_status status;
    h->host->ops->probe(h->host, &status);
    pthread_mutex_lock(&h->lock);
    h->status = status;
    pthread_mutex_unlock(&h->lock);
    if (!status.available) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "host %s: %s", h->name, status.reason);
    }
    return 0;
}

static bool first_is_done(struct service_host *h)
{
    pthread_mutex_lock(&h->lock);
    bool done = h->first_done;
    pthread_mutex_unlock(&h->lock);
    return done;
}

static int reconcile_once(struct service_host *h, struct error *err)
{
    struct service *s = h->service;
    if (look(h, err) != 0) {
        return -1;
    }
    bool first = !first_is_done(h);
    if (first) {
        settle_commands(h, BEFORE_HOST);
    } else {
        begin_report(s);
    }
    if (compare(h, err) != 0) {
        return -1;
    }
    if (first && h->host->ops->commands_survive) {
        settle_commands(h, AFTER_HOST);
    }
    pthread_mutex_lock(&h->lock);
    h->first_done = true;
    pthread_mutex_unlock(&h->lock);
    pthread_mutex_lock(&s->report_lock);
    s->report.completed_at = clock_wall_ms();
    pthread_mutex_unlock(&s->report_lock);
    log_report(s, h->name);
    return 0;
}

static void run_requested(void *arg)
{
    struct service_host *h = arg;
    struct error err = ERROR_INIT;
    if (reconcile_host(h, &err) == 0) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    /* One that never comes is told of in GET /v1/host; the log need not hear it for ever. */
    enum log_level level = h->attempts <= TOLD_ATTEMPTS ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG;
    pthread_mutex_unlock(&h->lock);
    log_failure(level, &err, "a host can't be reconciled yet", "host", h->name, NULL);
}

static void retry(void *arg)
{
    struct service_host *h = arg;
    pool_submit_always(h->service->pool, run_requested, h);
}

static void retry_later(struct service_host *h, unsigned attempt)
{
    int64_t delay = attempt < 5 ? (int64_t)RETRY_FIRST_MS << attempt : RETRY_MAX_MS;
    timers_add(h->service->timers, clock_mono_ms() + delay, retry, h);
}

int reconcile_host(struct service_host *h, struct error *err)
{
    pthread_mutex_lock(&h->lock);
    if (h->reconciling) {
        h->reconcile_again = true;
        pthread_mutex_unlock(&h->lock);
        return 0;
    }
    h->reconciling = true;
    pthread_mutex_unlock(&h->lock);

    int result;
    bool again;
    unsigned attempt = 0;
    do {
        result = reconcile_once(h, err);
        metrics_reconciliation(h->service->metrics, result == 0);
        pthread_mutex_lock(&h->lock);
        again = h->reconcile_again && result == 0;
        h->reconcile_again = false;
        h->reconciled = result == 0;
        h->reconciling = again;
        attempt = h->attempts;
        h->attempts = result == 0 ? 0 : attempt + 1;
        pthread_mutex_unlock(&h->lock);
    } while (again);
    if (result != 0) {
        retry_later(h, attempt);
    }
    return result;
}

void reconcile_request(struct service_host *h)
{
    pool_submit_always(h->service->pool, run_requested, h);
}
