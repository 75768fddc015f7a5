/* Events on the wire: of a command's transcript and of a tenant, as lines of JSON (NDJSON) or as
 * server-sent events. Pure; any thread. */
#ifndef EXECHOST_API_EVENT_H
#define EXECHOST_API_EVENT_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum api_event_format {
    API_EVENT_JSON, /* no stream: the resource itself */
    API_EVENT_NDJSON,
    API_EVENT_SSE,
};

/* Which of the three an Accept header prefers: the highest quality, of equals the one named first;
 * `otherwise` when it is NULL or names none of them. */
enum api_event_format api_event_accept(const char *accept, enum api_event_format otherwise);
/* "application/x-ndjson", "text/event-stream", "application/json"; static. */
const char *api_event_media_type(enum api_event_format format);

/* Where to go on: behind the event of that number; *after stays as it is when both texts are NULL.
 * A Last-Event-ID counts before ?after, because a client that reconnects by itself asks for the
 * same URL again; an empty one is none. Faults are ERROR_INVALID_REQUEST naming "?after" or
 * "Last-Event-ID". */
int api_event_after(const char *after, const char *last_event_id, int64_t *out,
                    struct error *err) WARN_UNUSED;

/* --- a command's --- */

/* Returns owned; NULL when memory is out. Times are wall ms. */
json_t *api_event_started(int64_t seq, int64_t at);
struct api_event_output {
    int64_t seq;
    int64_t at;
    const char *type; /* "stdout", "stderr" */
    int64_t offset;   /* of the data in its stream */
    const char *data;
    size_t len;
};
/* `data` where the bytes are UTF-8 by themselves, else `dataBase64`. */
json_t *api_event_output(const struct api_event_output *output);
/* *Takes* `command`, the resource without output. */
json_t *api_event_exit(int64_t seq, int64_t at, json_t *command);

/* --- a tenant's --- */

struct api_change {
    int64_t seq;
    int64_t at;
    const char *type; /* "execution", "command", "checkpoint", "run" */
    const char *execution_id;
    unsigned incarnation;
    const char *command_id;
    const char *checkpoint_id;
    const char *run_id; /* of a run, which has no execution */
    const char *state;
    const char *host;
    int64_t expires_at; /* -1: null */
    int exit_code;      /* -1: null */
    const char *reason; /* or NULL; of a run its outcome */
};
json_t *api_event_change(const struct api_change *change);
/* Events up to and including `seq` are not to be had any more. */
json_t *api_event_gap(int64_t seq, int64_t at);

/* --- framing --- */

/* Appends one event, which has `seq` and `type`. -1: no memory or the buffer's cap. */
int api_event_add(const json_t *event, enum api_event_format format, struct buf *out) WARN_UNUSED;
/* Appends what says that the stream lives: an SSE comment, or {"type":"ping"}. */
int api_event_add_ping(enum api_event_format format, struct buf *out) WARN_UNUSED;

#endif
