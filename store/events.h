/* What changed, in order, for each tenant: executions, commands, checkpoints and runs. Triggers of
 * the schema write an event in the transaction that makes the change, whoever makes it; nobody else
 * writes any. `seq` has no gaps and starts at 1; the newest STORE_EVENTS_KEPT of a tenant, and up
 * to STORE_EVENTS_SLACK older ones, are kept. See store.h for threads and errors. */
#ifndef EXECHOST_STORE_EVENTS_H
#define EXECHOST_STORE_EVENTS_H

#include "store/store.h"

#include <stddef.h>

enum { STORE_EVENTS_KEPT = 10000, STORE_EVENTS_SLACK = 256 };

struct store_event {
    int64_t seq;
    int64_t at;
    char *type;         /* "execution", "command", "checkpoint", "run" */
    char *execution_id; /* of a checkpoint: its source; NULL of a run */
    unsigned incarnation;
    char *command_id;    /* of a command, else NULL */
    char *checkpoint_id; /* of a checkpoint, else NULL */
    char *run_id;        /* of a run, else NULL */
    char *state;         /* of the row then (a checkpoint's durability), or "deleted" */
    char *host;          /* of an execution, else NULL */
    int64_t expires_at;  /* of an execution; 0: none yet */
    int exit_code;       /* of a command; -1: none */
    char *reason;        /* of its termination, or a run's outcome; NULL until it ends */
};

struct store_event_list {
    struct store_event *items;
    size_t count;
};
void store_event_list_done(struct store_event_list *list);

/* Those with a seq over `after`, oldest first, at most `limit`. */
int store_event_list(struct store *s, const char *tenant, int64_t after, int limit,
                     struct store_event_list *out, struct error *err) WARN_UNUSED;
/* The newest seq of the tenant; 0 when nothing ever happened. */
int store_event_newest(struct store *s, const char *tenant, int64_t *seq,
                       struct error *err) WARN_UNUSED;

/* Calls `changed` after each commit that made events, once for each tenant concerned, on the thread
 * that wrote and without a lock of the store. To be set before other threads use the store. */
typedef void (*store_events_changed)(void *ctx, const char *tenant);
void store_event_watch(struct store *s, store_events_changed changed, void *ctx);

#endif
