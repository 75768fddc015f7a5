/* A bounded pool of worker threads: the only place where the service blocks on engines, files and
 * the store's writes. Work is of kinds; each has a FIFO queue and a number of threads of its own,
 * so that no amount of one kind, however long it blocks, holds up another. Work may have an owner:
 * of a kind's threads, and of the places to wait for one, an owner gets another only while it has
 * less than three times what is left, and never the last one as a second of its own: whoever comes
 * finds one free, or is next. Those of one owner run in order, owners take turns. A job runs with
 * the trace (log.h) of the thread that submitted it. Any thread may submit. */
#ifndef EXECHOST_BASE_POOL_H
#define EXECHOST_BASE_POOL_H

#include "base/error.h"

struct pool;

typedef void (*pool_fn)(void *arg);

enum { POOL_KINDS = 10 };

/* Of one kind, 0. Threads are started on demand up to `threads`; at most `queue` jobs wait. */
int pool_new(unsigned threads, unsigned queue, struct pool **out, struct error *err) WARN_UNUSED;
/* Jobs of kind i run on at most threads[i] threads; 0: there is no such kind. */
int pool_new_of_kinds(const unsigned threads[POOL_KINDS], unsigned queue, struct pool **out,
                      struct error *err) WARN_UNUSED;
/* Runs what is queued, joins all threads, frees. NULL is fine. */
void pool_free(struct pool *p);

/* ERROR_OVERLOADED when the queue is full; the job is then not run. */
int pool_submit(struct pool *p, pool_fn fn, void *arg, struct error *err) WARN_UNUSED;
/* For work that must not be refused (ends of things that exist): passes over the queue's bound. */
void pool_submit_always(struct pool *p, pool_fn fn, void *arg);
/* The same for a kind; the two above are for kind 0. */
int pool_submit_kind(struct pool *p, unsigned kind, pool_fn fn, void *arg,
                     struct error *err) WARN_UNUSED;
void pool_submit_kind_always(struct pool *p, unsigned kind, pool_fn fn, void *arg);
/* The same for the work of `owner` (NULL: nobody's, which is not bound), of whom there are few:
 * they are remembered. */
int pool_submit_owned(struct pool *p, unsigned kind, const char *owner, pool_fn fn, void *arg,
                      struct error *err) WARN_UNUSED;
void pool_submit_owned_always(struct pool *p, unsigned kind, const char *owner, pool_fn fn,
                              void *arg);
struct pool_kind_load {
    unsigned waiting;
    unsigned running;
};
void pool_kind_load(struct pool *p, unsigned kind, struct pool_kind_load *out);
/* Jobs waiting plus running. */
unsigned pool_load(const struct pool *p);

#endif
