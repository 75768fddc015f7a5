#include "server/routes/common.h"

#include "api/list.h"
#include "base/clock.h"
#include "server/services/ending.h"
#include "server/services/executions.h"

#include <string.h>

enum { WAIT_MS_MAX = 60000, LOCATION_MAX = 512 };

int route_wait(const struct http_exchange *x, bool *wait, struct error *err)
{
    *wait = true;
    return http_query_bool(x, "wait", wait, err);
}

int route_wait_until(const struct http_exchange *x, int64_t *until, struct error *err)
{
    int64_t ms = 0;
    if (http_query_int(x, "waitMs", 0, WAIT_MS_MAX, &ms, err) != 0) {
        return -1;
    }
    *until = ms == 0 ? 0 : clock_mono_ms() + ms;
    return 0;
}

int route_incarnation(const struct http_exchange *x, unsigned *incarnation, struct error *err)
{
    int64_t number = 0;
    if (http_query_int(x, "incarnation", 1, 1000000000, &number, err) != 0) {
        return -1;
    }
    *incarnation = (unsigned)number;
    return 0;
}

int route_execution_row(const struct http_exchange *x, int64_t *row, struct error *err)
{
    struct service *s = http_service(x);
    unsigned incarnation = 0;
    if (route_incarnation(x, &incarnation, err) != 0) {
        return -1;
    }
    return store_execution_row(s->store, http_tenant(x), http_param(x, 0), incarnation, row, err);
}

int route_living(struct http_exchange *x, struct live_execution **out, int64_t *token,
                 struct error *err)
{
    struct live_execution *execution = NULL;
    if (http_fencing_token(x, token, err) != 0 ||
        executions_find_live(http_service(x), http_tenant(x), http_param(x, 0), &execution, err) !=
            0) {
        return -1;
    }
    if (executions_fence(execution, *token, err) != 0) {
        live_unref(execution);
        return -1;
    }
    *out = execution;
    return 0;
}

void route_location(struct http_exchange *x, const char *fmt, ...)
{
    char location[LOCATION_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(location, sizeof(location), fmt, ap);
    va_end(ap);
    http_add_header(x, "Location", location);
}

void route_location_execution(struct http_exchange *x, const char *execution_id)
{
    route_location(x, "/v1/executions/%s", execution_id);
}

/* --- ends --- */

struct end_wait {
    struct live_execution *execution;
    unsigned attempts; /* failed ones before this request */
};

static void end_wait_free(void *arg)
{
    struct end_wait *w = arg;
    live_unref(w->execution);
    free(w);
}

static bool end_known(struct http_exchange *x)
{
    const struct end_wait *w = http_state(x);
    struct live *l = w->execution->service->live;
    live_lock(l);
    bool known = w->execution->phase == LIVE_ENDED || w->execution->failed_attempts > w->attempts;
    live_unlock(l);
    return known;
}

static void await_end(struct http_exchange *x)
{
    const struct end_wait *w = http_state(x);
    if (!end_known(x)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_execution(topic, w->execution->tenant, w->execution->execution_id);
        http_wait(x, topic, 0, end_known, await_end);
        return;
    }
    live_lock(w->execution->service->live);
    bool ended = w->execution->phase == LIVE_ENDED;
    struct error failure = w->execution->failure;
    live_unlock(w->execution->service->live);
    if (ended) {
        http_reply_empty(x, 204);
    } else {
        http_reply_error(x, &failure);
    }
}

void route_await_end(struct http_exchange *x, struct live_execution *execution,
                     enum end_reason reason, const char *detail)
{
    struct end_wait *w = malloc(sizeof(*w));
    if (w == NULL) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_INTERNAL, "out of memory");
        live_unref(execution);
        http_reply_error(x, &err);
        return;
    }
    live_lock(execution->service->live);
    *w = (struct end_wait){execution, execution->failed_attempts};
    live_unlock(execution->service->live);
    http_set_state(x, w, end_wait_free);
    ending_begin(execution, reason, detail);
    await_end(x);
}

/* --- lists --- */

int route_page(const struct http_exchange *x, const char *kind, struct store_page *page,
               struct error *err)
{
    struct api_page asked;
    if (api_page_decode(kind, http_query(x, "limit"), http_query(x, "cursor"), &asked, err) != 0) {
        return -1;
    }
    page->before = asked.before_row == INT64_MAX ? 0 : asked.before_row;
    page->limit = (int)asked.limit + 1;
    return 0;
}

void route_reply_rows(struct http_exchange *x, const struct store_page *page,
                      const struct route_rows *rows)
{
    size_t limit = (size_t)page->limit - 1;
    size_t shown = rows->count < limit ? rows->count : limit;
    bool more = shown < rows->count;
    char cursor[API_CURSOR_SIZE];
    json_t *items = json_array();
    const char *item = rows->items;
    int64_t last = 0;
    for (size_t i = 0; i < shown; i++, item += rows->size) {
        json_array_append_new(items, rows->encode(http_service(x), item));
        memcpy(&last, item + rows->row_offset, sizeof(last));
    }
    if (more) {
        api_cursor_encode(rows->kind, last, cursor);
    }
    http_reply_json(x, 200, api_list_encode(items, more ? cursor : NULL));
}
