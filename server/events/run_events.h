/* A run's log as a stream of events. Between two fills a stream holds its place and a mark that it
 * is being read, and nothing else: no descriptor, no buffer. A line is sent as it stands, or with
 * the lines that make a server-sent event of it. One thread at a time; a fill blocks for reads of
 * the file. */
#ifndef EXECHOST_SERVER_EVENTS_RUN_EVENTS_H
#define EXECHOST_SERVER_EVENTS_RUN_EVENTS_H

#include "api/event.h"
#include "server/http/http.h"
#include "store/readers.h"
#include "store/run_log.h"

struct run_events;

struct run_events_config {
    struct store_run_log_name name; /* copied but for `directory`, which stays */
    struct store_readers *readers;
    int64_t row;
    enum api_event_format format;
    bool follow;
    int64_t after; /* -1: from the first one */
    /* How many bytes of the log may be shown, and whether that is all there will be. */
    int (*published)(void *ctx, const char *tenant, const char *run_id, int64_t *bytes, bool *all,
                     struct error *err);
    void *ctx;
};

/* ERROR_TRANSCRIPT_GONE while the run is being removed. Returns owned. */
int run_events_new(const struct run_events_config *config, struct run_events **out,
                   struct error *err) WARN_UNUSED;
void run_events_free(struct run_events *e); /* NULL is fine */
/* Whether nothing will ever come behind `after`. Blocks for a read of the log. */
bool run_events_over(struct run_events *e);
/* What store_readers know the run by: executions have the numbers above zero. */
int64_t run_events_reading(int64_t row);

/* The stream: its state is a struct run_events. */
extern const struct http_stream_ops run_events_ops;

#endif
