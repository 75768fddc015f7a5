/* A growing byte buffer with a mandatory cap. Owns its memory; one thread at a time. There is
 * always a NUL behind the last byte, which `len` does not count. When an append fails (cap or
 * memory) the content is unchanged and the buffer stays usable. */
#ifndef EXECHOST_BASE_BUF_H
#define EXECHOST_BASE_BUF_H

#include "base/macros.h"

#include <stdarg.h>
#include <stdint.h>

struct buf {
    char *data; /* NULL until the first append */
    size_t len;
    size_t size;
    size_t max;
};

#define _cleanup_buf_ _cleanup_(buf_done)

/* `max` is the most bytes it will ever hold. */
void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
void buf_reset(struct buf *b); /* len = 0, memory kept */

/* 0, or -1 when the cap would be passed or memory is out. */
int buf_add(struct buf *b, const void *data, size_t len) WARN_UNUSED;
int buf_add_str(struct buf *b, const char *s) WARN_UNUSED;
int buf_add_char(struct buf *b, char c) WARN_UNUSED;
int buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3) WARN_UNUSED;
int buf_vaddf(struct buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0) WARN_UNUSED;
/* Makes room for `len` further bytes and returns where they go, without counting them; NULL as
 * above. */
char *buf_reserve(struct buf *b, size_t len) WARN_UNUSED;

/* Drops the first `len` bytes. */
void buf_consume(struct buf *b, size_t len);
/* The content as a C string, "" when empty; borrowed until the next change. */
const char *buf_str(const struct buf *b);
/* Returns owned: the content (NUL-terminated, never NULL unless out of memory); the buffer is empty
 * then. */
char *buf_take(struct buf *b, size_t *len);

#endif
