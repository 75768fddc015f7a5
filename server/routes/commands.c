#include "server/services/commands.h"
#include "api/command.h"
#include "base/clock.h"
#include "server/routes/command_wait.h"
#include "server/routes/common.h"
#include "server/routes/events.h"
#include "server/routes/routes.h"
#include "server/services/ending.h"
#include "server/services/executions.h"

#include <string.h>

/* Which command an exchange waits for. */
struct command_wait {
    int64_t execution_row;
    char command_id[ID_SIZE];
    int64_t until;
    unsigned status;                  /* of the answer */
    enum api_event_format format;     /* of a POST's answer */
    struct live_execution *execution; /* of a POST: referenced, else NULL */
    uint64_t serial;                  /* of a command that this very POST made, else 0 */
    struct store_command row;         /* as it was read last; owned */
};

static void command_wait_free(void *arg)
{
    struct command_wait *w = arg;
    live_unref(w->execution);
    store_command_done(&w->row);
    free(w);
}

static int keep_wait(struct http_exchange *x, const struct command_wait *w, struct error *err)
{
    struct command_wait *kept = malloc(sizeof(*kept));
    if (kept == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *kept = *w;
    http_set_state(x, kept, command_wait_free);
    return 0;
}

static int read_row(struct service *s, struct command_wait *w, struct error *err)
{
    store_command_done(&w->row);
    w->row = (struct store_command){0};
    return store_command_get(s->store, w->execution_row, w->command_id, &w->row, err);
}

static bool command_final(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct command_wait *w = http_state(x);
    struct error err = ERROR_INIT;
    if (w->serial != 0 && live_item_waits(w->execution, w->serial)) {
        return false;
    }
    return read_row(s, w, &err) != 0 || commands_is_final(&w->row);
}

/* Only a POST is told that its command's end can't be recorded: it would wait for as long as that.
 */
static bool command_stuck(struct http_exchange *x, struct error *err)
{
    const struct command_wait *w = http_state(x);
    return w->execution != NULL && commands_is_unrecorded(w->execution, w->command_id, err);
}

static bool command_ready(struct http_exchange *x)
{
    struct error ignored = ERROR_INIT;
    return command_final(x) || command_stuck(x, &ignored);
}

/* A command whose execution never came to be is the execution's failure, not a command's. */
static bool never_usable(const struct command_wait *w, struct error *err)
{
    if (w->execution == NULL) {
        return false;
    }
    live_lock(w->execution->service->live);
    bool usable = w->execution->expires_at != 0;
    enum end_reason ending = w->execution->ending;
    live_unlock(w->execution->service->live);
    if (!usable) {
        ending_error(ending, w->execution->execution_id, err);
    }
    return !usable;
}

static void reply_command(struct http_exchange *x, struct command_wait *w)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    json_t *body = NULL;
    /* What was read and is final stays as it is. */
    if ((!commands_is_final(&w->row) && read_row(s, w, &err) != 0) ||
        commands_view(s, &w->row, &body, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (commands_is_final(&w->row) && never_usable(w, &err)) {
        json_decref(body);
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, w->status, body);
}

static void reply_kept(struct http_exchange *x)
{
    reply_command(x, http_state(x));
}

/* On whatever thread: much output is read and written as JSON on a worker. */
static void answer_command(struct http_exchange *x)
{
    const struct command_wait *w = http_state(x);
    bool large = commands_is_final(&w->row) ? commands_is_large_row(&w->row)
                                            : commands_is_large(http_service(x), http_tenant(x),
                                                                w->execution_row, w->command_id);
    if (large) {
        http_job(x, reply_kept);
    } else {
        reply_kept(x);
    }
}

static void await_command(struct http_exchange *x)
{
    const struct command_wait *w = http_state(x);
    if (!http_wait_timed_out(x) && !command_ready(x)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_command_end(topic, w->execution_row, w->command_id);
        http_wait(x, topic, w->until, command_ready, await_command);
        return;
    }
    struct error err = ERROR_INIT;
    if (command_stuck(x, &err)) {
        route_fail(x, &err);
        return;
    }
    answer_command(x);
}

/* --- create --- */

/* What fails before the execution is usable is a problem, not an event. */
static bool decided(struct http_exchange *x)
{
    const struct command_wait *w = http_state(x);
    if (w->execution == NULL) {
        return true;
    }
    live_lock(w->execution->service->live);
    bool decided = w->execution->expires_at != 0 || w->execution->phase == LIVE_ENDED;
    live_unlock(w->execution->service->live);
    return decided;
}

static void await_stream(struct http_exchange *x)
{
    const struct command_wait *w = http_state(x);
    struct error err = ERROR_INIT;
    if (!decided(x)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_execution(topic, w->execution->tenant, w->execution->execution_id);
        http_wait(x, topic, 0, decided, await_stream);
        return;
    }
    if (never_usable(w, &err)) {
        route_fail(x, &err);
        return;
    }
    const struct route_events asked = {
        .status = w->status,
        .execution_row = w->execution_row,
        .command_id = w->command_id,
        .format = w->format,
        .follow = true,
        .after = -1,
    };
    route_reply_events(x, &asked);
}

/* Takes the reference of `w`. */
static void answer_created(struct http_exchange *x, struct command_wait *w,
                           const char *execution_id, bool wait)
{
    struct error err = ERROR_INIT;
    route_location(x, "/v1/executions/%s/commands/%s", execution_id, w->command_id);
    w->status = wait ? 201 : 202;
    w->format = api_event_accept(http_header(x, "Accept"), API_EVENT_JSON);
    if (keep_wait(x, w, &err) != 0) {
        live_unref(w->execution);
        route_fail(x, &err);
    } else if (!wait) {
        reply_command(x, http_state(x));
    } else if (w->format == API_EVENT_JSON) {
        await_command(x);
    } else {
        await_stream(x);
    }
}

void route_await_command(struct http_exchange *x, const struct store_command *row,
                         struct live_execution *execution)
{
    struct error err = ERROR_INIT;
    bool wait;
    struct command_wait w = {.execution_row = row->execution_row, .execution = execution};
    snprintf(w.command_id, sizeof(w.command_id), "%s", row->command_id);
    if (route_wait(x, &wait, &err) != 0) {
        live_unref(execution);
        route_fail(x, &err);
        return;
    }
    answer_created(x, &w, row->execution_id, wait);
}

void route_command_create(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    bool wait;
    size_t len;
    int64_t token;
    const char *body = http_body(x, &len);
    struct api_command_create request = {0};
    struct command_wait w = {0};
    struct commands_made made;
    if (service_accepts_work(http_service(x), &err) != 0 || route_wait(x, &wait, &err) != 0 ||
        api_command_create_decode(body, len, &request, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    int result = route_living(x, &w.execution, &token, &err);
    if (result == 0) {
        w.execution_row = w.execution->row;
        request.claim = route_claim(x);
        result = commands_create(w.execution, http_quotas(x), &request, token, &made, &err);
    }
    api_command_create_done(&request);
    if (result != 0) {
        live_unref(w.execution);
        route_fail(x, &err);
        return;
    }
    memcpy(w.command_id, made.command_id, sizeof(w.command_id));
    w.serial = made.serial;
    answer_created(x, &w, w.execution->execution_id, wait);
}

/* --- show --- */

static json_t *encode_row(struct service *s, const void *row)
{
    (void)s;
    return commands_encode(row);
}

void route_command_list(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_page page;
    struct store_command_list list = {0};
    int64_t row = 0;
    if (route_page(x, "commands", &page, &err) != 0 || route_execution_row(x, &row, &err) != 0 ||
        store_command_list(s->store, row, &page, &list, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const struct route_rows rows = {
        .kind = "commands",
        .items = list.items,
        .count = list.count,
        .size = sizeof(*list.items),
        .row_offset = offsetof(struct store_command, row),
        .encode = encode_row,
    };
    route_reply_rows(x, &page, &rows);
    store_command_list_done(&list);
}

void route_command_get(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct command_wait w = {.status = 200};
    if (route_wait_until(x, &w.until, &err) != 0 ||
        route_execution_row(x, &w.execution_row, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const char *id = http_param(x, 1);
    if (strlen(id) > ID_MAX) {
        error_set(&err, ERROR_COMMAND_NOT_FOUND, "no such command");
        route_fail(x, &err);
        return;
    }
    snprintf(w.command_id, sizeof(w.command_id), "%s", id);
    if (keep_wait(x, &w, &err) != 0) {
        route_fail(x, &err);
    } else if (w.until == 0) {
        answer_command(x);
    } else {
        await_command(x);
    }
}

/* --- abort --- */

void route_command_delete(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_command row = {0};
    struct live_execution *execution = NULL;
    int64_t execution_row;
    int64_t token;
    if (route_execution_row(x, &execution_row, &err) != 0 ||
        store_command_get(s->store, execution_row, http_param(x, 1), &row, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    bool over = commands_is_final(&row);
    store_command_done(&row);
    if (over) {
        http_reply_empty(x, 204);
        return;
    }
    if (http_fencing_token(x, &token, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    execution = live_find(s->live, http_tenant(x), http_param(x, 0));
    if (execution == NULL || execution->row != execution_row) {
        live_unref(execution);
        http_reply_empty(x, 204); /* it ended meanwhile */
    } else if (executions_fence(execution, token, &err) != 0) {
        live_unref(execution);
        route_fail(x, &err);
    } else {
        route_await_end(x, execution, END_ABORTED, "a command was aborted by request");
    }
}
