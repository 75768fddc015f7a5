/* /v1/ptc: runs of programs. */
#include "server/services/runs.h"
#include "api/event.h"
#include "api/json.h"
#include "api/run.h"
#include "base/clock.h"
#include "server/events/run_events.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/routes/run_wait.h"

#include <string.h>

enum { ANSWER_INLINE_MAX = 64 * 1024 };

static const char JSON[] = "application/json";

static const char INSTRUCTIONS[] =
    "The program is the body of a strict async function in TypeScript whose types are erased, "
    "nothing else: no enum, no parameter properties, no static import or export. Top-level await "
    "and return work; the returned value must be plain JSON. Each binding namespace is a variable "
    "in scope: call its functions with one JSON argument and await them. Every run starts fresh: "
    "nothing is kept from one to the next. Node's own modules come by `await import('node:fs')` "
    "and so on. The environment is empty. console.log, info, warn, error and debug write to the "
    "log. The file system is read-only; in the mode workspace-write the working directory and "
    "/tmp can be written. There is no network.";

/* --- in general --- */

void route_ptc(struct http_exchange *x)
{
    struct service *s = http_service(x);
    const char *reason;
    enum ptc_enforcement enforcement = runs_enforcement(s, &reason);
    const struct api_run_descriptor view = {
        .timeout_default_ms = s->config->ptc_timeout_ms < s->config->ptc_timeout_max_ms
                                  ? s->config->ptc_timeout_ms
                                  : s->config->ptc_timeout_max_ms,
        .timeout_max_ms = s->config->ptc_timeout_max_ms,
        .mode = s->config->ptc_default_mode,
        .enforcement = runs_enforcement_name(enforcement),
        .reason = reason,
        .instructions = INSTRUCTIONS,
    };
    http_reply_json(x, 200, api_run_encode_descriptor(&view));
}

/* --- requests --- */

static int resolve(struct http_exchange *x, struct ptc_spec *out, struct error *err)
{
    size_t len;
    const char *body = http_body(x, &len);
    _cleanup_json_ json_t *request = NULL;
    bool untimed = http_has_scope(x, SCOPE_PTC_UNTIMED) || http_has_scope(x, SCOPE_ADMIN);
    if (api_json_parse_object(body, len, false, &request, err) != 0) {
        if (err->code == ERROR_INVALID_REQUEST) {
            err->code = ERROR_PTC_INVALID_REQUEST;
        }
        return -1;
    }
    json_t *bindings = json_object_get(request, "bindings");
    if (json_is_object(request) && (bindings == NULL || json_is_null(bindings))) {
        return error_set_field(err, ERROR_PTC_INVALID_REQUEST, "/bindings", "must be an array");
    }
    return runs_resolve(http_service(x), http_tenant(x), untimed, request, out, err);
}

