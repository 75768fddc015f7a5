/* What the log of a run still tells after a restart: of bytes that may be torn anywhere, the events
 * that are whole and can follow one another, and what they say of the run. One thread at a time;
 * blocks for nothing. */
#ifndef EXECHOST_SERVER_EVENTS_RUN_LEFT_H
#define EXECHOST_SERVER_EVENTS_RUN_LEFT_H

#include "base/buf.h"
#include "base/macros.h"

#include <stdbool.h>
#include <stdint.h>

struct run_left {
    struct buf text;    /* the whole log: filled by the caller */
    size_t len;         /* of the events that are whole; whatever follows is to be cut */
    int64_t seq;        /* of the next event */
    int64_t started_at; /* wall ms; 0: it never was */
    struct buf logs;    /* JSON array of the log entries that have room */
    int64_t logs_room;  /* bytes, without brackets */
    int64_t calls_total;
    int64_t calls_answered;
    bool *open; /* by number: waits for its answer */
    size_t open_size;
};

/* `max`: bytes of a log. */
void run_left_init(struct run_left *l, size_t max);
void run_left_done(struct run_left *l);
/* Reads `text`, once. A result is never taken: what has one is not left. -1: out of memory. */
int run_left_take(struct run_left *l, int64_t logs_room) WARN_UNUSED;

#endif
