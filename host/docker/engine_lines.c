#include "host/docker/engine_lines.h"

#include <string.h>

void engine_lines_init(struct engine_lines *l, void (*line)(void *ctx, const json_t *object),
                       void *ctx)
{
    buf_init(&l->rest, ENGINE_LINE_MAX);
    l->line = line;
    l->ctx = ctx;
}

void engine_lines_done(struct engine_lines *l)
{
    buf_done(&l->rest);
}

static int one_line(struct engine_lines *l, const char *data, size_t len)
{
    json_t *object;

    while (len > 0 && memchr("\r\n\t ", data[len - 1], 4) != NULL) {
        len--;
    }
    if (len == 0) {
        return 0;
    }
    object = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return -1;
    }
    l->line(l->ctx, object);
    json_decref(object);
    return 0;
}

int engine_lines_feed(struct engine_lines *l, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        const char *end = memchr(at, '\n', len);
        size_t piece = end != NULL ? (size_t)(end - at) + 1 : len;

        if (buf_add(&l->rest, at, piece) < 0) {
            return -1;
        }
        if (end != NULL) {
            if (one_line(l, l->rest.data, l->rest.len) < 0) {
                return -1;
            }
            buf_reset(&l->rest);
        }
        at += piece;
        len -= piece;
    }
    return 0;
}

int engine_lines_end(struct engine_lines *l)
{
    int result = l->rest.len > 0 ? one_line(l, l->rest.data, l->rest.len) : 0;

    buf_reset(&l->rest);
    return result;
}
