#include "server/routes/resume.h"

#include "api/checkpoint.h"

#include "server/routes/command_wait.h"
#include "server/routes/common.h"
#include "server/routes/provision_wait.h"
#include "server/routes/routes.h"
#include "server/routes/run_wait.h"
#include "server/routes/share_wait.h"
#include "server/services/commands.h"
#include "server/services/ending.h"
#include "server/services/executions.h"
#include "server/services/runs.h"
#include "store/checkpoints.h"

#include <string.h>

/* --- executions --- */

/* The living object of the row; NULL when it has ended. Returns owned. */
static struct live_execution *living(struct service *s, const char *tenant,
                                     const char *execution_id, unsigned incarnation)
{
    struct live_execution *x = live_find(s->live, tenant, execution_id);
    if (x != NULL && x->incarnation != incarnation) {
        live_unref(x);
        x = NULL;
    }
    return x;
}

/* Why an execution that has ended never became usable. */
static void failure_of(const struct store_execution *row, struct error *err)
{
    enum end_reason reason = end_reason_from_name(row->termination_reason);
    if (reason == END_PROVISION_FAILED && row->termination_code != NULL) {
        const char *detail = row->termination_detail;
        error_set(err, error_code_from_name(row->termination_code), "%s",
                  detail == NULL ? "" : detail);
    } else {
        ending_error(reason, row->execution_id, err);
    }
}

static void answer_ended(struct http_exchange *x, const struct store_execution *row)
{
    struct error err = ERROR_INIT;
    if (row->created_at == 0) {
        failure_of(row, &err);
        route_fail(x, &err);
        return;
    }
    json_t *body = executions_encode(http_service(x), row);
    if (body == NULL) {
        error_set(&err, ERROR_INTERNAL, "the record can't be shown");
        route_fail(x, &err);
        return;
    }
    route_location_execution(x, row->execution_id);
    http_reply_json(x, 201, body);
}

static void resume_ended(struct http_exchange *x, const struct store_resource *resource)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_execution row = {0};
    if (store_execution_get(s->store, http_tenant(x), resource->id, (unsigned)resource->number,
                            &row, &err) == 0) {
        answer_ended(x, &row);
        store_execution_done(&row);
    } else if (err.code == ERROR_NOT_FOUND) {
        http_handle(x);
    } else {
        route_fail(x, &err);
    }
}

static void resume_execution(struct http_exchange *x, const struct store_resource *resource)
{
    struct error err = ERROR_INIT;
    bool wait;
    struct live_execution *execution =
        living(http_service(x), http_tenant(x), resource->id, (unsigned)resource->number);
    if (execution == NULL) {
        resume_ended(x, resource);
    } else if (route_wait(x, &wait, &err) != 0 || service_host_ready(execution->host, &err) != 0) {
        live_unref(execution);
        route_fail(x, &err);
    } else {
        route_await_provision(x, execution, wait);
    }
}

/* --- commands --- */

/* A command waits for its host only while it is not over. */
static int check_host(const struct live_execution *execution, const struct store_command *row,
                      struct error *err)
{
    return execution == NULL || commands_is_final(row) ? 0
                                                       : service_host_ready(execution->host, err);
}

/* The POST of a command whose execution never came to be told of that. */
static int check_usable(struct http_exchange *x, const struct store_command *command,
                        struct error *err)
{
    struct service *s = http_service(x);
    struct store_execution row = {0};
    if (store_execution_get(s->store, http_tenant(x), command->execution_id, command->incarnation,
                            &row, err) != 0) {
        return -1;
    }
    int result = 0;
    if (row.created_at == 0 && commands_is_final(command)) {
        ending_error(end_reason_from_name(row.termination_reason), row.execution_id, err);
        result = -1;
    }
    store_execution_done(&row);
    return result;
}

static void resume_command(struct http_exchange *x, const struct store_resource *resource)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    _cleanup_(store_command_done) struct store_command row = {0};
    if (store_command_get(s->store, resource->number, resource->id, &row, &err) != 0) {
        if (err.code == ERROR_COMMAND_NOT_FOUND) {
            http_handle(x);
        } else {
            route_fail(x, &err);
        }
        return;
    }
    struct live_execution *execution = living(s, http_tenant(x), row.execution_id, row.incarnation);
    if (check_host(execution, &row, &err) != 0 || check_usable(x, &row, &err) != 0) {
        live_unref(execution);
        route_fail(x, &err);
        return;
    }
    route_await_command(x, &row, execution);
}

