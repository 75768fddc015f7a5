#include "base/clock.h"
#include "base/log.h"
#include "ptc/internal.h"

#include <string.h>
#include <sys/epoll.h>

enum { CALLS_MAX = 100000000 };

/* --- beginning --- */

/* Binding names as the JSON texts that calls carry. */
static int note_names(struct ptc_run *run)
{
    size_t i;
    json_t *binding;
    run->names = json_object();
    json_array_foreach(run->spec.bindings, i, binding)
    {
        json_t *functions = json_object();
        size_t k;
        json_t *name;
        json_array_foreach(json_object_get(binding, "functions"), k, name)
        {
            _cleanup_buf_ struct buf quoted;
            struct ptc_text text = {json_string_value(name), json_string_length(name)};
            buf_init(&quoted, PTC_PROGRAM_MAX * 8UL);
            if (ptc_json_quote(text, &quoted) != 0 ||
                json_object_set_new(functions, buf_str(&quoted), json_true()) != 0) {
                json_decref(functions);
                return -1;
            }
        }
        if (json_object_set_new(run->names, json_string_value(json_object_get(binding, "global")),
                                functions) != 0) {
            return -1;
        }
    }
    return 0;
}

static struct ptc_worker *start_inside(struct ptc_engine *e, const struct ptc_kind *kind,
                                       const struct ptc_spec *spec)
{
    struct ptc_worker *w = ptc_worker_new(e, kind);
    if (w != NULL) {
        w->inside = true;
        w->execution = spec->execution;
        w->cpu_ms = spec->limits.cpu_ms;
        w->next = e->workers;
        e->workers = w;
        ptc_execution_start(w);
    }
    return w;
}

void ptc_run_begin(struct ptc_run *run)
{
    struct ptc_engine *e = run->engine;
    struct ptc_kind kind;
    pthread_mutex_lock(&run->lock);
    bool aborted = run->aborted;
    pthread_mutex_unlock(&run->lock);
    if (aborted) {
        ptc_run_stir(run);
        return;
    }
    if (e->enforcement == PTC_ENFORCEMENT_NONE) {
        ptc_run_choose(run, PTC_SANDBOX_UNAVAILABLE, "the sandbox could not be set up: %s",
                       e->reason);
        return;
    }
    if (ptc_kind_of(&run->spec, &kind) != 0 || note_names(run) != 0) {
        ptc_run_choose(run, PTC_WORKER_EXIT, "could not start: out of memory");
        return;
    }
    struct ptc_worker *w = run->spec.execution_id != NULL ? start_inside(e, &kind, &run->spec)
                                                          : ptc_pool_take(e, &kind);
    ptc_kind_done(&kind);
    if (w == NULL) {
        ptc_run_choose(run, PTC_WORKER_EXIT, "could not start: out of memory");
        return;
    }
    w->run = run;
    run->worker = w;
    if (w->state == PTC_WORKER_READY) {
        ptc_run_ready(run);
    }
}

static int add_member(struct buf *out, const char *key, struct ptc_text text)
{
    return buf_addf(out, ",\"%s\":", key) != 0 || ptc_json_quote(text, out) != 0 ? -1 : 0;
}

static int make_boot(const struct ptc_run *run, struct buf *out)
{
    const struct ptc_engine *e = run->engine;
    char *bindings = json_dumps(run->spec.bindings, JSON_COMPACT);
    struct ptc_text program = {run->spec.program, run->spec.program_len};
    struct ptc_text cwd = {run->spec.cwd, strlen(run->spec.cwd)};
    int result = bindings == NULL ||
                         buf_addf(out, "{\"type\":\"boot\",\"outputMax\":%lld,\"messageMax\":%lld",
                                  (long long)run->spec.limits.output_max,
                                  (long long)e->config.message_max) != 0 ||
                         add_member(out, "cwd", cwd) != 0 ||
                         add_member(out, "program", program) != 0 ||
                         buf_add_str(out, ",\"bindings\":") != 0 ||
                         buf_add_str(out, bindings) != 0 || buf_add_char(out, '}') != 0
                     ? -1
                     : 0;
    free(bindings);
    return result;
}

