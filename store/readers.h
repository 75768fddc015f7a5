/* Which executions' transcripts are being read: a reader that comes back for more finds its file
 * only if nobody removes it meanwhile. Any thread; memory only. */
#ifndef EXECHOST_STORE_READERS_H
#define EXECHOST_STORE_READERS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct store_readers;

int store_readers_new(struct store_readers **out, struct error *err) WARN_UNUSED;
void store_readers_free(struct store_readers *r); /* NULL is fine; nobody may be in it */

/* Embedded in who reads, or who removes. */
struct store_reader {
    LIST_ENTRY(store_reader) entry;
    struct store_readers *in; /* NULL: not in any */
    int64_t execution_row;
    bool removes;
};

/* False when the transcripts are being removed. With `readers` NULL nobody removes: true. */
bool store_reader_begin(struct store_readers *readers, struct store_reader *reader,
                        int64_t execution_row) WARN_UNUSED;
void store_reader_end(struct store_reader *reader); /* also of one that never began, if zero */

/* False when they are being read. Ends by store_reader_end. */
bool store_removal_begin(struct store_readers *readers, struct store_reader *remover,
                         int64_t execution_row) WARN_UNUSED;

#endif
