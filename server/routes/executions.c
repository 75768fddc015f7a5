#include "server/services/executions.h"
#include "api/execution.h"
#include "base/clock.h"
#include "server/routes/common.h"
#include "server/routes/provision_wait.h"
#include "server/routes/routes.h"
#include "server/services/ending.h"
#include "server/services/provision.h"

#include <string.h>

/* --- create, and what restore shares with it --- */

static void unref_execution(void *arg)
{
    live_unref(arg);
}

static bool provision_ready(struct http_exchange *x)
{
    return provision_settled(http_state(x));
}

static void reply_execution(struct http_exchange *x, unsigned status, const char *execution_id,
                            unsigned incarnation)
{
    struct error err = ERROR_INIT;
    _cleanup_buf_ struct buf text;
    buf_init(&text, EXECUTIONS_VIEW_MAX);
    if (executions_view(http_service(x), http_tenant(x), execution_id, incarnation, &text, &err) !=
        0) {
        route_fail(x, &err);
        return;
    }
    http_reply_bytes(x, status, "application/json", text.data, text.len, true);
}

static void await_provision(struct http_exchange *x)
{
    struct live_execution *execution = http_state(x);
    struct error err = ERROR_INIT;
    if (!provision_settled(execution)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_execution(topic, execution->tenant, execution->execution_id);
        http_wait(x, topic, 0, provision_ready, await_provision);
        return;
    }
    if (provision_outcome(execution, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    route_location_execution(x, execution->execution_id);
    reply_execution(x, 201, execution->execution_id, execution->incarnation);
}

void route_await_provision(struct http_exchange *x, struct live_execution *execution, bool wait)
{
    if (!wait) {
        route_location_execution(x, execution->execution_id);
        reply_execution(x, 202, execution->execution_id, execution->incarnation);
        live_unref(execution);
        return;
    }
    http_set_state(x, execution, unref_execution);
    await_provision(x);
}

void route_execution_create(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    bool wait;
    size_t len;
    const char *body = http_body(x, &len);
    struct api_execution_create request = {0};
    struct live_execution *execution = NULL;
    if (service_accepts_work(s, &err) != 0 || route_wait(x, &wait, &err) != 0 ||
        api_execution_create_decode(body, len, &request, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    request.claim = route_claim(x);
    const struct caller who = {http_tenant(x), http_quotas(x)};
    int result = executions_create(s, &who, &request, &execution, &err);
    api_execution_create_done(&request);
    if (result != 0) {
        route_fail(x, &err);
        return;
    }
    route_await_provision(x, execution, wait);
}

/* --- list --- */

static int state_filter(const char *text, int *out, struct error *err)
{
    *out = -1;
    if (text == NULL) {
        return 0;
    }
    for (int state = STORE_PROVISIONING; state <= STORE_FAILED; state++) {
        if (strcmp(text, executions_state_name((enum store_execution_state)state)) == 0) {
            *out = state;
            return 0;
        }
    }
    return error_set_field(err, ERROR_INVALID_REQUEST, "?state", "there is no state \"%.64s\"",
                           text);
}

/* "key:value"; the key holds no colon. */
static int label_filter(const char *text, char key[ID_SIZE], const char **value, struct error *err)
{
    if (text == NULL) {
        return 0;
    }
    const char *colon = strchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    if (len == 0 || len >= ID_SIZE) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "?label", "it must be key:value");
    }
    memcpy(key, text, len);
    key[len] = '\0';
    *value = colon + 1;
    return 0;
}

static json_t *encode_row(struct service *s, const void *row)
{
    return executions_encode(s, row);
}

static int host_filter(const char *text, struct error *err)
{
    return text == NULL || strcmp(text, "docker") == 0 || strcmp(text, "native") == 0
               ? 0
               : error_set_field(err, ERROR_INVALID_REQUEST, "?host",
                                 "it must be docker or native");
}

void route_execution_list(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    char key[ID_SIZE] = "";
    const char *value = NULL;
    struct store_page page;
    struct store_execution_filter filter = {
        .tenant = http_tenant(x),
        .host = http_query(x, "host"),
        .owner_id = http_query(x, "ownerId"),
    };
    struct store_execution_list list = {0};
    if (state_filter(http_query(x, "state"), &filter.state, &err) != 0 ||
        host_filter(filter.host, &err) != 0 ||
        label_filter(http_query(x, "label"), key, &value, &err) != 0 ||
        route_page(x, "executions", &page, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    filter.label_key = value == NULL ? NULL : key;
    filter.label_value = value;
    if (store_execution_list(s->store, &filter, &page, &list, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const struct route_rows rows = {
        .kind = "executions",
        .items = list.items,
        .count = list.count,
        .size = sizeof(*list.items),
        .row_offset = offsetof(struct store_execution, row),
        .encode = encode_row,
    };
    route_reply_rows(x, &page, &rows);
    store_execution_list_done(&list);
}

/* --- one --- */

struct get_wait {
    unsigned incarnation;
    enum store_execution_state
        seen; /* an answer is due when a wait began in it and it has passed */
    int64_t until;
};

/* Final, or usable where the wait began before that. */
static bool get_due(const struct get_wait *w, enum store_execution_state now)
{
    return now == STORE_TERMINATED || now == STORE_FAILED ||
           (w->seen == STORE_PROVISIONING && now == STORE_PROVISIONED);
}

static bool get_ready(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_execution row = {0};
    const struct get_wait *w = http_state(x);
    bool ready = store_execution_get(s->store, http_tenant(x), http_param(x, 0), w->incarnation,
                                     &row, &err) != 0 ||
                 get_due(w, row.state);
    store_execution_done(&row);
    return ready;
}

static void await_execution(struct http_exchange *x)
{
    const struct get_wait *w = http_state(x);
    if (!http_wait_timed_out(x) && !get_ready(x)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_execution(topic, http_tenant(x), http_param(x, 0));
        http_wait(x, topic, w->until, get_ready, await_execution);
        return;
    }
    reply_execution(x, 200, http_param(x, 0), w->incarnation);
}

static int begin_get_wait(struct http_exchange *x, struct get_wait *w, struct error *err)
{
    struct service *s = http_service(x);
    struct store_execution row = {0};
    if (store_execution_get(s->store, http_tenant(x), http_param(x, 0), w->incarnation, &row,
                            err) != 0) {
        return -1;
    }
    w->seen = row.state;
    w->incarnation = row.incarnation;
    store_execution_done(&row);
    struct get_wait *kept = malloc(sizeof(*kept));
    if (kept == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *kept = *w;
    http_set_state(x, kept, free);
    return 0;
}

void route_execution_get(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct get_wait w = {0};
    if (route_wait_until(x, &w.until, &err) != 0 ||
        route_incarnation(x, &w.incarnation, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (w.until == 0) {
        reply_execution(x, 200, http_param(x, 0), w.incarnation);
        return;
    }
    if (begin_get_wait(x, &w, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    await_execution(x);
}

/* --- changes --- */

static void finish_change(struct http_exchange *x, struct live_execution *execution, int result,
                          const struct error *err)
{
    unsigned incarnation = execution->incarnation;
    live_unref(execution);
    if (result != 0) {
        route_fail(x, err);
        return;
    }
    reply_execution(x, 200, http_param(x, 0), incarnation);
}

void route_execution_patch(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    size_t len;
    const char *body = http_body(x, &len);
    struct api_execution_patch patch = {0};
    struct live_execution *execution = NULL;
    int64_t token;
    if (api_execution_patch_decode(body, len, &patch, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (route_living(x, &execution, &token, &err) != 0) {
        api_execution_patch_done(&patch);
        route_fail(x, &err);
        return;
    }
    int result = executions_patch(execution, &patch, &err);
    api_execution_patch_done(&patch);
    finish_change(x, execution, result, &err);
}

void route_execution_owner(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    size_t len;
    const char *body = http_body(x, &len);
    struct api_owner owner;
    struct live_execution *execution = NULL;
    if (api_owner_decode(body, len, &owner, &err) != 0 ||
        executions_find_live(http_service(x), http_tenant(x), http_param(x, 0), &execution, &err) !=
            0) {
        route_fail(x, &err);
        return;
    }
    int result = executions_set_owner(execution, &owner, &err);
    finish_change(x, execution, result, &err);
}

/* --- ends --- */

/* What lives of the path's id, whatever its state, fenced. 0 with *out NULL: nothing lives. */
static int living_in_any_state(struct http_exchange *x, struct live_execution **out,
                               struct error *err)
{
    struct service *s = http_service(x);
    int64_t token;
    if (http_fencing_token(x, &token, err) != 0) {
        return -1;
    }
    struct live_execution *execution = live_find(s->live, http_tenant(x), http_param(x, 0));
    if (execution != NULL && executions_fence(execution, token, err) != 0) {
        live_unref(execution);
        return -1;
    }
    *out = execution;
    return 0;
}

void route_execution_delete(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct live_execution *execution = NULL;
    if (living_in_any_state(x, &execution, &err) != 0) {
        route_fail(x, &err);
    } else if (execution == NULL) {
        http_reply_empty(x, 204);
    } else {
        route_await_end(x, execution, END_TERMINATED, "terminated by request");
    }
}

void route_execution_reclaim(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct live_execution *execution = NULL;
    int64_t token;
    if (http_fencing_token(x, &token, &err) != 0 || living_in_any_state(x, &execution, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (execution != NULL && executions_may_reclaim(execution, token, &err) != 0) {
        live_unref(execution);
        route_fail(x, &err);
        return;
    }
    if (executions_reclaim_foreign(s, http_tenant(x), http_param(x, 0), token, &err) != 0) {
        live_unref(execution);
        route_fail(x, &err);
    } else if (execution == NULL) {
        http_reply_empty(x, 204);
    } else {
        route_await_end(x, execution, END_RECLAIMED, "reclaimed by identity");
    }
}
