/* `GET /v1/host` on the wire. Views borrow everything. Pure; any thread. */
#ifndef EXECHOST_API_HOST_H
#define EXECHOST_API_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_range {
    int64_t min;
    int64_t max;
};

struct api_host {
    const char *name;
    bool available;
    const char *reason; /* NULL or "" is null */
    bool is_default;
    const char *engine_version; /* NULL or "": no engine */
    const char *engine_api;
    struct api_range nano_cpus; /* shown as cpus */
    struct api_range memory_bytes;
    struct api_range disk_bytes;
    struct api_range pids;
    struct api_range runtime_ms;
    struct api_range max_output_bytes;
    const char *const *enforces; /* NULL-ended */
};

/* Of each kind the most that all may have; 0 is null: any amount. */
struct api_capacity_limits {
    int64_t executions;
    int64_t nano_cpus; /* shown as cpus */
    int64_t memory_bytes;
    int64_t disk_bytes;
    int64_t runs;
};

struct api_capacity {
    int64_t executions;
    int64_t commands_running;
    int64_t commands_queued;
    int64_t nano_cpus; /* shown as cpus */
    int64_t memory_bytes;
    int64_t disk_bytes;
    struct api_capacity_limits limits;
};

/* One of the tenant's. */
struct api_quota {
    const char *name;
    int64_t limit; /* 0 is null: any amount */
    int64_t used;  /* -1 is null: it is not counted up */
    int64_t unit;  /* both are so many times what is shown */
};

struct api_reconciliation {
    int64_t started_at;   /* wall ms */
    int64_t completed_at; /* -1: null */
    int64_t adopted;
    int64_t host_lost;
    int64_t expired;
    int64_t destroyed_unrecorded;
    int64_t thawed;
    int64_t terminations_finished;
    int64_t checkpoints_removed;
    int64_t transcripts_repaired;
    int64_t foreign_left_alone;
    const char *const *problems; /* `problem_count` of them */
    size_t problem_count;
};

enum api_known { API_UNKNOWN, API_YES, API_NO }; /* null, true, false */

struct api_shared_store {
    const char *endpoint;
    const char *region;
    const char *bucket;
    const char *prefix; /* NULL is null */
    bool path_style;
    enum api_known conditional_writes;
};

struct api_service {
    const char *version;
    const char *instance_id;
    const struct api_host *hosts;
    size_t host_count;
    struct api_capacity capacity;
    const struct api_quota *quotas;
    size_t quota_count;
    const struct api_reconciliation *last_reconciliation; /* NULL is null */
    json_t *shared_store;                                 /* NULL is null */
};

/* Both return owned; NULL when memory is out. */
json_t *api_shared_store_encode(const struct api_shared_store *view);
json_t *api_service_encode(const struct api_service *view);

/* 10⁻⁹ cpu as cpus: an integer where it is whole. Returns owned. */
json_t *api_cpus_encode(int64_t nano_cpus);

#endif
