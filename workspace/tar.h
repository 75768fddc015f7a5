/* Reads somebody's tar stream (the engine's copy of a workspace, `git archive`) and feeds its entries
 * into a sink, refusing what has no place in a workspace: absolute names, "..", names through links.
 * Blocks in the caller's read function; constant memory. One thread at a time. */
#ifndef EXECHOST_WORKSPACE_TAR_H
#define EXECHOST_WORKSPACE_TAR_H

#include "base/cancel.h"
#include "workspace/entry.h"

#include <sys/types.h>

/* Next bytes of the stream: > 0 length with *data set (borrowed until the next call), 0 at its end,
 * -1 with `err` set. */
typedef ssize_t (*workspace_tar_read_fn)(void *ctx, const void **data, struct error *err);

struct workspace_tar_source {
    workspace_tar_read_fn read;
    void *ctx;
    const char *strip;          /* first path component to drop ("workspace"), or NULL */
    int64_t apparent_bytes_max; /* ERROR_RESOURCE_LIMIT beyond; < 0: no bound */
};

/* Zero blocks of WORKSPACE_BLOCK bytes are not passed on as data. */
int workspace_tar_feed(const struct workspace_tar_source *source, struct workspace_sink *sink,
                       struct error *err) WARN_UNUSED;

#endif
