/* A file that somebody sent, plain or compressed by gzip or zstd, as the bytes that are in it.
 * Reads from offset 0, borrows the descriptor, blocks; constant memory; one thread at a time.
 * Whoever reads it bounds how much comes out. */
#ifndef EXECHOST_WORKSPACE_INFLATE_H
#define EXECHOST_WORKSPACE_INFLATE_H

#include "base/cancel.h"
#include "base/error.h"

#include <sys/types.h>

struct workspace_inflate;
int workspace_inflate_new(int fd, struct cancel *cancel, struct workspace_inflate **out,
                          struct error *err) WARN_UNUSED;
/* As workspace_tar_read_fn; damage is ERROR_INVALID_REQUEST. */
ssize_t workspace_inflate_read(void *inflate, const void **data, struct error *err);
void workspace_inflate_free(struct workspace_inflate *i); /* NULL is fine */

#endif