static int64_t cpu_used(const struct ptc_worker *w)
{
    struct cgroup_counters counters = {.cpu_ms = -1};
    if (w->group.count > 0) {
        cgroup_read_counters(&w->group, &counters);
    }
    return counters.cpu_ms;
}

void ptc_run_ready(struct ptc_run *run)
{
    struct ptc_worker *w = run->worker;
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf boot;
    buf_init(&boot, (size_t)run->engine->config.message_max);
    if (ptc_sandbox_limit(w, &run->spec.limits, &err) != 0) {
        ptc_run_choose(run, PTC_SANDBOX_UNAVAILABLE, "the sandbox could not be set up: %s",
                       err.detail);
        return;
    }
    if (make_boot(run, &boot) != 0) {
        ptc_run_choose(run, PTC_WORKER_EXIT, "could not start: out of memory");
        return;
    }
    w->cpu_before_ms = cpu_used(w);
    w->state = PTC_WORKER_RUNNING;
    run->booted = true;
    if (run->events.started != NULL) {
        run->events.started(run->ctx);
    }
    struct ptc_text piece = {boot.data, boot.len};
    pthread_mutex_lock(&run->lock);
    int result = ptc_sending_add(&run->sending, &piece, 1);
    pthread_mutex_unlock(&run->lock);
    if (result != 0) {
        ptc_run_choose(run, PTC_PROTOCOL, "the program is larger than a frame may be");
        return;
    }
    ptc_run_flush(run);
}

void ptc_run_flush(struct ptc_run *run)
{
    struct ptc_worker *w = run->worker;
    if (run->chosen || !run->booted || w == NULL || w->watch[PTC_WATCH_CONTROL].fd < 0) {
        return;
    }
    pthread_mutex_lock(&run->lock);
    /* A socket that is gone shows when it is read. */
    bool waits = ptc_sending_waits(&run->sending) &&
                 ptc_sending_flush(&run->sending, w->watch[PTC_WATCH_CONTROL].fd) == 0 &&
                 ptc_sending_waits(&run->sending);
    pthread_mutex_unlock(&run->lock);
    ptc_worker_want_write(w, waits);
}

/* --- what others want --- */

static void tell_settled(struct ptc_run *run)
{
    pthread_mutex_lock(&run->lock);
    int64_t *ids = TAKE_PTR(run->answered);
    size_t count = run->answered_count;
    run->answered_count = run->answered_size = 0;
    pthread_mutex_unlock(&run->lock);
    for (size_t i = 0; i < count && run->events.settled != NULL; i++) {
        run->events.settled(run->ctx, ids[i], false);
    }
    free(ids);
}

void ptc_run_stir(struct ptc_run *run)
{
    if (run->events.result == NULL) {
        return; /* its result was told */
    }
    pthread_mutex_lock(&run->lock);
    run->stirred = false;
    bool aborted = run->aborted;
    bool flooded = run->flooded;
    pthread_mutex_unlock(&run->lock);
    tell_settled(run);
    if (aborted) {
        ptc_run_choose(run, PTC_ABORT, "%s", run->reason);
    } else if (flooded) {
        ptc_run_choose(run, PTC_PROTOCOL, "more than maxMessageBytes is waiting to be read");
    }
    ptc_run_flush(run);
}

void ptc_run_look(struct ptc_run *run, int64_t now)
{
    struct ptc_worker *w = run->worker;
    if (run->chosen) {
        return;
    }
    if (run->deadline >= 0 && now >= run->deadline) {
        ptc_run_choose(run, PTC_TIMEOUT, "execution deadline reached (%lldms)",
                       (long long)run->spec.timeout_ms);
        return;
    }
    if (!run->booted || w == NULL || w->cpu_before_ms < 0) {
        return;
    }
    if (cpu_used(w) - w->cpu_before_ms >= run->spec.limits.cpu_ms) {
        ptc_run_lost(run, "used all of its CPU time");
    }
}

/* --- what the process says --- */

static bool is_declared(const struct ptc_run *run, const struct ptc_message *m)
{
    _cleanup_free_ char *global = strndup(m->global.data, m->global.len);
    _cleanup_free_ char *function = strndup(m->function.data, m->function.len);
    return global != NULL && function != NULL &&
           json_object_get(json_object_get(run->names, global), function) != NULL;
}

