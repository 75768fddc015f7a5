/* One thread and a heap of deadlines. Callbacks run on the timer thread, must be short and never
 * block (they submit to a pool); they run with the trace (log.h) of the thread that added them. Any
 * thread may add and cancel. */
#ifndef EXECHOST_BASE_TIMER_H
#define EXECHOST_BASE_TIMER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct timers;

typedef void (*timer_fn)(void *arg);

int timers_new(struct timers **out, struct error *err) WARN_UNUSED;
/* Stops the thread; what is pending is dropped, and so is whatever is added from now on. */
void timers_stop(struct timers *t);
/* Stops if need be, frees. NULL is fine. */
void timers_free(struct timers *t);

/* Runs fn(arg) once when clock_mono_ms() reaches `at_mono_ms`. Returns an id (> 0) for
 * timers_cancel. */
uint64_t timers_add(struct timers *t, int64_t at_mono_ms, timer_fn fn, void *arg);
/* The same for a callback that owns what `arg` is: where it never runs because the timers are
 * freed, drop(arg) is called instead. A cancelled one is the caller's again. */
uint64_t timers_add_held(struct timers *t, int64_t at_mono_ms, timer_fn fn, timer_fn drop,
                         void *arg);
/* True when it had not begun to run and now never will; false when it ran, runs or is unknown. */
bool timers_cancel(struct timers *t, uint64_t id);

#endif
