/* By when a request must be there. Any thread; one mutex, below all others. A peer is a connection,
 * known from its start to its end; NULL is fine everywhere. */
#ifndef EXECHOST_SERVER_HTTP_DEADLINE_H
#define EXECHOST_SERVER_HTTP_DEADLINE_H

#include "base/error.h"
#include "base/timer.h"

#include <microhttpd.h>
#include <stdint.h>

struct deadlines;
struct peer;

struct deadline_config {
    int64_t head_ms;   /* for a head, since the connection's start */
    int64_t idle_ms;   /* more than that since the answer before */
    int64_t body_ms;   /* for a body, since its head … */
    int64_t body_rate; /* … and a second more for so many bytes of it */
};

int deadlines_new(const struct deadline_config *config, struct timers *timers,
                  struct deadlines **out, struct error *err) WARN_UNUSED;
/* No connection may be left. */
void deadlines_free(struct deadlines *d);

/* MHD_OPTION_NOTIFY_CONNECTION, with the server. */
void deadline_on_connection(void *cls, struct MHD_Connection *c, void **context,
                            enum MHD_ConnectionNotificationCode code);
struct peer *deadline_peer(struct MHD_Connection *c);

/* The steps of a request. */
void deadline_head_read(struct peer *p);
void deadline_body_grew(struct peer *p, size_t size);
void deadline_request_read(struct peer *p); /* it is whole, or refused */
void deadline_request_over(struct peer *p); /* answered */

#endif
