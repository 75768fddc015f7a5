#include "api/host.h"

#include "api/field.h"

static const int64_t NANO = 1000000000;

json_t *api_cpus_encode(int64_t nano_cpus)
{
    if (nano_cpus % NANO == 0) {
        return json_integer(nano_cpus / NANO);
    }
    return json_real((double)nano_cpus / (double)NANO);
}

static json_t *encode_range(const struct api_range *range)
{
    return json_pack("{s:I, s:I}", "min", (json_int_t)range->min, "max", (json_int_t)range->max);
}

static json_t *encode_limits(const struct api_host *host)
{
    json_t *cpus = json_pack("{s:o, s:o}", "min", api_cpus_encode(host->nano_cpus.min), "max",
                             api_cpus_encode(host->nano_cpus.max));

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "cpus", cpus, "memoryBytes",
                     encode_range(&host->memory_bytes), "diskBytes",
                     encode_range(&host->disk_bytes), "pids", encode_range(&host->pids),
                     "runtimeMs", encode_range(&host->runtime_ms), "maxOutputBytes",
                     encode_range(&host->max_output_bytes));
}

static json_t *encode_engine(const struct api_host *host)
{
    if (host->engine_version == NULL || host->engine_version[0] == '\0') {
        return json_null();
    }
    return json_pack("{s:s, s:s}", "version", host->engine_version, "apiVersion", host->engine_api);
}

static json_t *encode_strings(const char *const *strings, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, api_string_or_null(strings[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *encode_host(const struct api_host *host)
{
    const char *reason = host->reason == NULL || host->reason[0] == '\0' ? NULL : host->reason;
    size_t count = 0;

    while (host->enforces != NULL && host->enforces[count] != NULL) {
        count++;
    }
    return json_pack("{s:s, s:s, s:o, s:b, s:o, s:o, s:o}", "name", host->name, "state",
                     host->available ? "available" : "unavailable", "reason",
                     api_string_or_null(reason), "isDefault", host->is_default, "engine",
                     encode_engine(host), "limits", encode_limits(host), "enforces",
                     encode_strings(host->enforces, count));
}

static json_t *encode_hosts(const struct api_service *view)
{
    json_t *list = json_array();

    for (size_t i = 0; i < view->host_count; i++) {
        if (json_array_append_new(list, encode_host(&view->hosts[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *limit_or_null(int64_t limit)
{
    return limit == 0 ? json_null() : json_integer(limit);
}

static json_t *encode_capacity_limits(const struct api_capacity_limits *limits)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "executions", limit_or_null(limits->executions),
                     "cpus",
                     limits->nano_cpus == 0 ? json_null() : api_cpus_encode(limits->nano_cpus),
                     "memoryBytes", limit_or_null(limits->memory_bytes), "diskBytes",
                     limit_or_null(limits->disk_bytes), "runs", limit_or_null(limits->runs));
}

static json_t *in_units(int64_t value, int64_t unit)
{
    return unit == NANO ? api_cpus_encode(value) : json_integer(value);
}

static json_t *encode_quotas(const struct api_service *view)
{
    json_t *all = json_object();

    for (size_t i = 0; all != NULL && i < view->quota_count; i++) {
        const struct api_quota *q = &view->quotas[i];
        json_t *one = json_pack("{s:o, s:o}", "limit",
                                q->limit == 0 ? json_null() : in_units(q->limit, q->unit), "used",
                                q->used < 0 ? json_null() : in_units(q->used, q->unit));

        if (json_object_set_new(all, q->name, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *encode_capacity(const struct api_capacity *capacity)
{
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:I, s:I, s:o}", "executions", (json_int_t)capacity->executions,
        "commandsRunning", (json_int_t)capacity->commands_running, "commandsQueued",
        (json_int_t)capacity->commands_queued, "cpus", api_cpus_encode(capacity->nano_cpus),
        "memoryBytes", (json_int_t)capacity->memory_bytes, "diskBytes",
        (json_int_t)capacity->disk_bytes, "limits", encode_capacity_limits(&capacity->limits));
}

static json_t *encode_reconciliation(const struct api_reconciliation *r)
{
    if (r == NULL) {
        return json_null();
    }
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "startedAt",
        api_time_or_null(r->started_at), "completedAt", api_time_or_null(r->completed_at),
        "adopted", (json_int_t)r->adopted, "hostLost", (json_int_t)r->host_lost, "expired",
        (json_int_t)r->expired, "destroyedUnrecorded", (json_int_t)r->destroyed_unrecorded,
        "thawed", (json_int_t)r->thawed, "terminationsFinished",
        (json_int_t)r->terminations_finished, "checkpointsRemoved",
        (json_int_t)r->checkpoints_removed, "transcriptsRepaired",
        (json_int_t)r->transcripts_repaired, "foreignLeftAlone", (json_int_t)r->foreign_left_alone,
        "problems", encode_strings(r->problems, r->problem_count));
}

json_t *api_shared_store_encode(const struct api_shared_store *view)
{
    json_t *conditional = view->conditional_writes == API_UNKNOWN
                              ? json_null()
                              : json_boolean(view->conditional_writes == API_YES);

    return json_pack("{s:s, s:s, s:s, s:s?, s:b, s:o}", "endpoint", view->endpoint, "region",
                     view->region, "bucket", view->bucket, "prefix", view->prefix, "pathStyle",
                     view->path_style, "conditionalWrites", conditional);
}

json_t *api_service_encode(const struct api_service *view)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:O?}", "version", view->version, "instanceId",
                     view->instance_id, "hosts", encode_hosts(view), "capacity",
                     encode_capacity(&view->capacity), "quotas", encode_quotas(view),
                     "lastReconciliation", encode_reconciliation(view->last_reconciliation),
                     "sharedStore", view->shared_store);
}
