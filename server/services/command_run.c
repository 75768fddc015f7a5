/* A command's turn: start, output, end, and what is recorded of it. */
#include "api/json.h"
#include "api/problem.h"
#include "api/signal.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/commands_private.h"
#include "server/services/ending.h"

#include <signal.h>
#include <string.h>

enum { RECORD_AGAIN_MS = 1000 };

/* --- the end, on record --- */

void command_row_end(struct store_command *row, const char *reason, enum error_code code,
                     const char *detail)
{
    bool exited = strcmp(reason, "exited") == 0 || strcmp(reason, "signaled") == 0;
    row->state = exited ? STORE_COMMAND_EXITED : STORE_COMMAND_FAILED;
    row->completed_at = clock_wall_ms();
    store_text_set(&row->termination_reason, reason);
    store_text_set(&row->termination_code, error_code_name(code));
    store_text_set(&row->termination_detail, detail);
}

/* The exit record is the transcript's last, and is there before the row says that it is over. What
 * was asked for under an idempotency key is to be found after a power loss, too. */
int command_transcript_close(struct store_transcript *t, const struct store_command *row,
                             struct error *err)
{
    _cleanup_json_ json_t *body = commands_encode(row);
    _cleanup_free_ char *text = body == NULL ? NULL : api_json_text(body, 8 * 1024 * 1024);
    if (text == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (store_transcript_append(t, STORE_RECORD_EXIT, text, strlen(text), err) != 0) {
        return -1;
    }
    return row->claim == 0 ? 0 : store_transcript_sync(t, err);
}

static void notify(struct service *s, const struct store_command *row)
{
    char topic[LIVE_TOPIC_SIZE];
    live_topic_command(topic, row->execution_row, row->command_id);
    topics_notify(s->topics, topic);
}

static void notify_end(struct service *s, const struct store_command *row)
{
    char topic[LIVE_TOPIC_SIZE];
    notify(s, row);
    live_topic_command_end(topic, row->execution_row, row->command_id);
    topics_notify(s->topics, topic);
}

void command_record_end(struct command *c, const char *reason, enum error_code code,
                        const char *detail)
{
    struct service *s = c->item.execution->service;
    struct error err = ERROR_INIT;
    command_give_back(c); /* who reads of the end may run the next one */
    command_row_end(&c->row, reason, code, detail);
    if (c->transcript != NULL && !c->closed &&
        command_transcript_close(c->transcript, &c->row, &err) != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "the end of a transcript could not be kept", "command",
                    c->row.command_id, NULL);
        error_clear(&err);
    }
    log_debug("command ended", "execution", c->row.execution_id, "command", c->row.command_id,
              "tenant", c->row.tenant, "reason", reason, NULL);
    c->row.transcript_bytes = c->transcript == NULL ? 0 : store_transcript_size(c->transcript);
    if (store_command_update(s->store, &c->row, &err) != 0) {
        log_failure(LOG_LEVEL_ERROR, &err, "the end of a command could not be recorded", "command",
                    c->row.command_id, NULL);
        c->unrecorded = true;
        struct live_execution *x = c->item.execution;
        live_lock(s->live);
        x->unrecorded_row = c->row.row;
        x->unrecorded = err;
        live_unlock(s->live);
    }
}

static void take_result(struct command *c)
{
    const struct host_exec_result *r = &c->result;
    char name[API_SIGNAL_SIZE] = "";
    c->row.exit_code = r->exit_code;
    if (r->signal != 0) {
        api_signal_name(r->signal, name);
    }
    store_text_set(&c->row.signal, r->signal == 0 ? NULL : name);
    c->row.usage_cpu_ms = r->cpu_ms;
    c->row.usage_memory_peak_bytes = r->memory_peak_bytes;
    c->row.usage_wall_ms = clock_mono_ms() - c->started_mono;
}

/* The program's own end, told by the host. */
static void record_own_end(struct command *c)
{
    const struct host_exec_result *r = &c->result;
    take_result(c);
    if (!r->started) {
        command_record_end(c, "not-started", ERROR_INVALID_REQUEST, r->detail);
    } else if (r->signal != 0) {
        command_record_end(c, "signaled", ERROR_NONE, r->detail);
    } else {
        command_record_end(c, "exited", ERROR_NONE, r->detail);
    }
}

/* The reasons of an execution that its commands do not have. */
const char *command_reason(enum end_reason reason)
{
    if (reason == END_RECLAIMED || reason == END_PROVISION_FAILED) {
        return end_reason_name(END_TERMINATED);
    }
    return end_reason_name(reason);
}

enum error_code command_code(enum end_reason reason)
{
    enum error_code code = end_reason_code(reason);
    return code == ERROR_NONE ? ERROR_RUNTIME : code;
}

