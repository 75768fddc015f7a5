/* The stored form of a byte stream: a file, plain or zstd, read or written once from its beginning,
 * with the digest and the count of the stored bytes. Borrows the descriptor; blocks; one thread at
 * a time. */
#ifndef EXECHOST_WORKSPACE_STREAM_H
#define EXECHOST_WORKSPACE_STREAM_H

#include "base/cancel.h"
#include "workspace/archive.h"

#include <sys/types.h>

struct workspace_output;
/* Compresses with two worker threads where the library has them. */
int workspace_output_new(int fd, enum workspace_compression compression, int level,
                         struct workspace_output **out, struct error *err) WARN_UNUSED;
int workspace_output_write(struct workspace_output *o, const void *data, size_t len,
                           struct error *err) WARN_UNUSED;
/* Writes what is left; `digest` is of the stored bytes. */
int workspace_output_finish(struct workspace_output *o, char digest[DIGEST_TEXT_SIZE],
                            int64_t *stored, struct error *err) WARN_UNUSED;
void workspace_output_free(struct workspace_output *o); /* NULL is fine */

/* Reads by offset from 0, so that two inputs of one descriptor do not disturb each other. `name` is
 * for details. Faults are ERROR_CHECKPOINT_INVALID. */
struct workspace_input;
int workspace_input_new(int fd, enum workspace_compression compression, const char *name,
                        struct workspace_input **out, struct error *err) WARN_UNUSED;
/* As workspace_tar_read_fn. At the stream's end: 0, having checked that no stored byte is left
 * over. */
ssize_t workspace_input_read(struct workspace_input *i, const void **data,
                             struct error *err) WARN_UNUSED;
/* Of the stored bytes read so far; meant for after the end. */
void workspace_input_finish(struct workspace_input *i, char digest[DIGEST_TEXT_SIZE],
                            int64_t *stored);
void workspace_input_free(struct workspace_input *i); /* NULL is fine */

#endif
