/* From a plan to a usable execution: the intent, the first item of its lane, the outcome. */
#ifndef EXECHOST_SERVER_SERVICES_PROVISION_H
#define EXECHOST_SERVER_SERVICES_PROVISION_H

#include "server/services/live.h"

/* A checkpoint's content for a restore; reference to its files while it lives. */
struct restore_source;
void restore_source_free(struct restore_source *source); /* NULL is fine */
/* Verifies every byte, then loads it while provisioning. Blocks. */
int restore_source_provision(struct restore_source *source, struct host *host,
                             const struct host_provision_plan *plan, struct host_provisioned *out,
                             struct error *err) WARN_UNUSED;

/* The share of an execution of these limits, taken for provision_begin. ERROR_QUOTA_EXCEEDED,
 * ERROR_OVERLOADED. Reads the store. */
int provision_admit(struct service *s, const struct caller *who, const struct host_limits *limits,
                    struct error *err) WARN_UNUSED;
/* Records the intent and starts the work; what could not begin gives its share back. Takes `plan`
 * and `row` (emptied in every case), and `source` (NULL: none). Returns owned: a reference to the
 * execution. ERROR_ALREADY_EXISTS, ERROR_OVERLOADED. Blocks for the store. */
int provision_begin(struct service_host *host, struct host_provision_plan *plan,
                    struct store_execution *row, struct restore_source *source,
                    struct live_execution **out, struct error *err) WARN_UNUSED;

/* Whether a POST that waits for it may answer: usable, ended, or stuck in being removed. */
bool provision_settled(struct live_execution *x);
/* 0 when it became usable (even if it has ended since), else why not. */
int provision_outcome(struct live_execution *x, struct error *err) WARN_UNUSED;

#endif
