#include "server/services/ending.h"

#include "api/problem.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/checkpoints.h"
#include "server/services/files.h"

#include <string.h>

enum { RETRY_FIRST_MS = 500, RETRY_MAX_MS = 60000 };

static void destroy(void *arg);

/* [lock] A limit was hit, and a checkpoint is to be made before the first attempt to destroy. */
static bool keeps_workspace(const struct live_execution *x)
{
    bool limit = x->ending == END_TIMEOUT || x->ending == END_OUTPUT_LIMIT;
    return limit && x->current != NULL && x->current->checkpoint_at_limit &&
           x->failed_attempts == 0;
}

static void submit_destroy(struct live_execution *x)
{
    live_lock(x->service->live);
    enum service_work work = keeps_workspace(x) ? WORK_LIMIT_ENDS : WORK_ENDS;
    live_unlock(x->service->live);
    pool_submit_owned_always(x->service->pool, work, x->tenant, destroy, live_ref(x));
}

/* [lock] True when the reason was taken. */
static bool choose(struct live_execution *x, enum end_reason reason, enum error_code code,
                   const char *detail)
{
    if (x->ending != END_NONE) {
        return false;
    }
    struct log_trace trace = log_trace_now();
    x->ending = reason;
    x->ending_trace = trace.id[0] != '\0' ? trace : x->trace;
    live_changed(x);
    x->ending_code = code;
    x->ending_at = clock_wall_ms();
    snprintf(x->ending_detail, sizeof(x->ending_detail), "%s", detail);
    return true;
}

static bool begin(struct live_execution *x, enum end_reason reason, enum error_code code,
                  const char *detail)
{
    live_lock(x->service->live);
    bool taken = choose(x, reason, code, detail);
    /* A provision under way is interrupted first: its item going out of the lane brings us on. */
    bool wait = x->phase == LIVE_PROVISIONING && x->current != NULL;
    bool over = x->phase == LIVE_ENDED;
    live_unlock(x->service->live);

    /* A limit leaves its checkpoint, if one was asked for, the time to be made. */
    if (reason != END_TIMEOUT && reason != END_OUTPUT_LIMIT) {
        cancel_fire(x->cancel);
    }
    files_interrupt(x);
    files_go_on(x);
    if (!wait && !over) {
        submit_destroy(x);
    }
    return taken;
}

bool ending_begin(struct live_execution *x, enum end_reason reason, const char *detail)
{
    return begin(x, reason, end_reason_code(reason), detail);
}

void ending_begin_failed(struct live_execution *x, const struct error *err)
{
    live_lock(x->service->live);
    x->provision_failure = *err;
    live_unlock(x->service->live);
    begin(x, END_PROVISION_FAILED, err->code, api_problem_detail(err->code, err->detail));
}

void ending_continue(struct live_execution *x)
{
    submit_destroy(x);
}

/* --- the record --- */

static void set_termination(struct store_execution *record, struct live_execution *x)
{
    live_lock(x->service->live);
    store_text_set(&record->termination_reason, end_reason_name(x->ending));
    store_text_set(&record->termination_code, error_code_name(x->ending_code));
    store_text_set(&record->termination_detail, x->ending_detail);
    record->termination_at = x->ending_at;
    live_unlock(x->service->live);
}

static bool failed_provision(const struct store_execution *record)
{
    const char *reason = record->termination_reason;
    return reason != NULL && strcmp(reason, end_reason_name(END_PROVISION_FAILED)) == 0;
}

static void change_to_ending(struct store_execution *record, void *ctx)
{
    set_termination(record, ctx);
    record->state = failed_provision(record) ? STORE_FAILED : STORE_TERMINATING;
    record->leftover = true;
}

static void change_to_ended(struct store_execution *record, void *ctx)
{
    set_termination(record, ctx);
    record->state = failed_provision(record) ? STORE_FAILED : STORE_TERMINATED;
    record->terminated_at = clock_wall_ms();
    record->leftover = false;
}

