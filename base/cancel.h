/* A one-way flag that interrupts blocking work from another thread. Reference counted; any thread.
 * The descriptor becomes readable when it fires and stays so: put it into poll beside the work's
 * own. */
#ifndef EXECHOST_BASE_CANCEL_H
#define EXECHOST_BASE_CANCEL_H

#include "base/error.h"

#include <stdbool.h>

struct cancel;

int cancel_new(struct cancel **out, struct error *err) WARN_UNUSED; /* returns owned */
struct cancel *cancel_ref(struct cancel *c);
void cancel_unref(struct cancel *c); /* NULL is fine */
void cancel_fire(struct cancel *c);
bool cancel_fired(const struct cancel *c); /* false for NULL */
int cancel_fd(const struct cancel *c);     /* -1 for NULL */

#endif
