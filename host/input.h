/* What is on its way to a running command: bytes of its standard input, as far as the program lets
 * them through, and signals, which go past them. Makes the frames of `guest run`
 * (guest/protocol.h). Pure, one thread at a time: the caller locks. */
#ifndef EXECHOST_HOST_INPUT_H
#define EXECHOST_HOST_INPUT_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_INPUT_SIGNALS_MAX = 64 };

struct host_input {
    bool open;     /* more may be added */
    bool was_open; /* tells the two reasons apart why nothing may */
    bool end_due;  /* the end is still to be sent, behind what waits */
    bool dropped;  /* nobody takes anything any more */
    struct buf waiting;
    size_t start;   /* of `waiting`: sent already */
    size_t window;  /* bytes that the guest has room for */
    unsigned count; /* of signals that wait */
    uint8_t signals[HOST_INPUT_SIGNALS_MAX];
    struct buf out; /* frames, in part on their way */
    size_t out_start;
};

/* What a command begins with (data NULL and not open: /dev/null). */
struct host_input_begin {
    bool has_data; /* even if it is empty */
    const void *data;
    size_t len;
    bool open;
};
int host_input_init(struct host_input *in, const struct host_input_begin *begin,
                    struct error *err) WARN_UNUSED;
void host_input_done(struct host_input *in);

/* As exec_input and exec_signal of host.h say. */
int host_input_add(struct host_input *in, const void *data, size_t len, bool eof,
                   struct error *err) WARN_UNUSED;
int host_input_signal(struct host_input *in, int signo, struct error *err) WARN_UNUSED;

/* The guest has room for so many bytes more; -1: more than it was sent. */
int host_input_taken(struct host_input *in, uint32_t len) WARN_UNUSED;

/* Whether something can be sent now. */
bool host_input_ready(const struct host_input *in);
/* The next bytes to write to the guest, at least one; NULL when there are none now or memory is
 * out. Borrowed until the next call. */
const void *host_input_next(struct host_input *in, size_t *len);
/* So many of them are written. */
void host_input_sent(struct host_input *in, size_t len);
/* The guest can't be written to any more: what waits and what comes is dropped. */
void host_input_drop(struct host_input *in);

#endif
