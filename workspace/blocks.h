/* Brings the bytes of one file into block shape: whatever pieces come in, out go runs that begin at
 * a multiple of WORKSPACE_BLOCK, end at one or at the file's end, and hold no block of zeros.
 * Embedded; one thread at a time. */
#ifndef EXECHOST_WORKSPACE_BLOCKS_H
#define EXECHOST_WORKSPACE_BLOCKS_H

#include "workspace/entry.h"

#include <stdbool.h>

/* Where runs go; `data` is borrowed for the call. */
typedef int (*workspace_blocks_emit_fn)(void *ctx, int64_t offset, const void *data, size_t len,
                                        struct error *err);

struct workspace_blocks {
    workspace_blocks_emit_fn emit;
    void *ctx;
    int64_t size;   /* of the file */
    int64_t next;   /* where the next piece may begin at the earliest */
    bool holding;   /* `partial` has a block that is not complete yet */
    int64_t origin; /* of the held block */
    unsigned char partial[WORKSPACE_BLOCK];
};

void workspace_blocks_begin(struct workspace_blocks *b, int64_t size, workspace_blocks_emit_fn emit,
                            void *ctx);
/* ERROR_INTERNAL when offsets fall or pass the file's size. */
int workspace_blocks_add(struct workspace_blocks *b, int64_t offset, const void *data, size_t len,
                         struct error *err) WARN_UNUSED;
int workspace_blocks_end(struct workspace_blocks *b, struct error *err) WARN_UNUSED;

bool workspace_blocks_is_zero(const void *data, size_t len);
/* How many blocks a run of `len` bytes touches, given that it begins at one. */
int64_t workspace_blocks_count(size_t len);

#endif
