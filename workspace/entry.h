/* A workspace's content as a flow of entries: what both directions share. A sink takes the entries
 * of one workspace in order; who feeds it calls `begin`, then `data` for regular files, then `end`,
 * and nothing else between. A directory comes before what is in it, a hard link after the file it
 * names. Archive order, where a sink needs it (the writer): all of a directory before its next
 * sibling, names of one directory sorted bytewise. One thread at a time. */
#ifndef EXECHOST_WORKSPACE_ENTRY_H
#define EXECHOST_WORKSPACE_ENTRY_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum workspace_entry_type {
    WORKSPACE_DIRECTORY,
    WORKSPACE_FILE,
    WORKSPACE_SYMLINK,
    WORKSPACE_HARDLINK,
    WORKSPACE_SPECIAL, /* device, FIFO, socket: counted as skipped, never kept */
};

struct workspace_entry {
    enum workspace_entry_type type;
    const char
        *path; /* borrowed; relative, no ".", "..", "//" or trailing "/"; any bytes but NUL */
    const char *target; /* borrowed; symlink: verbatim; hard link: path of an earlier
                         * file or symbolic link (which is not followed); else NULL */
    unsigned mode;      /* permission bits, 0..07777; setuid and setgid are dropped by every sink */
    int64_t size;       /* apparent bytes of a file, else 0 */
    int64_t mtime_ns;   /* since the epoch */
};

enum { WORKSPACE_BLOCK = 4096, WORKSPACE_PATH_MAX = 4095 };

struct workspace_sink;

struct workspace_sink_ops {
    int (*begin)(struct workspace_sink *sink, const struct workspace_entry *entry,
                 struct error *err);
    /* A run of the file's bytes at `offset`; offsets rise; what no call covers is zeros. */
    int (*data)(struct workspace_sink *sink, int64_t offset, const void *data, size_t len,
                struct error *err);
    int (*end)(struct workspace_sink *sink, struct error *err);
    /* Between entries: so many special files that no entry was made of. NULL: nobody counts them.
     */
    void (*skipped)(struct workspace_sink *sink, int64_t count);
};

/* Embedded first in every sink's own struct. */
struct workspace_sink {
    const struct workspace_sink_ops *ops;
};

#endif