/* --- destroying --- */

static void retry_destroy(void *arg)
{
    struct live_execution *x = arg;
    /* Hands the timer's reference on. */
    pool_submit_owned_always(x->service->pool, WORK_ENDS, x->tenant, destroy, x);
}

static void attempt_failed(struct live_execution *x, const struct error *err)
{
    live_lock(x->service->live);
    x->destroying = false;
    x->failure = *err;
    unsigned attempt = x->failed_attempts++;
    live_unlock(x->service->live);

    int64_t delay = attempt < 7 ? (int64_t)RETRY_FIRST_MS << attempt : RETRY_MAX_MS;
    log_failure(LOG_LEVEL_WARN, err, "ending an execution failed, going on with backoff",
                "execution", x->execution_id, "tenant", x->tenant, NULL);
    timers_add_held(x->service->timers, clock_mono_ms() + delay, retry_destroy, live_drop,
                    live_ref(x));
    live_notify(x);
}

/* What waits gets the execution's end. Dropped items go to `dropped`, to be released afterwards. */
static void drop_queue(struct live_execution *x, struct live_queue *dropped)
{
    char detail[sizeof(x->ending_detail)];
    live_lock(x->service->live);
    TAILQ_CONCAT(dropped, &x->queue, entry);
    x->queued = 0;
    enum end_reason reason = x->ending;
    memcpy(detail, x->ending_detail, sizeof(detail));
    live_unlock(x->service->live);

    struct live_item *item;
    struct log_trace trace = log_trace_now();
    TAILQ_FOREACH(item, dropped, entry)
    {
        log_trace_set(item->trace);
        item->ops->drop(item, reason, detail);
    }
    log_trace_set(trace);
}

static void release_all(struct live_queue *items)
{
    struct live_item *item;
    while ((item = TAILQ_FIRST(items)) != NULL) {
        TAILQ_REMOVE(items, item, entry);
        live_item_release(item);
    }
}

static void disarm_expiry(struct live_execution *x)
{
    live_lock(x->service->live);
    uint64_t timer = x->expiry_timer;
    x->expiry_timer = 0;
    live_unlock(x->service->live);
    if (timer != 0 && timers_cancel(x->service->timers, timer)) {
        live_unref(x);
    }
}

/* Nothing is left and what ran is settled: the last word is the row's. */
static void record_end(struct live_execution *x)
{
    struct error err = ERROR_INIT;
    if (live_record(x, change_to_ended, x, &err) != 0) {
        attempt_failed(x, &err);
        return;
    }
    disarm_expiry(x);
    metrics_termination(x->service->metrics, x->ending);
    log_info("execution ended", "execution", x->execution_id, "tenant", x->tenant, "reason",
             end_reason_name(x->ending), NULL);
    live_remove(x);
    live_notify(x);
}

/* Whoever hears that a command is over finds its execution's end on record too: told is last. */
static void finish(struct live_execution *x, struct live_item *parked)
{
    struct live_queue over = TAILQ_HEAD_INITIALIZER(over);
    if (parked != NULL) {
        struct log_trace trace = log_trace_now();
        log_trace_set(parked->trace);
        parked->ops->settle(parked);
        log_trace_set(trace);
    }
    drop_queue(x, &over);
    record_end(x);
    if (parked != NULL) {
        TAILQ_INSERT_HEAD(&over, parked, entry);
    }
    release_all(&over);
}

/* onLimit.checkpoint: once, before the first attempt to destroy. */
static void keep_workspace(struct live_execution *x)
{
    live_lock(x->service->live);
    bool wanted = keeps_workspace(x);
    live_unlock(x->service->live);
    struct error err = ERROR_INIT;
    char id[ID_SIZE];
    if (!wanted) {
        return;
    }
    if (checkpoints_make_at_limit(x, id, &err) != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "no checkpoint could be made at the limit", "execution",
                    x->execution_id, NULL);
        return;
    }
    live_lock(x->service->live);
    memcpy(x->limit_checkpoint, id, ID_SIZE);
    live_unlock(x->service->live);
}

