/* Sockets of refused uploads, read and thrown away for a moment after the answer: a socket closed
 * with unread input is reset, and the reset may overtake the answer at the client. Bounded in
 * number and time; works on the timer thread, never blocks. Any thread. */
#ifndef EXECHOST_SERVER_HTTP_LINGER_H
#define EXECHOST_SERVER_HTTP_LINGER_H

#include "base/error.h"
#include "base/timer.h"

struct lingerers;

int linger_new(struct timers *timers, struct lingerers **out, struct error *err) WARN_UNUSED;
/* Closes all. The timer thread must still run. NULL is fine. */
void linger_free(struct lingerers *l);
/* Takes `fd`. */
void linger_add(struct lingerers *l, int fd);

#endif
