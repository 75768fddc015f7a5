/* Runs of programs on the wire. What a program hands over is carried as text of JSON that was
 * checked already, so a run is put together as text. Pure; any thread. */
#ifndef EXECHOST_API_RUN_H
#define EXECHOST_API_RUN_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text of JSON; borrowed. */
struct api_raw {
    const char *data;
    size_t len; /* 0: none */
};

/* A view; borrows everything. Times are wall ms, -1 is null. */
struct api_run {
    const char *run_id;
    const char *state; /* starting, running, settled */
    const char *description;
    struct api_raw spec;
    int64_t started_at;
    int64_t completed_at;
    int64_t calls_total;
    int64_t calls_answered;
    int64_t calls_cancelled;
    const char *outcome; /* "completed", the kind of the error, or NULL */
    struct api_raw result;
};

/* Appends the whole resource; -1: no memory or the buffer's cap. */
int api_run_add(const struct api_run *view, struct buf *out) WARN_UNUSED;
/* As a list shows it: without spec and result. Returns owned; NULL when memory is out. */
json_t *api_run_encode_item(const struct api_run *view);

/* What a run ended with. */
struct api_run_result {
    struct api_raw logs;
    struct api_raw value;
    const char *error_kind; /* NULL: none */
    struct api_raw message;
    const char *mode;
    bool denied;
    const char *enforcement; /* NULL: nothing is enforced */
};
int api_run_result_add(const struct api_run_result *result, struct buf *out) WARN_UNUSED;

/* A call that waits for its answer, or its event. */
struct api_run_call {
    int64_t call_id;
    struct api_raw global;
    struct api_raw function;
    struct api_raw argument;
    int64_t at;
};
int api_run_call_add(const struct api_run_call *call, struct buf *out) WARN_UNUSED;

/* --- events: one line each, which ends with a line feed --- */

int api_run_event_started(int64_t seq, int64_t at, struct buf *out) WARN_UNUSED;
int api_run_event_log(int64_t seq, int64_t at, struct api_raw text, struct buf *out) WARN_UNUSED;
/* `at` of the call is not looked at. */
int api_run_event_call(int64_t seq, int64_t at, const struct api_run_call *call,
                       struct buf *out) WARN_UNUSED;
/* `state` is "answered" or "cancelled". */
int api_run_event_settled(int64_t seq, int64_t at, int64_t call_id, const char *state,
                          struct buf *out) WARN_UNUSED;
/* `*place` is where the result's text begins in the line. */
int api_run_event_result(int64_t seq, int64_t at, struct api_raw result, struct buf *out,
                         size_t *place) WARN_UNUSED;

/* What is said of runs in general. */
struct api_run_descriptor {
    int64_t timeout_default_ms;
    int64_t timeout_max_ms;
    const char *mode;
    const char *enforcement;
    const char *reason; /* why the enforcement is not full; "" when it is */
    const char *instructions;
};
json_t *api_run_encode_descriptor(const struct api_run_descriptor *view);

#endif
