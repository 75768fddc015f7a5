/* The one way by which an execution ends, whatever the cause: choose the reason (the first one
 * stays), interrupt, destroy, prove, settle what ran and what waited, record. Goes on with backoff
 * until the host has done it. Any thread; nothing here blocks the caller. */
#ifndef EXECHOST_SERVER_SERVICES_ENDING_H
#define EXECHOST_SERVER_SERVICES_ENDING_H

#include "server/services/live.h"

/* Chooses `reason` unless one is chosen already, and sees to it that a worker destroys it now (also
 * when an earlier attempt waits for its backoff). True when the reason was taken. */
bool ending_begin(struct live_execution *x, enum end_reason reason, const char *detail);

/* The same for a provision that failed with `err`, whose code and detail become the end's. */
void ending_begin_failed(struct live_execution *x, const struct error *err);

/* For the lane: the item that held the end up is done. */
void ending_continue(struct live_execution *x);

/* Arms or re-arms the service's own timer for `expires_at`. */
void ending_arm_expiry(struct live_execution *x);

/* What a call gets that needed the execution alive: ERROR_TIMEOUT when it expired, else
 * ERROR_NOT_FOUND. */
void ending_error(enum end_reason reason, const char *execution_id, struct error *err);

#endif
