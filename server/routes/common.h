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

/* The rows that the store had for a page, as an array; borrowed. */
struct route_rows {
    const char *kind;  /* as route_page was told */
    const void *items; /* NULL when there are none */
    size_t count;
    size_t size;       /* of one */
    size_t row_offset; /* of its number, an int64_t */
    json_t *(*encode)(struct service *s, const void *item);
};
/* Replies with those of them that the page shows. */
void route_reply_rows(struct http_exchange *x, const struct store_page *page,
                      const struct route_rows *rows);

#endif
