/* Rows of executions: intent, ownership, state, end. See store.h for threads and errors. */
#ifndef EXECHOST_STORE_EXECUTIONS_H
#define EXECHOST_STORE_EXECUTIONS_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

enum store_execution_state {
    STORE_PROVISIONING, /* the intent; something may or may not exist on the host */
    STORE_PROVISIONED,
    STORE_TERMINATING,
    STORE_TERMINATED,
    STORE_FAILED,
};

struct store_execution {
    int64_t row; /* rises with each insert; the order of lists */
    char *tenant;
    char *execution_id;
    unsigned incarnation;
    enum store_execution_state state;
    char *host;
    char *handle;        /* NULL until provisioned */
    char *image;         /* as asked */
    char *image_digests; /* JSON array, NULL until provisioned */
    int64_t nano_cpus, memory_bytes, disk_bytes, pids, runtime_ms, max_output_bytes;
    char *workspace;   /* JSON object as asked */
    char *environment; /* JSON object */
    char *metadata;    /* JSON object */
    char *labels;      /* JSON object */
    char *warnings;    /* JSON array */
    char *owner_id;    /* NULL: no owner */
    int64_t fencing_token;
    char *restored_from; /* checkpoint id or NULL */
    int64_t requested_at, created_at, expires_at, terminated_at;
    int64_t usage_cpu_ms, usage_memory_peak_bytes, usage_pids_peak, usage_workspace_bytes;
    char *termination_reason; /* NULL until it ends (or is ending: the reason chosen first) */
    char *termination_code;
    char *termination_detail;
    int64_t termination_at;
    bool leftover; /* ended for the client, but something may be left on the host: keep cleaning */
    int64_t claim; /* for the insert: row of the idempotency key it is bound to, 0: none */
};

void store_execution_done(struct store_execution *e);
/* A deep copy. */
int store_execution_copy(struct store_execution *out, const struct store_execution *e,
                         struct error *err) WARN_UNUSED;

struct store_execution_list {
    struct store_execution *items;
    size_t count;
};
void store_execution_list_done(struct store_execution_list *list);

/* Records the intent. Sets `row` and `incarnation` (the highest of that id plus one). A row of the
 * id in provisioning, provisioned or terminating, or one with leftover: ERROR_ALREADY_EXISTS. */
int store_execution_insert(struct store *s, struct store_execution *e,
                           struct error *err) WARN_UNUSED;

/* incarnation 0 is the newest. Not there: ERROR_NOT_FOUND. `out` is filled with owned strings. */
int store_execution_get(struct store *s, const char *tenant, const char *execution_id,
                        unsigned incarnation, struct store_execution *out,
                        struct error *err) WARN_UNUSED;

/* The number of its row alone; found and missed as by store_execution_get. */
int store_execution_row(struct store *s, const char *tenant, const char *execution_id,
                        unsigned incarnation, int64_t *row, struct error *err) WARN_UNUSED;

struct store_execution_filter {
    const char *tenant; /* NULL: all */
    int state;          /* enum store_execution_state or -1 */
    const char *host;
    const char *owner_id;
    const char *label_key; /* with label_value */
    const char *label_value;
    bool live_only; /* provisioning, provisioned, terminating, or leftover */
};
/* A page costs the same however many rows there are, for every set of filters with a tenant; only a
 * label together with others walks the rows that have the label. */
int store_execution_list(struct store *s, const struct store_execution_filter *filter,
                         const struct store_page *page, struct store_execution_list *out,
                         struct error *err) WARN_UNUSED;

/* What changes while an execution lives. The row is found by `row`; all columns but tenant, id,
 * incarnation, host, image as asked, resources, requested_at are written. One transaction;
 * ERROR_INTERNAL if the row is gone, or if it would become live beside another of its id. */
int store_execution_update(struct store *s, const struct store_execution *e,
                           struct error *err) WARN_UNUSED;

#endif
