/* Inside of the HTTP adapter: the exchange, the server, and what their files call of each other. No
 * file outside server/http includes this.
 *
 * Threads: an exchange belongs to one thread at a time, its event thread or, in EXCHANGE_JOB, a
 * worker; the hand-over is under `lock`. While armed or waiting, wakers (topics, timers, heartbeat,
 * stop) touch it under `lock` too, and hold a reference. The connection's own reference ends when
 * libmicrohttpd says that the request is completed, which it never does while the connection is
 * suspended. Lock order: server lock, exchange lock; libmicrohttpd's and the pool's are below both.
 */
#ifndef EXECHOST_SERVER_HTTP_EXCHANGE_H
#define EXECHOST_SERVER_HTTP_EXCHANGE_H

#include "base/log.h"
#include "server/http/deadline.h"
#include "server/http/http.h"
#include "server/http/linger.h"
#include "server/http/router.h"
#include "server/http/uri.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

enum exchange_phase {
    EXCHANGE_HEAD,     /* the head is being read or checked */
    EXCHANGE_BODY,     /* the body is being read */
    EXCHANGE_JOB,      /* suspended; the handler is on a worker */
    EXCHANGE_ARMING,   /* subscribing to what it will wait for */
    EXCHANGE_WAITING,  /* suspended; waits for its topic or deadline */
    EXCHANGE_RESUMED,  /* resumed; the event thread goes on with what `wake` or the reply says */
    EXCHANGE_ANSWERED, /* the reply is libmicrohttpd's now */
};

enum exchange_wake { WAKE_NONE, WAKE_TOPIC, WAKE_TIMEOUT, WAKE_PEER_GONE, WAKE_STOPPING };

enum { REQUEST_ID_MAX = 128, TRACE_ID_LEN = 32 };

struct parts;
struct stream;

struct reply {
    unsigned status; /* 0: none yet */
    void *data;
    size_t len;
    bool data_is_static;
    bool close;
    bool has_file; /* the body is `len` bytes of `fd` from `offset` on */
    int fd;        /* owned */
    int64_t offset;
    struct parts *parts;   /* owned: the body is made of these */
    struct stream *stream; /* owned: the body comes from there */
    enum error_code code;  /* of a problem document */
    char type[48];
    struct {
        char *name;
        char *value;
    } headers[HTTP_HEADERS_MAX];
    unsigned header_count;
};

struct wait_entry;

/* What http_wait asked for; carried out once the handler has returned. */
struct wait_request {
    bool asked;
    char topic[sizeof(((struct topic_waiter *)NULL)->name)];
    int64_t deadline_mono_ms;
    bool (*ready)(struct http_exchange *x);
    http_handler again;
};

struct http_exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    int fd;            /* of the connection; borrowed */
    struct peer *peer; /* likewise; NULL: it has no deadlines */
    atomic_uint refs;

    pthread_mutex_t lock;
    enum exchange_phase phase; /* [lock] */
    enum exchange_wake wake;   /* [lock] the first reason to go on */

    struct uri uri;
    char method[16];
    char request_id[REQUEST_ID_MAX + 1];
    struct log_trace trace;  /* none when the caller sent none */
    const char *cors_origin; /* the configured one it comes from, or NULL */
    struct router_match match;
    struct token_set *tokens;    /* owned: a reference to those that were known when it came */
    const char *tenant;          /* of `tokens`; NULL: not known (yet) */
    char token_id[16 + 1];       /* "": no token */
    const struct quotas *quotas; /* likewise; of the service where it knows no tokens */
    unsigned scopes;             /* enum token_scope */
    bool http10;
    bool body_announced;
    bool body_too_long; /* of unknown length, or too long to be thrown away unless it is taken */
    struct buf body;
    int body_fd; /* of a ROUTE_BODY_FILE route; -1: none */
    int64_t body_size;
    int linger_fd; /* kept open a little so that a refusal survives its unread body; -1: none */

    struct reply reply;
    unsigned status_sent;
    int64_t started_us;

    struct wait_request wait;
    struct wait_entry *waiting; /* while subscribed */
    bool timed_out;
    TAILQ_ENTRY(http_exchange) entry; /* [server lock] in server->waiting */

    http_handler job; /* what the next worker does */
    bool guarded;
    bool guard_left;   /* nothing is due any more */
    void *guard_state; /* while it is set a gone peer does not end the exchange */
    void (*guard_done)(void *);

    bool working; /* counted in server->working */
    void *state;
    void (*state_done)(void *);
};

TAILQ_HEAD(exchange_list, http_exchange);

