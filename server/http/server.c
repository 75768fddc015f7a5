#include "server/http/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

/* A connection's memory holds its head, parsed, and what was read of the body; it is reserved, not
 * used, until something comes. Heads of 16 KiB with many fields fit. */
enum { CONNECTION_MEMORY = 48 * 1024, CONNECTION_MEMORY_STEP = 4096 };
/* So long a stopping server waits for peers to take their answers. */
enum { LAST_ANSWERS_SECONDS = 1, HEARTBEAT_MS = 15000, UNIX_MODE = 0660 };

static const char TLS_PRIORITIES[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

/* --- the way of a request --- */

/* On the event thread after a wake. False: the peer is gone. */
static bool go_on(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    enum exchange_wake reason;

    pthread_mutex_lock(&x->lock);
    reason = x->wake;
    x->wake = WAKE_NONE;
    pthread_mutex_unlock(&x->lock);
    if (x->waiting != NULL) {
        wait_end(x);
    }
    switch (reason) {
    case WAKE_NONE: break; /* a worker has left the answer */
    case WAKE_PEER_GONE: return false;
    case WAKE_STOPPING:
        x->guard_left = true; /* this answer is not the request's */
        x->reply.close = true;
        (void)error_set(&err, ERROR_OVERLOADED, "the service can't wait for this any longer");
        http_reply_error(x, &err);
        break;
    case WAKE_TOPIC:
    case WAKE_TIMEOUT:
        x->timed_out = reason == WAKE_TIMEOUT;
        x->wait.again(x);
        break;
    }
    return true;
}

static void reply_missing_answer(struct http_exchange *x)
{
    struct error err = ERROR_INIT;

    (void)error_set(&err, ERROR_INTERNAL, "the handler gave no answer");
    http_reply_error(x, &err);
}

static void run_job(void *arg)
{
    struct http_exchange *x = arg;
    http_handler job = TAKE_PTR(x->job);

    log_trace_set(x->trace);
    job(x);
    if (guard_is_due(x)) {
        guard_leave(x);
    }
    if (x->reply.status == 0 && x->wait.asked) {
        wait_begin(x, false);
    } else {
        pthread_mutex_lock(&x->lock);
        exchange_resume_locked(x);
        pthread_mutex_unlock(&x->lock);
    }
    exchange_unref(x);
}

/* Suspends for x->job. `always`: it is not refused though the pool is full. */
static enum MHD_Result start_job(struct http_exchange *x, bool always)
{
    struct error err = ERROR_INIT;
    int rc = 0;
    unsigned kind = (x->match.route->flags & ROUTE_LONG) != 0 ? x->server->long_kind : 0;

    exchange_ref(x);
    /* The worker may be done before the connection is suspended: it takes the lock to resume it. */
    pthread_mutex_lock(&x->lock);
    x->phase = EXCHANGE_JOB;
    if (always) {
        pool_submit_owned_always(x->server->pool, kind, x->tenant, run_job, x);
    } else {
        rc = pool_submit_owned(x->server->pool, kind, x->tenant, run_job, x, &err);
    }
    if (rc == 0) {
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    if (rc == 0) {
        return MHD_YES;
    }
    exchange_unref(x);
    http_reply_error(x, &err);
    return reply_send(x);
}

/* Sends the answer, or suspends for what the handler or the guard waits for. */
static enum MHD_Result settle(struct http_exchange *x)
{
    while (x->reply.status == 0) {
        if (x->job != NULL) {
            return start_job(x, true);
        }
        if (!x->wait.asked) {
            reply_missing_answer(x);
        } else if (wait_begin(x, true)) {
            return MHD_YES;
        } else if (!go_on(x)) {
            return MHD_NO;
        }
    }
    if (guard_is_due(x)) {
        x->job = guard_leave;
        return start_job(x, true);
    }
    return reply_send(x);
}

static enum MHD_Result on_request_complete(struct http_exchange *x)
{
    struct error err = ERROR_INIT;

    deadline_request_read(x->peer);
    if (x->reply.status != 0) {
        return reply_send(x);
    }
    if (!exchange_begin_work(x)) {
        x->reply.close = true;
        (void)error_set(&err, ERROR_OVERLOADED, "the service is stopping");
        http_reply_error(x, &err);
        return reply_send(x);
    }
    if (x->guarded || (x->match.route->flags & ROUTE_JOB) != 0) {
        x->job = x->guarded ? x->server->guard->enter : x->match.route->handler;
        return start_job(x, false);
    }
    x->match.route->handler(x);
    return settle(x);
}

static void keep_for_linger(struct http_exchange *x)
{
    if (x->body_announced && x->linger_fd < 0) {
        x->linger_fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
    }
}

/* An answer at the head makes libmicrohttpd close the connection. Where no more than a little body
 * follows it is read and thrown away first, so that the connection can be used again. */
static bool answers_at_head(const struct http_exchange *x)
{
    return x->reply.close || x->body_too_long || http_header(x, "Expect") != NULL;
}

static enum MHD_Result on_head(struct http_exchange *x, const struct request_line *line)
{
    struct error err = ERROR_INIT;

    deadline_head_read(x->peer);
    if (head_check(x, line, &err) != 0) {
        http_reply_error(x, &err);
    }
    if (x->reply.status != 0 && answers_at_head(x)) {
        deadline_request_read(x->peer);
        keep_for_linger(x);
        return reply_send(x);
    }
    exchange_set_phase(x, EXCHANGE_BODY);
    return MHD_YES;
}

/* libmicrohttpd takes no reply in the middle of an upload, so this one goes around it. */
static enum MHD_Result refuse_upload(struct http_exchange *x, const struct error *err)
{
    keep_for_linger(x);
    http_reply_error(x, err);
    reply_send_raw(x);
    return MHD_NO;
}

static int keep_body(struct http_exchange *x, const char *data, size_t size, struct error *err)
{
    if ((x->match.route->flags & ROUTE_BODY_FILE) != 0) {
        return spool_add(x, data, size, err);
    }
    if (buf_add(&x->body, data, size) != 0) {
        return error_set(err, ERROR_OVERLOADED, "no memory for the body");
    }
    return 0;
}

static enum MHD_Result on_body(struct http_exchange *x, const char *data, size_t *size)
{
    struct error err = ERROR_INIT;

    deadline_body_grew(x->peer, *size);
    if (x->reply.status != 0) {
        *size = 0; /* refused at its head */
        return MHD_YES;
    }
    if (*size > x->match.route->body_max - (size_t)x->body_size) {
        (void)error_set(&err, ERROR_PAYLOAD_TOO_LARGE, "the body is larger than this call takes");
        return refuse_upload(x, &err);
    }
    if (keep_body(x, data, *size, &err) != 0) {
        return refuse_upload(x, &err);
    }
    x->body_size += (int64_t)*size;
    *size = 0;
    return MHD_YES;
}

static enum exchange_phase phase_of(struct http_exchange *x)
{
    enum exchange_phase phase;

    pthread_mutex_lock(&x->lock);
    phase = x->phase;
    pthread_mutex_unlock(&x->lock);
    return phase;
}

static enum MHD_Result access_exchange(struct http_exchange *x, const struct request_line *line,
                                       const char *data, size_t *size)
{
    switch (phase_of(x)) {
    case EXCHANGE_HEAD: return on_head(x, line);
    case EXCHANGE_BODY: return *size > 0 ? on_body(x, data, size) : on_request_complete(x);
    case EXCHANGE_RESUMED: return go_on(x) ? settle(x) : MHD_NO;
    default: return MHD_NO;
    }
}

/* NOLINTNEXTLINE(readability-function-size): the signature is libmicrohttpd's */
static enum MHD_Result on_access(void *cls, struct MHD_Connection *c, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **context)
{
    struct http_exchange *x = *context;
    const struct request_line line = {method, url, version};

    (void)cls;
    (void)c;
    if (x == NULL) {
        return MHD_NO; /* no memory at the request line */
    }
    log_trace_set(x->trace);
    enum MHD_Result result = access_exchange(x, &line, data, size);
    log_trace_set((struct log_trace){{0}});
    return result;
}

static void *on_request_line(void *cls, const char *target, struct MHD_Connection *c)
{
    return target != NULL ? exchange_new(cls, c, target) : NULL;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http_exchange *x = TAKE_PTR(*context);

    (void)cls;
    (void)c;
    (void)code;
    if (x != NULL) {
        deadline_request_over(x->peer);
        log_trace_set(x->trace);
        exchange_completed(x);
        log_trace_set((struct log_trace){{0}});
    }
}

/* --- start and end --- */

static int copy_origins(struct http_server *s, const char *const *origins)
{
    size_t count = 0;

    while (origins != NULL && origins[count] != NULL) {
        count++;
    }
    s->cors_origins = calloc(count + 1, sizeof(*s->cors_origins));
    for (size_t i = 0; s->cors_origins != NULL && i < count; i++) {
        s->cors_origins[i] = strdup(origins[i]);
        if (s->cors_origins[i] == NULL) {
            return -1;
        }
    }
    return s->cors_origins != NULL ? 0 : -1;
}

static void destroy(struct http_server *s)
{
    deadlines_free(s->deadlines);
    linger_free(s->linger);
    if (s->unix_path != NULL) {
        unlink(s->unix_path);
    }
    for (size_t i = 0; s->cors_origins != NULL && s->cors_origins[i] != NULL; i++) {
        free(s->cors_origins[i]);
    }
    free(s->cors_origins);
    free(s->scratch);
    free(s->unix_path);
    free(s->address);
    pthread_cond_destroy(&s->changed);
    token_set_unref(s->tokens);
    tls_free(s->tls);
    pthread_mutex_destroy(&s->token_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static int start_daemon(struct http_server *s, const struct http_config *config, int listen_fd,
                        struct error *err)
{
    enum { TLS = MHD_USE_TLS, OPTIONS = 5 };
    struct MHD_OptionItem more[OPTIONS];
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    unsigned count = 0;

    if (config->threads > 1) { /* a pool of one is refused */
        more[count++] =
            (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)config->threads, NULL};
    }
    if (s->tls != NULL) {
        flags |= TLS;
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
                                                (void *)(uintptr_t)tls_callback()};
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0,
                                                (void *)(uintptr_t)TLS_PRIORITIES};
    }
    if (s->deadlines != NULL) {
        more[count++] = (struct MHD_OptionItem){MHD_OPTION_NOTIFY_CONNECTION,
                                                (intptr_t)deadline_on_connection, s};
    }
    more[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    errno = 0;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, s, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, config->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        config->head_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)CONNECTION_MEMORY_STEP,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_request_line, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (s->daemon == NULL) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "cannot start the HTTP server");
    }
    return 0;
}

