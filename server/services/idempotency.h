/* Who runs what under which idempotency key. The store remembers keys and answers; here is which of
 * the open ones are under way in this process, so that exactly one request of a key runs and the
 * others wait for it.
 *
 * A key's way: entered → claimed (a row, before anything is done) → what is made is bound to the
 * row by the store → ended by its answer, given up, or left open. An open key that nobody runs (the
 * service was killed, or stopped) is taken over by the next request under it.
 *
 * Any thread; enter and the ends block on the store. */
#ifndef EXECHOST_SERVER_SERVICES_IDEMPOTENCY_H
#define EXECHOST_SERVER_SERVICES_IDEMPOTENCY_H

#include "server/service.h"
#include "store/idempotency.h"

enum { IDEMPOTENCY_KEY_MAX = 255, IDEMPOTENCY_TOPIC_SIZE = 160 };

struct idempotency;

/* Starts the sweep of expired keys. `s` must have store, pool, timers and topics. */
int idempotency_new(struct service *s, struct idempotency **out, struct error *err) WARN_UNUSED;
void idempotency_free(struct idempotency *i); /* NULL is fine; no claim may be left */

struct idempotency_request {
    const char *tenant;
    const char *key;
    const char *digest;
};

enum idempotency_way {
    IDEMPOTENCY_RUN,       /* the first: to be run */
    IDEMPOTENCY_TAKE_OVER, /* begun once, and nobody runs it: `found` says what it made */
    IDEMPOTENCY_REPLAY,    /* answered: by `found` */
    IDEMPOTENCY_WAIT,      /* another request runs it: enter again when the topic is notified */
};

/* The right and the duty to end a key. */
struct idempotency_claim;

/* With RUN and TAKE_OVER `*claim` is returned owned. `found` is zero before and may hold something
 * after every success. Another request has the key: ERROR_IDEMPOTENCY_CONFLICT. */
int idempotency_enter(struct service *s, const struct idempotency_request *request,
                      enum idempotency_way *way, struct store_idempotency *found,
                      struct idempotency_claim **claim, struct error *err) WARN_UNUSED;
/* For waiters. Does not block. */
bool idempotency_is_running(struct service *s, const char *tenant, const char *key);
void idempotency_topic(char out[IDEMPOTENCY_TOPIC_SIZE], const char *tenant, const char *key);

/* What the insert of a resource takes to be bound. */
int64_t idempotency_claim_row(const struct idempotency_claim *claim);
/* Whether it had been begun before and had made something. */
bool idempotency_claim_resumes(const struct idempotency_claim *claim);
/* What it has made by now. */
int idempotency_claim_resource(struct idempotency_claim *claim, struct store_resource *out,
                               struct error *err) WARN_UNUSED;

/* The three ends; each frees the claim and tells who waits. What the store refuses is logged: the
 * key then stays open. */
void idempotency_answer(struct idempotency_claim *claim, const struct store_answer *answer);
void idempotency_give_up(struct idempotency_claim *claim);
void idempotency_leave_open(struct idempotency_claim *claim);

#endif
