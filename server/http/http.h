/* The HTTP adapter: libmicrohttpd on one side, handlers on the other. It alone reads requests,
 * sends replies, suspends and resumes connections; handlers never see libmicrohttpd.
 *
 * A request's way: head checked (framing, Host and Origin rules, token, route, method, scope, media
 * type, body cap) → body read → the route's handler. A handler ends by exactly one of http_reply_*,
 * http_wait.
 * - ROUTE_INLINE handlers run on an event thread and must not block beyond a store read.
 * - ROUTE_JOB handlers run on the worker pool with the connection suspended; a full pool is
 * OVERLOADED. A handler that calls http_wait is called back (always on an event thread, as inline)
 * when its topic is notified or the time is over, and again ends by one of the two.
 * Every reply can be given by a handler of either kind. */
#ifndef EXECHOST_SERVER_HTTP_HTTP_H
#define EXECHOST_SERVER_HTTP_HTTP_H

#include "base/buf.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/timer.h"
#include "server/http/topics.h"
#include "server/tokens.h"

#include <jansson.h>
#include <stdint.h>

struct http_server;
struct http_exchange; /* one request and its answer; lives until the answer is sent */

typedef void (*http_handler)(struct http_exchange *x);

/* How a route is served; joined by |. */
enum http_route_flags {
    ROUTE_INLINE = 0,
    ROUTE_JOB = 1,
    ROUTE_BODY_ANY = 2,   /* takes a body of any media type, not only application/json */
    ROUTE_BODY_FILE = 4,  /* the same, and the body is not kept in memory: http_body_file */
    ROUTE_PUBLIC = 8,     /* needs no token; there may be no tenant */
    ROUTE_ANY_SCOPE = 16, /* needs a token, of whatever scope */
    ROUTE_ADMIN = 32,     /* needs the scope admin; else a GET needs read, the others write */
    ROUTE_LONG = 64,      /* with ROUTE_JOB: takes its time, and holds up none but its kind */
};

enum { HTTP_PARAMS_MAX = 3, HTTP_HEADERS_MAX = 16 };

/* `path` has segments; "{name}" takes one whole segment, percent-decoded. A path that exists with
 * other methods answers 405 with Allow. HEAD is answered as GET without a body. */
struct http_route {
    const char *method;
    const char *path;
    unsigned flags; /* enum http_route_flags */
    http_handler handler;
    size_t body_max;   /* 0: takes no body (a body of any length is 413) */
    const char *query; /* the names it takes, space separated: others are 400; may be "" */
};

/* Stands around the handlers of the requests it chooses. */
struct http_guard {
    /* At the head, on an event thread; memory only. -1: the request is refused with `err`. */
    int (*choose)(const struct http_exchange *x, bool *guarded, struct error *err);
    /* On a worker, instead of the route's handler: ends as a handler does, or by http_handle. */
    http_handler enter;
    /* On a worker, for an exchange that has a guard's state: the answer is there (http_answer) and
     * not sent yet. Takes the state. Not called for what a stopping server answers in the place of
     * a handler. */
    void (*leave)(struct http_exchange *x, void *state);
};

struct http_config {
    const struct http_guard *guard; /* NULL: none */
    const struct http_route *routes;
    size_t route_count;
    void *service; /* what http_service gives to handlers */
    struct pool *pool;
    unsigned long_kind; /* of the pool's work: what ROUTE_LONG handlers are; the others are 0 */
    struct timers *timers;
    const char *listen; /* "HOST:PORT" (IPv4, [IPv6] or name), "unix:PATH" or "fd:NUMBER" */
    unsigned unix_mode; /* of the socket's file; 0: 0660 */
    const char *tls_certificate; /* PEM files, for TCP; NULL: no TLS */
    const char *tls_key;
    unsigned threads; /* event threads */
    unsigned connections_max;
    unsigned head_timeout_s; /* of idleness */
    unsigned whole_head_s;   /* a head is there since the connection's start; 0: no bound on both */
    unsigned whole_body_s;   /* a body is there since its head … */
    int64_t body_rate;       /* … and a second more for so many bytes of it */
    const char *const *cors_origins; /* NULL-ended, or NULL */
    bool
        loopback_rules; /* no tokens: listens on loopback or unix only; over TCP Host must be a
                         * loopback   name and a mutation's Origin a loopback one or in cors_origins
                         */
    const struct token *tokens; /* who may ask; none: everybody, as the tenant "default"; copied */
    size_t token_count;
    const struct quotas *quotas; /* without tokens; NULL: none; copied */
    struct topics *topics;       /* that http_wait and http_reply_stream name */
    /* When a request is over, on an event thread; must not block. NULL: nobody asks. */
    void (*completed)(const struct http_exchange *x);
    const char *scratch;  /* directory of ROUTE_BODY_FILE bodies; NULL when no route has one */
    int64_t heartbeat_ms; /* of streams, and of the look after peers; 0: 15 s */
};

