/* Store and hosts agree again: at every start, and whenever a host comes back. See the functions
 * for threads; the work itself runs on the pool and blocks there. */
#ifndef EXECHOST_SERVER_SERVICES_RECONCILE_H
#define EXECHOST_SERVER_SERVICES_RECONCILE_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

enum { RECONCILE_PROBLEMS_MAX = 16, RECONCILE_PROBLEM_SIZE = 256 };

/* The report of the last one; counts of executions unless named otherwise. */
struct reconcile_report {
    int64_t started_at; /* wall ms; 0: none yet */
    int64_t completed_at;
    int64_t adopted;
    int64_t host_lost;
    int64_t expired;
    int64_t destroyed_unrecorded;
    int64_t thawed;
    int64_t terminations_finished;
    int64_t checkpoints_removed;  /* half-written checkpoints */
    int64_t transcripts_repaired; /* torn tails cut */
    int64_t foreign_left_alone;
    char problems[RECONCILE_PROBLEMS_MAX][RECONCILE_PROBLEM_SIZE];
    int problem_count;
};

struct service;
struct service_host;

/* At start, before anything else works: loads the living rows into the registry, settles the
 * commands that no host can still be running, sweeps checkpoint files. */
int reconcile_load(struct service *s, struct error *err) WARN_UNUSED;

/* Compares with one host and acts; runs on the caller's thread. ERROR_HOST_UNAVAILABLE when it
 * can't be reached: then it is tried again with backoff. Several at once become one after the
 * other. */
int reconcile_host(struct service_host *h, struct error *err) WARN_UNUSED;

/* Any thread: sees to it that a reconciliation of the host runs soon. */
void reconcile_request(struct service_host *h);

#endif
