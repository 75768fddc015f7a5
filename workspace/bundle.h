/* A checkpoint in one file: a tar of three regular files, in this order:
 *
 *   manifest.json | files.jsonl.zst | workspace.tar.zst     (plain ones without ".zst")
 *
 * with ustar headers (mode 0600, owner 0, the checkpoint's time), a pax header in front of a member
 * of 8 GiB and more, and two blocks of zeros at the end. The same files make the same bytes.
 *
 * The writer makes what stands around the members' bytes, so that an export is sent from the
 * checkpoint's own files. The reader finds the members in a file and refuses everything else: other
 * members, another order, a name twice, links, sparse files, names and sizes said in any other way.
 * Constant memory; any thread. */
#ifndef EXECHOST_WORKSPACE_BUNDLE_H
#define EXECHOST_WORKSPACE_BUNDLE_H

#include "base/buf.h"
#include "workspace/archive.h"

enum workspace_bundle_part {
    WORKSPACE_BUNDLE_MANIFEST,
    WORKSPACE_BUNDLE_FILES,
    WORKSPACE_BUNDLE_ARCHIVE,
    WORKSPACE_BUNDLE_PARTS
};

enum { WORKSPACE_BUNDLE_BLOCK = 512 };

/* --- writing --- */

/* Appends the headers of a member of `size` bytes. -1: the buffer's cap or memory is out. */
int workspace_bundle_put_head(struct buf *out, enum workspace_bundle_part part,
                              enum workspace_compression compression, int64_t size,
                              int64_t created_at_ms) WARN_UNUSED;
/* Appends what follows the bytes of a member of `size` bytes: zeros up to the next block, and
 * behind the last member the end mark. */
int workspace_bundle_put_tail(struct buf *out, enum workspace_bundle_part part,
                              int64_t size) WARN_UNUSED;

/* --- reading --- */

struct workspace_bundle_member {
    int64_t offset; /* in the file */
    int64_t size;
};

struct workspace_bundle {
    struct workspace_bundle_member members[WORKSPACE_BUNDLE_PARTS];
    enum workspace_compression compression; /* as the names say it */
};

/* Reads the headers in the `size` bytes of a file (borrowed, read by offset) and what is behind the
 * last member. Every fault is ERROR_CHECKPOINT_INVALID. */
int workspace_bundle_find(int fd, int64_t size, struct workspace_bundle *out,
                          struct error *err) WARN_UNUSED;

#endif
