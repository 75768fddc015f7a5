#include "api/event.h"

#include "api/base64.h"
#include "api/field.h"
#include "api/json.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

/* --- what a client asks for --- */

static const char *const MEDIA_TYPES[] = {
    [API_EVENT_JSON] = "application/json",
    [API_EVENT_NDJSON] = "application/x-ndjson",
    [API_EVENT_SSE] = "text/event-stream",
};

const char *api_event_media_type(enum api_event_format format)
{
    return MEDIA_TYPES[format];
}

enum { QUALITY_MAX = 1000 };

/* A q of RFC 9110 in thousandths; what is none counts as 1. */
static int quality_of(const char *text, size_t len)
{
    int value = 0;
    int digit = 100;

    if (len == 0 || (text[0] != '0' && text[0] != '1') || (len > 1 && text[1] != '.')) {
        return QUALITY_MAX;
    }
    value = text[0] == '1' ? QUALITY_MAX : 0;
    for (size_t i = 2; i < len && i < 5 && text[i] >= '0' && text[i] <= '9'; i++) {
        value += (text[i] - '0') * digit;
        digit /= 10;
    }
    return value > QUALITY_MAX ? QUALITY_MAX : value;
}

static size_t trimmed(const char **text, size_t len)
{
    while (len > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        len--;
    }
    while (len > 0 && ((*text)[len - 1] == ' ' || (*text)[len - 1] == '\t')) {
        len--;
    }
    return len;
}

/* The quality of one media range, with its parameters; *format tells which one it names: -1 when it
 * is none of ours. */
static int range_of(const char *text, size_t len, int *format)
{
    const char *end = memchr(text, ';', len);
    const char *name = text;
    size_t name_len = trimmed(&name, end == NULL ? len : (size_t)(end - text));
    int quality = QUALITY_MAX;

    *format = -1;
    for (size_t i = 0; i < ARRAY_SIZE(MEDIA_TYPES); i++) {
        if (strlen(MEDIA_TYPES[i]) == name_len &&
            strncasecmp(MEDIA_TYPES[i], name, name_len) == 0) {
            *format = (int)i;
        }
    }
    while (end != NULL) {
        const char *parameter = end + 1;
        size_t rest = len - (size_t)(parameter - text);

        end = memchr(parameter, ';', rest);
        rest = trimmed(&parameter,
                       end == NULL ? len - (size_t)(parameter - text) : (size_t)(end - parameter));
        if (rest >= 2 && strncasecmp(parameter, "q=", 2) == 0) {
            quality = quality_of(parameter + 2, rest - 2);
        }
    }
    return quality;
}

enum api_event_format api_event_accept(const char *accept, enum api_event_format otherwise)
{
    enum api_event_format best = otherwise;
    int best_quality = 0;

    while (accept != NULL && *accept != '\0') {
        size_t len = strcspn(accept, ",");
        int format;
        int quality = range_of(accept, len, &format);

        if (format >= 0 && quality > best_quality) {
            best = (enum api_event_format)format;
            best_quality = quality;
        }
        accept += len + (accept[len] == ',');
    }
    return best;
}

static int number_of(const char *text, int64_t *out)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 18 || text[digits] != '\0') {
        return -1;
    }
    *out = (int64_t)strtoll(text, NULL, 10);
    return 0;
}

int api_event_after(const char *after, const char *last_event_id, int64_t *out, struct error *err)
{
    bool by_id = last_event_id != NULL && last_event_id[0] != '\0';
    int64_t asked = *out;

    /* Both are looked at: a client is told of a fault also where the other one counts. */
    if (after != NULL && number_of(after, &asked) != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "?after",
                               "after must be the number of an event");
    }
    if (by_id && number_of(last_event_id, &asked) != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "Last-Event-ID",
                               "Last-Event-ID must be the number of an event");
    }
    *out = asked;
    return 0;
}

/* --- events --- */

json_t *api_event_started(int64_t seq, int64_t at)
{
    return json_pack("{s:I, s:s, s:o}", "seq", (json_int_t)seq, "type", "started", "at",
                     api_time_or_null(at));
}