/* --- checkpoints --- */

/* Whether its POST wanted it shared. */
static bool wants_share(struct http_exchange *x)
{
    size_t len;
    const char *body = http_body(x, &len);
    struct error ignored = ERROR_INIT;
    struct api_checkpoint_create request = {0};
    if (http_route(x)->handler != route_checkpoint_create ||
        api_checkpoint_create_decode(body, len, &request, &ignored) != 0) {
        return false;
    }
    bool share = request.share;
    api_checkpoint_create_done(&request);
    return share;
}

static void resume_checkpoint(struct http_exchange *x, const struct store_resource *resource)
{
    struct error err = ERROR_INIT;
    bool wait;
    if (!wants_share(x)) {
        route_reply_checkpoint_created(x, resource->id);
    } else if (route_wait(x, &wait, &err) != 0) {
        route_fail(x, &err);
    } else {
        route_location(x, "/v1/checkpoints/%s", resource->id);
        route_await_share(x, resource->id, wait, 201);
    }
}

/* --- runs --- */

static void resume_run(struct http_exchange *x, const struct store_resource *resource)
{
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    _cleanup_(store_run_done) struct store_run row = {0};
    if (store_run_get(s->store, http_tenant(x), resource->id, &row, &err) == 0) {
        route_await_run(x, resource->id);
    } else if (err.code == ERROR_PTC_RUN_NOT_FOUND) {
        http_handle(x);
    } else {
        route_fail(x, &err);
    }
}

/* --- all --- */

/* What would have its effect a second time. */
static bool runs_once(struct http_exchange *x)
{
    http_handler handler = http_route(x)->handler;
    return handler == route_command_stdin || handler == route_command_signal;
}

/* Nothing was made, or nothing that leaves a record. */
static void run_again(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    if (!runs_once(x)) {
        http_handle(x);
        return;
    }
    error_set(&err, ERROR_RUNTIME,
              "the service stopped while this request was under way: whether it was carried out is "
              "not known");
    route_fail(x, &err);
}

void route_resume(struct http_exchange *x, const struct store_resource *resource)
{
    switch (resource->kind) {
    case STORE_RESOURCE_EXECUTION: resume_execution(x, resource); break;
    case STORE_RESOURCE_COMMAND: resume_command(x, resource); break;
    case STORE_RESOURCE_CHECKPOINT: resume_checkpoint(x, resource); break;
    case STORE_RESOURCE_RUN: resume_run(x, resource); break;
    case STORE_RESOURCE_NONE: run_again(x); break;
    }
}

static bool execution_is_final(struct http_exchange *x, const struct store_resource *resource,
                               struct error *err)
{
    struct service *s = http_service(x);
    struct store_execution row = {0};
    if (store_execution_get(s->store, http_tenant(x), resource->id, (unsigned)resource->number,
                            &row, err) != 0) {
        return err->code == ERROR_NOT_FOUND;
    }
    bool ended = row.state == STORE_TERMINATED || row.state == STORE_FAILED;
    bool final = ended && !row.leftover;
    store_execution_done(&row);
    return final;
}

static bool command_is_final(struct http_exchange *x, const struct store_resource *resource,
                             struct error *err)
{
    struct service *s = http_service(x);
    struct store_command row = {0};
    if (store_command_get(s->store, resource->number, resource->id, &row, err) != 0) {
        return err->code == ERROR_COMMAND_NOT_FOUND;
    }
    bool final = commands_is_final(&row);
    store_command_done(&row);
    return final;
}

bool route_resource_is_final(struct http_exchange *x, const struct store_resource *resource)
{
    struct error err = ERROR_INIT;
    switch (resource->kind) {
    case STORE_RESOURCE_EXECUTION: return execution_is_final(x, resource, &err);
    case STORE_RESOURCE_COMMAND: return command_is_final(x, resource, &err);
    case STORE_RESOURCE_CHECKPOINT: return false; /* it is there */
    case STORE_RESOURCE_RUN: return runs_is_final(http_service(x), http_tenant(x), resource->id);
    case STORE_RESOURCE_NONE: return true;
    }
    return true;
}
