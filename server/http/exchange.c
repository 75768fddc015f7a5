#include "server/http/exchange.h"

#include "api/execution.h"
#include "base/clock.h"
#include "server/http/request_digest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

struct http_exchange *exchange_new(struct http_server *s, struct MHD_Connection *c,
                                   const char *target)
{
    const union MHD_ConnectionInfo *info;
    struct http_exchange *x = calloc(1, sizeof(*x));

    if (x == NULL || uri_parse(&x->uri, target) != 0) {
        free(x);
        return NULL;
    }
    x->server = s;
    x->connection = c;
    info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->fd = info != NULL ? info->connect_fd : -1;
    x->peer = s->deadlines != NULL ? deadline_peer(c) : NULL;
    atomic_init(&x->refs, 1);
    pthread_mutex_init(&x->lock, NULL);
    x->phase = EXCHANGE_HEAD;
    x->linger_fd = -1;
    x->body_fd = -1;
    x->started_us = clock_mono_us();
    buf_init(&x->body, 0);
    pthread_mutex_lock(&s->lock);
    s->exchanges++;
    pthread_mutex_unlock(&s->lock);
    return x;
}

void exchange_ref(struct http_exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
}

void exchange_unref(struct http_exchange *x)
{
    struct http_server *s = x->server;

    if (atomic_fetch_sub(&x->refs, 1) != 1) {
        return;
    }
    reply_reset(&x->reply);
    buf_done(&x->body);
    if (x->body_fd >= 0) {
        close(x->body_fd);
    }
    uri_done(&x->uri);
    token_set_unref(x->tokens);
    pthread_mutex_destroy(&x->lock);
    free(x);
    pthread_mutex_lock(&s->lock);
    s->exchanges--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool exchange_begin_work(struct http_exchange *x)
{
    struct http_server *s = x->server;

    pthread_mutex_lock(&s->lock);
    x->working = !s->stopping;
    s->working += x->working ? 1 : 0;
    pthread_mutex_unlock(&s->lock);
    return x->working;
}

void exchange_end_work(struct http_exchange *x)
{
    struct http_server *s = x->server;

    if (!x->working) {
        return;
    }
    x->working = false;
    pthread_mutex_lock(&s->lock);
    s->working--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void exchange_completed(struct http_exchange *x)
{
    if (x->waiting != NULL) {
        wait_end(x);
    }
    if (x->state_done != NULL) {
        x->state_done(x->state);
        x->state_done = NULL;
    }
    guard_done(x);
    if (x->linger_fd >= 0) {
        linger_add(x->server->linger, TAKE_FD(x->linger_fd));
    }
    trace_log(x);
    if (x->server->completed != NULL) {
        x->server->completed(x);
    }
    exchange_end_work(x);
    exchange_unref(x);
}

void exchange_set_phase(struct http_exchange *x, enum exchange_phase phase)
{
    pthread_mutex_lock(&x->lock);
    x->phase = phase;
    pthread_mutex_unlock(&x->lock);
}

void exchange_resume_locked(struct http_exchange *x)
{
    x->phase = EXCHANGE_RESUMED;
    MHD_resume_connection(x->connection);
}

bool server_is_stopping(struct http_server *s)
{
    bool stopping;

    pthread_mutex_lock(&s->lock);
    stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

struct field {
    const char *name;
    const char *value;
    unsigned count;
};

static enum MHD_Result count_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct field *f = cls;

    (void)kind;
    if (strcasecmp(name, f->name) == 0) {
        f->count++;
        f->value = value != NULL ? value : "";
    }
    return MHD_YES;
}

unsigned exchange_header(const struct http_exchange *x, const char *name, const char **value)
{
    struct field f = {.name = name};

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_field, &f);
    *value = f.value;
    return f.count;
}

/* --- what handlers ask --- */

void *http_service(const struct http_exchange *x)
{
    return x->server->service;
}

const char *http_method(const struct http_exchange *x)
{
    return x->method;
}

const struct http_route *http_route(const struct http_exchange *x)
{
    return x->match.route;
}

int http_request_digest(const struct http_exchange *x, const char *except,
                        char out[DIGEST_TEXT_SIZE], struct error *err)
{
    const struct request_body body = {.data = x->body.data, .size = x->body_size, .fd = x->body_fd};

    return request_digest(x->method, &x->uri, except, &body, out, err);
}

const char *http_request_id(const struct http_exchange *x)
{
    return x->request_id;
}

const char *http_param(const struct http_exchange *x, unsigned index)
{
    return index < HTTP_PARAMS_MAX ? x->match.params[index] : NULL;
}

const char *http_query(const struct http_exchange *x, const char *name)
{
    return uri_query(&x->uri, name);
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_exchange *x, size_t *len)
{
    *len = x->body.len;
    return buf_str(&x->body);
}

/* Decimal digits with an optional minus, nothing else: strtoll alone takes blanks and plus signs.
 */
static int parse_int(const char *text, int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end;
    long long value;

    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0') {
        return -1;
    }
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return -1;
    }
    *out = value;
    return 0;
}

int http_query_int(const struct http_exchange *x, const char *name, int64_t min, int64_t max,
                   int64_t *out, struct error *err)
{
    const char *text = http_query(x, name);
    int64_t value;

    if (text == NULL) {
        return 0;
    }
    if (parse_int(text, &value) != 0 || value < min || value > max) {
        char rule[96];

        snprintf(rule, sizeof(rule), "must be an integer from %" PRId64 " to %" PRId64, min, max);
        return uri_query_fault(err, name, rule);
    }
    *out = value;
    return 0;
}

int http_query_bool(const struct http_exchange *x, const char *name, bool *out, struct error *err)
{
    const char *text = http_query(x, name);

    if (text == NULL) {
        return 0;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return uri_query_fault(err, name, "must be true or false");
    }
    *out = text[0] == 't';
    return 0;
}

int http_fencing_token(const struct http_exchange *x, int64_t *out, struct error *err)
{
    const char *text = http_header(x, "Fencing-Token");

    if (text == NULL) {
        *out = -1;
        return 0;
    }
    return api_fencing_token_decode(text, out, err);
}

void http_set_state(struct http_exchange *x, void *state, void (*done)(void *))
{
    if (x->state_done != NULL) {
        x->state_done(x->state);
    }
    x->state = state;
    x->state_done = done;
}

void *http_state(const struct http_exchange *x)
{
    return x->state;
}

bool http_wait_timed_out(const struct http_exchange *x)
{
    return x->timed_out;
}