static int add_pending(struct ptc_run *run, int64_t id, size_t bytes)
{
    const struct ptc_engine_config *config = &run->engine->config;
    int result = -1;
    pthread_mutex_lock(&run->lock);
    size_t outstanding = bytes;
    for (size_t i = 0; i < run->pending_count; i++) {
        outstanding += run->pending[i].bytes;
    }
    if (run->pending_count < (size_t)config->pending_calls_max &&
        outstanding <= (size_t)config->message_max) {
        run->pending[run->pending_count++] = (struct ptc_pending){id, bytes};
        run->calls = id;
        result = 0;
    }
    pthread_mutex_unlock(&run->lock);
    return result;
}

static void take_call(struct ptc_run *run, const struct ptc_message *m)
{
    if (m->id != run->last_id + 1) {
        ptc_run_choose(run, PTC_PROTOCOL, "call ids must be 1, 2, 3 and so on");
        return;
    }
    if (!is_declared(run, m)) {
        ptc_run_choose(run, PTC_PROTOCOL, "the call is of a binding that was not declared");
        return;
    }
    if (m->id > CALLS_MAX || add_pending(run, m->id, m->argument.len) != 0) {
        ptc_run_choose(run, PTC_PROTOCOL, "too many calls wait for an answer");
        return;
    }
    run->last_id = m->id;
    if (run->events.call != NULL) {
        run->events.call(run->ctx, m->id, m->global, m->function, m->argument);
    }
}

static void take_log(struct ptc_run *run, struct ptc_text entry)
{
    if (ptc_ledger_log(&run->ledger, entry) != 0) {
        ptc_run_replace(run, PTC_OUTPUT_LIMIT, "outer output exceeded %lld bytes",
                        (long long)run->spec.limits.output_max);
    } else if (run->events.log != NULL) {
        run->events.log(run->ctx, entry);
    }
}

static void take_done(struct ptc_run *run, const struct ptc_message *m)
{
    if (!m->ok) {
        ptc_run_choose_json(run, m->lossy ? PTC_INVALID_OUTPUT : PTC_EXCEPTION, m->message);
        return;
    }
    if (m->value.len > (size_t)run->spec.limits.output_max ||
        (m->value.len > 0 && buf_add(&run->value, m->value.data, m->value.len) != 0)) {
        ptc_run_replace(run, PTC_OUTPUT_LIMIT, "outer output exceeded %lld bytes",
                        (long long)run->spec.limits.output_max);
        return;
    }
    ptc_run_choose_json(run, PTC_OK, (struct ptc_text){"", 0});
}

static void take_message(struct ptc_run *run, const struct ptc_message *m)
{
    switch (m->type) {
    case PTC_MESSAGE_CALL: take_call(run, m); return;
    case PTC_MESSAGE_LOG: take_log(run, m->text); return;
    case PTC_MESSAGE_DONE: take_done(run, m); return;
    case PTC_MESSAGE_OUTPUT_LIMIT:
        ptc_run_replace(run, PTC_OUTPUT_LIMIT, "outer output exceeded %lld bytes",
                        (long long)run->spec.limits.output_max);
        return;
    default: ptc_run_choose(run, PTC_PROTOCOL, "ready was said twice"); return;
    }
}

void ptc_run_frames(struct ptc_run *run)
{
    struct ptc_text body;
    int result = 0;
    while (!run->chosen && (result = ptc_frames_next(&run->worker->frames, &body)) > 0) {
        struct ptc_message message;
        const char *why = NULL;
        if (ptc_message_read(body, &run->engine->room, &message, &why) != 0) {
            ptc_run_choose(run, PTC_PROTOCOL, "%s", why);
            return;
        }
        take_message(run, &message);
    }
    if (!run->chosen && result < 0) {
        ptc_run_choose(run, PTC_PROTOCOL, "a frame is empty or longer than maxMessageBytes");
    }
}

void ptc_run_output(struct ptc_run *run, struct ptc_text text)
{
    _cleanup_buf_ struct buf entry;
    buf_init(&entry, text.len * 6 + 2);
    if (run->booted && !run->ledger.over && ptc_json_quote(text, &entry) == 0) {
        take_log(run, (struct ptc_text){entry.data, entry.len});
    }
}