static void record_execution_end(struct command *c, enum end_reason reason, const char *detail)
{
    if (c->row.started_at != 0) {
        c->row.usage_wall_ms = clock_mono_ms() - c->started_mono;
    }
    if (c->result.memory_peak_bytes > 0) {
        c->row.usage_memory_peak_bytes = c->result.memory_peak_bytes;
        c->row.usage_cpu_ms = c->result.cpu_ms;
    }
    command_record_end(c, command_reason(reason), command_code(reason), detail);
}

static void disarm_deadline(struct live_execution *x);

/* --- completion, on a worker --- */

/* Whether the command itself is why its execution ends, so that its own end counts for nothing. */
static bool own_limit(enum end_reason reason)
{
    return reason == END_TIMEOUT || reason == END_OUTPUT_LIMIT || reason == END_OOM;
}

/* A program that had ended before the blow keeps its own result. */
static void record(struct command *c)
{
    struct live_execution *x = c->item.execution;
    char detail[sizeof(x->ending_detail)];
    live_lock(x->service->live);
    enum end_reason reason = x->ending;
    memcpy(detail, x->ending_detail, sizeof(detail));
    store_text_set(&c->row.termination_checkpoint_id, x->limit_checkpoint);
    live_unlock(x->service->live);
    metrics_operation(x->service->metrics, METRICS_EXEC, x->host->name,
                      reason == END_NONE && c->result.started,
                      (clock_mono_ms() - c->started_mono) * 1000);
    bool killed = c->result.lost || c->result.signal == SIGKILL || c->result.runner_killed;
    if (reason != END_NONE && (own_limit(reason) || killed)) {
        record_execution_end(c, reason, detail);
    } else {
        record_own_end(c);
    }
}

static void settle(struct live_item *item)
{
    record((struct command *)item);
}

static void let_go(struct command *c);

static void record_again(void *arg)
{
    struct command *c = arg;
    struct error err = ERROR_INIT;
    c->unrecorded = store_command_update(c->service->store, &c->row, &err) != 0;
    let_go(c);
}

static void submit_record_again(void *arg)
{
    struct command *c = arg;
    pool_submit_owned_always(c->service->pool, WORK_COMMANDS, c->row.tenant, record_again, c);
}

static void drop_command(void *arg)
{
    command_free(arg);
}

/* A command is over for everybody when its end is on record: a store that can't write now is asked
 * again until it can. */
static void let_go(struct command *c)
{
    if (c->unrecorded) {
        notify_end(c->service, &c->row); /* a POST answers why it can't say more */
        timers_add_held(c->service->timers, clock_mono_ms() + RECORD_AGAIN_MS, submit_record_again,
                        drop_command, c);
        return;
    }
    notify_end(c->service, &c->row);
    command_free(c);
}

static void release(struct live_item *item)
{
    let_go((struct command *)item);
}

/* An end that is not its execution's. */
static void end_alone(struct command *c)
{
    live_item_done(&c->item);
    let_go(c);
}

/* For the client, who is not to read the service's paths. */
static const char *storage_detail(const struct command *c)
{
    return c->storage.code == ERROR_STORAGE_FULL ? "the output could not be kept: the disk is full"
                                                 : "the output could not be kept";
}

static void begin_oom(struct command *c)
{
    char detail[160];
    char peak[64] = "";
    if (c->result.memory_peak_bytes >= 0) {
        snprintf(peak, sizeof(peak), ", peak %lld bytes", (long long)c->result.memory_peak_bytes);
    }
    snprintf(detail, sizeof(detail), "killed for memory: limit %lld bytes%s",
             (long long)c->item.execution->limits.memory_bytes, peak);
    ending_begin(c->item.execution, END_OOM, detail);
}

/* Whether the host told of an OOM kill while this command had its turn. */
static bool memory_ran_out(const struct command *c)
{
    struct live_execution *x = c->item.execution;
    live_lock(x->service->live);
    bool told = x->oom_serial == c->item.serial;
    live_unlock(x->service->live);
    return told;
}

/* It was on record that it starts, and then the host never heard of it: the last run of the service
 * went before that, or this one had nothing to tell it with. What has output, or an end in its
 * transcript, was heard of. */
static bool never_began(const struct command *c)
{
    return c->result.unheard && !c->closed && c->captured == 0;
}

static void record_never_began(struct command *c)
{
    const struct error *why = &c->start_error;
    command_record_end(c, end_reason_name(END_ABORTED), ERROR_RUNTIME,
                       why->code != ERROR_NONE ? api_problem_detail(why->code, why->detail)
                                               : "the service stopped before the command began");
}

