/* A stream of events, each once and in order, through cuts of the connection and restarts of the
 * service. One thread; blocks until the stream has ended. */
#ifndef EXECHOST_CLI_FOLLOW_H
#define EXECHOST_CLI_FOLLOW_H

#include "cli/client.h"

/* One event; the line is its JSON, borrowed, NUL-terminated. 0: go on; -1: no further one is
 * wanted, with the reason in `err`. */
typedef int (*cli_event_fn)(void *ctx, const char *type, const char *line, size_t len,
                            struct error *err);

struct cli_stream {
    const char *post_path; /* NULL: the stream is there; else what starts it */
    const char *post_json;
    const char *events_path; /* without a query */
    const char *last;        /* the type of the event that ends it */
    bool present;            /* only what is there already */
    cli_event_fn on_event;
    void *ctx;
};

/* 0 behind the last event (or, with `present`, what was there). */
int cli_follow(struct cli_client *client, const struct cli_stream *stream,
               struct error *err) WARN_UNUSED;

#endif