/* Copies `config`; borrows what it points to and is not said to be copied, which must outlive the
 * server. */
int http_server_new(const struct http_config *config, struct http_server **out,
                    struct error *err) WARN_UNUSED;

/* How much there is now. */
struct http_load {
    unsigned connections;
    unsigned requests; /* without their whole answer */
    unsigned streams;
};
void http_server_load(struct http_server *s, struct http_load *out);

/* From the next request on these are the tokens and quotas; copied. Whether there are tokens was
 * decided at the start and stays. Requests under way keep theirs. */
int http_server_set_tokens(struct http_server *s, const struct token *tokens, size_t count,
                           const struct quotas *quotas, struct error *err) WARN_UNUSED;
/* Reads certificate and key anew; connections that are open keep theirs. */
int http_server_reload_tls(struct http_server *s, struct error *err) WARN_UNUSED;
/* "http://127.0.0.1:8470" or "unix:/path"; borrowed. */
const char *http_server_address(const struct http_server *s);
/* From now on what waits and what comes is answered with 503 OVERLOADED. NULL is fine. */
void http_server_stop(struct http_server *s);
/* The same, waits for handlers, stops accepting, frees. NULL is fine. */
void http_server_free(struct http_server *s);

/* --- request --- */

void *http_service(const struct http_exchange *x);
/* Of the token; "default" where the service knows none, "" on a public route where it does. */
const char *http_tenant(const struct http_exchange *x);
/* What the tenant may have by the word of the token that asks; never NULL, lives as long as `x`. */
const struct quotas *http_quotas(const struct http_exchange *x);
bool http_has_scope(const struct http_exchange *x, enum token_scope scope);
const char *http_request_id(const struct http_exchange *x);
const char *http_param(const struct http_exchange *x,
                       unsigned index); /* of the route's {…}, decoded */
const char *http_query(const struct http_exchange *x, const char *name); /* NULL when absent */
const char *http_header(const struct http_exchange *x, const char *name);
const char *http_body(const struct http_exchange *x, size_t *len);
/* The body of a ROUTE_BODY_FILE route, in a nameless file below the scratch directory: borrowed
 * descriptor, open for reading and writing, at offset 0. -1 on other routes. While it came a full
 * disk was STORAGE_FULL and a body over body_max 413, both before any handler. */
int http_body_file(const struct http_exchange *x, int64_t *size);
/* The request's Range against a size that is known, for bytes that come from elsewhere. 1: *first
 * and *length say what is asked for (to be answered 206 with Content-Range, see http_content); 0:
 * all of it is, because there is no Range, it is none of bytes, has several parts, is malformed,
 * depends on If-Range, or the method is not GET; -1: ERROR_RANGE_NOT_SATISFIABLE (Content-Range is
 * set for the answer). */
int http_range(struct http_exchange *x, int64_t size, int64_t *first, int64_t *length,
               struct error *err) WARN_UNUSED;

/* Query helpers: absent leaves *out as it is; a bad value is ERROR_INVALID_REQUEST with field
 * "?name". */
int http_query_int(const struct http_exchange *x, const char *name, int64_t min, int64_t max,
                   int64_t *out, struct error *err) WARN_UNUSED;
int http_query_bool(const struct http_exchange *x, const char *name, bool *out,
                    struct error *err) WARN_UNUSED;
/* The Fencing-Token header: -1 when absent. */
int http_fencing_token(const struct http_exchange *x, int64_t *out, struct error *err) WARN_UNUSED;

/* What a handler keeps between its calls; `done` is called when the exchange ends. */
void http_set_state(struct http_exchange *x, void *state, void (*done)(void *));
void *http_state(const struct http_exchange *x);

/* --- for guards --- */

const char *http_method(const struct http_exchange *x);
const struct http_route *http_route(const struct http_exchange *x); /* NULL: none */
/* What was asked, in a form in which equal requests are equal; the query's `except` does not count.
 * Blocks where the body is in a file. */
int http_request_digest(const struct http_exchange *x, const char *except,
                        char out[DIGEST_TEXT_SIZE], struct error *err) WARN_UNUSED;
/* Goes on with the handler of the route; on a worker. */
void http_handle(struct http_exchange *x);
/* As http_set_state, beside the handler's own. While there is one the exchange goes on to its
 * answer though its peer has gone. */
void http_set_guard_state(struct http_exchange *x, void *state, void (*done)(void *));
void *http_guard_state(const struct http_exchange *x);

