/* Makes the headers of a pax archive: the same bytes for the same entry, owner 65532:65532 without
 * names, no times but the modification time, holes as GNU sparse format 1.0. Pure; any thread. */
#ifndef EXECHOST_WORKSPACE_PAX_H
#define EXECHOST_WORKSPACE_PAX_H

#include "workspace/content.h"
#include "workspace/entry.h"

enum { PAX_BLOCK = 512, PAX_OWNER = 65532, PAX_HEADERS_MAX = 8 * 1024 * 1024 };

struct workspace_pax_file {
    const struct workspace_extent *extents; /* where content is; borrowed */
    size_t count;
};

/* Appends to `out` everything that comes before the content of `entry`: extension header, header
 * and the map of a sparse file. `file` is for regular files, else NULL. -1: cap or memory is out.
 * Sets *stored to the bytes of content that must follow, then padded to PAX_BLOCK. */
int workspace_pax_header(struct buf *out, const struct workspace_entry *entry,
                         const struct workspace_pax_file *file, int64_t *stored) WARN_UNUSED;

/* Times before 1970 are kept as whole seconds: readers disagree about their fractions. */

#endif