json_t *api_event_output(const struct api_event_output *o)
{
    bool text = utf8_is_valid(o->data, o->len);
    _cleanup_free_ char *base64 = text ? NULL : base64_encode(o->data, o->len, NULL);
    json_t *data = text ? json_stringn_nocheck(o->len == 0 ? "" : o->data, o->len)
                        : json_string_nocheck(base64 == NULL ? "" : base64);

    if (data == NULL || (!text && base64 == NULL)) {
        json_decref(data);
        return NULL;
    }
    return json_pack("{s:I, s:s, s:o, s:I, s:o}", "seq", (json_int_t)o->seq, "type", o->type, "at",
                     api_time_or_null(o->at), "offset", (json_int_t)o->offset,
                     text ? "data" : "dataBase64", data);
}

json_t *api_event_exit(int64_t seq, int64_t at, json_t *command)
{
    if (command == NULL) {
        return NULL;
    }
    return json_pack("{s:I, s:s, s:o, s:o}", "seq", (json_int_t)seq, "type", "exit", "at",
                     api_time_or_null(at), "command", command);
}

/* What only some types have. */
static int add_details(json_t *event, const struct api_change *c)
{
    if (c->checkpoint_id != NULL) {
        return json_object_set_new(event, "checkpointId", json_string(c->checkpoint_id));
    }
    if (c->command_id != NULL) {
        return json_object_set_new(event, "commandId", json_string(c->command_id)) |
               json_object_set_new(event, "exitCode", api_count_or_null(c->exit_code)) |
               json_object_set_new(event, "reason", api_string_or_null(c->reason));
    }
    return json_object_set_new(event, "host", api_string_or_null(c->host)) |
           json_object_set_new(event, "expiresAt", api_time_or_null(c->expires_at)) |
           json_object_set_new(event, "reason", api_string_or_null(c->reason));
}

static json_t *change_of_run(const struct api_change *c)
{
    return json_pack("{s:I, s:s, s:o, s:s, s:s, s:s?}", "seq", (json_int_t)c->seq, "type", c->type,
                     "at", api_time_or_null(c->at), "runId", c->run_id, "state", c->state,
                     "outcome", c->reason);
}

static json_t *change_of_execution(const struct api_change *c)
{
    json_t *event =
        json_pack("{s:I, s:s, s:o, s:s, s:I, s:s}", "seq", (json_int_t)c->seq, "type", c->type,
                  "at", api_time_or_null(c->at), "executionId", c->execution_id, "incarnation",
                  (json_int_t)c->incarnation, "state", c->state);

    if (event != NULL && add_details(event, c) != 0) {
        json_decref(event);
        return NULL;
    }
    return event;
}

json_t *api_event_change(const struct api_change *c)
{
    return c->run_id != NULL ? change_of_run(c) : change_of_execution(c);
}

json_t *api_event_gap(int64_t seq, int64_t at)
{
    return json_pack("{s:I, s:s, s:o}", "seq", (json_int_t)seq, "type", "gap", "at",
                     api_time_or_null(at));
}

/* --- framing --- */

static int add_sse(const json_t *event, struct buf *out)
{
    int64_t seq = json_integer_value(json_object_get(event, "seq"));
    const char *type = json_string_value(json_object_get(event, "type"));

    if (buf_addf(out, "id: %" PRId64 "\nevent: %s\ndata: ", seq, type) != 0 ||
        api_json_dump(event, out) != 0) {
        return -1;
    }
    return buf_add_str(out, "\n\n"); /* JSON text as dumped here has no line breaks of its own */
}

int api_event_add(const json_t *event, enum api_event_format format, struct buf *out)
{
    if (event == NULL) {
        return -1;
    }
    if (format == API_EVENT_SSE) {
        return add_sse(event, out);
    }
    return api_json_dump(event, out) != 0 ? -1 : buf_add_char(out, '\n');
}

int api_event_add_ping(enum api_event_format format, struct buf *out)
{
    return buf_add_str(out, format == API_EVENT_SSE ? ": ping\n\n" : "{\"type\":\"ping\"}\n");
}
