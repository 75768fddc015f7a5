#include "server/services/checkpoints.h"
#include "api/checkpoint.h"
#include "base/clock.h"
#include "server/routes/common.h"
#include "server/routes/provision_wait.h"
#include "server/routes/resume.h"
#include "server/routes/routes.h"
#include "server/services/sharing.h"

#include <string.h>

/* --- create --- */

void route_reply_checkpoint(struct http_exchange *x, unsigned status, const char *id)
{
    struct error err = ERROR_INIT;
    json_t *body = NULL;
    bool pending;
    if (checkpoints_view(http_service(x), http_tenant(x), id, &body, &pending, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, status, body);
}

void route_reply_checkpoint_created(struct http_exchange *x, const char *id)
{
    route_location(x, "/v1/checkpoints/%s", id);
    route_reply_checkpoint(x, 201, id);
}

static void unref_job(void *arg)
{
    checkpoint_job_unref(arg);
}

static bool is_over(struct checkpoint_job *job)
{
    struct share_job *sharing = checkpoint_job_sharing(job);
    return checkpoint_job_is_over(job) && (sharing == NULL || share_job_is_over(sharing));
}

static bool job_ready(struct http_exchange *x)
{
    return is_over(http_state(x));
}

static int outcome(struct checkpoint_job *job, struct error *err)
{
    struct share_job *sharing = checkpoint_job_sharing(job);
    if (checkpoint_job_outcome(job, err) != 0) {
        return -1;
    }
    return sharing == NULL ? 0 : share_job_outcome(sharing, err);
}

static void await_job(struct http_exchange *x)
{
    struct checkpoint_job *job = http_state(x);
    struct error err = ERROR_INIT;
    if (!is_over(job)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_checkpoint(topic, http_tenant(x), checkpoint_job_id(job));
        http_wait(x, topic, 0, job_ready, await_job);
        return;
    }
    if (outcome(job, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    route_reply_checkpoint_created(x, checkpoint_job_id(job));
}

static int create(struct http_exchange *x, struct checkpoint_job **job, struct error *err)
{
    size_t len;
    int64_t token;
    const char *body = http_body(x, &len);
    struct api_checkpoint_create request = {0};
    struct live_execution *execution = NULL;
    if (service_accepts_work(http_service(x), err) != 0 ||
        api_checkpoint_create_decode(body, len, &request, err) != 0) {
        return -1;
    }
    int result = route_living(x, &execution, &token, err);
    request.claim = route_claim(x);
    if (result == 0) {
        result = checkpoints_create(execution, http_quotas(x), &request, token, job, err);
    }
    api_checkpoint_create_done(&request);
    live_unref(execution);
    return result;
}

void route_checkpoint_create(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    struct checkpoint_job *job = NULL;
    bool wait;
    if (route_wait(x, &wait, &err) != 0 || create(x, &job, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_set_state(x, job, unref_job);
    if (wait) {
        await_job(x);
        return;
    }
    route_location(x, "/v1/checkpoints/%s", checkpoint_job_id(job));
    http_reply_json(x, 202, checkpoint_job_view(job));
}

/* --- show --- */

static int check_durability(const char *text, struct error *err)
{
    static const char *const known[] = {"local", "uploading", "durable", "failed"};
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (text == NULL || strcmp(text, known[i]) == 0) {
            return 0;
        }
    }
    return error_set_field(err, ERROR_INVALID_REQUEST, "?durability",
                           "there is no durability \"%.64s\"", text);
}

static json_t *encode_row(struct service *s, const void *row)
{
    return checkpoints_encode(s, row);
}

void route_checkpoint_list(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_page page;
    struct store_checkpoint_list list = {0};
    const struct store_checkpoint_filter filter = {
        .tenant = http_tenant(x),
        .source_execution_id = http_query(x, "sourceExecutionId"),
        .durability = http_query(x, "durability"),
    };
    if (check_durability(filter.durability, &err) != 0 ||
        route_page(x, "checkpoints", &page, &err) != 0 ||
        store_checkpoint_list(s->store, &filter, &page, &list, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    const struct route_rows rows = {
        .kind = "checkpoints",
        .items = list.items,
        .count = list.count,
        .size = sizeof(*list.items),
        .row_offset = offsetof(struct store_checkpoint, row),
        .encode = encode_row,
    };
    route_reply_rows(x, &page, &rows);
    store_checkpoint_list_done(&list);
}

static bool checkpoint_ready(struct http_exchange *x)
{
    struct service *s = http_service(x);
    return !checkpoints_is_pending(s, http_tenant(x), http_param(x, 0)) &&
           !sharing_is_active(s, http_tenant(x), http_param(x, 0));
}

static void await_checkpoint(struct http_exchange *x)
{
    const int64_t *until = http_state(x);
    if (!http_wait_timed_out(x) && !checkpoint_ready(x)) {
        char topic[LIVE_TOPIC_SIZE];
        live_topic_checkpoint(topic, http_tenant(x), http_param(x, 0));
        http_wait(x, topic, *until, checkpoint_ready, await_checkpoint);
        return;
    }
    route_reply_checkpoint(x, 200, http_param(x, 0));
}

void route_checkpoint_get(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    int64_t until;
    if (route_wait_until(x, &until, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    if (until == 0) {
        route_reply_checkpoint(x, 200, http_param(x, 0));
        return;
    }
    int64_t *kept = malloc(sizeof(*kept));
    if (kept == NULL) {
        error_set(&err, ERROR_INTERNAL, "out of memory");
        route_fail(x, &err);
        return;
    }
    *kept = until;
    http_set_state(x, kept, free);
    await_checkpoint(x);
}

/* --- verify, restore, delete --- */

void route_checkpoint_verify(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    json_t *body = NULL;
    if (checkpoints_verify(http_service(x), http_tenant(x), http_param(x, 0), &body, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_json(x, 200, body);
}

void route_checkpoint_restore(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    bool wait;
    size_t len;
    const char *body = http_body(x, &len);
    struct api_checkpoint_restore request = {0};
    struct live_execution *execution = NULL;
    if (service_accepts_work(s, &err) != 0 || route_wait(x, &wait, &err) != 0 ||
        api_checkpoint_restore_decode(body, len, &request, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    request.claim = route_claim(x);
    const struct caller who = {http_tenant(x), http_quotas(x)};
    int result = checkpoints_restore(s, &who, http_param(x, 0), &request, &execution, &err);
    api_checkpoint_restore_done(&request);
    if (result != 0) {
        route_fail(x, &err);
        return;
    }
    route_await_provision(x, execution, wait);
}

void route_checkpoint_delete(struct http_exchange *x)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    bool shared = false;
    if (http_query_bool(x, "shared", &shared, &err) != 0 ||
        (shared && sharing_check(s, "?shared", &err) != 0) ||
        checkpoints_delete(s, http_tenant(x), http_param(x, 0), shared, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    http_reply_empty(x, 204);
}
