/* Splits a stream of JSON objects, one a line, into objects: event streams, progress of pulls and
 * imports. Pure; one thread at a time. */
#ifndef EXECHOST_HOST_DOCKER_ENGINE_LINES_H
#define EXECHOST_HOST_DOCKER_ENGINE_LINES_H

#include "base/buf.h"

#include <jansson.h>

enum { ENGINE_LINE_MAX = 1 << 20 };

struct engine_lines {
    struct buf rest;
    void (*line)(void *ctx, const json_t *object);
    void *ctx;
};

void engine_lines_init(struct engine_lines *l, void (*line)(void *ctx, const json_t *object),
                       void *ctx);
void engine_lines_done(struct engine_lines *l);
/* -1: a line that is no JSON object, or longer than ENGINE_LINE_MAX. Empty lines are fine. */
int engine_lines_feed(struct engine_lines *l, const void *data, size_t len) WARN_UNUSED;
/* The stream's end: what came without a line end is a line too. */
int engine_lines_end(struct engine_lines *l) WARN_UNUSED;

#endif
