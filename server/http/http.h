/* The HTTP adapter: libmicrohttpd on one side, handlers on the other. It alone reads requests,
 * sends replies, suspends and resumes connections; handlers never see libmicrohttpd.
 *
 * A request's way: head checked (framing, Host and Origin rules, route, method, media type, body
 * cap) → body read → the route's handler. A handler ends by exactly one of http_reply_*, http_wait.
 * - ROUTE_INLINE handlers run on an event thread and must not block beyond a store read.
 * - ROUTE_JOB handlers run on the worker pool with the connection suspended; a full pool is
 * OVERLOADED. A handler that calls http_wait is called back (always on an event thread, as inline)
 * when its topic is notified or the time is over, and again ends by one of the two. */
#ifndef EXECHOST_SERVER_HTTP_HTTP_H
#define EXECHOST_SERVER_HTTP_HTTP_H

#include "base/buf.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/timer.h"
#include "server/http/topics.h"

#include <jansson.h>
#include <stdint.h>

struct http_server;
struct http_exchange; /* one request and its answer; lives until the answer is sent */

typedef void (*http_handler)(struct http_exchange *x);

enum http_route_kind { ROUTE_INLINE, ROUTE_JOB };

enum { HTTP_PARAMS_MAX = 3 };

/* `path` has segments; "{name}" takes one whole segment, percent-decoded. A path that exists with
 * other methods answers 405 with Allow. HEAD is answered as GET without a body. */
struct http_route {
    const char *method;
    const char *path;
    enum http_route_kind kind;
    http_handler handler;
    size_t body_max;   /* 0: takes no body (a body of any length is 413) */
    const char *query; /* the names it takes, space separated: others are 400; may be "" */
};

struct http_config {
    const struct http_route *routes;
    size_t route_count;
    void *service; /* what http_service gives to handlers */
    struct pool *pool;
    struct timers *timers;
    const char *listen; /* "HOST:PORT" (IPv4, [IPv6] or name) or "unix:PATH" */
    unsigned threads;   /* event threads */
    unsigned connections_max;
    unsigned head_timeout_s;
    const char *const *cors_origins; /* NULL-ended, or NULL */
    bool
        loopback_rules;    /* no tokens: listens on loopback or unix only; over TCP Host must be a
                            * loopback   name and a mutation's Origin a loopback one or in cors_origins
                            */
    struct topics *topics; /* that http_wait names */
};

/* Copies `config`; borrows what it points to, which must outlive the server. */
int http_server_new(const struct http_config *config, struct http_server **out,
                    struct error *err) WARN_UNUSED;
/* "http://127.0.0.1:8470" or "unix:/path"; borrowed. */
const char *http_server_address(const struct http_server *s);
/* Answers what waits and what comes now with 503 OVERLOADED, waits for handlers, stops accepting,
 * frees. NULL is fine. */
void http_server_free(struct http_server *s);

/* --- request --- */

void *http_service(const struct http_exchange *x);
const char *http_tenant(const struct http_exchange *x); /* "default" until there are tokens */
const char *http_request_id(const struct http_exchange *x);
const char *http_param(const struct http_exchange *x,
                       unsigned index); /* of the route's {…}, decoded */
const char *http_query(const struct http_exchange *x, const char *name); /* NULL when absent */
const char *http_header(const struct http_exchange *x, const char *name);
const char *http_body(const struct http_exchange *x, size_t *len);

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

/* --- the answer: each ends the handler's turn --- */

void http_reply_json(struct http_exchange *x, unsigned status, json_t *body); /* takes body */
/* `copy` false: `data` stays as long as the process. `type` is copied. */
void http_reply_bytes(struct http_exchange *x, unsigned status, const char *type, const void *data,
                      size_t len, bool copy);
void http_reply_empty(struct http_exchange *x, unsigned status);
void http_reply_error(struct http_exchange *x, const struct error *err);
/* Before a reply: a further header. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);

/* Suspends until `topic` (copied) is notified or the wall of `deadline_mono_ms` (0: none) is
 * reached, then calls `again` on an event thread. To miss nothing: http_wait calls `ready(x)` once
 * after it has subscribed, and does not sleep when that says true. Peers that went away are noticed
 * at each heartbeat (15 s) and their exchange ends. */
void http_wait(struct http_exchange *x, const char *topic, int64_t deadline_mono_ms,
               bool (*ready)(struct http_exchange *x), http_handler again);
bool http_wait_timed_out(const struct http_exchange *x);

#endif