/* Timed waits count on the monotonic clock. */
static void init_changed(struct http_server *s)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static int make_deadlines(struct http_server *s, const struct http_config *config,
                          struct error *err)
{
    const struct deadline_config deadlines = {
        .head_ms = (int64_t)config->whole_head_s * 1000,
        .idle_ms = (int64_t)config->head_timeout_s * 1000,
        .body_ms = (int64_t)config->whole_body_s * 1000,
        .body_rate = config->body_rate,
    };

    return config->whole_head_s != 0 ? deadlines_new(&deadlines, config->timers, &s->deadlines, err)
                                     : 0;
}

/* TLS is for TCP: who reaches a unix socket is on this machine already. */
static int open_listener(struct http_server *s, const struct http_config *config,
                         struct listener *out, struct error *err)
{
    const struct listener_config listen = {
        .listen = config->listen,
        .loopback_only = config->loopback_rules,
        .unix_mode = config->unix_mode != 0 ? config->unix_mode : UNIX_MODE,
        .tls = config->tls_certificate != NULL,
    };

    if (listener_open(&listen, out, err) != 0) {
        return -1;
    }
    if (listen.tls && !out->is_unix &&
        tls_new(config->tls_certificate, config->tls_key, &s->tls, err) != 0) {
        listener_done(out);
        return -1;
    }
    return 0;
}

