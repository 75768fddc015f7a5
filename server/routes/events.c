#include "server/routes/events.h"

#include "server/events/command_events.h"
#include "server/events/output_bytes.h"
#include "server/events/tenant_events.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/services/commands.h"

#include <inttypes.h>
#include <string.h>

static const char BYTES[] = "application/octet-stream";

/* --- what is asked for --- */

static int asked_place(const struct http_exchange *x, bool *follow, int64_t *after,
                       struct error *err)
{
    *follow = true;
    return http_query_bool(x, "follow", follow, err) != 0
               ? -1
               : api_event_after(http_query(x, "after"), http_header(x, "Last-Event-ID"), after,
                                 err);
}

/* Streams know two formats: who asks for JSON gets its lines. */
static enum api_event_format asked_format(const struct http_exchange *x,
                                          enum api_event_format otherwise)
{
    enum api_event_format format = api_event_accept(http_header(x, "Accept"), otherwise);

    return format == API_EVENT_JSON ? API_EVENT_NDJSON : format;
}

/* --- a command's --- */

static struct store_transcript_name transcript_of(const struct http_exchange *x,
                                                  int64_t execution_row, const char *command_id)
{
    const struct service *s = http_service(x);

    return (struct store_transcript_name){
        .directory = s->config->data_dir,
        .tenant = http_tenant(x),
        .execution_row = execution_row,
        .command_id = command_id,
        .readers = store_readers(s->store),
    };
}

static int events_new(struct http_exchange *x, const struct route_events *asked,
                      struct command_events **out, struct error *err)
{
    struct service *s = http_service(x);
    struct command_events_config config = {
        .store = s->store,
        .name = transcript_of(x, asked->execution_row, asked->command_id),
        .format = asked->format,
        .follow = asked->follow,
        .after = asked->after,
        .encode = commands_encode,
    };

    return command_events_new(&config, out, err);
}

static void reply_events(struct http_exchange *x, const struct route_events *asked,
                         struct command_events *events)
{
    char topic[LIVE_TOPIC_SIZE];
    const struct http_stream_reply reply = {
        .status = asked->status,
        .type = api_event_media_type(asked->format),
        .topic = topic,
        .size = -1,
    };

    live_topic_command(topic, asked->execution_row, asked->command_id);
    http_reply_stream_as(x, &reply, &command_events_ops, events);
}

void route_reply_events(struct http_exchange *x, const struct route_events *asked)
{
    struct command_events *events = NULL;
    struct error err = ERROR_INIT;

    if (events_new(x, asked, &events, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    reply_events(x, asked, events);
}

/* A browser connects again by itself when a stream has ended, and stops only at a 204. */
static bool asked_again(const struct http_exchange *x, const struct route_events *asked)
{
    const char *last = http_header(x, "Last-Event-ID");

    return asked->format == API_EVENT_SSE && last != NULL && last[0] != '\0';
}

void route_command_events(struct http_exchange *x)
{
    struct command_events *events = NULL;
    struct error err = ERROR_INIT;
    struct route_events asked = {.status = 200, .command_id = http_param(x, 1), .after = -1};

    asked.format = asked_format(x, API_EVENT_NDJSON);
    if (asked_place(x, &asked.follow, &asked.after, &err) != 0 ||
        route_execution_row(x, &asked.execution_row, &err) != 0 ||
        events_new(x, &asked, &events, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (command_events_over(events) && asked_again(x, &asked)) {
        command_events_free(events);
        http_reply_empty(x, 204);
        return;
    }
    reply_events(x, &asked, events);
}

/* --- raw output --- */

/* What there is of the stream now: nothing before the command has started. */
static int size_now(struct http_exchange *x, const struct store_transcript_name *name,
                    enum store_record_kind stream, int64_t *size, struct error *err)
{
    _cleanup_(store_command_done) struct store_command row = {0};
    struct service *s = http_service(x);

    *size = 0;
    if (store_command_get(s->store, name->execution_row, name->command_id, &row, err) != 0) {
        return -1;
    }
    if (output_bytes_size(name, stream, size, err) == 0) {
        return 0;
    }
    if (err->code == ERROR_NOT_FOUND && row.started_at == 0) {
        error_clear(err);
        return 0;
    }
    return err->code == ERROR_NOT_FOUND ? commands_transcript_gone(&row, err) : -1;
}

static void add_content_range(struct http_exchange *x, int64_t first, int64_t length, int64_t size)
{
    char text[80];

    snprintf(text, sizeof(text), "bytes %" PRId64 "-%" PRId64 "/%" PRId64, first,
             first + length - 1, size);
    http_add_header(x, "Content-Range", text);
}

static void reply_output(struct http_exchange *x, enum store_record_kind stream)
{
    struct error err = ERROR_INIT;
    struct store_transcript_name name;
    struct output_bytes *bytes = NULL;
    struct http_stream_reply reply = {.status = 200, .type = BYTES, .topic = "", .size = 0};
    int64_t row;
    int64_t size;
    int64_t first = 0;
    int part;

    if (route_execution_row(x, &row, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    name = transcript_of(x, row, http_param(x, 1));
    if (size_now(x, &name, stream, &size, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_add_header(x, "Accept-Ranges", "bytes");
    reply.size = size;
    part = http_range(x, size, &first, &reply.size, &err);
    if (part < 0 || output_bytes_new(&name, stream, first, reply.size, &bytes, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (part > 0) {
        reply.status = 206;
        add_content_range(x, first, reply.size, size);
    }
    if (reply.size == 0) {
        output_bytes_free(bytes);
        http_reply_bytes(x, reply.status, BYTES, "", 0, false);
        return;
    }
    http_reply_stream_as(x, &reply, &output_bytes_ops, bytes);
}

void route_command_stdout(struct http_exchange *x)
{
    reply_output(x, STORE_RECORD_STDOUT);
}

void route_command_stderr(struct http_exchange *x)
{
    reply_output(x, STORE_RECORD_STDERR);
}

/* --- a tenant's --- */

/* ?after=latest is answered with what happens from now on. */
static int asked_tenant_place(const struct http_exchange *x, struct tenant_events_config *config,
                              struct error *err)
{
    const char *after = http_query(x, "after");
    bool latest = after != NULL && strcmp(after, "latest") == 0;

    config->follow = true;
    config->after = latest ? TENANT_EVENTS_LATEST : TENANT_EVENTS_OLDEST;
    return http_query_bool(x, "follow", &config->follow, err) != 0
               ? -1
               : api_event_after(latest ? NULL : after, http_header(x, "Last-Event-ID"),
                                 &config->after, err);
}

void route_events(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct tenant_events_config config = {.store = s->store, .tenant = http_tenant(x)};
    struct tenant_events *events = NULL;
    struct error err = ERROR_INIT;
    char topic[LIVE_TOPIC_SIZE];

    config.format = asked_format(x, API_EVENT_SSE);
    if (asked_tenant_place(x, &config, &err) != 0 ||
        tenant_events_new(&config, &events, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    live_topic_tenant(topic, config.tenant);
    http_reply_stream(x, api_event_media_type(config.format), topic, &tenant_events_ops, events);
}
