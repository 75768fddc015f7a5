/* What ptc tells of a run, put on record: a line of its log each, at last its result. */
#include "server/services/runs_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

enum { AGAIN_MS = 1000 };

static struct api_raw raw(struct ptc_text text)
{
    return (struct api_raw){text.data, text.len};
}

/* --- events --- */

static void end_lost(void *arg)
{
    struct run *r = arg;
    log_trace_set(r->trace);
    pthread_mutex_lock(&r->handle_lock);
    if (r->handle != NULL) {
        ptc_run_abort(r->handle, "the events of the run could not be recorded");
    }
    pthread_mutex_unlock(&r->handle_lock);
    run_unref(r);
}

/* Nothing is left out of the events: the run ends where one can't be written. [lock] */
static void lose(struct run *r, const struct error *err)
{
    if (r->lost) {
        return;
    }
    r->lost = true;
    log_failure(LOG_LEVEL_WARN, err, "an event could not be recorded, the run is ended", "run",
                r->run_id, "tenant", r->tenant, NULL);
    run_ref(r);
    pool_submit_always(r->service->pool, end_lost, r);
}

/* [lock] */
static void append(struct run *r, const struct buf *line, int made)
{
    struct error err = ERROR_INIT;
    if (r->lost) {
        return;
    }
    if (made != 0) {
        error_set(&err, ERROR_INTERNAL, "out of memory");
        lose(r, &err);
        return;
    }
    if (store_run_log_append(r->log, line->data, line->len, &err) != 0) {
        lose(r, &err);
        return;
    }
    r->seq++;
    r->published = store_run_log_size(r->log);
}

static void record_start(void *arg)
{
    struct run *r = arg;
    log_trace_set(r->trace);
    struct error err = ERROR_INIT;
    pthread_mutex_lock(&r->lock);
    int64_t at = r->started_at;
    pthread_mutex_unlock(&r->lock);
    if (store_run_started(r->service->store, r->row, at, &err) != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "the start of a run is not on record", "run", r->run_id,
                    NULL);
    }
    run_unref(r);
}

static void on_started(void *ctx)
{
    struct run *r = ctx;
    _cleanup_buf_ struct buf line;
    buf_init(&line, RUN_LINE_MAX);
    int64_t at = clock_wall_ms();
    pthread_mutex_lock(&r->lock);
    r->state = STORE_RUN_RUNNING;
    r->started_at = at;
    append(r, &line, api_run_event_started(r->seq, at, &line));
    pthread_mutex_unlock(&r->lock);
    run_ref(r);
    pool_submit_always(r->service->pool, record_start, r);
    run_notify(r);
}

static void on_log(void *ctx, struct ptc_text entry)
{
    struct run *r = ctx;
    _cleanup_buf_ struct buf line;
    buf_init(&line, RUN_LINE_MAX);
    pthread_mutex_lock(&r->lock);
    append(r, &line, api_run_event_log(r->seq, clock_wall_ms(), raw(entry), &line));
    pthread_mutex_unlock(&r->lock);
    run_notify(r);
}

static struct run_call *call_new(const struct api_run_call *view)
{
    struct run_call *call = calloc(1, sizeof(*call));
    _cleanup_buf_ struct buf text;
    buf_init(&text, RUN_LINE_MAX);
    if (call == NULL || api_run_call_add(view, &text) != 0) {
        free(call);
        return NULL;
    }
    call->id = view->call_id;
    call->at = view->at;
    call->text = buf_take(&text, &call->len);
    return call;
}

static void on_call(void *ctx, int64_t id, struct ptc_text global, struct ptc_text function,
                    struct ptc_text argument)
{
    struct run *r = ctx;
    _cleanup_buf_ struct buf line;
    _cleanup_buf_ struct buf name;
    const struct api_run_call view = {id, {0}, raw(function), raw(argument), clock_wall_ms()};
    struct api_run_call named = view;
    buf_init(&line, RUN_LINE_MAX);
    buf_init(&name, 4096);
    int made = ptc_json_quote(global, &name);
    named.global = (struct api_raw){name.data, name.len};
    struct run_call *call = made == 0 ? call_new(&named) : NULL;
    pthread_mutex_lock(&r->lock);
    made = call == NULL ? -1 : api_run_event_call(r->seq, view.at, &named, &line);
    append(r, &line, made);
    r->calls_total++;
    if (call != NULL) {
        TAILQ_INSERT_TAIL(&r->pending, call, entry);
    }
    pthread_mutex_unlock(&r->lock);
    run_notify(r);
}

