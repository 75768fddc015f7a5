#include "base/buf.h"

#include <string.h>

enum { FIRST_SIZE = 64 };

void buf_init(struct buf *b, size_t max)
{
    b->data = NULL;
    b->len = 0;
    b->size = 0;
    b->max = max;
}

void buf_done(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data != NULL) {
        b->data[0] = '\0';
    }
}

char *buf_reserve(struct buf *b, size_t len)
{
    size_t need;
    size_t size;
    char *data;

    if (len > b->max - b->len || b->max == SIZE_MAX) {
        return NULL;
    }
    need = b->len + len + 1;
    if (need <= b->size) {
        return b->data + b->len;
    }
    size = b->size < FIRST_SIZE ? FIRST_SIZE : b->size;
    while (size < need) {
        size = size > SIZE_MAX / 2 ? need : size * 2;
    }
    if (size > b->max + 1) {
        size = b->max + 1;
    }
    data = realloc(b->data, size);
    if (data == NULL) {
        return NULL;
    }
    b->data = data;
    b->size = size;
    b->data[b->len] = '\0';
    return b->data + b->len;
}

int buf_add(struct buf *b, const void *data, size_t len)
{
    char *to = buf_reserve(b, len);

    if (to == NULL) {
        return -1;
    }
    if (len > 0) {
        memcpy(to, data, len);
    }
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int need;
    char *to;

    va_copy(again, ap);
    need = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (need < 0) {
        return -1;
    }
    to = buf_reserve(b, (size_t)need);
    if (to == NULL) {
        return -1;
    }
    if (vsnprintf(to, (size_t)need + 1, fmt, ap) != need) {
        *to = '\0';
        return -1;
    }
    b->len += (size_t)need;
    return 0;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = buf_vaddf(b, fmt, ap);
    va_end(ap);
    return rc;
}

void buf_consume(struct buf *b, size_t len)
{
    if (len >= b->len) {
        buf_reset(b);
        return;
    }
    memmove(b->data, b->data + len, b->len - len + 1);
    b->len -= len;
}

const char *buf_str(const struct buf *b)
{
    return b->data == NULL ? "" : b->data;
}

char *buf_take(struct buf *b, size_t *len)
{
    char *data = b->data;

    if (data == NULL) {
        data = calloc(1, 1);
    }
    if (len != NULL) {
        *len = b->len;
    }
    buf_init(b, b->max);
    return data;
}
