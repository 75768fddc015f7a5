/* A conversation with the helper inside an execution (guest/protocol.h), whatever host it runs on:
 * frames in, bytes out, one deadline. The host gives the two ends; this is what every caller of it
 * shares. One thread at a time; send and receive block until the deadline or `cancel`. */
#ifndef EXECHOST_HOST_GUEST_H
#define EXECHOST_HOST_GUEST_H

#include "base/cancel.h"
#include "base/error.h"
#include "guest/protocol.h"
#include "host/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host_guest;

/* What a call says; borrowed while it is started, `cancel` until the conversation is freed. */
struct host_guest_call {
    struct host_identity id;
    const char *handle;
    const char *const *argv;  /* NULL-ended: the helper's subcommand and its arguments, UTF-8 */
    int64_t deadline_mono_ms; /* later is ERROR_TIMEOUT */
    struct cancel *cancel;    /* may be NULL; ERROR_RUNTIME "interrupted" */
    bool alone; /* nothing else of the user runs: a helper that is killed was killed for memory */
    /* Makes an error of GUEST_FAILED: `errnum`, and `text` as printable ASCII. Returns -1. */
    int (*failed)(int errnum, const char *text, struct error *err);
};

/* --- for hosts --- */

struct host_guest_ends {
    int in;            /* to its standard input; nonblocking; may be the same socket as `out` */
    int out;           /* from its standard output; nonblocking */
    const void *early; /* bytes that came from `out` already, borrowed until `close`; may be NULL */
    size_t early_len;
    /* Takes away, in place, what the host has put around the helper's bytes; returns how many are
     * left, -1 when they make no sense. NULL: nothing is around them. */
    ssize_t (*unwrap)(void *ctx, uint8_t *data, size_t len);
    /* The helper ended without a last frame: says why. Returns -1. */
    int (*over)(void *ctx, struct error *err);
    /* Closes both ends: the helper undoes what it has begun, and ends. */
    void (*close)(void *ctx);
    void *ctx;
};
/* Takes the ends, also on failure. */
int host_guest_new(const struct host_guest_call *call, const struct host_guest_ends *ends,
                   struct host_guest **out, struct error *err) WARN_UNUSED;

/* --- for callers --- */

/* Bytes to its standard input. A helper that answers early is heard: its failure is the error. */
int host_guest_send(struct host_guest *g, const void *data, size_t len,
                    struct error *err) WARN_UNUSED;

struct host_guest_frame {
    uint8_t type;
    const uint8_t *payload; /* borrowed until the next call */
    size_t len;
};
/* The next frame, at most GUEST_FRAME_MAX long; GUEST_FAILED comes as the error. */
int host_guest_receive(struct host_guest *g, struct host_guest_frame *frame,
                       struct error *err) WARN_UNUSED;
/* The last frame must come next. */
int host_guest_expect_done(struct host_guest *g, struct error *err) WARN_UNUSED;
/* For a frame that has no place here. Returns -1. */
int host_guest_out_of_place(struct error *err);

/* Whether it has had its last word. */
bool host_guest_answered(const struct host_guest *g);
void host_guest_free(struct host_guest *g); /* NULL is fine */

static inline void host_guest_freep(struct host_guest **g)
{
    host_guest_free(*g);
}
#define _cleanup_guest_ _cleanup_(host_guest_freep)

#endif
