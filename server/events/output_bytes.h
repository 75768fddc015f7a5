/* One stream of a command's output as raw bytes, put together from the records of its transcript.
 * Holds its place between two fills, no descriptor and no buffer. One thread at a time; blocks for
 * reads of the file, of all heads in it in output_bytes_size and _new. */
#ifndef EXECHOST_SERVER_EVENTS_OUTPUT_BYTES_H
#define EXECHOST_SERVER_EVENTS_OUTPUT_BYTES_H

#include "server/http/http.h"
#include "store/transcript.h"

struct output_bytes;

/* How much of the stream (STORE_RECORD_STDOUT or _STDERR) is there now; found by the heads of the
 * records alone. No transcript: ERROR_NOT_FOUND. */
int output_bytes_size(const struct store_transcript_name *name, enum store_record_kind stream,
                      int64_t *size, struct error *err) WARN_UNUSED;
/* `length` bytes from `first` on, which must be there. `name` is copied but for `directory`, which
 * stays. ERROR_TRANSCRIPT_GONE while it is being removed. Returns owned. */
int output_bytes_new(const struct store_transcript_name *name, enum store_record_kind stream,
                     int64_t first, int64_t length, struct output_bytes **out,
                     struct error *err) WARN_UNUSED;
void output_bytes_free(struct output_bytes *b); /* NULL is fine */

/* The stream: its state is a struct output_bytes. */
extern const struct http_stream_ops output_bytes_ops;

#endif
