#include "server/events/command_events.h"

#include "base/log.h"
#include "store/readers.h"

#include <string.h>

enum { EVENT_TEXT_MAX = 32 * 1024 * 1024 };

struct command_events {
    struct store *store;
    struct store_reader reading; /* keeps retention away between two fills */
    const char *directory;
    char tenant[ID_SIZE];
    char command_id[ID_SIZE];
    int64_t execution_row;
    enum api_event_format format;
    bool follow;
    bool over;
    int64_t after;
    struct store_transcript_position place;
    size_t sent; /* bytes that have left of the event at `place` */
    json_t *(*encode)(const struct store_command *row);
};

/* How far a fill got. */
enum progress {
    GOT_FULL,    /* there may be more at once */
    GOT_ALL,     /* every record there is */
    GOT_EXIT,    /* all up to the exit record */
    GOT_NO_FILE, /* there is no transcript */
    GOT_FAILURE,
};

static struct store_transcript_name name_of(const struct command_events *e)
{
    return (struct store_transcript_name){
        .directory = e->directory,
        .tenant = e->tenant,
        .execution_row = e->execution_row,
        .command_id = e->command_id,
    };
}

/* 1 with a reader at the stream's place, 0 when there is no transcript, -1. */
static int open_reader(const struct command_events *e, struct store_transcript_reader **out,
                       struct error *err)
{
    struct store_transcript_name name = name_of(e);

    if (store_transcript_open_at(&name, &e->place, out, err) == 0) {
        return 1;
    }
    if (err->code != ERROR_NOT_FOUND) {
        return -1;
    }
    error_clear(err);
    return 0;
}

/* The exit record is never passed: what stands there is told by the row. */
static bool is_due(void *ctx, const struct store_record *head)
{
    return head->seq > *(const int64_t *)ctx || head->kind == STORE_RECORD_EXIT;
}

/* Goes to the first event behind `after`, as far as it is there. */
static int seek(struct command_events *e, struct store_transcript_reader *r, struct error *err)
{
    if (e->place.seq > e->after) {
        return 0;
    }
    if (store_transcript_skip(r, is_due, &e->after, err) < 0) {
        return -1;
    }
    store_transcript_tell(r, &e->place);
    return 0;
}

/* --- one event --- */

/* Adds what has room of the event, which is *taken*. 1: it has left whole; 0: the rest is for the
 * next fill; -1. */
