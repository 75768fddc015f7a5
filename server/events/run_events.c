#include "server/events/run_events.h"

#include "base/id.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

enum {
    FILL_MAX = 32 * 1024,
    HEAD_MAX = 96,          /* of a line, with its seq and type */
    SKIP_MAX = 1024 * 1024, /* bytes passed over in one fill */
    FRAME_MAX = 128,        /* what makes a server-sent event of a line */
};

struct run_events {
    struct store_reader reading; /* keeps retention away between two fills */
    const char *directory;
    char tenant[ID_SIZE];
    char run_id[ID_SIZE];
    enum api_event_format format;
    bool follow;
    bool within; /* the place is within a line whose head has left */
    int64_t after;
    int64_t seq;   /* of the line at `place` */
    int64_t place; /* in the log */
    int (*published)(void *ctx, const char *tenant, const char *run_id, int64_t *bytes, bool *all,
                     struct error *err);
    void *ctx;
};

int64_t run_events_reading(int64_t row)
{
    return -row;
}

/* --- pieces of lines --- */

/* `id` and `event` of a server-sent event, out of {"seq":N,"type":"T", */
static int add_frame(const struct run_events *e, const char *line, size_t len, struct buf *out)
{
    static const char key[] = "\"type\":\"";
    const char *type = memmem(line, len, key, sizeof(key) - 1);
    const char *end;

    if (type == NULL) {
        return -1;
    }
    type += sizeof(key) - 1;
    end = memchr(type, '"', len - (size_t)(type - line));
    if (end == NULL || end - type > 32) {
        return -1;
    }
    return buf_addf(out, "id: %" PRId64 "\nevent: %.*s\ndata: ", e->seq, (int)(end - type), type);
}

/* The piece, which ends a line or not; one that is not asked for is passed over. */
static int put_piece(struct run_events *e, const char *piece, size_t len, struct buf *out)
{
    bool ends = piece[len - 1] == '\n';
    bool wanted = e->seq > e->after;

    if (wanted && !e->within && e->format == API_EVENT_SSE && add_frame(e, piece, len, out) != 0) {
        return -1;
    }
    if (wanted && buf_add(out, piece, len) != 0) {
        return -1;
    }
    if (wanted && ends && e->format == API_EVENT_SSE && buf_add_char(out, '\n') != 0) {
        return -1;
    }
    e->within = !ends;
    e->seq += ends ? 1 : 0;
    e->place += (int64_t)len;
    return 0;
}

/* Lines of the `len` bytes at the place. A beginning too short to tell its type is left for the
 * next time, unless there is nothing else. */
static int put_lines(struct run_events *e, const char *data, size_t len, struct buf *out)
{
    size_t done = 0;

    while (done < len && out->len + FRAME_MAX < FILL_MAX) {
        const char *end = memchr(data + done, '\n', len - done);
        size_t piece = end == NULL ? len - done : (size_t)(end - data) - done + 1;

        if (end == NULL && !e->within && piece < HEAD_MAX && done > 0) {
            return 0;
        }
        if (put_piece(e, data + done, piece, out) != 0) {
            return -1;
        }
        done += piece;
    }
    return 0;
}

/* --- a fill --- */

static struct store_run_log_name name_of(const struct run_events *e)
{
    return (struct store_run_log_name){e->directory, e->tenant, e->run_id};
}

/* Until there is something to send, all up to `limit` was seen, or enough was passed over. */
static int put_what_is_there(struct run_events *e, int64_t limit, struct buf *out,
                             struct error *err)
{
    struct store_run_log_name name = name_of(e);
    int64_t from = e->place;
    char data[FILL_MAX / 2];
    _cleanup_close_ int fd = store_run_log_open(&name, err);

    if (fd < 0) {
        return -1;
    }
    while (e->place < limit && out->len == 0 && e->place - from < SKIP_MAX) {
        int64_t left = limit - e->place;
        size_t want = left < (int64_t)sizeof(data) ? (size_t)left : sizeof(data);
        int64_t got = store_run_log_read(fd, e->place, data, want, err);

        if (got <= 0) {
            return got < 0 ? -1 : error_set(err, ERROR_INTERNAL, "the log became shorter");
        }
        if (put_lines(e, data, (size_t)got, out) != 0) {
            return error_set(err, ERROR_INTERNAL, "an event cannot be written");
        }
    }
    return 0;
}

static enum http_stream_next fill(void *state, struct buf *out)
{
    struct run_events *e = state;
    struct error err = ERROR_INIT;
    int64_t limit = 0;
    bool all = false;

    if (e->published(e->ctx, e->tenant, e->run_id, &limit, &all, &err) != 0 ||
        (e->place < limit && put_what_is_there(e, limit, out, &err) != 0)) {
        log_failure(LOG_LEVEL_WARN, &err, "a stream of events was cut", "run", e->run_id, "tenant",
                    e->tenant, NULL);
        return HTTP_STREAM_CUT;
    }
    if (out->len > 0 || e->place < limit) {
        return HTTP_STREAM_MORE;
    }
    return all || !e->follow ? HTTP_STREAM_END : HTTP_STREAM_WAIT;
}

static void heartbeat(void *state, struct buf *out)
{
    const struct run_events *e = state;
    int ignored = api_event_add_ping(e->format, out);

    (void)ignored; /* without memory there is one sign of life less */
}

static void done(void *state)
{
    run_events_free(state);
}

const struct http_stream_ops run_events_ops = {.fill = fill, .heartbeat = heartbeat, .done = done};

/* --- life --- */

int run_events_new(const struct run_events_config *config, struct run_events **out,
                   struct error *err)
{
    struct run_events *e = calloc(1, sizeof(*e));

    if (e == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    e->directory = config->name.directory;
    e->format = config->format;
    e->follow = config->follow;
    e->after = config->after;
    e->published = config->published;
    e->ctx = config->ctx;
    snprintf(e->tenant, sizeof(e->tenant), "%s", config->name.tenant);
    snprintf(e->run_id, sizeof(e->run_id), "%s", config->name.run_id);
    if (!store_reader_begin(config->readers, &e->reading, run_events_reading(config->row))) {
        error_set(err, ERROR_TRANSCRIPT_GONE, "the record of run %s was removed by retention",
                  e->run_id);
        run_events_free(e);
        return -1;
    }
    *out = e;
    return 0;
}

void run_events_free(struct run_events *e)
{
    if (e != NULL) {
        store_reader_end(&e->reading);
    }
    free(e);
}

bool run_events_over(struct run_events *e)
{
    struct error err = ERROR_INIT;
    int64_t limit = 0;
    bool all = false;
    bool over = false;
    struct buf out;

    buf_init(&out, 2 * FILL_MAX);
    if (e->after >= 0 && e->published(e->ctx, e->tenant, e->run_id, &limit, &all, &err) == 0 &&
        all) {
        while (e->place < limit && out.len == 0 && put_what_is_there(e, limit, &out, &err) == 0) {
        }
        over = e->place >= limit && out.len == 0;
    }
    buf_done(&out);
    e->place = 0;
    e->seq = 0;
    e->within = false;
    return over;
}
