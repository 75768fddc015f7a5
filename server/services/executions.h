/* What can be done with executions besides running something in them. Blocking unless said
 * otherwise; any worker. */
#ifndef EXECHOST_SERVER_SERVICES_EXECUTIONS_H
#define EXECHOST_SERVER_SERVICES_EXECUTIONS_H

#include "api/execution.h"
#include "base/buf.h"
#include "policy/policy.h"
#include "server/services/live.h"

#include <jansson.h>

/* Checks everything, records the intent, starts the provision. Returns owned. */
int executions_create(struct service *s, const struct caller *who,
                      struct api_execution_create *request, struct live_execution **out,
                      struct error *err) WARN_UNUSED;

/* What a row takes over from the request as JSON; borrowed, NULL: the empty value. */
struct executions_texts {
    const char *image; /* as asked, where the plan names it otherwise; or NULL */
    const json_t *workspace, *environment, *metadata, *labels;
};
/* The intent's row from a plan. Returns owned content in `row`. Does not block. */
int executions_row(struct store_execution *row, const struct host_provision_plan *plan,
                   const char *host, const struct executions_texts *texts,
                   struct error *err) WARN_UNUSED;
/* What policy needs to know of configuration and host; borrows from both and `ranges`. */
void executions_policy_context(struct service_host *host, const char *tenant,
                               struct host_limit_ranges *ranges, struct policy_context *out);

/* The living execution a call needs. Returns owned. Not there: ERROR_NOT_FOUND, or ERROR_TIMEOUT
 * when it expired within the last minute. ERROR_HOST_UNAVAILABLE until its host is reconciled. */
int executions_find_live(struct service *s, const char *tenant, const char *execution_id,
                         struct live_execution **out, struct error *err) WARN_UNUSED;

enum { EXECUTIONS_VIEW_MAX = 64 * 1024 * 1024 };
/* The resource's JSON text as the store and, where it lives, the registry know it; incarnation 0:
 * the newest. Appends to `out`. Does not block on hosts. */
int executions_view(struct service *s, const char *tenant, const char *execution_id,
                    unsigned incarnation, struct buf *out, struct error *err) WARN_UNUSED;
/* The same from a row, as a value. Returns owned; NULL: out of memory. */
json_t *executions_encode(struct service *s, const struct store_execution *row);
const char *executions_state_name(enum store_execution_state state);

/* A mutation's Fencing-Token (-1: none): refuses a lower one, records a higher one and fences
 * queued commands out. ERROR_OWNER_FENCED. */
int executions_fence(struct live_execution *x, int64_t token, struct error *err) WARN_UNUSED;
/* For reclaim: where it has an owner, a token is needed. ERROR_OWNER_FENCED. */
int executions_may_reclaim(struct live_execution *x, int64_t token, struct error *err) WARN_UNUSED;
/* PUT owner. */
int executions_set_owner(struct live_execution *x, const struct api_owner *owner,
                         struct error *err) WARN_UNUSED;
/* PATCH. */
int executions_patch(struct live_execution *x, const struct api_execution_patch *patch,
                     struct error *err) WARN_UNUSED;

/* Removes by identity, on every host, what other instances made of it; refuses (ERROR_OWNER_FENCED)
 * where one carries an owner and `token` is lower than its. What is ours is not touched. */
int executions_reclaim_foreign(struct service *s, const char *tenant, const char *execution_id,
                               int64_t token, struct error *err) WARN_UNUSED;

#endif
