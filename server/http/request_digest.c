#include "server/http/request_digest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { READ_SIZE = 64 * 1024 };

/* Counts in front of lists and lengths in front of texts: no two requests give the same bytes. */
static void add_number(struct digest *d, size_t number)
{
    char text[24];
    int digits = snprintf(text, sizeof(text), "%zu:", number);

    digest_update(d, text, (size_t)digits);
}

static void add_part(struct digest *d, const char *text)
{
    add_number(d, strlen(text));
    digest_update(d, text, strlen(text));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct uri_pair *)a)->name, ((const struct uri_pair *)b)->name);
}

static void add_query(struct digest *d, const struct uri *uri, const char *except)
{
    struct uri_pair pairs[URI_QUERY_MAX];
    size_t count = 0;

    for (unsigned i = 0; i < uri->query_count; i++) {
        if (strcmp(uri->query[i].name, except) != 0) {
            pairs[count++] = uri->query[i];
        }
    }
    add_number(d, count);
    qsort(pairs, count, sizeof(pairs[0]), by_name);
    for (size_t i = 0; i < count; i++) {
        add_part(d, pairs[i].name);
        add_part(d, pairs[i].value);
    }
}

static int add_file(struct digest *d, int fd, int64_t size, struct error *err)
{
    _cleanup_free_ char *block = malloc(READ_SIZE);

    for (int64_t at = 0; block != NULL && at < size;) {
        ssize_t got = pread(fd, block, READ_SIZE, at);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return error_set_errno(err, ERROR_INTERNAL, got < 0 ? errno : EIO,
                                   "cannot read the request's body");
        }
        digest_update(d, block, (size_t)got);
        at += got;
    }
    return block != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

int request_digest(const char *method, const struct uri *uri, const char *except,
                   const struct request_body *body, char out[DIGEST_TEXT_SIZE], struct error *err)
{
    struct digest *d = digest_new();
    int result = 0;

    add_part(d, method);
    add_number(d, uri->segment_count);
    for (unsigned i = 0; i < uri->segment_count; i++) {
        add_part(d, uri->segments[i]);
    }
    add_query(d, uri, except);
    if (body->fd >= 0) {
        result = add_file(d, body->fd, body->size, err);
    } else if (body->size > 0) {
        digest_update(d, body->data, (size_t)body->size);
    }
    if (result == 0) {
        digest_final(d, out);
    }
    digest_free(d);
    return result;
}
