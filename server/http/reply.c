#include "server/http/exchange.h"

#include "api/json.h"
#include "api/problem.h"
#include "base/log.h"

#include <string.h>
#include <sys/socket.h>

enum { REPLY_TEXT_MAX = 64 * 1024 * 1024, RAW_HEAD_MAX = 4096 };

void reply_reset(struct reply *r)
{
    if (!r->data_is_static) {
        free(r->data);
    }
    if (r->has_file) {
        close(r->fd);
    }
    parts_free(r->parts);
    stream_free(r->stream);
    for (unsigned i = 0; i < r->header_count; i++) {
        free(r->headers[i].name);
        free(r->headers[i].value);
    }
    *r = (struct reply){0};
}

bool reply_is_in_memory(const struct reply *r)
{
    return !r->has_file && r->stream == NULL && r->parts == NULL;
}

bool reply_store(struct http_exchange *x, unsigned status, const char *type, void *data, size_t len)
{
    struct reply *r = &x->reply;

    if (r->status != 0) {
        log_error("a handler answered twice", "requestId", x->request_id, NULL);
        free(data);
        return false;
    }
    r->status = status;
    r->data = data;
    r->len = len;
    snprintf(r->type, sizeof(r->type), "%s", type);
    return true;
}

static void store_json(struct http_exchange *x, unsigned status, const char *type, json_t *body)
{
    struct buf text;
    size_t len = 0;
    char *data = NULL;

    buf_init(&text, REPLY_TEXT_MAX);
    if (body != NULL && api_json_dump(body, &text) == 0) {
        data = buf_take(&text, &len);
    }
    buf_done(&text);
    json_decref(body);
    if (data == NULL) {
        log_error("no memory for an answer", "requestId", x->request_id, NULL);
        x->reply.close = true;
        (void)reply_store(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "", NULL, 0);
        return;
    }
    (void)reply_store(x, status, type, data, len);
}

void http_reply_json(struct http_exchange *x, unsigned status, json_t *body)
{
    store_json(x, status, "application/json", body);
}

void http_reply_bytes(struct http_exchange *x, unsigned status, const char *type, const void *data,
                      size_t len, bool copy)
{
    void *own = NULL;

    if (copy) {
        own = malloc(len + 1);
        if (own == NULL) {
            store_json(x, status, type, NULL);
            return;
        }
        memcpy(own, data, len);
        (void)reply_store(x, status, type, own, len);
        return;
    }
    if (reply_store(x, status, type, NULL, 0)) {
        x->reply.data = (void *)(uintptr_t)data;
        x->reply.len = len;
        x->reply.data_is_static = true;
    }
}

void http_reply_empty(struct http_exchange *x, unsigned status)
{
    (void)reply_store(x, status, "", NULL, 0);
}

