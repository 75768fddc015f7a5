#include "server/http/exchange.h"
#include "server/http/range.h"

#include <inttypes.h>
#include <string.h>

enum { CONTENT_RANGE_SIZE = 80 };

/* RANGE_NONE also where If-Range names another content, or `etag` is NULL and it names any. */
static enum range_result asked_range(const struct http_exchange *x, int64_t size, const char *etag,
                                     int64_t *first, int64_t *length)
{
    const char *range = NULL;
    const char *same = http_header(x, "If-Range");

    /* Two fields mean as much as one with two parts. */
    if (exchange_header(x, "Range", &range) != 1 || strcmp(x->method, "GET") != 0) {
        return RANGE_NONE;
    }
    if (same != NULL && (etag == NULL || !range_etag_same(same, etag))) {
        return RANGE_NONE;
    }
    return range_parse(range, size, first, length);
}

static int refuse_range(struct http_exchange *x, int64_t size, struct error *err)
{
    char text[CONTENT_RANGE_SIZE];

    snprintf(text, sizeof(text), "bytes */%" PRId64, size);
    http_add_header(x, "Content-Range", text);
    return error_set_field(err, ERROR_RANGE_NOT_SATISFIABLE, "Range",
                           "the content has %" PRId64 " bytes", size);
}

int http_range(struct http_exchange *x, int64_t size, int64_t *first, int64_t *length,
               struct error *err)
{
    switch (asked_range(x, size, NULL, first, length)) {
    case RANGE_NONE: return 0;
    case RANGE_PART: return 1;
    case RANGE_OUTSIDE: break;
    }
    return refuse_range(x, size, err);
}

static void add_content_range(struct http_exchange *x, int64_t first, int64_t length, int64_t size)
{
    char text[CONTENT_RANGE_SIZE];

    snprintf(text, sizeof(text), "bytes %" PRId64 "-%" PRId64 "/%" PRId64, first,
             first + length - 1, size);
    http_add_header(x, "Content-Range", text);
}

/* Takes `fd`. */
static void reply_file(struct http_exchange *x, unsigned status, const char *type, int fd,
                       int64_t offset, int64_t length)
{
    if (!reply_store(x, status, type, NULL, (size_t)length)) {
        close(fd);
        return;
    }
    x->reply.has_file = true;
    x->reply.fd = fd;
    x->reply.offset = offset;
}

/* With the length that a 200 would have had. */
static void reply_not_modified(struct http_exchange *x, const struct http_content *c)
{
    reply_file(x, MHD_HTTP_NOT_MODIFIED, "", c->fd, c->offset, c->size);
}

static bool is_not_modified(const struct http_exchange *x, const char *etag)
{
    bool safe = strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0;
    const char *list = NULL;

    return safe && etag != NULL && exchange_header(x, "If-None-Match", &list) == 1 &&
           range_etag_listed(list, etag);
}

void http_reply_content(struct http_exchange *x, const struct http_content *c)
{
    struct error err = ERROR_INIT;
    int64_t first = 0;
    int64_t length = c->size;

    if (c->of > 0) {
        add_content_range(x, c->first, c->size, c->of);
        reply_file(x, MHD_HTTP_PARTIAL_CONTENT, c->type, c->fd, c->offset, c->size);
        return;
    }
    if (c->etag != NULL) {
        http_add_header(x, "ETag", c->etag);
    }
    if (is_not_modified(x, c->etag)) {
        reply_not_modified(x, c);
        return;
    }
    http_add_header(x, "Accept-Ranges", "bytes");
    switch (asked_range(x, c->size, c->etag, &first, &length)) {
    case RANGE_NONE: reply_file(x, MHD_HTTP_OK, c->type, c->fd, c->offset, c->size); break;
    case RANGE_PART:
        add_content_range(x, first, length, c->size);
        reply_file(x, MHD_HTTP_PARTIAL_CONTENT, c->type, c->fd, c->offset + first, length);
        break;
    case RANGE_OUTSIDE:
        close(c->fd);
        (void)refuse_range(x, c->size, &err);
        http_reply_error(x, &err);
        break;
    }
}
