/* Frames of the control channel: a big-endian length of four bytes, then that many bytes of UTF-8
 * JSON. Owns what is buffered; one thread at a time. */
#ifndef EXECHOST_PTC_FRAMES_H
#define EXECHOST_PTC_FRAMES_H

#include "ptc/json.h"

#include <stdint.h>

enum { PTC_FRAME_HEAD = 4 };

/* --- what came --- */

struct ptc_frames {
    struct buf held;
    size_t at;   /* what is before was taken */
    int64_t max; /* of one body */
};
void ptc_frames_init(struct ptc_frames *f, int64_t max);
void ptc_frames_done(struct ptc_frames *f);
/* Takes over some bytes. -1: out of memory, or more waits than one frame can have. */
int ptc_frames_put(struct ptc_frames *f, const char *data, size_t len) WARN_UNUSED;
/* The next whole body, borrowed until the next put: 1; 0: not all of it is there; -1: its length is
 * zero or more than the maximum, which is known before the body comes. */
int ptc_frames_next(struct ptc_frames *f, struct ptc_text *body) WARN_UNUSED;

/* --- what goes --- */

struct ptc_sending {
    struct buf queue;
    size_t at;
};
/* `max`: bytes that may wait. */
void ptc_sending_init(struct ptc_sending *s, int64_t max);
void ptc_sending_done(struct ptc_sending *s);
/* Queues a frame of these pieces. -1: too much waits. */
int ptc_sending_add(struct ptc_sending *s, const struct ptc_text *pieces, size_t count) WARN_UNUSED;
bool ptc_sending_waits(const struct ptc_sending *s);
/* Writes what the socket takes now. -1 with errno when it is gone. */
int ptc_sending_flush(struct ptc_sending *s, int fd) WARN_UNUSED;

/* --- what they say --- */

enum ptc_message_type {
    PTC_MESSAGE_READY,
    PTC_MESSAGE_CALL,
    PTC_MESSAGE_LOG,
    PTC_MESSAGE_OUTPUT_LIMIT,
    PTC_MESSAGE_DONE,
};

/* Texts are JSON in its one form; empty: left out. */
struct ptc_message {
    enum ptc_message_type type;
    int64_t id;               /* call */
    struct ptc_text global;   /* call: without quotes */
    struct ptc_text function; /* call */
    struct ptc_text argument; /* call */
    struct ptc_text text;     /* log */
    bool ok;                  /* done */
    bool lossy;               /* done: the completion was no lossless JSON */
    struct ptc_text value;    /* done, ok */
    struct ptc_text message;  /* done, not ok */
};

/* Reads a body; the message borrows from `room`, which is overwritten. Whatever is missing,
 * unknown, twice or of another type: -1 and what is wrong in `why` (static). */
int ptc_message_read(struct ptc_text body, struct buf *room, struct ptc_message *out,
                     const char **why) WARN_UNUSED;

#endif
