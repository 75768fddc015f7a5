#include "api/run.h"

#include "api/field.h"
#include "api/json.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdbool.h>

/* --- the resource --- */

static json_t *encode_calls(const struct api_run *view)
{
    int64_t pending = view->calls_total - view->calls_answered - view->calls_cancelled;

    return json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)view->calls_total, "pending",
                     (json_int_t)pending, "answered", (json_int_t)view->calls_answered, "cancelled",
                     (json_int_t)view->calls_cancelled);
}

json_t *api_run_encode_item(const struct api_run *view)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s?}", "runId", view->run_id, "state",
                     view->state, "description", view->description, "startedAt",
                     api_time_or_null(view->started_at), "completedAt",
                     api_time_or_null(view->completed_at), "calls", encode_calls(view), "outcome",
                     view->outcome);
}

static int add_raw(struct buf *out, struct api_raw raw)
{
    return raw.len == 0 ? buf_add_str(out, "null") : buf_add(out, raw.data, raw.len);
}

/* `,"name":raw` */
static int add_member(struct buf *out, const char *name, struct api_raw raw)
{
    return buf_addf(out, ",\"%s\":", name) != 0 ? -1 : add_raw(out, raw);
}

int api_run_add(const struct api_run *view, struct buf *out)
{
    _cleanup_json_ json_t *head = api_run_encode_item(view);

    if (head == NULL || api_json_dump(head, out) != 0) {
        return -1;
    }
    out->len--; /* the brace: there is more */
    if (add_member(out, "spec", view->spec) != 0 || add_member(out, "result", view->result) != 0) {
        return -1;
    }
    return buf_add_char(out, '}');
}

int api_run_result_add(const struct api_run_result *r, struct buf *out)
{
    if (buf_add_str(out, "{\"logs\":") != 0 || add_raw(out, r->logs) != 0 ||
        (r->value.len > 0 && add_member(out, "value", r->value) != 0)) {
        return -1;
    }
    if (r->error_kind != NULL &&
        (buf_addf(out, ",\"error\":{\"kind\":\"%s\",\"message\":", r->error_kind) != 0 ||
         add_raw(out, r->message) != 0 || buf_add_char(out, '}') != 0)) {
        return -1;
    }
    if (buf_addf(out, ",\"sandbox\":{\"mode\":\"%s\",\"denied\":%s", r->mode,
                 r->denied ? "true" : "false") != 0 ||
        (r->enforcement != NULL && buf_addf(out, ",\"enforcement\":\"%s\"", r->enforcement) != 0)) {
        return -1;
    }
    return buf_add_str(out, "}}");
}

/* --- calls --- */

/* The members that a call has here and in its event. */
static int add_call(const struct api_run_call *call, struct buf *out)
{
    if (buf_addf(out, "\"callId\":%" PRId64, call->call_id) != 0 ||
        add_member(out, "global", call->global) != 0 ||
        add_member(out, "function", call->function) != 0) {
        return -1;
    }
    return call->argument.len == 0 ? 0 : add_member(out, "argument", call->argument);
}

int api_run_call_add(const struct api_run_call *call, struct buf *out)
{
    char at[CLOCK_TEXT_SIZE];

    clock_format(call->at, at);
    if (buf_add_char(out, '{') != 0 || add_call(call, out) != 0) {
        return -1;
    }
    return buf_addf(out, ",\"at\":\"%s\"}", at);
}

/* --- events --- */

static int add_head(int64_t seq, const char *type, int64_t wall_ms, struct buf *out)
{
    char at[CLOCK_TEXT_SIZE];

    clock_format(wall_ms, at);
    return buf_addf(out, "{\"seq\":%" PRId64 ",\"type\":\"%s\",\"at\":\"%s\"", seq, type, at);
}

int api_run_event_started(int64_t seq, int64_t at, struct buf *out)
{
    return add_head(seq, "started", at, out) != 0 ? -1 : buf_add_str(out, "}\n");
}

int api_run_event_log(int64_t seq, int64_t at, struct api_raw text, struct buf *out)
{
    if (add_head(seq, "log", at, out) != 0 || add_member(out, "text", text) != 0) {
        return -1;
    }
    return buf_add_str(out, "}\n");
}

int api_run_event_call(int64_t seq, int64_t at, const struct api_run_call *call, struct buf *out)
{
    if (add_head(seq, "call", at, out) != 0 || buf_add_char(out, ',') != 0 ||
        add_call(call, out) != 0) {
        return -1;
    }
    return buf_add_str(out, "}\n");
}

int api_run_event_settled(int64_t seq, int64_t at, int64_t call_id, const char *state,
                          struct buf *out)
{
    if (add_head(seq, "call-settled", at, out) != 0) {
        return -1;
    }
    return buf_addf(out, ",\"callId\":%" PRId64 ",\"state\":\"%s\"}\n", call_id, state);
}

int api_run_event_result(int64_t seq, int64_t at, struct api_raw result, struct buf *out,
                         size_t *place)
{
    if (add_head(seq, "result", at, out) != 0 || buf_add_str(out, ",\"result\":") != 0) {
        return -1;
    }
    *place = out->len;
    return add_raw(out, result) != 0 ? -1 : buf_add_str(out, "}\n");
}

/* --- runs in general --- */

json_t *api_run_encode_descriptor(const struct api_run_descriptor *view)
{
    return json_pack("{s:s, s:s, s:{s:I, s:I}, s:s, s:s, s:o, s:s}", "language", "typescript",
                     "isolation", "process", "timeout", "defaultMs",
                     (json_int_t)view->timeout_default_ms, "maxMs",
                     (json_int_t)view->timeout_max_ms, "sandboxMode", view->mode, "enforcement",
                     view->enforcement, "enforcementReason",
                     api_string_or_null(view->reason[0] == '\0' ? NULL : view->reason),
                     "executionInstructions", view->instructions);
}
