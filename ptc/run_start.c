#include "base/clock.h"
#include "ptc/internal.h"

#include <string.h>

/* --- life --- */

static void run_free(struct ptc_run *run)
{
    json_decref(run->names);
    ptc_spec_done(&run->spec);
    ptc_ledger_done(&run->ledger);
    buf_done(&run->value);
    buf_done(&run->message);
    ptc_sending_done(&run->sending);
    pthread_mutex_destroy(&run->lock);
    free(run->pending);
    free(run->answered);
    free(run->reason);
    free(run);
}

/* engine->lock is held. */
static void reference(struct ptc_run *run)
{
    run->references++;
}

void ptc_run_release(struct ptc_run *run)
{
    struct ptc_engine *e = run->engine;
    pthread_mutex_lock(&e->lock);
    bool last = --run->references == 0;
    pthread_mutex_unlock(&e->lock);
    if (last) {
        run_free(run);
    }
}

static struct ptc_run *run_new(struct ptc_engine *e, const struct ptc_spec *spec)
{
    struct ptc_run *run = calloc(1, sizeof(*run));
    if (run == NULL) {
        return NULL;
    }
    run->pending = calloc((size_t)e->config.pending_calls_max, sizeof(*run->pending));
    if (run->pending == NULL) {
        free(run);
        return NULL;
    }
    run->engine = e;
    run->references = 2;
    run->spec = *spec;
    run->spec.json = json_incref(spec->json);
    run->deadline = spec->timeout_ms < 0 ? -1 : clock_mono_ms() + spec->timeout_ms;
    ptc_ledger_init(&run->ledger, spec->limits.output_max);
    buf_init(&run->value, (size_t)spec->limits.output_max);
    buf_init(&run->message, (size_t)e->config.message_max);
    ptc_sending_init(&run->sending, e->config.message_max);
    pthread_mutex_init(&run->lock, NULL);
    return run;
}

int ptc_run_start(struct ptc_engine *e, const struct ptc_spec *spec,
                  const struct ptc_run_events *events, void *ctx, struct ptc_run **out,
                  struct error *err)
{
    struct ptc_run *run = run_new(e, spec);
    const char *refusal = NULL;
    if (run == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    run->events = *events;
    run->ctx = ctx;
    *out = run;
    pthread_mutex_lock(&e->lock);
    if (e->stopping) {
        refusal = "the service is stopping";
    } else if (e->live + e->config.pool_max >= e->config.uid_count) {
        refusal = "too many programs run";
    } else {
        e->live++;
        run->letter = e->new_runs;
        e->new_runs = run;
    }
    pthread_mutex_unlock(&e->lock);
    if (refusal != NULL) {
        *out = NULL;
        run_free(run);
        return error_set(err, ERROR_OVERLOADED, "%s", refusal);
    }
    ptc_loop_wake(e);
    return 0;
}

/* --- what others want --- */

/* run->lock is held. */
static void stir(struct ptc_run *run)
{
    struct ptc_engine *e = run->engine;
    if (run->stirred) {
        return;
    }
    run->stirred = true;
    pthread_mutex_lock(&e->lock);
    reference(run);
    run->letter = e->stirred;
    e->stirred = run;
    pthread_mutex_unlock(&e->lock);
    ptc_loop_wake(e);
}

void ptc_run_abort(struct ptc_run *run, const char *reason)
{
    pthread_mutex_lock(&run->lock);
    if (!run->aborted && !run->over) {
        run->reason = strdup(reason == NULL || reason[0] == '\0' ? "aborted" : reason);
        run->aborted = run->reason != NULL;
        stir(run);
    }
    pthread_mutex_unlock(&run->lock);
}

static int check_answer(const struct ptc_answer *answer, struct buf *out, struct error *err)
{
    const char *field = answer->ok ? "/value" : "/message";
    if (answer->payload.len == 0) {
        return answer->ok ? 0
                          : error_set_field(err, ERROR_PTC_INVALID_REQUEST, field, "is missing");
    }
    if (ptc_json_write(answer->payload.data, answer->payload.len, out, err) != 0) {
        struct error cause = *err;
        return error_set_field(err, ERROR_PTC_INVALID_REQUEST, field, "%s", cause.detail);
    }
    if (!answer->ok && out->data[0] != '"') {
        return error_set_field(err, ERROR_PTC_INVALID_REQUEST, field, "must be a string");
    }
    return 0;
}

static size_t find_pending(const struct ptc_run *run, int64_t id)
{
    size_t i = 0;
    while (i < run->pending_count && run->pending[i].id != id) {
        i++;
    }
    return i;
}

static int note_answered(struct ptc_run *run, int64_t id)
{
    if (run->answered_count == run->answered_size) {
        size_t size = run->answered_size == 0 ? 16 : run->answered_size * 2;
        int64_t *wider = realloc(run->answered, size * sizeof(*wider));
        if (wider == NULL) {
            return -1;
        }
        run->answered = wider;
        run->answered_size = size;
    }
    run->answered[run->answered_count++] = id;
    return 0;
}

static int judge(const struct ptc_run *run, int64_t id, struct error *err)
{
    if (id < 1 || id > run->calls) {
        return error_set(err, ERROR_PTC_CALL_NOT_FOUND, "the run has made no such call");
    }
    if (run->over || run->aborted) {
        return error_set(err, ERROR_PTC_RUN_SETTLED, "the run is over");
    }
    if (find_pending(run, id) == run->pending_count) {
        return error_set(err, ERROR_PTC_CALL_SETTLED, "the call has been answered");
    }
    return 0;
}

static void queue_answer(struct ptc_run *run, int64_t id, bool ok, const struct buf *payload)
{
    char head[96];
    int n = snprintf(head, sizeof(head), "{\"type\":\"answer\",\"id\":%lld,\"ok\":%s%s",
                     (long long)id, ok ? "true" : "false",
                     payload->len == 0 ? ""
                     : ok              ? ",\"value\":"
                                       : ",\"message\":");
    struct ptc_text pieces[] = {{head, (size_t)n}, {payload->data, payload->len}, {"}", 1}};
    size_t at = find_pending(run, id);
    memmove(&run->pending[at], &run->pending[at + 1],
            (run->pending_count - at - 1) * sizeof(*run->pending));
    run->pending_count--;
    run->flooded = run->flooded || ptc_sending_add(&run->sending, pieces, ARRAY_SIZE(pieces)) != 0;
}

int ptc_run_answer(struct ptc_run *run, int64_t id, const struct ptc_answer *answer,
                   struct error *err)
{
    _cleanup_buf_ struct buf payload;
    buf_init(&payload, (size_t)run->engine->config.message_max);
    if (check_answer(answer, &payload, err) != 0) {
        return -1;
    }
    pthread_mutex_lock(&run->lock);
    int result = judge(run, id, err);
    if (result == 0 && note_answered(run, id) != 0) {
        result = error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (result == 0) {
        queue_answer(run, id, answer->ok, &payload);
        stir(run);
    }
    pthread_mutex_unlock(&run->lock);
    return result;
}
