#include "workspace/blocks.h"

#include <string.h>

bool workspace_blocks_is_zero(const void *data, size_t len)
{
    const unsigned char *p = data;
    /* The one overlapping comparison runs at memory speed; most blocks end at the first byte. */
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

int64_t workspace_blocks_count(size_t len)
{
    return (int64_t)((len + WORKSPACE_BLOCK - 1) / WORKSPACE_BLOCK);
}

void workspace_blocks_begin(struct workspace_blocks *b, int64_t size, workspace_blocks_emit_fn emit,
                            void *ctx)
{
    b->emit = emit;
    b->ctx = ctx;
    b->size = size;
    b->next = 0;
    b->holding = false;
    b->origin = 0;
}

static size_t block_length(const struct workspace_blocks *b, int64_t origin)
{
    int64_t left = b->size - origin;
    return left < WORKSPACE_BLOCK ? (size_t)left : WORKSPACE_BLOCK;
}

static int flush_partial(struct workspace_blocks *b, struct error *err)
{
    if (!b->holding) {
        return 0;
    }
    b->holding = false;
    size_t len = block_length(b, b->origin);
    if (workspace_blocks_is_zero(b->partial, len)) {
        return 0;
    }
    return b->emit(b->ctx, b->origin, b->partial, len, err);
}

/* Passes on the runs of a piece of complete blocks. */
static int emit_runs(struct workspace_blocks *b, int64_t offset, const unsigned char *data,
                     size_t len, struct error *err)
{
    size_t start = 0;
    for (size_t i = 0; i < len;) {
        size_t n = len - i < WORKSPACE_BLOCK ? len - i : WORKSPACE_BLOCK;
        if (workspace_blocks_is_zero(data + i, n)) {
            if (i > start &&
                b->emit(b->ctx, offset + (int64_t)start, data + start, i - start, err) != 0) {
                return -1;
            }
            start = i + n;
        }
        i += n;
    }
    if (len > start) {
        return b->emit(b->ctx, offset + (int64_t)start, data + start, len - start, err);
    }
    return 0;
}

/* Puts what belongs to one incomplete block aside; returns how much that was, -1 on failure. */
static ssize_t hold(struct workspace_blocks *b, int64_t offset, const unsigned char *data,
                    size_t len, struct error *err)
{
    int64_t origin = offset - offset % WORKSPACE_BLOCK;
    if (!b->holding) {
        memset(b->partial, 0, sizeof(b->partial));
        b->holding = true;
        b->origin = origin;
    }
    size_t at = (size_t)(offset - origin);
    size_t whole = block_length(b, origin);
    size_t take = whole - at < len ? whole - at : len;
    memcpy(b->partial + at, data, take);
    if (at + take == whole && flush_partial(b, err) != 0) {
        return -1;
    }
    return (ssize_t)take;
}

/* How many bytes from here on are complete blocks of the file. */
static size_t complete_length(const struct workspace_blocks *b, int64_t offset, size_t len)
{
    if (b->holding || offset % WORKSPACE_BLOCK != 0) {
        return 0;
    }
    if (offset + (int64_t)len == b->size) {
        return len;
    }
    return len - len % WORKSPACE_BLOCK;
}

int workspace_blocks_add(struct workspace_blocks *b, int64_t offset, const void *data, size_t len,
                         struct error *err)
{
    if (offset < b->next || offset > b->size || (int64_t)len > b->size - offset) {
        return error_set(err, ERROR_INTERNAL, "data of a file out of order or beyond its size");
    }
    const unsigned char *p = data;
    b->next = offset + (int64_t)len;
    if (b->holding && offset >= b->origin + WORKSPACE_BLOCK && flush_partial(b, err) != 0) {
        return -1;
    }
    while (len > 0) {
        size_t whole = complete_length(b, offset, len);
        if (whole > 0) {
            if (emit_runs(b, offset, p, whole, err) != 0) {
                return -1;
            }
        } else {
            ssize_t taken = hold(b, offset, p, len, err);
            if (taken < 0) {
                return -1;
            }
            whole = (size_t)taken;
        }
        p += whole;
        offset += (int64_t)whole;
        len -= whole;
    }
    return 0;
}

int workspace_blocks_end(struct workspace_blocks *b, struct error *err)
{
    return flush_partial(b, err);
}