struct http_server {
    struct MHD_Daemon *daemon;
    const struct http_route *routes;
    size_t route_count;
    void *service;
    struct pool *pool;
    unsigned long_kind;
    struct timers *timers;
    struct topics *topics;
    const struct http_guard *guard;
    char **cors_origins; /* owned, NULL-ended */
    pthread_mutex_t token_lock;
    struct token_set *tokens; /* [token_lock] a reference; the set itself never changes */
    bool loopback_rules;      /* asked for, and not on a unix socket */
    struct tls *tls;          /* NULL: none */
    char *address;
    char *unix_path; /* to be unlinked at the end, or NULL */
    struct lingerers *linger;
    struct deadlines *deadlines; /* NULL: none */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct exchange_list waiting; /* [lock] */
    unsigned exchanges;           /* [lock] objects that exist */
    unsigned working;             /* [lock] requests that handlers have not answered yet */
    bool stopping;                /* [lock] */
    uint64_t heartbeat;           /* [lock] its timer; 0 while it runs and once it has stopped */
    bool heartbeat_running;       /* [lock] */
    int64_t heartbeat_ms;
    char *scratch; /* owned; NULL: no bodies in files */
    void (*completed)(const struct http_exchange *x);
    atomic_uint streams;
};

/* --- exchange.c: life and the request's side --- */

/* For libmicrohttpd's callback at the request line. NULL when memory is out. */
struct http_exchange *exchange_new(struct http_server *s, struct MHD_Connection *c,
                                   const char *target);
void exchange_ref(struct http_exchange *x);
void exchange_unref(struct http_exchange *x);
/* Counts it among those a stopping server waits for, until it is answered; false when the server
 * stops. */
bool exchange_begin_work(struct http_exchange *x);
void exchange_end_work(struct http_exchange *x);
/* The request is over (answered, or its connection broke): logs it and ends the connection's
 * reference. */
void exchange_completed(struct http_exchange *x);
void exchange_set_phase(struct http_exchange *x, enum exchange_phase phase);
/* Under the exchange's lock, the connection suspended: lets its event thread go on. */
void exchange_resume_locked(struct http_exchange *x);
bool server_is_stopping(struct http_server *s);

/* How many fields of that name there are; *value is that of the last. */
unsigned exchange_header(const struct http_exchange *x, const char *name, const char **value);

/* --- tokens.c: who may ask --- */

/* Tokens that are known at a time, with the rate at which each asks. Any thread. */
struct token_set;
/* Copies. Without tokens: one entry, of the tenant "default" with all scopes and `quotas`. What
 * `before` (NULL: nothing) knows of the rates of the same tokens is taken over. */
int token_set_new(const struct token *tokens, size_t count, const struct quotas *quotas,
                  struct token_set *before, struct token_set **out, struct error *err) WARN_UNUSED;
struct token_set *token_set_ref(struct token_set *set);
void token_set_unref(struct token_set *set); /* NULL is fine */
/* Whether everybody may ask. */
bool token_set_is_open(const struct token_set *set);
/* NULL when none has that digest (64 hex digits). Takes as long for each that is of the set. */
const struct token *token_set_find(const struct token_set *set, const char *sha256);
/* Who asks where everybody may. */
const struct token *token_set_everybody(const struct token_set *set);
/* Whether a request more is within requestsPerSecond; counts it. */
bool token_set_admit(struct token_set *set, const struct token *token, int64_t now_mono_ms);

/* --- auth.c: who asks --- */

/* The token of an Authorization header (RFC 6750: "Bearer", one blank, then characters that base64
 * in any of its forms has); borrowed, NULL when it is anything else. */
const char *auth_bearer(const char *header);

/* Fills tenant and scopes. ERROR_UNAUTHENTICATED, with WWW-Authenticate set, unless the route
 * (NULL: none) is public. */
int auth_check(struct http_exchange *x, struct error *err) WARN_UNUSED;
/* ERROR_FORBIDDEN when the route needs another scope. */
int auth_scope(struct http_exchange *x, struct error *err) WARN_UNUSED;

/* --- framing.c: where a request ends --- */

/* As libmicrohttpd has them: where they lie says what stood between them. */
struct request_line {
    const char *method;
    const char *url; /* unescaped in place */
    const char *version;
};

struct framing {
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
    const char *host;
    const char *length;
    const char *encoding;
};

/* ERROR_INVALID_REQUEST, and x->reply.close set, for a head that can be read in two ways. */
int framing_check(struct http_exchange *x, const struct request_line *line, struct framing *f,
                  struct error *err) WARN_UNUSED;

/* --- head.c: the checks before a body is read --- */

/* Fills method, ids, route. -1: `err` is the answer (and x->reply.close says whether to close). A
 * CORS preflight is answered here: 0 with x->reply set. */
int head_check(struct http_exchange *x, const struct request_line *line,
               struct error *err) WARN_UNUSED;

/* --- reply.c: the one place that sends --- */

/* Queues x->reply on the event thread. */
enum MHD_Result reply_send(struct http_exchange *x) WARN_UNUSED;
/* Writes the stored reply straight to the connection, which libmicrohttpd then must close: the only
 * way to answer in the middle of an upload. */
