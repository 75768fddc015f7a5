/* The content of one file while an archive is written: a pax header needs the map of a sparse file
 * before its first byte, so the runs are kept until the file is complete; up to CONTENT_MEMORY
 * bytes in memory, more in a nameless file beside the archive. The map has at most
 * CONTENT_EXTENTS_MAX runs: in a file with more of them the smallest holes are taken for content.
 * Embedded; one thread at a time. */
#ifndef EXECHOST_WORKSPACE_CONTENT_H
#define EXECHOST_WORKSPACE_CONTENT_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONTENT_MEMORY = 1024 * 1024, CONTENT_EXTENTS_MAX = 64 * 1024 };

struct workspace_extent {
    int64_t offset;
    int64_t len;
};

struct workspace_content {
    int beside_fd; /* borrowed: the spool file is made in its directory */
    int spool_fd;  /* or -1 */
    bool spooled;  /* the content is in the spool, at its offsets; else in `memory`, packed */
    struct buf memory;
    struct workspace_extent *extents; /* rising, apart */
    size_t extent_count;
    size_t extent_size;
    int64_t gap_min; /* a smaller hole is taken for content */
};

typedef int (*workspace_content_fn)(void *ctx, const void *data, size_t len, struct error *err);

void workspace_content_init(struct workspace_content *c, int beside_fd);
void workspace_content_done(struct workspace_content *c);
/* Forgets the last file. */
int workspace_content_begin(struct workspace_content *c, struct error *err) WARN_UNUSED;
/* A run; begins and ends at multiples of WORKSPACE_BLOCK or at the file's end; offsets rise. */
int workspace_content_add(struct workspace_content *c, int64_t offset, const void *data, size_t len,
                          struct error *err) WARN_UNUSED;
/* All bytes of all extents, in order. */
int workspace_content_read(const struct workspace_content *c, workspace_content_fn fn, void *ctx,
                           struct error *err) WARN_UNUSED;

#endif
