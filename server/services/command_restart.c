/* Commands that the last run of the service left unfinished: ended, or taken up where they survive.
 */
#include "base/clock.h"
#include "base/log.h"
#include "policy/policy.h"
#include "server/services/commands_private.h"
#include "server/services/ending.h"

#include <string.h>

/* --- what did not survive --- */

/* The file did not outlive the machine: that its output is lost is not retention's doing, and its
 * end is told as every other's. */
static int make_transcript(const struct store_transcript_name *name, struct store_transcript **out,
                           struct error *err)
{
    if (err->code != ERROR_NOT_FOUND) {
        return -1;
    }
    error_clear(err);
    return store_transcript_create(name, out, err);
}

static int settle_transcript(struct service *s, struct store_command *row, bool *repaired,
                             struct error *err)
{
    struct store_transcript_name name = command_transcript_name(s, row);
    struct store_transcript_totals totals = {0};
    struct store_transcript *t = NULL;
    _cleanup_buf_ struct buf none;
    buf_init(&none, 0);
    if (store_transcript_reopen(&name, &t, repaired, err) != 0 &&
        make_transcript(&name, &t, err) != 0) {
        return -1;
    }
    int result = store_transcript_read_output(&name, &none, &none, &totals, err);
    if (result == 0) {
        row->stdout_bytes = totals.stdout_bytes;
        row->stderr_bytes = totals.stderr_bytes;
        result = totals.ended ? 0 : command_transcript_close(t, row, err);
        row->transcript_bytes = store_transcript_size(t);
    }
    store_transcript_close(t);
    return result;
}

/* The end that the command shares with its execution; END_NONE when that lives on. */
static enum end_reason shared_end(struct live_execution *x, char detail[256])
{
    if (x == NULL) {
        return END_NONE;
    }
    live_lock(x->service->live);
    enum end_reason reason = x->ending;
    bool expired = x->expires_at != 0 && x->expires_at <= clock_wall_ms();
    snprintf(detail, 256, "%s", x->ending_detail);
    live_unlock(x->service->live);
    if (reason != END_NONE) {
        return reason;
    }
    pthread_mutex_lock(&x->record_lock);
    reason = end_reason_from_name(x->record.termination_reason);
    const char *text = x->record.termination_detail;
    snprintf(detail, 256, "%s", text == NULL ? "" : text);
    pthread_mutex_unlock(&x->record_lock);
    if (reason == END_NONE && expired) {
        snprintf(detail, 256, "the lifetime of the execution is over");
        reason = END_EXPIRED;
    }
    return reason;
}

int commands_settle_after_restart(struct service *s, struct live_execution *x,
                                  struct store_command *row, bool *repaired, struct error *err)
{
    char detail[256] = "the service stopped before the command began";
    bool ran = row->state == STORE_COMMAND_RUNNING;
    enum end_reason reason = shared_end(x, detail);
    if (reason == END_NONE && ran) {
        reason = END_HOST_LOST;
        snprintf(detail, sizeof(detail), "the service stopped while the command was running");
    } else if (reason == END_NONE) {
        reason = END_ABORTED;
        snprintf(detail, sizeof(detail), "the service stopped before the command began");
    }
    command_row_end(row, command_reason(reason), command_code(reason), detail);
    if (ran && settle_transcript(s, row, repaired, err) != 0) {
        return -1;
    }
    return store_command_update(s->store, row, err);
}

/* --- what did --- */

/* What is on record of its output by now. */
static int take_transcript(struct command *c, struct error *err)
{
    struct store_transcript_name name = command_transcript_name(c->service, &c->row);
    struct store_transcript_totals totals = {0};
    _cleanup_buf_ struct buf none;
    bool repaired;
    buf_init(&none, 0);
    if (store_transcript_reopen(&name, &c->transcript, &repaired, err) != 0 ||
        store_transcript_read_output(&name, &none, &none, &totals, err) != 0) {
        return -1;
    }
    c->row.stdout_bytes = totals.stdout_bytes;
    c->row.stderr_bytes = totals.stderr_bytes;
    c->captured = totals.stdout_bytes + totals.stderr_bytes;
    c->closed = totals.ended;
    return 0;
}

static int resume(struct command *c, struct error *err)
{
    struct live_execution *x = c->item.execution;
    struct host *host = x->host->host;
    const struct host_exec_resume plan = {
        .command = {.id = {x->tenant, x->execution_id, x->incarnation},
                    .handle = x->handle,
                    .command_id = c->row.command_id},
        .name = c->row.command,
        .cwd = c->row.cwd == NULL ? "" : c->row.cwd,
        .stdout_bytes = c->row.stdout_bytes,
        .stderr_bytes = c->row.stderr_bytes,
    };
    const struct host_exec_events events = command_events(c);
    return host->ops->exec_resume(host, &plan, &events, err);
}

void command_start_resumed(struct live_item *item)
{
    struct command *c = (struct command *)item;
    struct live_execution *x = item->execution;
    uint64_t serial = item->serial;
    struct error err = ERROR_INIT;
    int64_t age = clock_wall_ms() - c->row.started_at;
    c->started_mono = clock_mono_ms() - (age > 0 ? age : 0);
    if (take_transcript(c, &err) != 0) {
        command_complete_lost(c, &err);
        return;
    }
    command_arm_deadline(c);
    if (resume(c, &err) != 0) {
        command_complete_lost(c, &err);
        return;
    }
    log_info("a command goes on", "execution", x->execution_id, NULL);
    command_input_pass_on(x, serial);
}

int commands_resume(struct live_execution *x, struct store_command *row, struct error *err)
{
    struct command *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    c->item.ops = &command_resumed_ops;
    c->item.is_command = true;
    c->item.fencing_token = -1;
    c->service = x->service;
    /* Whether its input is open is the host's to say. */
    command_input_init(&c->input, true, 0);
    c->row = *row;
    *row = (struct store_command){0};
    if (command_admit(c, x, NULL, err) != 0 || live_push(x, &c->item, err) != 0) {
        command_give_back(c);
        *row = c->row;
        c->row = (struct store_command){0};
        command_free(c);
        return -1;
    }
    return 0;
}
