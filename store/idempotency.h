/* Idempotency keys: what was asked under a key, what it made, and how it was answered. See store.h
 * for threads and errors.
 *
 * A key is open from its claim until the answer is stored. The resource that a request makes is
 * bound to its open key by the very transaction that inserts the resource's row (member `claim` of
 * store_execution, store_command, store_checkpoint and store_run): after a crash an open key
 * without a resource made none, and one with a resource made that one. */
#ifndef EXECHOST_STORE_IDEMPOTENCY_H
#define EXECHOST_STORE_IDEMPOTENCY_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

enum store_resource_kind {
    STORE_RESOURCE_NONE,
    STORE_RESOURCE_EXECUTION,  /* id, and its incarnation as number */
    STORE_RESOURCE_COMMAND,    /* id, and the row of its execution as number */
    STORE_RESOURCE_CHECKPOINT, /* id */
    STORE_RESOURCE_RUN,        /* id, and its row as number */
};

struct store_resource {
    enum store_resource_kind kind;
    char id[ID_SIZE];
    int64_t number;
};

/* An answer as it was sent. */
struct store_answer {
    int status;
    char *type;    /* Content-Type; NULL: none */
    char *headers; /* "Name: value\n" each; NULL: none */
    char *body;    /* owned; NULL when there is none */
    size_t body_len;
};

void store_answer_done(struct store_answer *a);

struct store_idempotency {
    int64_t row;
    char *digest; /* of the request */
    struct store_resource resource;
    bool answered;
    struct store_answer answer;
};

void store_idempotency_done(struct store_idempotency *k);

struct store_idempotency_request {
    const char *tenant;
    const char *key;
    const char *digest;
    int64_t now;        /* wall ms */
    int64_t expires_at; /* of the claim, if it becomes one */
};

/* By tenant and key. Not there, or expired at `now`: ERROR_NOT_FOUND. */
int store_idempotency_get(struct store *s, const struct store_idempotency_request *request,
                          struct store_idempotency *out, struct error *err) WARN_UNUSED;

/* Claims the key, in place of an expired one. *fresh false: there is one already, which `out` holds
 * (its digest may be another); true: `out` holds the new one. */
int store_idempotency_claim(struct store *s, const struct store_idempotency_request *request,
                            struct store_idempotency *out, bool *fresh,
                            struct error *err) WARN_UNUSED;

/* Stores the answer (borrowed; long bodies are compressed) and keeps it until `expires_at`. A key
 * that is gone is no error. */
int store_idempotency_answer(struct store *s, int64_t row, const struct store_answer *answer,
                             int64_t expires_at, struct error *err) WARN_UNUSED;
/* Gives the key up: the next request under it is the first. */
int store_idempotency_release(struct store *s, int64_t row, struct error *err) WARN_UNUSED;
/* Removes keys that expired before `now`, a bounded number at once; how many, fewer than
 * STORE_IDEMPOTENCY_SWEEP when none is left. */
enum { STORE_IDEMPOTENCY_SWEEP = 500 };
int store_idempotency_sweep(struct store *s, int64_t now, int *removed,
                            struct error *err) WARN_UNUSED;

#endif
