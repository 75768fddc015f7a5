#include "server/services/executions.h"

#include "api/json.h"
#include "base/clock.h"
#include "policy/policy.h"
#include "server/services/ending.h"
#include "server/services/provision.h"
#include "workspace/git.h"

#include <string.h>

enum { JSON_TEXT_MAX = 4 * 1024 * 1024, EXPIRED_KNOWN_MS = 60000 };

/* --- create --- */

static int text_of(const json_t *value, const char *fallback, char **out, struct error *err)
{
    *out = value == NULL ? strdup(fallback) : api_json_text(value, JSON_TEXT_MAX);
    return *out != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

static void row_limits(struct store_execution *row, const struct host_limits *limits)
{
    row->nano_cpus = limits->nano_cpus;
    row->memory_bytes = limits->memory_bytes;
    row->disk_bytes = limits->disk_bytes;
    row->pids = limits->pids;
    row->runtime_ms = limits->runtime_ms;
    row->max_output_bytes = limits->max_output_bytes;
    row->usage_cpu_ms = -1;
    row->usage_memory_peak_bytes = -1;
    row->usage_pids_peak = -1;
    row->usage_workspace_bytes = -1;
}

int executions_row(struct store_execution *row, const struct host_provision_plan *plan,
                   const char *host, const struct executions_texts *texts, struct error *err)
{
    *row = (struct store_execution){0};
    row_limits(row, &plan->limits);
    row->tenant = strdup(plan->tenant);
    row->execution_id = strdup(plan->execution_id);
    row->host = strdup(host);
    row->image = strdup(texts->image != NULL ? texts->image : plan->image);
    row->owner_id = plan->owner_id == NULL ? NULL : strdup(plan->owner_id);
    row->fencing_token = plan->fencing_token;
    json_t *warnings = policy_warnings_encode(plan);
    int result = text_of(texts->workspace, "{\"kind\":\"empty\"}", &row->workspace, err);
    result |= text_of(texts->environment, "{}", &row->environment, err);
    result |= text_of(texts->metadata, "{}", &row->metadata, err);
    result |= text_of(texts->labels, "{}", &row->labels, err);
    result |= text_of(warnings, "[]", &row->warnings, err);
    json_decref(warnings);
    if (result != 0 || row->tenant == NULL || row->execution_id == NULL || row->host == NULL ||
        row->image == NULL) {
        store_execution_done(row);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

/* The checks that need a look; nothing is created. */
static int look(struct service_host *host, const struct host_provision_plan *plan,
                struct error *err)
{
    if (plan->workspace == HOST_WORKSPACE_GIT &&
        workspace_git_check(plan->repository_path, plan->repository_root, err) != 0) {
        return -1;
    }
    if (host->host->ops->check_image(host->host, plan->image, NULL, err) != 0) {
        return -1;
    }
    struct live_execution *living =
        live_find(host->service->live, plan->tenant, plan->execution_id);
    if (living != NULL) {
        live_unref(living);
        return error_set_field(err, ERROR_ALREADY_EXISTS, "/executionId",
                               "execution %s exists already", plan->execution_id);
    }
    return 0;
}

void executions_policy_context(struct service_host *host, const char *tenant,
                               struct host_limit_ranges *ranges, struct policy_context *out)
{
    struct service *s = host->service;
    pthread_mutex_lock(&host->lock);
    *ranges = host->status.ranges;
    bool known = host->status.available;
    pthread_mutex_unlock(&host->lock);
    *out = (struct policy_context){
        .tenant = tenant,
        .allow_unpinned_images = s->config->allow_unpinned_images,
        .git_roots = config_git_roots_of(s->config, tenant),
        .ranges = known ? ranges : NULL,
        .load_timeout_ms = s->config->provision_timeout_ms,
    };
}

int executions_create(struct service *s, const struct caller *who,
                      struct api_execution_create *request, struct live_execution **out,
                      struct error *err)
{
    struct service_host *host = NULL;
    if (service_host_find(s, request->host, &host, err) != 0) {
        return -1;
    }
    struct host_limit_ranges ranges;
    struct policy_context context;
    executions_policy_context(host, who->tenant, &ranges, &context);
    struct host_provision_plan plan = {0};
    if (policy_provision(request, &context, &plan, err) != 0) {
        return -1;
    }
    struct executions_texts texts = {
        .workspace = request->workspace,
        .environment = request->environment,
        .metadata = request->metadata,
        .labels = request->labels,
    };
    struct store_execution row = {0};
    if (service_host_ready(host, err) != 0 || look(host, &plan, err) != 0 ||
        executions_row(&row, &plan, host->name, &texts, err) != 0) {
        host_provision_plan_done(&plan);
        return -1;
    }
    row.claim = request->claim;
    if (provision_admit(s, who, &plan.limits, err) != 0) {
        host_provision_plan_done(&plan);
        store_execution_done(&row);
        return -1;
    }
    return provision_begin(host, &plan, &row, NULL, out, err);
}

/* --- find and show --- */

static int not_living(struct service *s, const char *tenant, const char *execution_id,
                      struct error *err)
{
    struct store_execution row = {0};
    if (store_execution_get(s->store, tenant, execution_id, 0, &row, err) != 0) {
        return -1;
    }
    enum end_reason reason = end_reason_from_name(row.termination_reason);
    bool long_ago = clock_wall_ms() - row.terminated_at > EXPIRED_KNOWN_MS;
    ending_error(reason == END_EXPIRED && long_ago ? END_TERMINATED : reason, execution_id, err);
    store_execution_done(&row);
    return -1;
}

int executions_find_live(struct service *s, const char *tenant, const char *execution_id,
                         struct live_execution **out, struct error *err)
{
    struct live_execution *x = live_find(s->live, tenant, execution_id);
    if (x == NULL) {
        return not_living(s, tenant, execution_id, err);
    }
    live_lock(s->live);
    enum end_reason ending = x->ending;
    live_unlock(s->live);
    if (ending != END_NONE) {
        ending_error(ending, execution_id, err);
        live_unref(x);
        return -1;
    }
    if (service_host_ready(x->host, err) != 0) {
        live_unref(x);
        return -1;
    }
    *out = x;
    return 0;
}

static const char *const state_names[] = {
    [STORE_PROVISIONING] = "provisioning",
    [STORE_PROVISIONED] = "provisioned",
    [STORE_TERMINATING] = "terminating",
    [STORE_TERMINATED] = "terminated",
    [STORE_FAILED] = "failed",
};

const char *executions_state_name(enum store_execution_state state)
{
    return state_names[state];
}

/* What the registry knows beyond the row: the newest usage, and an end that could not be recorded
 * yet. */
static struct host_usage newest(struct service *s, const struct store_execution *row,
                                enum store_execution_state *state)
{
    struct host_usage usage = {
        .cpu_ms = row->usage_cpu_ms,
        .memory_peak_bytes = row->usage_memory_peak_bytes,
        .pids_peak = row->usage_pids_peak,
        .workspace_bytes = row->usage_workspace_bytes,
    };
    if (row->state == STORE_PROVISIONED) {
        struct live_execution *x = live_find(s->live, row->tenant, row->execution_id);
        if (x != NULL && x->row == row->row) {
            live_lock(s->live);
            usage = x->usage;
            *state = x->ending != END_NONE ? STORE_TERMINATING : row->state;
            live_unlock(s->live);
        }
        live_unref(x);
    }
    return usage;
}

static int64_t or_null(int64_t time)
{
    return time == 0 ? -1 : time;
}

struct stored_values {
    json_t *resources, *network, *workspace, *environment, *metadata, *labels, *warnings;
};

static void stored_values_done(struct stored_values *v)
{
    json_decref(v->resources);
    json_decref(v->network);
    json_decref(v->workspace);
    json_decref(v->environment);
    json_decref(v->metadata);
    json_decref(v->labels);
    json_decref(v->warnings);
}

static int stored_values_load(const struct store_execution *row, struct stored_values *v)
{
    struct error err = ERROR_INIT;
    struct host_limits limits = {row->nano_cpus, row->memory_bytes, row->disk_bytes,
                                 row->pids,      row->runtime_ms,   row->max_output_bytes};
    v->resources = policy_resources_encode(&limits);
    v->network = json_pack("{s:s}", "mode", "none");
    return api_json_load_stored(row->workspace, &v->workspace, &err) |
           api_json_load_stored(row->environment, &v->environment, &err) |
           api_json_load_stored(row->metadata, &v->metadata, &err) |
           api_json_load_stored(row->labels, &v->labels, &err) |
           api_json_load_stored(row->warnings, &v->warnings, &err);
}

json_t *executions_encode(struct service *s, const struct store_execution *row)
{
    struct stored_values v = {0};
    if (stored_values_load(row, &v) != 0) {
        stored_values_done(&v);
        return NULL;
    }
    enum store_execution_state state = row->state;
    struct host_usage usage = newest(s, row, &state);
    const struct api_execution view = {
        .execution_id = row->execution_id,
        .incarnation = row->incarnation,
        .state = executions_state_name(state),
        .host = row->host,
        .image = row->image,
        .requested_at = row->requested_at,
        .created_at = or_null(row->created_at),
        .expires_at = or_null(row->expires_at),
        .terminated_at = or_null(row->terminated_at),
        .resources = v.resources,
        .network = v.network,
        .workspace = v.workspace,
        .environment = v.environment,
        .metadata = v.metadata,
        .labels = v.labels,
        .owner_id = row->owner_id,
        .fencing_token = row->fencing_token,
        .restored_from = row->restored_from,
        .cpu_ms = usage.cpu_ms,
        .memory_peak_bytes = usage.memory_peak_bytes,
        .pids_peak = usage.pids_peak,
        .workspace_bytes = usage.workspace_bytes,
        .termination_reason = row->termination_reason,
        .termination_code = row->termination_code,
        .termination_detail = row->termination_detail,
        .termination_at = or_null(row->termination_at),
        .warnings = v.warnings,
    };
    json_t *body = api_execution_encode(&view);
    stored_values_done(&v);
    return body;
}

static int view(struct service *s, const char *tenant, const char *execution_id,
                unsigned incarnation, json_t **out, struct error *err)
{
    struct store_execution row = {0};
    if (store_execution_get(s->store, tenant, execution_id, incarnation, &row, err) != 0) {
        return -1;
    }
    *out = executions_encode(s, &row);
    store_execution_done(&row);
    return *out != NULL ? 0 : error_set(err, ERROR_INTERNAL, "the record can't be shown");
}

static int view_text(struct service *s, const char *tenant, const char *execution_id,
                     unsigned incarnation, struct buf *out, struct error *err)
{
    json_t *body = NULL;
    if (view(s, tenant, execution_id, incarnation, &body, err) != 0) {
        return -1;
    }
    int result = api_json_dump(body, out);
    json_decref(body);
    return result == 0 ? 0 : error_set(err, ERROR_INTERNAL, "the record can't be shown");
}

/* Who polls a living execution asks for the same text again and again: it is kept until what it
 * shows changes. */
static int living_view(struct live_execution *x, struct buf *out, struct error *err)
{
    size_t len = 0;
    uint64_t changes;
    _cleanup_free_ char *kept = live_view_copy(x, &len, &changes);
    if (kept != NULL) {
        return buf_add(out, kept, len) == 0 ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (view_text(x->service, x->tenant, x->execution_id, x->incarnation, out, err) != 0) {
        return -1;
    }
    live_view_keep(x, buf_str(out), out->len, changes);
    return 0;
}

int executions_view(struct service *s, const char *tenant, const char *execution_id,
                    unsigned incarnation, struct buf *out, struct error *err)
{
    struct live_execution *x = live_find(s->live, tenant, execution_id);
    int result = x != NULL && (incarnation == 0 || incarnation == x->incarnation)
                     ? living_view(x, out, err)
                     : view_text(s, tenant, execution_id, incarnation, out, err);
    live_unref(x);
    return result;
}
