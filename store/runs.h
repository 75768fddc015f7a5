/* Rows of runs of programs. What a run said and its result are in its log (run_log.h). See store.h
 * for threads and errors. */
#ifndef EXECHOST_STORE_RUNS_H
#define EXECHOST_STORE_RUNS_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

enum store_run_state {
    STORE_RUN_STARTING,
    STORE_RUN_RUNNING,
    STORE_RUN_SETTLED, /* nothing of it changes any more */
};

struct store_run {
    int64_t row;
    char *tenant;
    char *run_id; /* unique per tenant for as long as its record is kept */
    enum store_run_state state;
    char *description;
    char *spec; /* JSON object; NULL in lists */
    int64_t requested_at, started_at, completed_at;
    int64_t calls_total, calls_answered, calls_cancelled; /* as of the end */
    char *outcome;        /* "completed" or the kind of its error; NULL until it is settled */
    int64_t result_place; /* of the result's text in the log */
    int64_t result_bytes;
    int64_t log_bytes; /* once it is settled */
    int64_t claim;     /* for the insert: row of the idempotency key it is bound to, 0: none */
};

void store_run_done(struct store_run *r);

struct store_run_list {
    struct store_run *items;
    size_t count;
};
void store_run_list_done(struct store_run_list *list);

/* Sets `row`. A run of that id in the tenant: ERROR_ID_IN_USE. */
int store_run_insert(struct store *s, struct store_run *r, struct error *err) WARN_UNUSED;
/* Not there: ERROR_PTC_RUN_NOT_FOUND. */
int store_run_get(struct store *s, const char *tenant, const char *run_id, struct store_run *out,
                  struct error *err) WARN_UNUSED;
/* Without specs. */
int store_run_list(struct store *s, const char *tenant, const struct store_page *page,
                   struct store_run_list *out, struct error *err) WARN_UNUSED;
/* Every run that is not settled, all tenants, oldest first. */
int store_run_list_unfinished(struct store *s, struct store_run_list *out,
                              struct error *err) WARN_UNUSED;
/* It runs since `started_at`; nothing happens to one that is settled by now. */
int store_run_started(struct store *s, int64_t row, int64_t started_at,
                      struct error *err) WARN_UNUSED;
/* Writes state, times, counts, outcome and what tells of the log; found by `row`. ERROR_INTERNAL if
 * it is gone. */
int store_run_settle(struct store *s, const struct store_run *r, struct error *err) WARN_UNUSED;
/* One that never began, or that retention lets go; found by `row`. */
int store_run_delete(struct store *s, int64_t row, struct error *err) WARN_UNUSED;

#endif
