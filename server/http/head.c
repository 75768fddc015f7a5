#include "server/http/exchange.h"

#include <string.h>
#include <strings.h>

/* So much body of a refused request is read rather than the connection closed. */
enum { THROWN_AWAY_MAX = 65536 };

static bool is_mutation(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 &&
           strcmp(method, "OPTIONS") != 0;
}

static const char *configured_origin(const struct http_server *s, const char *origin)
{
    for (size_t i = 0; origin != NULL && s->cors_origins[i] != NULL; i++) {
        if (strcasecmp(s->cors_origins[i], origin) == 0) {
            return s->cors_origins[i];
        }
    }
    return NULL;
}

/* A page that a browser loaded from elsewhere can reach loopback, by its name or through DNS
 * rebinding. */
static int check_origin(struct http_exchange *x, struct error *err)
{
    const char *host = http_header(x, "Host");
    const char *origin = http_header(x, "Origin");

    x->cors_origin = configured_origin(x->server, origin);
    if (!x->server->loopback_rules) {
        return 0;
    }
    if (host == NULL || !origin_host_is_loopback(host)) {
        return error_set(err, ERROR_FORBIDDEN,
                         "without tokens configured, Host must be a loopback name");
    }
    if (is_mutation(x->method) && origin != NULL && x->cors_origin == NULL &&
        !origin_is_loopback(origin)) {
        return error_set(err, ERROR_FORBIDDEN, "the Origin is neither loopback nor in corsOrigins");
    }
    return 0;
}

/* Answers a CORS preflight; false when the request is none. */
static bool answer_preflight(struct http_exchange *x)
{
    if (strcmp(x->method, "OPTIONS") != 0 || x->cors_origin == NULL || x->match.route != NULL ||
        x->match.allow[0] == '\0' || http_header(x, "Access-Control-Request-Method") == NULL) {
        return false;
    }
    http_add_header(x, "Access-Control-Allow-Methods", x->match.allow);
    http_add_header(
        x, "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Fencing-Token, Idempotency-Key, If-None-Match, If-Range, "
        "Last-Event-ID, Range, X-Request-Id, traceparent");
    http_add_header(x, "Access-Control-Max-Age", "600");
    http_reply_empty(x, MHD_HTTP_NO_CONTENT);
    return true;
}

static int check_route(struct http_exchange *x, struct error *err)
{
    if (x->match.route != NULL) {
        return 0;
    }
    if (x->match.allow[0] == '\0') {
        return error_set(err, ERROR_ROUTE_NOT_FOUND, "there is nothing at this path");
    }
    http_add_header(x, "Allow", x->match.allow);
    return error_set(err, ERROR_METHOD_NOT_ALLOWED, "this path does not take %s", x->method);
}

/* "application/json", with no parameter but charset=utf-8. */
static bool is_json_type(const char *type)
{
    static const char json[] = "application/json";
    const char *rest;

    if (strncasecmp(type, json, sizeof(json) - 1) != 0) {
        return false;
    }
    rest = type + sizeof(json) - 1;
    rest += strspn(rest, " \t");
    if (*rest == '\0') {
        return true;
    }
    if (*rest != ';') {
        return false;
    }
    rest++;
    rest += strspn(rest, " \t");
    return strcasecmp(rest, "charset=utf-8") == 0 || strcasecmp(rest, "charset=\"utf-8\"") == 0;
}

/* libmicrohttpd has checked that it is a number of 64 bits. */
static unsigned long long announced_length(const struct framing *f)
{
    return f->length != NULL ? strtoull(f->length, NULL, 10) : 0;
}

static int check_type(struct http_exchange *x, struct error *err)
{
    const struct http_route *route = x->match.route;
    bool any = (route->flags & (ROUTE_BODY_ANY | ROUTE_BODY_FILE)) != 0;
    const char *type = http_header(x, "Content-Type");

    if (!x->body_announced || route->body_max == 0 || any) {
        return 0;
    }
    if (type == NULL || !is_json_type(type)) {
        return error_set(err, ERROR_UNSUPPORTED_MEDIA_TYPE,
                         "a body must be of Content-Type application/json");
    }
    return 0;
}

static int check_body(struct http_exchange *x, const struct framing *f, struct error *err)
{
    const struct http_route *route = x->match.route;
    unsigned long long length = announced_length(f);

    if (route->body_max == 0 && length > 0) {
        x->body_too_long = true;
        return error_set(err, ERROR_PAYLOAD_TOO_LARGE, "this call takes no body");
    }
    if (length > route->body_max) {
        x->body_too_long = true;
        return error_set(err, ERROR_PAYLOAD_TOO_LARGE, "the body is larger than %zu bytes",
                         route->body_max);
    }
    if (check_type(x, err) != 0) {
        return -1;
    }
    if ((route->flags & ROUTE_BODY_FILE) != 0) {
        return spool_open(x, err);
    }
    buf_init(&x->body, route->body_max);
    if (length > 0 && buf_reserve(&x->body, (size_t)length) == NULL) {
        return error_set(err, ERROR_OVERLOADED, "no memory for the body");
    }
    return 0;
}

int head_check(struct http_exchange *x, const struct request_line *line, struct error *err)
{
    struct framing framing;

    snprintf(x->method, sizeof(x->method), "%s", line->method);
    x->http10 = strcmp(line->version, "HTTP/1.0") == 0;
    trace_request_id(http_header(x, "X-Request-Id"), x->request_id);
    trace_parent(http_header(x, "traceparent"), &x->trace);
    if (framing_check(x, line, &framing, err) != 0) {
        x->body_announced = true;
        return -1;
    }
    /* How the lines of its chunks ended can't be seen: nothing behind them is taken for a request.
     */
    x->reply.close = framing.encodings > 0;
    x->body_announced = framing.encodings > 0 || announced_length(&framing) > 0;
    x->body_too_long = framing.encodings > 0 || announced_length(&framing) > THROWN_AWAY_MAX;
    if (server_is_stopping(x->server)) {
        x->reply.close = true;
        return error_set(err, ERROR_OVERLOADED, "the service is stopping");
    }
    if (check_origin(x, err) != 0) {
        return -1;
    }
    router_find(x->server->routes, x->server->route_count, &x->uri, x->method, &x->match);
    /* A browser sends no token with a preflight. */
    if (answer_preflight(x)) {
        return 0;
    }
    if (auth_check(x, err) != 0 || check_route(x, err) != 0 || auth_scope(x, err) != 0 ||
        router_check_query(x->match.route, &x->uri, err) != 0) {
        return -1;
    }
    return guard_choose(x, err) != 0 ? -1 : check_body(x, &framing, err);
}
