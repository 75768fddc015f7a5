#include "server/http/exchange.h"

#include <errno.h>
#include <string.h>

enum { BLOCK = 64 * 1024, MEMORY_MAX = 64 * 1024 * 1024 };

/* Belongs to the reply, then to the response; read on the event thread. */
struct parts {
    struct http_part items[HTTP_PARTS_MAX]; /* those from memory: `offset` is in `memory` */
    size_t count;
    int64_t size;
    struct buf memory;
};

void parts_free(struct parts *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < p->count; i++) {
        cleanup_close(&p->items[i].fd);
    }
    buf_done(&p->memory);
    free(p);
}

static int keep(struct parts *p, const struct http_part *part)
{
    struct http_part *item = &p->items[p->count++];

    *item = *part;
    p->size += part->size;
    if (part->fd >= 0) {
        return 0;
    }
    item->offset = (int64_t)p->memory.len;
    return buf_add(&p->memory, part->data, (size_t)part->size);
}

/* Takes the descriptors in every case. */
static struct parts *parts_new(const struct http_part *parts, size_t count)
{
    struct parts *p = calloc(1, sizeof(*p));
    bool complete = p != NULL;

    if (p != NULL) {
        buf_init(&p->memory, MEMORY_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (p == NULL || p->count == HTTP_PARTS_MAX) {
            int fd = parts[i].fd;

            cleanup_close(&fd);
            complete = false;
        } else {
            complete = keep(p, &parts[i]) == 0 && complete;
        }
    }
    if (!complete) {
        parts_free(p);
        return NULL;
    }
    return p;
}

void http_reply_parts(struct http_exchange *x, const char *type, const struct http_part *parts,
                      size_t count)
{
    struct parts *p = parts_new(parts, count);
    struct error err = ERROR_INIT;

    if (p == NULL) {
        (void)error_set(&err, ERROR_INTERNAL, "out of memory");
        http_reply_error(x, &err);
        return;
    }
    if (!reply_store(x, MHD_HTTP_OK, type, NULL, (size_t)p->size)) {
        parts_free(p);
        return;
    }
    x->reply.parts = p;
}

/* --- sending --- */

static ssize_t read_part(const struct parts *p, const struct http_part *item, int64_t at, char *to,
                         size_t max)
{
    int64_t left = item->size - at;
    size_t len = left < (int64_t)max ? (size_t)left : max;
    ssize_t n;

    if (item->fd < 0) {
        memcpy(to, p->memory.data + item->offset + at, len);
        return (ssize_t)len;
    }
    do {
        n = pread(item->fd, to, len, item->offset + at);
    } while (n < 0 && errno == EINTR);
    /* A file that has shrunk can't be told any more but by the connection's end. */
    return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t on_read(void *cls, uint64_t pos, char *to, size_t max)
{
    const struct parts *p = cls;
    int64_t at = (int64_t)pos;

    for (size_t i = 0; i < p->count; i++) {
        if (at < p->items[i].size) {
            return read_part(p, &p->items[i], at, to, max);
        }
        at -= p->items[i].size;
    }
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static void on_response_freed(void *cls)
{
    parts_free(cls);
}

struct MHD_Response *parts_response(struct reply *r)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        (uint64_t)r->parts->size, BLOCK, on_read, r->parts, on_response_freed);

    if (response != NULL) {
        r->parts = NULL;
    }
    return response;
}