int http_server_new(const struct http_config *config, struct http_server **out, struct error *err)
{
    struct http_server *s = calloc(1, sizeof(*s));
    struct listener listener = {.fd = -1};

    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->token_lock, NULL);
    init_changed(s);
    TAILQ_INIT(&s->waiting);
    s->topics = config->topics;
    s->guard = config->guard;
    s->routes = config->routes;
    s->route_count = config->route_count;
    s->service = config->service;
    s->pool = config->pool;
    s->long_kind = config->long_kind;
    s->completed = config->completed;
    s->timers = config->timers;
    s->heartbeat_ms = config->heartbeat_ms > 0 ? config->heartbeat_ms : HEARTBEAT_MS;
    s->scratch = config->scratch != NULL ? strdup(config->scratch) : NULL;
    if (copy_origins(s, config->cors_origins) != 0 ||
        (config->scratch != NULL && s->scratch == NULL)) {
        (void)error_set(err, ERROR_INTERNAL, "out of memory");
        goto fail;
    }
    if (token_set_new(config->tokens, config->token_count, config->quotas, NULL, &s->tokens, err) !=
            0 ||
        linger_new(config->timers, &s->linger, err) != 0 || make_deadlines(s, config, err) != 0 ||
        open_listener(s, config, &listener, err) != 0) {
        goto fail;
    }
    s->address = TAKE_PTR(listener.address);
    s->unix_path = TAKE_PTR(listener.unix_path);
    s->loopback_rules = config->loopback_rules && !listener.is_unix;
    /* libmicrohttpd closes the socket, also when it fails. */
    if (start_daemon(s, config, TAKE_FD(listener.fd), err) != 0) {
        goto fail;
    }
    wait_heartbeat_start(s);
    *out = s;
    return 0;

fail:
    destroy(s);
    return -1;
}

const char *http_server_address(const struct http_server *s)
{
    return s->address;
}

/* Handlers take their time; then answers get a moment to leave. */
static void wait_for_exchanges(struct http_server *s)
{
    struct timespec until;
    int rc = 0;

    pthread_mutex_lock(&s->lock);
    while (s->working > 0) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LAST_ANSWERS_SECONDS;
    while (s->exchanges > 0 && rc == 0) {
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
}

void http_server_stop(struct http_server *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    wait_stop(s);
}

void http_server_free(struct http_server *s)
{
    if (s == NULL) {
        return;
    }
    http_server_stop(s);
    wait_for_exchanges(s);
    MHD_stop_daemon(s->daemon);
    /* Wakers that lost the race against an answer may still hold a reference for a moment. */
    pthread_mutex_lock(&s->lock);
    while (s->exchanges > 0) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    destroy(s);
}
