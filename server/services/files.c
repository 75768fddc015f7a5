/* When a call may run: beside commands, never beside a checkpoint. */
#include "server/services/files.h"

#include "base/clock.h"
#include "server/services/admission.h"
#include "server/services/ending.h"
#include "server/services/files_private.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* So many at a time in one execution: a program that stops the helper holds no more workers. */
enum { RUNNING_MAX = 8 };

static void start_next(void *arg);

static const struct admission_share one_call = {.file_calls = 1};

/* --- the object --- */

static void call_free(struct file_call *call)
{
    json_decref(call->result.items);
    if (call->result.fd >= 0) {
        close(call->result.fd);
    }
    if (call->body_fd >= 0) {
        close(call->body_fd);
    }
    cancel_unref(call->cancel);
    free(call->path);
    free(call->range);
    free(call);
}

void file_call_unref(struct file_call *call)
{
    if (call == NULL) {
        return;
    }
    if (atomic_fetch_sub(&call->refs, 1) == 1) {
        live_unref(call->execution);
        call_free(call);
    }
}

static int call_new(struct live_execution *x, const struct file_request *r, struct file_call **out,
                    struct error *err)
{
    static atomic_ullong serial;
    struct file_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    bool has_body = r->kind == FILE_WRITE || r->kind == FILE_UNPACK;
    call->kind = r->kind;
    call->path = strdup(r->path);
    call->range = r->range == NULL ? NULL : strdup(r->range);
    call->recursive = r->recursive;
    call->mode = r->mode;
    call->body_fd = has_body ? fcntl(r->body_fd, F_DUPFD_CLOEXEC, 0) : -1;
    call->body_size = r->body_size;
    call->fencing_token = r->fencing_token;
    call->trace = log_trace_now();
    call->result.fd = -1;
    atomic_init(&call->refs, 2); /* the queue's and the caller's */
    snprintf(call->topic, sizeof(call->topic), "files/%llu", atomic_fetch_add(&serial, 1) + 1);
    if (has_body && call->body_fd < 0) {
        error_set_errno(err, ERROR_INTERNAL, errno, "keeping the body");
        call_free(call);
        return -1;
    }
    if (call->path == NULL || (r->range != NULL && call->range == NULL)) {
        call_free(call);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    call->execution = live_ref(x);
    *out = call;
    return 0;
}

const char *file_call_topic(const struct file_call *call)
{
    return call->topic;
}

bool file_call_is_over(struct file_call *call)
{
    return atomic_load(&call->over);
}

int file_call_outcome(struct file_call *call, struct file_result **result, struct error *err)
{
    *result = &call->result;
    if (call->error.code != ERROR_NONE) {
        *err = call->error;
        return -1;
    }
    return 0;
}

/* Who is told of the end finds room for the next one. */
static void give_back(struct file_call *call)
{
    struct live_execution *x = call->execution;
    if (call->admitted) {
        call->admitted = false;
        admission_give(x->service->admission, x->tenant, &one_call);
    }
}

/* Its last word; drops the queue's reference. */
static void finish(struct file_call *call)
{
    struct topics *topics = call->execution->service->topics;
    give_back(call);
    char topic[sizeof(call->topic)];
    memcpy(topic, call->topic, sizeof(topic));
    atomic_store(&call->over, true);
    topics_notify(topics, topic);
    file_call_unref(call);
}

/* --- the gate --- */

/* [lock] */
static struct file_call *take_waiting(struct live_execution *x)
{
    struct file_call *call = TAILQ_FIRST(&x->files.waiting);
    TAILQ_REMOVE(&x->files.waiting, call, entry);
    x->files.waiting_count--;
    return call;
}

enum verdict { WAIT, START, END };

/* [lock] What becomes of the first that no worker is on its way for. */
static enum verdict judge(const struct live_execution *x)
{
    if (TAILQ_EMPTY(&x->files.waiting)) {
        return WAIT;
    }
    if (x->ending != END_NONE || x->phase == LIVE_ENDED) {
        return END;
    }
    bool free = x->files.running + x->files.submitted < RUNNING_MAX &&
                x->files.waiting_count > x->files.submitted;
    return x->phase == LIVE_READY && x->files.frozen == 0 && free ? START : WAIT;
}

/* A call stays in its line until a worker is there: however long its tenant has to wait for one,
 * the end of the execution answers it. */
void files_go_on(struct live_execution *x)
{
    for (;;) {
        struct file_call *call = NULL;
        live_lock(x->service->live);
        enum verdict verdict = judge(x);
        enum end_reason ending = x->ending;
        if (verdict == END) {
            call = take_waiting(x);
        } else if (verdict == START) {
            x->files.submitted++;
            x->refs++;
        }
        live_unlock(x->service->live);
        if (verdict == START) {
            pool_submit_owned_always(x->service->pool, WORK_FILES, x->tenant, start_next, x);
            continue;
        }
        if (call == NULL) {
            return;
        }
        ending_error(ending, x->execution_id, &call->error);
        finish(call);
    }
}

/* [lock] Descriptors are for executions whose files are asked for. */
static struct cancel *cancel_of(struct live_execution *x, struct error *err)
{
    if (x->files.cancel == NULL && cancel_new(&x->files.cancel, err) != 0) {
        return NULL;
    }
    return cancel_ref(x->files.cancel);
}

/* NULL: a checkpoint, or the end, came before the worker did. */
static struct file_call *begin_running(struct live_execution *x)
{
    struct file_call *call = NULL;
    live_lock(x->service->live);
    x->files.submitted--;
    if (x->files.frozen == 0 && x->ending == END_NONE && !TAILQ_EMPTY(&x->files.waiting)) {
        call = take_waiting(x);
        x->files.running++;
        call->cancel = cancel_of(x, &call->error);
    }
    live_unlock(x->service->live);
    return call;
}

static bool is_fenced(struct file_call *call)
{
    struct live_execution *x = call->execution;
    pthread_mutex_lock(&x->record_lock);
    bool fenced = call->fencing_token >= 0 && x->record.owner_id != NULL &&
                  call->fencing_token < x->record.fencing_token;
    pthread_mutex_unlock(&x->record_lock);
    return fenced;
}

/* What the end of its execution cut off is told so, whatever the host made of it. */
static void name_the_end(struct live_execution *x, struct error *err)
{
    live_lock(x->service->live);
    enum end_reason ending = x->ending;
    live_unlock(x->service->live);
    if (ending != END_NONE) {
        struct error cause = *err;
        ending_error(ending, x->execution_id, err);
        error_add_cause(err, &cause);
    }
}

static void run_call(struct live_execution *x, struct file_call *call)
{
    log_trace_set(call->trace);
    if (is_fenced(call)) {
        error_set(&call->error, ERROR_OWNER_FENCED, "a higher fencing token took over");
    } else if (call->cancel != NULL && file_call_work(call, &call->error) != 0) {
        name_the_end(x, &call->error);
    }
    live_lock(x->service->live);
    x->files.running--;
    live_signal(x->service->live);
    live_unlock(x->service->live);
    finish(call);
}

static void start_next(void *arg)
{
    struct live_execution *x = arg;
    struct file_call *call = begin_running(x);
    if (call != NULL) {
        run_call(x, call);
    }
    files_go_on(x);
    live_unref(x);
}

/* Takes the call into the line of its execution. */
static int enter(struct live_execution *x, struct file_call *call, const struct quotas *quotas,
                 struct error *err)
{
    unsigned queue_max = (unsigned)x->service->config->queue_max;
    if (admission_take(x->service->admission, x->tenant, &one_call, quotas, err) != 0) {
        return -1;
    }
    call->admitted = true;
    live_lock(x->service->live);
    bool full = x->files.waiting_count >= queue_max + x->files.submitted;
    if (!full) {
        TAILQ_INSERT_TAIL(&x->files.waiting, call, entry);
        x->files.waiting_count++;
    }
    live_unlock(x->service->live);
    if (full) {
        give_back(call);
        return error_set(err, ERROR_OVERLOADED, "%u calls for files wait already in execution %s",
                         queue_max, x->execution_id);
    }
    return 0;
}

int files_start(struct live_execution *x, const struct file_request *request,
                struct file_call **out, struct error *err)
{
    struct file_call *call = NULL;
    if (request->kind == FILE_WRITE && request->body_size > x->limits.disk_bytes) {
        return error_set(err, ERROR_RESOURCE_LIMIT,
                         "the content has %lld bytes, the execution's disk %lld",
                         (long long)request->body_size, (long long)x->limits.disk_bytes);
    }
    if (call_new(x, request, &call, err) != 0) {
        return -1;
    }
    if (enter(x, call, request->quotas, err) != 0) {
        file_call_unref(call);
        file_call_unref(call);
        return -1;
    }
    files_go_on(x);
    *out = call;
    return 0;
}

/* --- interrupted --- */

void files_interrupt(struct live_execution *x)
{
    live_lock(x->service->live);
    struct cancel *cancel = cancel_ref(x->files.cancel);
    live_unlock(x->service->live);
    cancel_fire(cancel);
    cancel_unref(cancel);
}

/* --- beside a checkpoint --- */

int files_freeze(struct live_execution *x, int64_t deadline_mono_ms, struct error *err)
{
    struct live *l = x->service->live;
    live_lock(l);
    x->files.frozen++;
    while (x->files.running > 0 && clock_mono_ms() < deadline_mono_ms) {
        live_await(l, deadline_mono_ms);
    }
    bool quiet = x->files.running == 0;
    live_unlock(l);
    return quiet ? 0 : error_set(err, ERROR_TIMEOUT, "calls for files took too long to end");
}

void files_thaw(struct live_execution *x)
{
    live_lock(x->service->live);
    x->files.frozen--;
    live_unlock(x->service->live);
    files_go_on(x);
}

void files_abandon(struct live_execution *x)
{
    struct file_call *call;
    while ((call = TAILQ_FIRST(&x->files.waiting)) != NULL) {
        TAILQ_REMOVE(&x->files.waiting, call, entry);
        call_free(call);
    }
}
