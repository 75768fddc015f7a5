/* What several routes need. */
#ifndef EXECHOST_SERVER_ROUTES_COMMON_H
#define EXECHOST_SERVER_ROUTES_COMMON_H

#include "server/http/http.h"
#include "server/services/live.h"

/* Fails the exchange: `return route_fail(x, &err)`. */
static inline void route_fail(struct http_exchange *x, const struct error *err)
{
    http_reply_error(x, err);
}

/* `?wait=`, true when absent. */
int route_wait(const struct http_exchange *x, bool *wait, struct error *err) WARN_UNUSED;
/* `?waitMs=`: when the answer is due on the monotonic clock; 0 when absent. */
int route_wait_until(const struct http_exchange *x, int64_t *until, struct error *err) WARN_UNUSED;
/* `?incarnation=`, 0 when absent. */
int route_incarnation(const struct http_exchange *x, unsigned *incarnation,
                      struct error *err) WARN_UNUSED;
/* The number of the execution's row that the path (first parameter) and ?incarnation= name. */
int route_execution_row(const struct http_exchange *x, int64_t *row, struct error *err) WARN_UNUSED;
/* The living execution of the path for a mutation: found, and let through by its fencing token
 * (*token, -1: none). Returns owned. */
int route_living(struct http_exchange *x, struct live_execution **out, int64_t *token,
                 struct error *err) WARN_UNUSED;

/* The row of the request's idempotency key, for what the request makes; 0: none. */
int64_t route_claim(const struct http_exchange *x);

/* Location: <path of the execution>[/<kind>/<id>]. */
void route_location_execution(struct http_exchange *x, const char *execution_id);
void route_location(struct http_exchange *x, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Replies with the checkpoint of that id. */
void route_reply_checkpoint(struct http_exchange *x, unsigned status, const char *id);

/* Ends an execution and answers 204 once nothing is left, or says why not. Takes the reference. */
void route_await_end(struct http_exchange *x, struct live_execution *execution,
                     enum end_reason reason, const char *detail);

/* The page of a list from limit and cursor; it asks for one row more than is shown, which tells
 * whether there is another page. */
int route_page(const struct http_exchange *x, const char *kind, struct store_page *page,
               struct error *err) WARN_UNUSED;
/* How many of `count` rows are shown. */
size_t route_page_shown(const struct store_page *page, size_t count);
/* Replies with a page: `items` is taken; `last_row` is that of the last one shown. */
void route_reply_page(struct http_exchange *x, const char *kind, json_t *items, bool more,
                      int64_t last_row);

#endif