void route_ptc_resolve(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    _cleanup_ptc_spec_ struct ptc_spec spec = PTC_SPEC_INIT;
    if (resolve(x, &spec, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, 200, json_incref(spec.json));
}

/* --- waiting --- */

struct run_wait {
    char run_id[ID_SIZE];
    int64_t until;
    int64_t after;   /* of calls */
    unsigned status; /* of the answer; 204: nothing else is said */
    bool on_worker;  /* the handler is on one now */
};

static int keep_wait(struct http_exchange *x, const struct run_wait *w, struct error *err)
{
    struct run_wait *kept = malloc(sizeof(*kept));
    if (kept == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *kept = *w;
    http_set_state(x, kept, free);
    return 0;
}

/* The run of the path. */
static int asked_run(struct http_exchange *x, struct run_wait *w, struct error *err)
{
    const char *id = http_param(x, 0);
    if (strlen(id) > ID_MAX) {
        return error_set(err, ERROR_PTC_RUN_NOT_FOUND, "there is no such run");
    }
    snprintf(w->run_id, sizeof(w->run_id), "%s", id);
    return 0;
}

static void reply_run(struct http_exchange *x, const struct run_wait *w)
{
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf text;
    buf_init(&text, RUNS_REPLY_MAX);
    if (runs_view(http_service(x), http_tenant(x), w->run_id, &text, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_bytes(x, w->status, JSON, text.data, text.len, true);
}

static bool run_final(struct http_exchange *x)
{
    const struct run_wait *w = http_state(x);
    return runs_is_final(http_service(x), http_tenant(x), w->run_id);
}

/* Who waits for as long as it takes is told that the end can't be recorded. */
static bool run_stuck(struct http_exchange *x, struct error *err)
{
    const struct run_wait *w = http_state(x);
    return w->until == 0 && runs_is_unrecorded(http_service(x), http_tenant(x), w->run_id, err);
}

static bool run_ready(struct http_exchange *x)
{
    struct error ignored = ERROR_INIT;
    return run_stuck(x, &ignored) || run_final(x);
}

static void reply_kept(struct http_exchange *x)
{
    reply_run(x, http_state(x));
}

/* What takes long to read is not read on an event thread. */
static void reply_final(struct http_exchange *x)
{
    const struct run_wait *w = http_state(x);
    if (!w->on_worker && runs_is_large(http_service(x), http_tenant(x), w->run_id)) {
        http_job(x, reply_kept);
    } else {
        reply_run(x, w);
    }
}

static void await_run(struct http_exchange *x)
{
    struct run_wait *w = http_state(x);
    struct error err = ERROR_INIT;
    if (run_stuck(x, &err)) {
        route_fail(x, &err);
    } else if (!http_wait_timed_out(x) && !run_final(x)) {
        char topic[RUNS_TOPIC_SIZE];
        runs_topic(topic, http_tenant(x), w->run_id);
        w->on_worker = false;
        http_wait(x, topic, w->until, run_ready, await_run);
    } else if (w->status == 204) {
        http_reply_empty(x, 204);
    } else {
        reply_final(x);
    }
}

static void keep_and_await(struct http_exchange *x, const struct run_wait *w)
{
    struct error err = ERROR_INIT;
    if (keep_wait(x, w, &err) != 0) {
        route_fail(x, &err);
    } else {
        await_run(x);
    }
}

/* --- events --- */

struct asked_events {
    unsigned status;
    const char *run_id;
    enum api_event_format format;
    bool follow;
    int64_t after;
};

static int events_new(struct http_exchange *x, const struct asked_events *asked,
                      struct run_events **out, struct error *err)
{
    struct service *s = http_service(x);
    struct store_run row = {0};
    if (store_run_get(s->store, http_tenant(x), asked->run_id, &row, err) != 0) {
        return -1;
    }
    const struct run_events_config config = {
        .name = {s->config->data_dir, http_tenant(x), asked->run_id},
        .readers = store_readers(s->store),
        .row = row.row,
        .format = asked->format,
        .follow = asked->follow,
        .after = asked->after,
        .published = runs_published,
        .ctx = s,
    };
    store_run_done(&row);
    return run_events_new(&config, out, err);
}

static void reply_events(struct http_exchange *x, const struct asked_events *asked,
                         struct run_events *events)
{
    char topic[RUNS_TOPIC_SIZE];
    const struct http_stream_reply reply = {
        .status = asked->status,
        .type = api_event_media_type(asked->format),
        .topic = topic,
        .size = -1,
    };
    runs_topic(topic, http_tenant(x), asked->run_id);
    http_reply_stream_as(x, &reply, &run_events_ops, events);
}

/* A browser connects again by itself when a stream has ended, and stops only at a 204. */
static bool asked_again(const struct http_exchange *x, const struct asked_events *asked)
{
    const char *last = http_header(x, "Last-Event-ID");
    return asked->format == API_EVENT_SSE && last != NULL && last[0] != '\0';
}

void route_run_events(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct run_events *events = NULL;
    struct asked_events asked = {
        .status = 200, .run_id = http_param(x, 0), .follow = true, .after = -1};
    asked.format = api_event_accept(http_header(x, "Accept"), API_EVENT_NDJSON);
    if (asked.format == API_EVENT_JSON) {
        asked.format = API_EVENT_NDJSON;
    }
    if (http_query_bool(x, "follow", &asked.follow, &err) != 0 ||
        api_event_after(http_query(x, "after"), http_header(x, "Last-Event-ID"), &asked.after,
                        &err) != 0 ||
        events_new(x, &asked, &events, &err) != 0) {
        route_fail(x, &err);
    } else if (asked_again(x, &asked) && run_events_over(events)) {
        run_events_free(events);
        http_reply_empty(x, 204);
    } else {
        reply_events(x, &asked, events);
    }
}

/* --- create --- */

static void stream_created(struct http_exchange *x, const char *run_id,
                           enum api_event_format format)
{
    struct error err = ERROR_INIT;
    struct run_events *events = NULL;
    const struct asked_events asked = {
        .status = 201, .run_id = run_id, .format = format, .follow = true, .after = -1};
    if (events_new(x, &asked, &events, &err) != 0) {
        route_fail(x, &err);
    } else {
        reply_events(x, &asked, events);
    }
}

static void answer_created(struct http_exchange *x, const char *run_id, bool wait)
{
    enum api_event_format format = api_event_accept(http_header(x, "Accept"), API_EVENT_JSON);
    struct run_wait w = {.status = wait ? 201 : 202, .on_worker = true};
    snprintf(w.run_id, sizeof(w.run_id), "%s", run_id);
    route_location(x, "/v1/ptc/runs/%s", run_id);
    if (!wait) {
        reply_run(x, &w);
    } else if (format == API_EVENT_JSON) {
        keep_and_await(x, &w);
    } else {
        stream_created(x, run_id, format);
    }
}

void route_await_run(struct http_exchange *x, const char *run_id)
{
    struct error err = ERROR_INIT;
    bool wait;
    if (route_wait(x, &wait, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    answer_created(x, run_id, wait);
}

void route_run_create(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct service *s = http_service(x);
    _cleanup_ptc_spec_ struct ptc_spec spec = PTC_SPEC_INIT;
    const struct caller who = {http_tenant(x), http_quotas(x)};
    char run_id[ID_SIZE];
    bool wait;
    if (service_accepts_work(s, &err) != 0 || route_wait(x, &wait, &err) != 0 ||
        resolve(x, &spec, &err) != 0 ||
        runs_create(s, &who, &spec, route_claim(x), run_id, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    answer_created(x, run_id, wait);
}

/* --- show --- */

void route_run_list(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_page page;
    struct store_run_list list = {0};
    if (route_page(x, "runs", &page, &err) != 0 ||
        store_run_list(s->store, http_tenant(x), &page, &list, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const struct route_rows rows = {
        .kind = "runs",
        .items = list.items,
        .count = list.count,
        .size = sizeof(*list.items),
        .row_offset = offsetof(struct store_run, row),
        .encode = runs_encode_item,
    };
    route_reply_rows(x, &page, &rows);
    store_run_list_done(&list);
}

void route_run_get(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct run_wait w = {.status = 200};
    if (route_wait_until(x, &w.until, &err) != 0 || asked_run(x, &w, &err) != 0 ||
        keep_wait(x, &w, &err) != 0) {
        route_fail(x, &err);
    } else if (w.until == 0) {
        reply_final(x);
    } else {
        await_run(x);
    }
}

/* --- abort --- */

void route_run_delete(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct run_wait w = {.status = 204};
    bool living;
    if (asked_run(x, &w, &err) != 0 || runs_abort(http_service(x), http_tenant(x), w.run_id,
                                                  http_query(x, "reason"), &living, &err) != 0) {
        route_fail(x, &err);
    } else if (!living) {
        http_reply_empty(x, 204);
    } else {
        keep_and_await(x, &w);
    }
}

/* --- calls --- */

static void reply_calls(struct http_exchange *x, const struct run_wait *w)
{
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf text;
    buf_init(&text, RUNS_REPLY_MAX);
    if (runs_calls(http_service(x), http_tenant(x), w->run_id, w->after, &text, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_bytes(x, 200, JSON, text.data, text.len, true);
}

static bool calls_there(struct http_exchange *x)
{
    const struct run_wait *w = http_state(x);
    return runs_has_calls(http_service(x), http_tenant(x), w->run_id, w->after);
}

static void await_calls(struct http_exchange *x)
{
    const struct run_wait *w = http_state(x);
    if (!http_wait_timed_out(x) && !calls_there(x)) {
        char topic[RUNS_TOPIC_SIZE];
        runs_topic(topic, http_tenant(x), w->run_id);
        http_wait(x, topic, w->until, calls_there, await_calls);
        return;
    }
    reply_calls(x, w);
}

static int asked_state(const struct http_exchange *x, struct error *err)
{
    const char *state = http_query(x, "state");
    if (state != NULL && strcmp(state, "pending") != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "?state", "state must be pending");
    }
    return 0;
}

void route_run_calls(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct run_wait w = {.status = 200};
    if (route_wait_until(x, &w.until, &err) != 0 || asked_state(x, &err) != 0 ||
        http_query_int(x, "after", 0, INT32_MAX, &w.after, &err) != 0 ||
        asked_run(x, &w, &err) != 0 || keep_wait(x, &w, &err) != 0) {
        route_fail(x, &err);
    } else if (w.until == 0) {
        reply_calls(x, http_state(x));
    } else {
        await_calls(x);
    }
}

static void answer_call(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct ptc_text body;
    body.data = http_body(x, &body.len);
    if (runs_answer(http_service(x), http_tenant(x), http_param(x, 0), http_param(x, 1), body,
                    &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, 200,
                    json_pack("{s:I, s:s}", "callId",
                              (json_int_t)strtoll(http_param(x, 1), NULL, 10), "state",
                              "answered"));
}

/* Small answers, which are most, cost less than the way to a worker. */
void route_run_answer(struct http_exchange *x)
{
    size_t len;
    (void)http_body(x, &len);
    if (len > ANSWER_INLINE_MAX) {
        http_job(x, answer_call);
    } else {
        answer_call(x);
    }
}
