/* Checkpoints on their way to other workers. */
#include "server/services/sharing.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/routes/share_wait.h"

#include <string.h>

enum { LIMIT_DEFAULT = 50, LIMIT_MAX = 200 };

/* --- share --- */

struct share_wait {
    struct share_job *job;
    unsigned status; /* of a success */
    char id[ID_SIZE];
};

static void wait_free(void *state)
{
    struct share_wait *w = state;
    share_job_unref(w->job);
    free(w);
}

static bool share_ready(struct http_exchange *x)
{
    const struct share_wait *w = http_state(x);
    return share_job_is_over(w->job);
}

static void await_share(struct http_exchange *x)
{
    const struct share_wait *w = http_state(x);
    struct error err = ERROR_INIT;
    if (!share_job_is_over(w->job)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_checkpoint(topic, http_tenant(x), w->id);
        http_wait(x, topic, 0, share_ready, await_share);
    } else if (share_job_outcome(w->job, &err) != 0) {
        route_fail(x, &err);
    } else {
        route_reply_checkpoint(x, w->status, w->id);
    }
}

void route_await_share(struct http_exchange *x, const char *id, bool wait, unsigned status)
{
    struct error err = ERROR_INIT;
    struct share_wait *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        error_set(&err, ERROR_INTERNAL, "out of memory");
        route_fail(x, &err);
        return;
    }
    if (sharing_begin(http_service(x), http_tenant(x), id, &w->job, &err) != 0) {
        free(w);
        route_fail(x, &err);
        return;
    }
    w->status = status;
    snprintf(w->id, sizeof(w->id), "%s", id);
    http_set_state(x, w, wait_free);
    if (wait) {
        await_share(x);
    } else {
        route_reply_checkpoint(x, 202, w->id);
    }
}

void route_checkpoint_share(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    bool wait;
    if (service_accepts_work(http_service(x), &err) != 0 || route_wait(x, &wait, &err) != 0 ||
        sharing_check(http_service(x), NULL, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (!wait) {
        route_location(x, "/v1/checkpoints/%s", http_param(x, 0));
    }
    route_await_share(x, http_param(x, 0), wait, 200);
}

/* --- list --- */

static int check_text(const char *text, const char *field, struct error *err)
{
    if (text != NULL && text[0] != '\0' && !id_is_valid(text)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, field,
                               "%s must be the beginning of a checkpoint id", field + 1);
    }
    return 0;
}

void route_shared_list(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    json_t *body = NULL;
    int64_t limit = LIMIT_DEFAULT;
    const char *prefix = http_query(x, "prefix");
    const char *cursor = http_query(x, "cursor");
    if (check_text(prefix, "?prefix", &err) != 0 || check_text(cursor, "?cursor", &err) != 0 ||
        http_query_int(x, "limit", 1, LIMIT_MAX, &limit, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const struct sharing_page page = {
        .tenant = http_tenant(x),
        .prefix = prefix != NULL ? prefix : "",
        .after = cursor != NULL ? cursor : "",
        .limit = (int)limit,
    };
    if (sharing_list(http_service(x), &page, &body, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, 200, body);
}