static int put(struct command_events *e, json_t *event, struct buf *out, struct error *err)
{
    _cleanup_buf_ struct buf text;
    size_t room = out->len < EVENTS_FILL_MAX ? EVENTS_FILL_MAX - out->len : 0;
    size_t len;

    buf_init(&text, EVENT_TEXT_MAX);
    if (api_event_add(event, e->format, &text) != 0) {
        json_decref(event);
        return error_set(err, ERROR_INTERNAL, "an event cannot be written");
    }
    json_decref(event);
    len = text.len - e->sent < room ? text.len - e->sent : room;
    if (buf_add(out, text.data + e->sent, len) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    e->sent += len;
    if (e->sent < text.len) {
        return 0;
    }
    e->sent = 0;
    return 1;
}

static json_t *event_of(const struct store_record *record)
{
    struct api_event_output output = {
        .seq = record->seq,
        .at = record->at,
        .type = record->kind == STORE_RECORD_STDOUT ? "stdout" : "stderr",
        .offset = record->offset,
        .data = record->data,
        .len = record->len,
    };

    return record->kind == STORE_RECORD_STARTED ? api_event_started(record->seq, record->at)
                                                : api_event_output(&output);
}

/* --- a fill --- */

static enum progress put_records(struct command_events *e, struct store_transcript_reader *r,
                                 struct buf *out, struct error *err)
{
    struct store_record record;
    int got = seek(e, r, err);

    while (got >= 0 && out->len < EVENTS_FILL_MAX) {
        got = store_transcript_next(r, &record, err);
        if (got == 0) {
            return GOT_ALL;
        }
        if (got > 0 && record.kind == STORE_RECORD_EXIT) {
            return GOT_EXIT;
        }
        if (got > 0) {
            got = put(e, event_of(&record), out, err);
            if (got == 0) {
                return GOT_FULL;
            }
        }
        if (got > 0) {
            store_transcript_tell(r, &e->place);
        }
    }
    return got < 0 ? GOT_FAILURE : GOT_FULL;
}

static enum progress put_transcript(struct command_events *e, struct buf *out, struct error *err)
{
    struct store_transcript_reader *r = NULL;
    enum progress got;
    int opened = open_reader(e, &r, err);

    if (opened <= 0) {
        return opened < 0 ? GOT_FAILURE : GOT_NO_FILE;
    }
    got = put_records(e, r, out, err);
    store_transcript_reader_free(r);
    return got;
}

static int gone(const char *command_id, struct error *err)
{
    return error_set(err, ERROR_TRANSCRIPT_GONE,
                     "the transcript of command %s was removed by retention", command_id);
}

/* Started, and its transcript is not there: retention took it. */
static int check_there(const struct store_command *row, bool there, struct error *err)
{
    if (row->started_at != 0 && !there) {
        return gone(row->command_id, err);
    }
    return 0;
}

/* Every record has left and the row is final. */
static enum http_stream_next put_exit(struct command_events *e, const struct store_command *row,
                                      struct buf *out, struct error *err)
{
    int got;

    if (e->place.seq <= e->after) {
        return HTTP_STREAM_END;
    }
    got = put(e, api_event_exit(e->place.seq, row->completed_at, e->encode(row)), out, err);
    if (got < 0) {
        return HTTP_STREAM_CUT;
    }
    return got > 0 ? HTTP_STREAM_END : HTTP_STREAM_MORE;
}

/* All that is in the transcript has been put: what now? */
static enum http_stream_next at_end(struct command_events *e, enum progress got, struct buf *out,
                                    struct error *err)
{
    _cleanup_(store_command_done) struct store_command row = {0};

    if (store_command_get(e->store, e->execution_row, e->command_id, &row, err) != 0) {
        return HTTP_STREAM_CUT;
    }
    /* Again, because the transcript may have been made, or ended, after it was looked at. */
    if (store_command_is_final(&row) || (got == GOT_NO_FILE && row.started_at != 0)) {
        got = put_transcript(e, out, err);
    }
    if (got == GOT_FAILURE || check_there(&row, got != GOT_NO_FILE, err) != 0) {
        return HTTP_STREAM_CUT;
    }
    if (got == GOT_FULL) {
        return HTTP_STREAM_MORE;
    }
    if (!store_command_is_final(&row)) {
        return e->follow ? HTTP_STREAM_WAIT : HTTP_STREAM_END;
    }
    return put_exit(e, &row, out, err);
}

static enum http_stream_next fill(void *state, struct buf *out)
{
    struct command_events *e = state;
    struct error err = ERROR_INIT;
    enum http_stream_next next = HTTP_STREAM_CUT;
    enum progress got = put_transcript(e, out, &err);

    if (got != GOT_FAILURE) {
        next = got == GOT_FULL ? HTTP_STREAM_MORE : at_end(e, got, out, &err);
    }
    if (next == HTTP_STREAM_CUT) {
        log_failure(LOG_LEVEL_WARN, &err, "a stream of events was cut", "command", e->command_id,
                    "tenant", e->tenant, NULL);
    }
    return next;
}

static void heartbeat(void *state, struct buf *out)
{
    const struct command_events *e = state;
    int ignored = api_event_add_ping(e->format, out);

    (void)ignored; /* without memory there is one sign of life less */
}

static void done(void *state)
{
    command_events_free(state);
}

const struct http_stream_ops command_events_ops = {.fill = fill,
                                                   .heartbeat = heartbeat,
                                                   .done = done};

/* --- life --- */

static int begin(struct command_events *e, struct error *err)
{
    _cleanup_(store_command_done) struct store_command row = {0};
    struct store_transcript_reader *r = NULL;
    int opened;
    int result = 0;

    if (store_command_get(e->store, e->execution_row, e->command_id, &row, err) != 0) {
        return -1;
    }
    opened = open_reader(e, &r, err);
    if (opened < 0 || check_there(&row, opened > 0, err) != 0) {
        return -1;
    }
    if (opened > 0) {
        result = seek(e, r, err);
        store_transcript_reader_free(r);
    }
    e->over = store_command_is_final(&row) && e->place.seq <= e->after;
    return result;
}

int command_events_new(const struct command_events_config *config, struct command_events **out,
                       struct error *err)
{
    struct command_events *e = calloc(1, sizeof(*e));

    if (e == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *e = (struct command_events){
        .store = config->store,
        .directory = config->name.directory,
        .execution_row = config->name.execution_row,
        .format = config->format,
        .follow = config->follow,
        .after = config->after,
        .encode = config->encode,
    };
    snprintf(e->tenant, sizeof(e->tenant), "%s", config->name.tenant);
    snprintf(e->command_id, sizeof(e->command_id), "%s", config->name.command_id);
    if (!store_reader_begin(config->name.readers, &e->reading, e->execution_row)) {
        gone(e->command_id, err);
        command_events_free(e);
        return -1;
    }
    if (begin(e, err) != 0) {
        command_events_free(e);
        return -1;
    }
    *out = e;
    return 0;
}

void command_events_free(struct command_events *e)
{
    if (e != NULL) {
        store_reader_end(&e->reading);
    }
    free(e);
}

bool command_events_over(const struct command_events *e)
{
    return e->over;
}
