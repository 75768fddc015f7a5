/* Files and directories, with the durability the callers' promises need. Any thread; all block. */
#ifndef EXECHOST_BASE_FILE_H
#define EXECHOST_BASE_FILE_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whole file into `out` (up to its cap: larger is ERROR_INVALID_REQUEST "larger than"). */
int file_read(const char *path, struct buf *out, struct error *err) WARN_UNUSED;

/* Writes beside, fsyncs, renames over, fsyncs the directory: a reader sees the old or the new
 * content. */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
                      struct error *err) WARN_UNUSED;

/* All of `len`, over short writes and EINTR. */
int file_write_all(int fd, const void *data, size_t len, struct error *err) WARN_UNUSED;

/* Copies `len` bytes of `from`, from `offset` on, to the place where `to` stands; inside the
 * kernel, and where the file system can, without a second copy on disk. A file that ends before:
 * EIO. */
int file_copy_range(int from, int64_t offset, int64_t len, int to, struct error *err) WARN_UNUSED;

/* Makes the directory and its missing parents with `mode`; existing ones are fine. */
int dir_make(const char *path, mode_t mode, struct error *err) WARN_UNUSED;
/* fsync of a directory, so that names in it are durable. */
int dir_sync(const char *path, struct error *err) WARN_UNUSED;
/* Removes a tree without following links; missing is fine. */
int dir_remove(const char *path, struct error *err) WARN_UNUSED;

/* Makes the directory, or removes all that is in it, without taking the directory itself away: that
 * works on a full disk, too. */
int dir_empty(const char *path, mode_t mode, struct error *err) WARN_UNUSED;

/* Opens `path` (relative) below `root_fd` with RESOLVE_BENEATH|RESOLVE_NO_MAGICLINKS; -1 and errno.
 */
int file_open_beneath(int root_fd, const char *path, int flags, mode_t mode) WARN_UNUSED;

#endif