static void on_settled(void *ctx, int64_t id, bool cancelled)
{
    struct run *r = ctx;
    _cleanup_buf_ struct buf line;
    buf_init(&line, 4096);
    pthread_mutex_lock(&r->lock);
    append(r, &line,
           api_run_event_settled(r->seq, clock_wall_ms(), id, cancelled ? "cancelled" : "answered",
                                 &line));
    run_call_remove(r, id);
    if (cancelled) {
        r->calls_cancelled++;
    } else {
        r->calls_answered++;
    }
    pthread_mutex_unlock(&r->lock);
    run_notify(r);
}

/* --- the end --- */

static int write_result(struct run *r, struct error *err)
{
    pthread_mutex_lock(&r->lock);
    int result = 0;
    if (r->result_at < 0) {
        int64_t at = store_run_log_size(r->log);
        result = store_run_log_append(r->log, r->result.data, r->result.len, err);
        r->result_at = result == 0 ? at : -1;
    }
    if (result == 0 && r->keyed) {
        result = store_run_log_sync(r->log, err);
    }
    pthread_mutex_unlock(&r->lock);
    return result;
}

static int write_row(struct run *r, struct error *err)
{
    struct store_run row = {
        .row = r->row,
        .run_id = r->run_id,
        .state = STORE_RUN_SETTLED,
        .started_at = r->started_at,
        .completed_at = r->completed_at,
        .calls_total = r->calls_total,
        .calls_answered = r->calls_answered,
        .calls_cancelled = r->calls_cancelled,
        .outcome = (char *)(uintptr_t)r->outcome,
        .result_place = r->result_at + (int64_t)r->result_place,
        .result_bytes = (int64_t)r->result_len,
        .log_bytes = store_run_log_size(r->log),
    };
    return store_run_settle(r->service->store, &row, err);
}

static void drop(void *arg)
{
    run_unref(arg);
}

static void settle(void *arg);

static void submit_settle(void *arg)
{
    struct run *r = arg;
    pool_submit_always(r->service->pool, settle, r);
}

static void release_handle(struct run *r)
{
    pthread_mutex_lock(&r->handle_lock);
    struct ptc_run *handle = TAKE_PTR(r->handle);
    r->over = true;
    if (handle != NULL) {
        ptc_run_release(handle);
    }
    pthread_mutex_unlock(&r->handle_lock);
}

/* Until it is on record it is not over. */
static void settle(void *arg)
{
    struct run *r = arg;
    struct error err = ERROR_INIT;
    log_trace_set(r->trace);
    release_handle(r);
    if (write_result(r, &err) != 0 || write_row(r, &err) != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "the end of a run is not on record, trying again", "run",
                    r->run_id, "tenant", r->tenant, NULL);
        pthread_mutex_lock(&r->lock);
        r->unrecorded = true;
        r->failure = err;
        pthread_mutex_unlock(&r->lock);
        run_notify(r);
        timers_add_held(r->service->timers, clock_mono_ms() + AGAIN_MS, submit_settle, drop, r);
        return;
    }
    log_debug("run settled", "run", r->run_id, "tenant", r->tenant, "outcome", r->outcome, NULL);
    run_leave(r);
    run_unref(r);
}

/* [lock] */
static int make_result(struct run *r, const struct api_run_result *view)
{
    _cleanup_buf_ struct buf text;
    buf_init(&text, RUN_LINE_MAX);
    buf_reset(&r->result);
    r->completed_at = clock_wall_ms();
    r->outcome = view->error_kind == NULL ? "completed" : view->error_kind;
    if (api_run_result_add(view, &text) != 0 ||
        api_run_event_result(r->seq, r->completed_at, (struct api_raw){text.data, text.len},
                             &r->result, &r->result_place) != 0) {
        return -1;
    }
    r->result_len = text.len;
    return 0;
}

static void on_result(void *ctx, const struct ptc_result *result)
{
    struct run *r = ctx;
    struct api_run_result view = {
        .logs = raw(result->logs),
        .value = raw(result->value),
        .error_kind = ptc_error_kind_name(result->kind),
        .message = raw(result->message),
        .mode = ptc_mode_name(result->mode),
        .denied = result->denied,
        .enforcement = result->has_enforcement ? runs_enforcement_name(result->enforcement) : NULL,
    };
    static const char lost[] = "\"the result of the run could not be kept\"";
    pthread_mutex_lock(&r->lock);
    if (make_result(r, &view) != 0) {
        view.logs = (struct api_raw){"[]", 2};
        view.value = (struct api_raw){NULL, 0};
        view.error_kind = ptc_error_kind_name(PTC_WORKER_EXIT);
        view.message = (struct api_raw){lost, sizeof(lost) - 1};
        if (make_result(r, &view) != 0) {
            log_error("a result is lost for want of memory", "run", r->run_id, NULL);
        }
    }
    pthread_mutex_unlock(&r->lock);
    pool_submit_always(r->service->pool, settle, r);
}

const struct ptc_run_events run_recorder = {
    .started = on_started,
    .log = on_log,
    .call = on_call,
    .settled = on_settled,
    .result = on_result,
};