static void complete(void *arg)
{
    struct command *c = arg;
    struct live_execution *x = c->item.execution;
    char detail[96];
    log_trace_set(c->item.trace);
    disarm_deadline(x);
    if (c->result.oom || (c->result.runner_killed && memory_ran_out(c))) {
        begin_oom(c);
    } else if (c->storage.code != ERROR_NONE) {
        ending_begin(x, END_ABORTED, storage_detail(c));
    } else if (c->result.timed_out) {
        snprintf(detail, sizeof(detail), "the command ran longer than timeoutMs %lld",
                 (long long)c->row.timeout_ms);
        ending_begin(x, END_TIMEOUT, detail);
    } else if ((c->result.lost || c->result.gone) && !never_began(c)) {
        ending_begin(x, END_HOST_LOST,
                     c->result.detail[0] != '\0' ? c->result.detail
                                                 : "everything inside has ended");
    }
    if (!live_item_park(&c->item)) {
        never_began(c) ? record_never_began(c) : record(c);
        end_alone(c);
    }
}

static void keep_usage(struct live_execution *x, const struct host_usage *usage)
{
    live_lock(x->service->live);
    x->usage.cpu_ms = usage->cpu_ms >= 0 ? usage->cpu_ms : x->usage.cpu_ms;
    if (usage->memory_peak_bytes > x->usage.memory_peak_bytes) {
        x->usage.memory_peak_bytes = usage->memory_peak_bytes;
    }
    if (usage->pids_peak > x->usage.pids_peak) {
        x->usage.pids_peak = usage->pids_peak;
    }
    if (usage->workspace_bytes >= 0) {
        x->usage.workspace_bytes = usage->workspace_bytes;
    }
    live_changed(x);
    live_unlock(x->service->live);
}

/* --- events, on the host's thread --- */

/* The end is this command's doing; the thread goes on with others'. */
static void begin_end(struct command *c, enum end_reason reason, const char *detail)
{
    struct log_trace before = log_trace_now();
    log_trace_set(c->item.trace);
    ending_begin(c->item.execution, reason, detail);
    log_trace_set(before);
}

static bool on_output(void *ctx, enum host_stream stream, const void *data, size_t len)
{
    struct command *c = ctx;
    struct live_execution *x = c->item.execution;
    *(stream == HOST_STDOUT ? &c->row.stdout_bytes : &c->row.stderr_bytes) += (int64_t)len;
    int64_t room = x->limits.max_output_bytes - c->captured;
    size_t keep = (int64_t)len <= room ? len : (size_t)room;
    enum store_record_kind kind = stream == HOST_STDOUT ? STORE_RECORD_STDOUT : STORE_RECORD_STDERR;
    if (keep > 0 && store_transcript_append(c->transcript, kind, data, keep, &c->storage) != 0) {
        c->row.truncated = true;
        log_failure(LOG_LEVEL_ERROR, &c->storage, "output could not be kept", "command",
                    c->row.command_id, NULL);
        begin_end(c, END_ABORTED, storage_detail(c));
        return false;
    }
    c->captured += (int64_t)keep;
    if (keep < len) {
        c->row.truncated = true;
        char detail[96];
        snprintf(detail, sizeof(detail), "more output than maxOutputBytes %lld",
                 (long long)x->limits.max_output_bytes);
        begin_end(c, END_OUTPUT_LIMIT, detail);
        return false;
    }
    notify(x->service, &c->row);
    return true;
}

/* The service stops and the command goes on: its row says so, for the next run to find. */
static void leave(void *arg)
{
    struct command *c = arg;
    struct live_execution *x = c->item.execution;
    disarm_deadline(x);
    live_lock(x->service->live);
    x->current = NULL;
    live_unlock(x->service->live);
    command_free(c);
    live_unref(x);
}

static void on_finished(void *ctx, const struct host_exec_result *result)
{
    struct command *c = ctx;
    c->result = *result;
    if (result->output_errno != 0 && c->storage.code == ERROR_NONE) {
        c->row.truncated = true;
        error_set_errno(&c->storage, ERROR_INTERNAL, result->output_errno,
                        "the output could not be kept");
    }
    keep_usage(c->item.execution, &result->usage);
    struct live_execution *x = c->item.execution;
    pool_submit_owned_always(x->service->pool, WORK_COMMANDS, x->tenant,
                             result->detached ? leave : complete, c);
}

struct host_exec_events command_events(struct command *c)
{
    return (struct host_exec_events){.output = on_output, .finished = on_finished, .ctx = c};
}

void command_complete_lost(struct command *c, const struct error *err)
{
    c->result = (struct host_exec_result){
        .lost = true, .exit_code = -1, .cpu_ms = -1, .memory_peak_bytes = -1};
    snprintf(c->result.detail, sizeof(c->result.detail), "%.250s",
             api_problem_detail(err->code, err->detail));
    complete(c);
}

/* Nothing of it runs, for want of something of the service's own: the execution lives on. */
static void complete_refused(struct command *c, const struct error *err)
{
    c->result = (struct host_exec_result){
        .lost = true, .unheard = true, .exit_code = -1, .cpu_ms = -1, .memory_peak_bytes = -1};
    c->start_error = *err;
    complete(c);
}

