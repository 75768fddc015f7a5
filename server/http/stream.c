#include "server/http/exchange.h"

#include "base/clock.h"

#include <string.h>

/* What a fill may put at most, the size of the pieces it is sent in (a connection keeps what it
 * once used of its memory for as long as it lives), and, where it is not chunked, the buffer of the
 * response. */
enum { OUT_MAX = 64 * 1024 * 1024, PIECE = 8 * 1024, BLOCK_UNUSED = 16 };

/* Belongs to the reply, then to the response; used on the event thread. */
struct stream {
    struct http_exchange *x; /* with a reference, once the response has it */
    const struct http_stream_ops *ops;
    void *state;
    int64_t size; /* announced; -1: not known */
    struct buf out;
    size_t sent; /* of out */
    enum http_stream_next next;
    int64_t beat_at; /* when it will have been silent for long */
};

void stream_free(struct stream *s)
{
    if (s == NULL) {
        return;
    }
    buf_done(&s->out);
    s->ops->done(s->state);
    free(s);
}

void http_reply_stream(struct http_exchange *x, const char *type, const char *topic,
                       const struct http_stream_ops *ops, void *state)
{
    const struct http_stream_reply reply = {MHD_HTTP_OK, type, topic, -1};

    http_reply_stream_as(x, &reply, ops, state);
}

void http_reply_stream_as(struct http_exchange *x, const struct http_stream_reply *reply,
                          const struct http_stream_ops *ops, void *state)
{
    struct stream *s = calloc(1, sizeof(*s));
    struct error err = ERROR_INIT;

    if (s == NULL) {
        ops->done(state);
        (void)error_set(&err, ERROR_INTERNAL, "out of memory");
        http_reply_error(x, &err);
        return;
    }
    *s = (struct stream){.ops = ops, .state = state, .size = reply->size, .next = HTTP_STREAM_MORE};
    buf_init(&s->out, OUT_MAX);
    http_add_header(x, "Cache-Control", "no-store");
    if (!reply_store(x, reply->status, reply->type, NULL, 0)) {
        stream_free(s);
        return;
    }
    x->reply.stream = s;
    snprintf(x->wait.topic, sizeof(x->wait.topic), "%s", reply->topic);
}

/* --- sending --- */

static size_t hand_out(struct stream *s, char *to, size_t max)
{
    size_t left = s->out.len - s->sent;
    size_t len = left < max ? left : max;

    len = len < PIECE ? len : PIECE;
    memcpy(to, s->out.data + s->sent, len);
    s->sent += len;
    if (s->sent == s->out.len) {
        buf_done(&s->out);
        buf_init(&s->out, OUT_MAX);
        s->sent = 0;
        s->beat_at = clock_mono_ms() + s->x->server->heartbeat_ms;
    }
    return len;
}

/* Everything that was notified since the last fill is seen by this one: it has a subscription. */
static void refill(struct stream *s)
{
    enum exchange_wake reason = wait_renew(s->x);

    if (reason == WAKE_PEER_GONE || reason == WAKE_STOPPING) {
        s->next = HTTP_STREAM_CUT;
        return;
    }
    s->next = s->ops->fill(s->state, &s->out);
    if (s->next == HTTP_STREAM_WAIT && s->out.len == 0 && clock_mono_ms() >= s->beat_at) {
        if (s->ops->heartbeat != NULL) {
            s->ops->heartbeat(s->state, &s->out);
        }
        s->beat_at = clock_mono_ms() + s->x->server->heartbeat_ms;
    }
}

/* libmicrohttpd asks for what is to be sent next. 0 only with the connection suspended: it would
 * not ask again before. */
static ssize_t on_read(void *cls, uint64_t position, char *to, size_t max)
{
    struct stream *s = cls;

    (void)position;
    for (;;) {
        if (s->out.len > 0) {
            return (ssize_t)hand_out(s, to, max);
        }
        switch (s->next) {
        case HTTP_STREAM_END: return MHD_CONTENT_READER_END_OF_STREAM;
        case HTTP_STREAM_CUT: return MHD_CONTENT_READER_END_WITH_ERROR;
        case HTTP_STREAM_WAIT:
            if (wait_sleep(s->x, s->beat_at)) {
                s->next = HTTP_STREAM_MORE; /* when it is woken */
                return 0;
            }
            break;
        case HTTP_STREAM_MORE: break;
        }
        refill(s);
    }
}

static void on_response_freed(void *cls)
{
    struct stream *s = cls;
    struct http_exchange *x = s->x;

    stream_free(s);
    atomic_fetch_sub(&x->server->streams, 1);
    exchange_unref(x);
}

struct MHD_Response *stream_response(struct http_exchange *x)
{
    struct stream *s = x->reply.stream;
    bool chunked = s->size < 0 && !x->http10;
    struct MHD_Response *response = MHD_create_response_from_callback(
        s->size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)s->size, chunked ? BLOCK_UNUSED : PIECE, on_read,
        s, on_response_freed);

    if (response == NULL) {
        return NULL;
    }
    if (s->size < 0 && strcmp(x->method, "HEAD") == 0) {
        /* A chunked answer to HEAD gets a last chunk, which the peer would take for the next
         * answer: this one has no encoding, and ends the connection. */
        (void)MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    }
    x->reply.stream = NULL;
    atomic_fetch_add(&x->server->streams, 1);
    s->x = x;
    s->beat_at = clock_mono_ms() + x->server->heartbeat_ms;
    exchange_ref(x);
    return response;
}
