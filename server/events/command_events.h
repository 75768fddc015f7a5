/* A command's transcript as a stream of events. Between two fills a stream holds its place and a
 * mark that it is being read, and nothing else: no descriptor, no buffer. A fill opens the
 * transcript, goes on from the place, and blocks for reads of the file and of the command's row
 * only.
 *
 * seq is the record's place. `exit` comes from the command's row, once that is final, in place of
 * the transcript's last record; a command that never had a transcript has an `exit` of seq 0 and
 * nothing else. One thread at a time. */
#ifndef EXECHOST_SERVER_EVENTS_COMMAND_EVENTS_H
#define EXECHOST_SERVER_EVENTS_COMMAND_EVENTS_H

#include "api/event.h"
#include "server/http/http.h"
#include "store/commands.h"
#include "store/transcript.h"

enum { EVENTS_FILL_MAX = 32 * 1024 }; /* bytes of one fill, over all streams of events */

struct command_events;

struct command_events_config {
    struct store *store;
    struct store_transcript_name name; /* copied but for `directory`, which stays */
    enum api_event_format format;
    bool follow;   /* waits for what is still to come */
    int64_t after; /* -1: from the first one */
    /* The resource without output; returns owned, NULL when memory is out. */
    json_t *(*encode)(const struct store_command *row);
};

/* ERROR_COMMAND_NOT_FOUND, ERROR_TRANSCRIPT_GONE. Returns owned. */
int command_events_new(const struct command_events_config *config, struct command_events **out,
                       struct error *err) WARN_UNUSED;
void command_events_free(struct command_events *e); /* NULL is fine */
/* Whether nothing will ever come behind `after`: the command has ended and its `exit` is no later.
 */
bool command_events_over(const struct command_events *e);

/* The stream: its state is a struct command_events. */
extern const struct http_stream_ops command_events_ops;

#endif