/* Proves that nothing is left on the host. 0, or -1 with the attempt accounted for. */
static int remove_from_host(struct live_execution *x)
{
    struct error err = ERROR_INIT;
    keep_workspace(x);
    if (live_record(x, change_to_ending, x, &err) != 0) {
        /* A store that can't write must not keep a program running. */
        log_failure(LOG_LEVEL_WARN, &err, "the end of an execution is not recorded yet",
                    "execution", x->execution_id, NULL);
        error_clear(&err);
    }
    live_notify(x);
    struct host *host = x->host->host;
    struct host_identity id = {x->tenant, x->execution_id, x->incarnation};
    int64_t began = clock_mono_us();
    int result = host->ops->terminate(host, &id, x->handle, &err);
    metrics_operation(x->service->metrics, METRICS_TERMINATE, x->host->name, result == 0,
                      clock_mono_us() - began);
    if (result != 0) {
        error_in_phase(&err, PHASE_CLEANUP);
        attempt_failed(x, &err);
        return -1;
    }
    return 0;
}

/* Takes the turn: one worker at a time, and nobody once it is over. */
static bool take_turn(struct live_execution *x, bool *destroyed)
{
    live_lock(x->service->live);
    bool mine = !x->destroying && x->phase != LIVE_ENDED;
    if (mine) {
        x->destroying = true;
    }
    *destroyed = x->destroyed;
    struct log_trace trace = x->ending_trace;
    live_unlock(x->service->live);
    log_trace_set(trace);
    return mine;
}

static void destroy(void *arg)
{
    struct live_execution *x = arg;
    bool destroyed;
    if (!take_turn(x, &destroyed)) {
        live_unref(x);
        return;
    }
    if (!destroyed && remove_from_host(x) != 0) {
        live_unref(x);
        return;
    }
    live_lock(x->service->live);
    x->destroyed = true;
    struct live_item *current = x->current;
    bool over = current == NULL || current->parked;
    if (over) {
        x->current = NULL;
    } else {
        x->destroying = false; /* its outcome, when it comes, brings the next worker */
    }
    live_unlock(x->service->live);
    if (over) {
        finish(x, current);
    }
    live_unref(x);
}

/* --- expiry --- */

static void expire(void *arg)
{
    struct live_execution *x = arg;
    live_lock(x->service->live);
    x->expiry_timer = 0;
    bool due = x->expires_at <= clock_wall_ms();
    live_unlock(x->service->live);
    if (due) {
        ending_begin(x, END_EXPIRED, "the lifetime of the execution is over");
    } else {
        ending_arm_expiry(x); /* the wall clock was set back, or the timer came a moment early */
    }
    live_unref(x);
}

void ending_arm_expiry(struct live_execution *x)
{
    disarm_expiry(x);
    live_lock(x->service->live);
    int64_t left = x->expires_at - clock_wall_ms();
    live_unlock(x->service->live);
    live_ref(x);
    uint64_t timer = timers_add_held(x->service->timers, clock_mono_ms() + (left > 0 ? left : 0),
                                     expire, live_drop, x);
    live_lock(x->service->live);
    x->expiry_timer = timer;
    live_unlock(x->service->live);
}

void ending_error(enum end_reason reason, const char *execution_id, struct error *err)
{
    if (reason == END_EXPIRED) {
        error_set(err, ERROR_TIMEOUT, "the lifetime of execution %s is over", execution_id);
    } else if (reason == END_NONE) {
        error_set(err, ERROR_NOT_FOUND, "no execution %s", execution_id);
    } else {
        error_set(err, ERROR_NOT_FOUND, "execution %s has ended: %s", execution_id,
                  end_reason_name(reason));
    }
}
