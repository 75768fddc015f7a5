/* A command's output on disk: an append-only file of records, each with its length, kind, time and
 * a CRC-32 (zlib's), so that a torn tail is recognised and cut. Sequence numbers are the records'
 * places, from 0. transcript_format.h shows the bytes.
 *
 * A torn tail is where the last whole record ends, if nothing behind it proves that more was
 * durable once. Where something does, the file is damaged: ERROR_INTERNAL names the offset, for
 * readers and `reopen` alike, and nothing is cut.
 *
 * File: <directory>/transcripts/<tenant>/<execution row>/<command id>.log, 0600. A writer belongs
 * to one thread at a time; readers are independent of it and see whole records only. Appends go to
 * the page cache, which outlives the service; `sync` makes them, and on its first call the file's
 * name, outlive a power loss. A reader holds
 * a descriptor, and memory only from a record to the next end. Errors as in store.h. */
#ifndef EXECHOST_STORE_TRANSCRIPT_H
#define EXECHOST_STORE_TRANSCRIPT_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum store_record_kind {
    STORE_RECORD_STARTED, /* no payload */
    STORE_RECORD_STDOUT,  /* payload: bytes as they came, at most 64 KiB */
    STORE_RECORD_STDERR,
    STORE_RECORD_EXIT, /* payload: JSON of the command without output; the last record */
};

struct store_readers;
struct store_transcript; /* a writer */

struct store_transcript_name {
    const char *directory; /* the data directory */
    const char *tenant;
    int64_t execution_row;
    const char *command_id;
    struct store_readers *readers; /* told by who reads piece by piece; NULL: nobody removes */
};

/* Makes the file (it must not exist) and its directories. */
int store_transcript_create(const struct store_transcript_name *name, struct store_transcript **out,
                            struct error *err) WARN_UNUSED;
/* Opens an existing one behind its last whole record, cutting a torn tail (`repaired` tells). */
int store_transcript_reopen(const struct store_transcript_name *name, struct store_transcript **out,
                            bool *repaired, struct error *err) WARN_UNUSED;
/* Output over 64 KiB is split into several records; an exit record may have 16 MiB and is never
 * split. Each record is whole or not at all as a reader sees it: when the disk is full the records
 * before stay, and appending goes on behind them once there is room. */
int store_transcript_append(struct store_transcript *t, enum store_record_kind kind,
                            const void *data, size_t len, struct error *err) WARN_UNUSED;
int store_transcript_sync(struct store_transcript *t, struct error *err) WARN_UNUSED;
/* Bytes of the file so far. */
int64_t store_transcript_size(const struct store_transcript *t);
void store_transcript_close(struct store_transcript *t); /* NULL is fine */

/* Removes the file; who reads it reads on. Missing is fine. */
int store_transcript_remove(const struct store_transcript_name *name,
                            struct error *err) WARN_UNUSED;
/* Removes all of an execution's, with their directory; `command_id` is not looked at. */
int store_transcript_remove_all(const struct store_transcript_name *name,
                                struct error *err) WARN_UNUSED;

/* Bytes of each stream and the number of records, as read from the file. */
struct store_transcript_totals {
    int64_t stdout_bytes;
    int64_t stderr_bytes;
    int64_t records;
    bool ended; /* an exit record is there */
};

struct store_transcript_reader;
struct store_record {
    int64_t seq;
    enum store_record_kind kind;
    int64_t at;       /* wall ms */
    int64_t offset;   /* of the data in its stream */
    const char *data; /* borrowed until the next read */
    size_t len;
};
/* No file: ERROR_NOT_FOUND. */
int store_transcript_open(const struct store_transcript_name *name,
                          struct store_transcript_reader **out, struct error *err) WARN_UNUSED;
/* 1 with a record, 0 when there is no further whole record (yet), -1. */
int store_transcript_next(struct store_transcript_reader *r, struct store_record *out,
                          struct error *err) WARN_UNUSED;
void store_transcript_reader_free(struct store_transcript_reader *r);

/* --- standing somewhere --- */

/* Where a reader stands, kept while it is closed: whoever waits for more holds this and no
 * descriptor. Zero is the start of a transcript. */
struct store_transcript_position {
    int64_t seq; /* of the next record */
    int64_t place;
    int64_t stream_bytes[2]; /* of stdout and stderr before it */
    uint32_t marker;
};
void store_transcript_tell(const struct store_transcript_reader *r,
                           struct store_transcript_position *out);
/* As store_transcript_open, standing where another reader of the same transcript stood. */
int store_transcript_open_at(const struct store_transcript_name *name,
                             const struct store_transcript_position *position,
                             struct store_transcript_reader **out, struct error *err) WARN_UNUSED;
/* Goes on by the records' heads alone, payloads unread and unchecked, to the first record for which
 * `until` says true (its `data` is NULL): that is the next one. 1; 0: there is none, and the reader
 * stands behind the last whole record; -1. */
typedef bool (*store_transcript_until)(void *ctx, const struct store_record *head);
int store_transcript_skip(struct store_transcript_reader *r, store_transcript_until until,
                          void *ctx, struct error *err) WARN_UNUSED;

/* Of the file, in bytes; 0 where there is none. */
int64_t store_transcript_file_size(const struct store_transcript_name *name);
/* The first bytes of both streams, each up to the cap of its buffer, and the totals. With a cap
 * of 0 for both every byte is read; else damage in what is beyond the caps is not noticed. */
int store_transcript_read_output(const struct store_transcript_name *name, struct buf *out,
                                 struct buf *errout, struct store_transcript_totals *totals,
                                 struct error *err) WARN_UNUSED;

#endif