void reply_send_raw(struct http_exchange *x);
void reply_reset(struct reply *r);
bool reply_is_in_memory(const struct reply *r);

/* --- guard.c --- */

/* At the head: sets x->guarded. */
int guard_choose(struct http_exchange *x, struct error *err) WARN_UNUSED;
/* Whether there is an answer that the guard has not seen. */
bool guard_is_due(const struct http_exchange *x);
void guard_leave(struct http_exchange *x);
/* Frees the guard's state, if there is one. */
void guard_done(struct http_exchange *x);

/* Sets the answer up; takes `data` (malloc'ed). False, with the fault logged and `data` freed, when
 * there is one already. */
bool reply_store(struct http_exchange *x, unsigned status, const char *type, void *data,
                 size_t len);

/* --- spool.c: bodies in files --- */

/* Makes the nameless file. */
int spool_open(struct http_exchange *x, struct error *err) WARN_UNUSED;
/* ERROR_STORAGE_FULL when the disk is. */
int spool_add(struct http_exchange *x, const char *data, size_t len, struct error *err) WARN_UNUSED;

/* --- parts.c --- */

/* The answer made of r->parts, which it takes; NULL when memory is out. */
struct MHD_Response *parts_response(struct reply *r);
void parts_free(struct parts *p); /* NULL is fine */

/* --- stream.c --- */

/* The answer made of x->reply.stream, which it takes; NULL when memory is out. */
struct MHD_Response *stream_response(struct http_exchange *x);
void stream_free(struct stream *s);

/* --- wait.c --- */

/* Carries x->wait out. True: the connection is suspended or, on a worker, was resumed: hands off.
 * False (event thread only): go on at once. */
bool wait_begin(struct http_exchange *x, bool on_event_thread);
/* On the event thread after a wake: ends all subscriptions. */
void wait_end(struct http_exchange *x);
/* For streams, whose subscription outlives their sleep. On the event thread: ends what subscription
 * there is, subscribes to x->wait.topic anew, and returns why the old one was woken. WAKE_STOPPING
 * also when memory is out. */
enum exchange_wake wait_renew(struct http_exchange *x);
/* Under a subscription: suspends until it is woken, at the latest at the deadline. False when it
 * was already. */
bool wait_sleep(struct http_exchange *x, int64_t deadline_mono_ms);
/* Starts the heartbeat that finds dead peers. */
void wait_heartbeat_start(struct http_server *s);
/* With server->stopping set: stops the heartbeat and wakes everything that waits. */
void wait_stop(struct http_server *s);
/* One look at every waiting peer, which is what the heartbeat does; ends the exchanges of those
 * gone. */
void wait_probe_peers(struct http_server *s);

/* --- tls.c --- */

/* A certificate with its key, from PEM files. One per process. */
struct tls;
int tls_new(const char *certificate, const char *key, struct tls **out,
            struct error *err) WARN_UNUSED;
void tls_free(struct tls *t); /* NULL is fine; no connection may be left */
/* Reads the files anew, for handshakes from now on; on failure what was read stays. */
int tls_reload(struct tls *t, struct error *err) WARN_UNUSED;
/* What MHD_OPTION_HTTPS_CERT_CALLBACK takes. */
typedef void (*tls_retrieve)(void);
tls_retrieve tls_callback(void);
/* On a connection's session, without waiting. */
ssize_t tls_send(void *session, const void *data, size_t len);

/* --- listen.c --- */

/* A listening socket for "HOST:PORT", "unix:PATH" or "fd:NUMBER", one that was handed to the
 * process. `loopback_only`: ERROR_INVALID_REQUEST (field "listen") for any other TCP address.
 * Returns owned: the descriptor, the address to print, for a unix socket made here the path. */
struct listener_config {
    const char *listen;
    bool loopback_only;
    unsigned unix_mode;
    bool tls; /* over TCP it is spoken */
};
struct listener {
    int fd;
    bool is_unix;
    char *address;
    char *unix_path;
};
int listener_open(const struct listener_config *config, struct listener *out,
                  struct error *err) WARN_UNUSED;
void listener_done(struct listener *l);

/* --- trace.c --- */

/* The caller's id if it is sane, else a new one. */
void trace_request_id(const char *header, char out[REQUEST_ID_MAX + 1]);
/* The trace id of a W3C traceparent, none when there is none or it is malformed. */
void trace_parent(const char *header, struct log_trace *out);
void trace_log(const struct http_exchange *x);

/* --- origin.c --- */

/* "localhost", 127.0.0.0/8 or [::1], each with or without a port. */
bool origin_host_is_loopback(const char *host);
/* http:// or https:// and a loopback host. */
bool origin_is_loopback(const char *origin);

#endif
