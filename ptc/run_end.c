#include "base/clock.h"
#include "base/utf8.h"
#include "ptc/internal.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

enum { TEXT_MAX = 8 * 1024, REASON_MAX = 16 * 1024 };

const char *ptc_error_kind_name(enum ptc_error_kind kind)
{
    static const char *const names[] = {
        [PTC_EXCEPTION] = "exception",
        [PTC_TIMEOUT] = "timeout",
        [PTC_ABORT] = "abort",
        [PTC_WORKER_EXIT] = "worker-exit",
        [PTC_INVALID_OUTPUT] = "invalid-output",
        [PTC_OUTPUT_LIMIT] = "output-limit",
        [PTC_PROTOCOL] = "protocol",
        [PTC_SANDBOX_UNAVAILABLE] = "sandbox-unavailable",
    };
    return names[kind];
}

/* --- choosing --- */

static void set_outcome(struct ptc_run *run, enum ptc_error_kind kind, struct ptc_text message)
{
    run->kind = kind;
    buf_reset(&run->message);
    if (kind != PTC_OK && buf_add(&run->message, message.data, message.len) != 0) {
        buf_reset(&run->message);
        (void)!buf_add_str(&run->message, "\"\"");
    }
}

/* A run whose process has not got the program leaves it to the next one. */
static void let_go(struct ptc_run *run)
{
    struct ptc_worker *w = run->worker;
    if (w == NULL) {
        ptc_run_finish(run);
    } else if (!w->inside && !run->booted && !w->exited && w->failure.code == ERROR_NONE &&
               (w->state == PTC_WORKER_STARTING || w->state == PTC_WORKER_READY)) {
        w->run = NULL;
        run->worker = NULL;
        ptc_run_finish(run);
    } else {
        ptc_worker_kill(w);
    }
}

static void choose(struct ptc_run *run, enum ptc_error_kind kind, struct ptc_text message)
{
    bool first = !run->chosen;
    if (!first && kind != PTC_OUTPUT_LIMIT && kind != PTC_WORKER_EXIT) {
        return;
    }
    run->chosen = true;
    set_outcome(run, kind, message);
    if (!first) {
        return;
    }
    pthread_mutex_lock(&run->lock);
    run->over = true;
    pthread_mutex_unlock(&run->lock);
    let_go(run);
}

static void choose_text(struct ptc_run *run, enum ptc_error_kind kind, const char *text)
{
    _cleanup_buf_ struct buf message;
    buf_init(&message, REASON_MAX * 6UL + 2);
    size_t len = utf8_cut(text, strlen(text), REASON_MAX);
    if (ptc_json_quote((struct ptc_text){text, len}, &message) != 0) {
        buf_reset(&message);
    }
    choose(run, kind, (struct ptc_text){buf_str(&message), message.len});
}

void ptc_run_choose(struct ptc_run *run, enum ptc_error_kind kind, const char *fmt, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list ap;
    if (run->chosen) {
        return;
    }
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0) {
        text = NULL;
    }
    choose_text(run, kind, text == NULL ? "" : text);
}

void ptc_run_choose_json(struct ptc_run *run, enum ptc_error_kind kind, struct ptc_text message)
{
    if (!run->chosen) {
        choose(run, kind, message);
    }
}

void ptc_run_replace(struct ptc_run *run, enum ptc_error_kind kind, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    choose_text(run, kind, text);
}

void ptc_run_lost(struct ptc_run *run, const char *how)
{
    struct ptc_worker *w = run->worker;
    char text[TEXT_MAX];
    const char *tail = w == NULL ? "" : buf_str(&w->tail);
    bool starved =
        w != NULL && (w->starved || (w->group.count > 0 && cgroup_oom_kills(&w->group) > 0));
    /* The tail may begin within a character. */
    while (((unsigned char)*tail & 0xc0) == 0x80) {
        tail++;
    }
    (void)snprintf(text, sizeof(text), "the process %s%s%s%s", how,
                   starved ? " (out of memory)" : "", *tail == '\0' ? "" : ": ", tail);
    ptc_run_choose(run, PTC_WORKER_EXIT, "%s", text);
}

/* --- the result --- */

static void cancel_calls(struct ptc_run *run)
{
    pthread_mutex_lock(&run->lock);
    size_t count = run->pending_count;
    run->pending_count = 0;
    pthread_mutex_unlock(&run->lock);
    for (size_t i = 0; i < count && run->events.settled != NULL; i++) {
        run->events.settled(run->ctx, run->pending[i].id, true);
    }
}

static bool tells_denial(struct ptc_text text)
{
    static const char denial[] = "read-only file system";
    size_t len = sizeof(denial) - 1;
    for (size_t i = 0; i + len <= text.len; i++) {
        if (strncasecmp(text.data + i, denial, len) == 0) {
            return true;
        }
    }
    return false;
}

static void check_output(struct ptc_run *run)
{
    const struct buf *last = run->kind == PTC_OK ? &run->value : &run->message;
    if (run->kind != PTC_OUTPUT_LIMIT &&
        (run->ledger.over || !ptc_ledger_fits(&run->ledger, last->len))) {
        ptc_run_replace(run, PTC_OUTPUT_LIMIT, "outer output exceeded %lld bytes",
                        (long long)run->spec.limits.output_max);
    }
}

static void unlink_run(struct ptc_run *run)
{
    struct ptc_run **at = &run->engine->runs;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
}

/* Inside of an execution others may write what this program may only read. */
static enum ptc_enforcement enforcement_of(const struct ptc_run *run)
{
    if (run->spec.execution_id == NULL) {
        return run->engine->enforcement;
    }
    return run->spec.mode == PTC_READ_ONLY ? PTC_ENFORCEMENT_PARTIAL : PTC_ENFORCEMENT_FULL;
}

static void tell_result(struct ptc_run *run)
{
    struct ptc_result result = {.kind = run->kind,
                                .mode = run->spec.mode,
                                .has_enforcement = run->spec.mode != PTC_DANGER,
                                .enforcement = enforcement_of(run)};
    result.logs = run->kind == PTC_OUTPUT_LIMIT ? ptc_ledger_overflow(&run->ledger, &run->message)
                                                : ptc_ledger_close(&run->ledger);
    if (run->kind == PTC_OK) {
        result.value = (struct ptc_text){buf_str(&run->value), run->value.len};
    } else {
        result.message = (struct ptc_text){buf_str(&run->message), run->message.len};
        result.denied = tells_denial(result.message);
    }
    if (run->events.result != NULL) {
        run->events.result(run->ctx, &result);
    }
}

void ptc_run_finish(struct ptc_run *run)
{
    struct ptc_engine *e = run->engine;
    if (run->worker != NULL) {
        run->worker->run = NULL;
        run->worker = NULL;
    }
    ptc_run_stir(run);
    check_output(run);
    cancel_calls(run);
    tell_result(run);
    memset(&run->events, 0, sizeof(run->events));
    unlink_run(run);
    if (e->runs == NULL) {
        ptc_pool_rest(e);
    }
    pthread_mutex_lock(&e->lock);
    e->live--;
    pthread_mutex_unlock(&e->lock);
    ptc_run_release(run);
}
