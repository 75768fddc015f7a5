#include "cli/follow.h"

#include "base/id.h"
#include "ptc/json.h"

#include <string.h>
#include <time.h>

enum {
    PATH_MAX_BYTES = 2048,
    TYPE_MAX = 32,
    PAUSE_MS = 200,
    PATIENCE_MS = 60000,
};

struct following {
    const struct cli_stream *stream;
    struct buf line;
    long long after;
    bool ended;    /* the last event was there */
    bool progress; /* something came since the last cut */
    int failed;
    struct error *err;
};

struct head {
    long long seq;
    char type[TYPE_MAX];
};

static int take_member(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct head *head = ctx;
    char number[24];

    if (key.len == 5 && memcmp(key.data, "\"seq\"", 5) == 0 && value.len < sizeof(number)) {
        memcpy(number, value.data, value.len);
        number[value.len] = '\0';
        head->seq = strtoll(number, NULL, 10);
    } else if (key.len == 6 && memcmp(key.data, "\"type\"", 6) == 0 && value.len >= 2 &&
               value.len - 2 < TYPE_MAX) {
        memcpy(head->type, value.data + 1, value.len - 2);
        head->type[value.len - 2] = '\0';
    }
    return 0;
}

/* Other than 0 ends this answer. */
static int take_line(struct following *f, const char *line, size_t len)
{
    struct head head = {.seq = -1};

    if (ptc_json_check(line, len, f->err) != 0 ||
        ptc_json_members(line, len, take_member, &head) != 0) {
        f->failed = error_set(f->err, ERROR_INTERNAL, "an event is no JSON object");
        return -1;
    }
    if (head.seq <= f->after) {
        return 0; /* a sign of life, or known */
    }
    if (head.seq != f->after + 1) {
        f->failed =
            error_set(f->err, ERROR_INTERNAL, "event %lld came behind %lld", head.seq, f->after);
        return -1;
    }
    f->after = head.seq;
    f->progress = true;
    f->failed = f->stream->on_event(f->stream->ctx, head.type, line, len, f->err);
    f->ended = strcmp(head.type, f->stream->last) == 0;
    return f->failed != 0 || f->ended ? -1 : 0;
}

static int on_data(void *ctx, const char *data, size_t len)
{
    struct following *f = ctx;

    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t piece = end == NULL ? len : (size_t)(end - data);

        if (buf_add(&f->line, data, piece) != 0) {
            f->failed = error_set(f->err, ERROR_INTERNAL, "an event is too long");
            return -1;
        }
        if (end == NULL) {
            return 0;
        }
        if (f->line.len > 0 && take_line(f, buf_str(&f->line), f->line.len) != 0) {
            return -1;
        }
        buf_reset(&f->line);
        data += piece + 1;
        len -= piece + 1;
    }
    return 0;
}

/* One answer's worth of events. */
static int ask(struct cli_client *client, struct following *f, const char *key)
{
    const struct cli_stream *stream = f->stream;
    char path[PATH_MAX_BYTES];
    struct cli_request request = {
        .method = "GET", .accept = "application/x-ndjson", .sink = on_data, .sink_ctx = f};
    char after[32] = "";

    if (f->after >= 0) {
        snprintf(after, sizeof(after), "&after=%lld", f->after);
    }
    snprintf(path, sizeof(path), "%s?follow=%s%s", stream->events_path,
             stream->present ? "false" : "true", after);
    request.path = path;
    if (stream->post_path != NULL && f->after < 0) {
        request.method = "POST";
        request.path = stream->post_path;
        request.json = stream->post_json;
        request.key = key;
    }
    buf_reset(&f->line);
    return cli_call(client, &request, NULL, f->err);
}

int cli_follow(struct cli_client *client, const struct cli_stream *stream, struct error *err)
{
    struct following f = {.stream = stream, .after = -1, .err = err};
    char key[ID_SIZE];
    int result = -1;
    long waited = 0;

    id_generate("key", key);
    buf_init(&f.line, CLI_ANSWER_MAX);
    for (;;) {
        struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
        int asked = ask(client, &f, key);

        if (f.failed != 0 || f.ended || (asked == 0 && stream->present)) {
            result = f.failed;
            break;
        }
        /* An answer that came to its end without the last event was cut by the service's own. */
        if (asked != 0 && (!cli_client_was_cut(client) || !cli_client_has_answered(client))) {
            break;
        }
        waited = f.progress ? 0 : waited + PAUSE_MS;
        f.progress = false;
        if (waited > PATIENCE_MS || cli_interrupted()) {
            error_set(err, ERROR_HOST_UNAVAILABLE, "the stream was cut and does not go on");
            break;
        }
        nanosleep(&pause, NULL);
    }
    buf_done(&f.line);
    return result;
}