static bool has_header(const struct reply *r, const char *name)
{
    for (unsigned i = 0; i < r->header_count; i++) {
        if (strcmp(r->headers[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

void http_reply_error(struct http_exchange *x, const struct error *err)
{
    unsigned status = (unsigned)api_problem_kind(err->code)->status;

    if (status >= 500 && err->code != ERROR_OVERLOADED) {
        enum log_level level =
            status == MHD_HTTP_INTERNAL_SERVER_ERROR ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN;

        log_failure(level, err, "request failed", "requestId", x->request_id, NULL);
    }
    if (err->code == ERROR_OVERLOADED) {
        http_add_header(x, "Retry-After", "1");
    } else if (err->code == ERROR_QUOTA_EXCEEDED && !has_header(&x->reply, "Retry-After")) {
        http_add_header(x, "Retry-After", "5"); /* something of the tenant's has to end first */
    }
    store_json(x, status, "application/problem+json", api_problem_encode(err, x->request_id));
    x->reply.code = err->code;
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    struct reply *r = &x->reply;
    char *own_name = strdup(name);
    char *own_value = strdup(value);

    if (own_name == NULL || own_value == NULL || r->header_count == HTTP_HEADERS_MAX) {
        log_error("a header of an answer was lost", "header", name, "requestId", x->request_id,
                  NULL);
        free(own_name);
        free(own_value);
        return;
    }
    r->headers[r->header_count].name = own_name;
    r->headers[r->header_count].value = own_value;
    r->header_count++;
}

/* --- sending --- */

static void add_common_headers(struct http_exchange *x,
                               void (*add)(void *ctx, const char *n, const char *v), void *ctx)
{
    const struct reply *r = &x->reply;

    add(ctx, "X-Request-Id", x->request_id);
    if (r->type[0] != '\0') {
        add(ctx, "Content-Type", r->type);
    }
    if (x->server->cors_origins[0] != NULL) {
        add(ctx, "Vary", "Origin");
    }
    if (x->cors_origin != NULL) {
        add(ctx, "Access-Control-Allow-Origin", x->cors_origin);
        add(ctx, "Access-Control-Expose-Headers",
            "Allow, Content-Range, ETag, Idempotency-Replayed, Location, Retry-After, "
            "X-Request-Id");
    }
    for (unsigned i = 0; i < r->header_count; i++) {
        add(ctx, r->headers[i].name, r->headers[i].value);
    }
    if (r->close) {
        add(ctx, "Connection", "close");
    }
}

static void add_to_response(void *ctx, const char *name, const char *value)
{
    if (MHD_add_response_header(ctx, name, value) != MHD_YES) {
        log_error("a header of an answer was refused", "header", name, NULL);
    }
}

static struct MHD_Response *buffer_response(struct reply *r)
{
    enum MHD_ResponseMemoryMode mode =
        r->data_is_static || r->data == NULL ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE;
    struct MHD_Response *response = MHD_create_response_from_buffer(r->len, r->data, mode);

    if (response != NULL) {
        r->data = NULL;
    }
    return response;
}

static struct MHD_Response *file_response(struct reply *r)
{
    struct MHD_Response *response =
        MHD_create_response_from_fd_at_offset64(r->len, r->fd, (uint64_t)r->offset);

    if (response != NULL) {
        r->has_file = false;
    }
    return response;
}

/* What the reply holds is the response's then. */
static struct MHD_Response *make_response(struct http_exchange *x)
{
    if (x->reply.stream != NULL) {
        return stream_response(x);
    }
    if (x->reply.parts != NULL) {
        return parts_response(&x->reply);
    }
    return x->reply.has_file ? file_response(&x->reply) : buffer_response(&x->reply);
}

enum MHD_Result reply_send(struct http_exchange *x)
{
    struct reply *r = &x->reply;
    struct MHD_Response *response = make_response(x);
    enum MHD_Result queued;

    if (response == NULL) {
        return MHD_NO;
    }
    add_common_headers(x, add_to_response, response);
    exchange_set_phase(x, EXCHANGE_ANSWERED);
    x->status_sent = r->status;
    queued = MHD_queue_response(x->connection, r->status, response);
    MHD_destroy_response(response);
    exchange_end_work(x);
    return queued;
}

struct raw_head {
    struct buf text;
    bool failed;
};

static void add_to_raw(void *ctx, const char *name, const char *value)
{
    struct raw_head *head = ctx;

    head->failed |= buf_addf(&head->text, "%s: %s\r\n", name, value) != 0;
}

static ssize_t send_now(struct http_exchange *x, const void *data, size_t len)
{
    const union MHD_ConnectionInfo *info;

    if (x->server->tls == NULL) {
        return send(x->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL ? tls_send(info->tls_session, data, len) : -1;
}

void reply_send_raw(struct http_exchange *x)
{
    struct reply *r = &x->reply;
    struct raw_head head = {0};
    ssize_t sent;

    r->close = true;
    buf_init(&head.text, RAW_HEAD_MAX + r->len);
    head.failed = buf_addf(&head.text, "HTTP/1.1 %u %s\r\nContent-Length: %zu\r\n", r->status,
                           MHD_get_reason_phrase_for(r->status), r->len) != 0;
    add_common_headers(x, add_to_raw, &head);
    head.failed |= buf_add_str(&head.text, "\r\n") != 0;
    if (r->len > 0) {
        head.failed |= buf_add(&head.text, r->data, r->len) != 0;
    }
    exchange_set_phase(x, EXCHANGE_ANSWERED);
    x->status_sent = r->status;
    if (!head.failed) {
        /* A peer with no room for this in its window has not read anything for long: it is cut. */
        sent = send_now(x, head.text.data, head.text.len);
        (void)sent;
    }
    buf_done(&head.text);
}
