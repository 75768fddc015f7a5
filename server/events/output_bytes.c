#include "server/events/output_bytes.h"

#include "base/id.h"
#include "base/log.h"
#include "store/readers.h"

#include <string.h>

enum { FILL_MAX = 32 * 1024 };

struct output_bytes {
    struct store_reader reading; /* keeps retention away between two fills */
    const char *directory;
    char tenant[ID_SIZE];
    char command_id[ID_SIZE];
    int64_t execution_row;
    enum store_record_kind stream;
    struct store_transcript_position place;
    int64_t next; /* offset in the stream */
    int64_t left;
};

static struct store_transcript_name name_of(const struct output_bytes *b)
{
    return (struct store_transcript_name){
        .directory = b->directory,
        .tenant = b->tenant,
        .execution_row = b->execution_row,
        .command_id = b->command_id,
    };
}

static bool never(void *ctx, const struct store_record *head)
{
    (void)ctx;
    (void)head;
    return false;
}

int output_bytes_size(const struct store_transcript_name *name, enum store_record_kind stream,
                      int64_t *size, struct error *err)
{
    struct store_transcript_reader *r = NULL;
    struct store_transcript_position end;
    int result;

    if (store_transcript_open(name, &r, err) != 0) {
        return -1;
    }
    result = store_transcript_skip(r, never, NULL, err);
    store_transcript_tell(r, &end);
    store_transcript_reader_free(r);
    if (result == 0) {
        *size = end.stream_bytes[stream == STORE_RECORD_STDERR];
    }
    return result;
}

/* --- a fill --- */

/* The record holds bytes from `next` on. */
static bool is_wanted(void *ctx, const struct store_record *head)
{
    const struct output_bytes *b = ctx;

    return head->kind == b->stream && head->offset + (int64_t)head->len > b->next;
}

/* Adds what is wanted of the record and has room. 0, or -1 when memory is out. */
static int put(struct output_bytes *b, const struct store_record *record, struct buf *out,
               struct error *err)
{
    size_t from = (size_t)(b->next - record->offset);
    size_t len = record->len - from;
    size_t room = FILL_MAX - out->len;

    len = len < room ? len : room;
    len = (int64_t)len < b->left ? len : (size_t)b->left;
    if (buf_add(out, record->data + from, len) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    b->next += (int64_t)len;
    b->left -= (int64_t)len;
    return 0;
}

static int put_records(struct output_bytes *b, struct store_transcript_reader *r, struct buf *out,
                       struct error *err)
{
    struct store_record record;

    while (b->left > 0 && out->len < FILL_MAX) {
        int got = store_transcript_skip(r, is_wanted, b, err);

        store_transcript_tell(r, &b->place);
        if (got > 0) {
            got = store_transcript_next(r, &record, err);
        }
        if (got <= 0) {
            return got < 0 ? -1 : error_set(err, ERROR_INTERNAL, "the transcript became shorter");
        }
        if (put(b, &record, out, err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* A long way, for who may block: the fills begin there. */
static int seek(struct output_bytes *b, struct error *err)
{
    struct store_transcript_name name = name_of(b);
    struct store_transcript_reader *r = NULL;
    int result;

    if (b->next == 0 || b->left == 0) {
        return 0;
    }
    if (store_transcript_open(&name, &r, err) != 0) {
        return -1;
    }
    result = store_transcript_skip(r, is_wanted, b, err) < 0 ? -1 : 0;
    store_transcript_tell(r, &b->place);
    store_transcript_reader_free(r);
    return result;
}

static enum http_stream_next fill(void *state, struct buf *out)
{
    struct output_bytes *b = state;
    struct store_transcript_name name = name_of(b);
    struct store_transcript_reader *r = NULL;
    struct error err = ERROR_INIT;
    int result = store_transcript_open_at(&name, &b->place, &r, &err);

    if (result == 0) {
        result = put_records(b, r, out, &err);
        store_transcript_reader_free(r);
    }
    if (result != 0) {
        log_failure(LOG_LEVEL_WARN, &err, "output of a command was cut", "command", b->command_id,
                    "tenant", b->tenant, NULL);
        return HTTP_STREAM_CUT;
    }
    return b->left > 0 ? HTTP_STREAM_MORE : HTTP_STREAM_END;
}

static void done(void *state)
{
    output_bytes_free(state);
}

const struct http_stream_ops output_bytes_ops = {.fill = fill, .done = done};

/* --- life --- */

int output_bytes_new(const struct store_transcript_name *name, enum store_record_kind stream,
                     int64_t first, int64_t length, struct output_bytes **out, struct error *err)
{
    struct output_bytes *b = calloc(1, sizeof(*b));

    if (b == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *b = (struct output_bytes){
        .directory = name->directory,
        .execution_row = name->execution_row,
        .stream = stream,
        .next = first,
        .left = length,
    };
    snprintf(b->tenant, sizeof(b->tenant), "%s", name->tenant);
    snprintf(b->command_id, sizeof(b->command_id), "%s", name->command_id);
    if (!store_reader_begin(name->readers, &b->reading, b->execution_row)) {
        output_bytes_free(b);
        return error_set(err, ERROR_TRANSCRIPT_GONE,
                         "the transcript of command %s was removed by retention", name->command_id);
    }
    if (seek(b, err) != 0) {
        output_bytes_free(b);
        return -1;
    }
    *out = b;
    return 0;
}

void output_bytes_free(struct output_bytes *b)
{
    if (b != NULL) {
        store_reader_end(&b->reading);
    }
    free(b);
}
