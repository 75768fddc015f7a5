/* Reads somebody's tar stream (the engine's copy of a workspace, `git archive`) and feeds its
 * entries into a sink, refusing what has no place in a workspace: absolute names, "..", a name
 * twice, names whose parent is no directory seen before (so nothing goes through a link), hard
 * links to anything but an earlier file or symbolic link, a stream without its end mark. Entries
 * keep the stream's order: the engine's is archive order, git's is not (it sorts a directory as if
 * its name ended in "/"). Blocks in the caller's read function; constant memory but for about 20
 * bytes a name. One thread at a time. */
#ifndef EXECHOST_WORKSPACE_TAR_H
#define EXECHOST_WORKSPACE_TAR_H

#include "workspace/entry.h"

#include <stdbool.h>
#include <sys/types.h>

/* Next bytes of the stream: > 0 length with *data set (borrowed until the next call), 0 at its end,
 * -1 with `err` set. */
typedef ssize_t (*workspace_tar_read_fn)(void *ctx, const void **data, struct error *err);

struct workspace_tar_source {
    workspace_tar_read_fn read;
    void *ctx;
    const char *strip;          /* first path component to drop ("workspace"), or NULL */
    int64_t apparent_bytes_max; /* ERROR_RESOURCE_LIMIT beyond; < 0: no bound */
    size_t directory_path_max;  /* a longer directory is ERROR_RESOURCE_LIMIT: who made the stream
                                 * can't  read all that may be in it; 0: no bound */
    bool loose; /* as people make them: directories may be left out, which are then made with mode
                 * 0755, or come twice */
    enum error_code fault; /* what a malformed stream is; ERROR_NONE: ERROR_RUNTIME */
};

/* Data comes as runs that begin at a multiple of WORKSPACE_BLOCK and end at one or at the file's
 * end; blocks of zeros are not passed on. Reads the stream to its end. Times before 1970 are whole
 * seconds. */
int workspace_tar_feed(const struct workspace_tar_source *source, struct workspace_sink *sink,
                       struct error *err) WARN_UNUSED;

enum { WORKSPACE_TAR_BLOCK = 512 };
/* For who reads a tar with libarchive itself. Of a stream's first symbolic link the library (3.6.2)
 * loses a target that only the extended header holds, as engines write it where no character is
 * ASCII; it keeps those of all later ones. So a header of our own, a symbolic link, is put before
 * the stream, and skipped. */
void workspace_tar_first_link(char header[WORKSPACE_TAR_BLOCK]);

#endif
