/* Streams of a command's events, as more than one route answers with them. */
#ifndef EXECHOST_SERVER_ROUTES_EVENTS_H
#define EXECHOST_SERVER_ROUTES_EVENTS_H

#include "api/event.h"
#include "server/http/http.h"

struct route_events {
    unsigned status;
    int64_t execution_row;
    const char *command_id; /* of the tenant of the exchange */
    enum api_event_format format;
    bool follow;
    int64_t after; /* -1: from the first one */
};

/* Answers with the stream, or says why there is none. */
void route_reply_events(struct http_exchange *x, const struct route_events *asked);

#endif