/* The answer that is to be sent; borrowed. */
struct http_answer {
    unsigned status;
    enum error_code code; /* of a problem document, else ERROR_NONE */
    const char *type;     /* "": none */
    const void *data;
    size_t len;
    bool in_memory; /* false: the body is a stream or a file, `data` is not it */
};
void http_answer(const struct http_exchange *x, struct http_answer *out);
/* What became of a request that is over; borrowed. */
struct http_outcome {
    unsigned status; /* 0: the connection broke before an answer */
    enum error_code code;
    const char *path;
    const char *location; /* "": none */
    const char *trace_id; /* "": none */
    const char *token_id; /* the first digits of the token's digest, "": no token */
};
void http_outcome(const struct http_exchange *x, struct http_outcome *out);
/* The header that a handler added; false when there is none of that index. */
bool http_answer_header(const struct http_exchange *x, unsigned index, const char **name,
                        const char **value);

/* --- the answer: each ends the handler's turn --- */

void http_reply_json(struct http_exchange *x, unsigned status, json_t *body); /* takes body */
/* `copy` false: `data` stays as long as the process. `type` is copied. */
void http_reply_bytes(struct http_exchange *x, unsigned status, const char *type, const void *data,
                      size_t len, bool copy);
void http_reply_empty(struct http_exchange *x, unsigned status);
void http_reply_error(struct http_exchange *x, const struct error *err);
/* Bytes of a regular file as the answer, sent by sendfile: ETag and Accept-Ranges are set,
 * If-None-Match, Range (one) and If-Range obeyed: 200, 206, 304 or 416. Takes `fd`. The file must
 * not shrink while it is sent (the connection would be cut). Where `of` is set the bytes are
 * already a range of something of `of` bytes that begins at `first`: 206 as it is. */
struct http_content {
    int fd;
    int64_t offset; /* in the file */
    int64_t size;
    const char *type;
    const char *etag; /* quoted, or NULL */
    int64_t first;
    int64_t of; /* 0: the content is whole */
};
void http_reply_content(struct http_exchange *x, const struct http_content *content);
/* Several pieces one behind the other, as a 200 of known length: `size` bytes of memory (copied;
 * `fd` is -1), or of a regular file from `offset` on (takes `fd`). The files must not shrink while
 * they are sent. */
enum { HTTP_PARTS_MAX = 8 };
struct http_part {
    const void *data;
    int fd;
    int64_t offset;
    int64_t size;
};
void http_reply_parts(struct http_exchange *x, const char *type, const struct http_part *parts,
                      size_t count);
/* Before a reply: a further header, of at most HTTP_HEADERS_MAX. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);

/* Suspends until `topic` (copied) is notified or the wall of `deadline_mono_ms` (0: none) is
 * reached, then calls `again` on an event thread. To miss nothing: http_wait calls `ready(x)` once
 * after it has subscribed, and does not sleep when that says true. Peers that went away are noticed
 * at each heartbeat (15 s) and their exchange ends. */
void http_wait(struct http_exchange *x, const char *topic, int64_t deadline_mono_ms,
               bool (*ready)(struct http_exchange *x), http_handler again);
bool http_wait_timed_out(const struct http_exchange *x);
/* Ends a turn on an event thread by going on with `job` on a worker, though as many wait as may:
 * what was begun has its answer. */
void http_job(struct http_exchange *x, http_handler job);

/* --- streams --- */

enum http_stream_next {
    HTTP_STREAM_MORE, /* fill again once `out` has left (at once when it is empty) */
    HTTP_STREAM_WAIT, /* once `out` has left: until the topic is notified */
    HTTP_STREAM_END,  /* `out` is the last */
    HTTP_STREAM_CUT,  /* `out`, then the connection closes without a clean end */
};

struct http_stream_ops {
    /* Puts what there is into the empty `out`, about 32 KiB at most, and says what is next. On an
     * event thread: no blocking beyond a read of a file or the store. The topic is subscribed to
     * before it is called, so that WAIT misses nothing that happens meanwhile. */
    enum http_stream_next (*fill)(void *state, struct buf *out);
    /* After 15 s of silence; NULL: none. */
    void (*heartbeat)(void *state, struct buf *out);
    /* Once, when the answer has ended in whatever way. Any thread. */
    void (*done)(void *state);
};

/* 200 with a body of unknown length: chunked, so that an end can be told from a cut; to HTTP/1.0
 * until the connection closes. Takes `state`; `type` and `topic` are copied, `ops` stays. Between
 * two fills a stream has no buffer. A reader that takes nothing for `head_timeout_s` is cut, peers
 * that went away are noticed at the heartbeat, and a stopping server cuts. Cache-Control is set. */
void http_reply_stream(struct http_exchange *x, const char *type, const char *topic,
                       const struct http_stream_ops *ops, void *state);
/* The same with another status, or of a length that is known and announced (more than 0): then it
 * may be resumed by Range, and an early end is a cut. */
struct http_stream_reply {
    unsigned status;
    const char *type;
    const char *topic;
    int64_t size; /* -1: not known */
};
void http_reply_stream_as(struct http_exchange *x, const struct http_stream_reply *reply,
                          const struct http_stream_ops *ops, void *state);

#endif