/* --- deadline --- */

static void on_deadline(void *arg)
{
    struct live_execution *x = arg;
    char detail[96];
    live_lock(x->service->live);
    /* A timer that outlived its command finds none, or a later one's time. */
    bool due = x->deadline_at != 0 && x->deadline_at <= clock_mono_ms();
    snprintf(detail, sizeof(detail), "the command ran longer than timeoutMs %lld",
             (long long)x->deadline_ms);
    live_unlock(x->service->live);
    if (due) {
        ending_begin(x, END_TIMEOUT, detail);
    }
    live_unref(x);
}

/* The execution's own deadline has its own timer; this is the command's. */
void command_arm_deadline(struct command *c)
{
    struct live_execution *x = c->item.execution;
    if (c->row.timeout_ms < 0) {
        return;
    }
    int64_t at = c->started_mono + c->row.timeout_ms;
    live_lock(x->service->live);
    x->deadline_at = at;
    x->deadline_ms = c->row.timeout_ms;
    live_unlock(x->service->live);
    uint64_t timer = timers_add_held(x->service->timers, at, on_deadline, live_drop, live_ref(x));
    live_lock(x->service->live);
    x->deadline_timer = timer;
    live_unlock(x->service->live);
}

static void disarm_deadline(struct live_execution *x)
{
    live_lock(x->service->live);
    uint64_t timer = x->deadline_timer;
    x->deadline_timer = 0;
    x->deadline_at = 0;
    live_unlock(x->service->live);
    if (timer != 0 && timers_cancel(x->service->timers, timer)) {
        live_unref(x);
    }
}

/* --- start, on a worker --- */

static int record_start(struct command *c, struct error *err)
{
    struct service *s = c->item.execution->service;
    struct store_transcript_name name = command_transcript_name(s, &c->row);
    c->row.state = STORE_COMMAND_RUNNING;
    c->row.started_at = clock_wall_ms();
    c->started_mono = clock_mono_ms();
    if (store_transcript_create(&name, &c->transcript, err) != 0 ||
        store_transcript_append(c->transcript, STORE_RECORD_STARTED, NULL, 0, err) != 0 ||
        store_command_update(s->store, &c->row, err) != 0) {
        c->row.started_at = 0; /* nothing ran, and there may be no transcript */
        return -1;
    }
    notify(s, &c->row);
    return 0;
}

static int hand_over(struct command *c, struct error *err)
{
    struct live_execution *x = c->item.execution;
    struct host *host = x->host->host;
    const struct host_exec_plan plan = {
        .id = {x->tenant, x->execution_id, x->incarnation},
        .handle = x->handle,
        .command_id = c->row.command_id,
        .argv = (const char *const *)c->argv,
        .cwd = c->cwd,
        .environment = (const char *const *)c->environment,
        .has_stdin = c->has_stdin,
        .stdin_data = c->stdin_data,
        .stdin_len = c->stdin_len,
        .stdin_open = c->stdin_open,
        .timeout_ms = c->row.timeout_ms,
        .limits = x->limits,
    };
    const struct host_exec_events events = command_events(c);
    return host->ops->exec(host, &plan, &events, err);
}

static void start(struct live_item *item)
{
    struct command *c = (struct command *)item;
    struct live_execution *x = item->execution;
    uint64_t serial = item->serial;
    struct error err = ERROR_INIT;
    if (record_start(c, &err) != 0) {
        /* Nothing ran: the execution lives on, the command says why it did not. */
        log_failure(LOG_LEVEL_ERROR, &err, "a command could not be recorded", "command",
                    c->row.command_id, NULL);
        c->row.started_at = 0;
        command_record_end(c, end_reason_name(END_ABORTED), ERROR_RUNTIME,
                           api_problem_detail(err.code, err.detail));
        end_alone(c);
        return;
    }
    command_arm_deadline(c);
    if (hand_over(c, &err) != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "a command could not be started", "execution",
                    x->execution_id, NULL);
        if (err.code == ERROR_OVERLOADED) {
            complete_refused(c, &err);
        } else {
            /* Whether something runs is not known, and a result is never made up. */
            command_complete_lost(c, &err);
        }
        return;
    }
    command_input_pass_on(x, serial);
}

static void drop(struct live_item *item, enum end_reason reason, const char *detail)
{
    record_execution_end((struct command *)item, reason, detail);
}

const struct live_item_ops command_ops = {.work = WORK_COMMANDS,
                                          .start = start,
                                          .settle = settle,
                                          .drop = drop,
                                          .release = release};

const struct live_item_ops command_resumed_ops = {.work = WORK_COMMANDS,
                                                  .start = command_start_resumed,
                                                  .settle = settle,
                                                  .drop = drop,
                                                  .release = release};
