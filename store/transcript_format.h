/* Inside the module: how a transcript stands on disk. All numbers little-endian.
 *
 *   file    "exectrn1" | marker u32 | crc u32 of the 12 bytes before
 *   record  marker u32 | crc u32 | length u32 | kind u32 | at i64 | durable i64 | payload
 *
 * The marker is random and differs from file to file: where a record begins can be found again
 * behind damage, and no program's output can look like one. A record's crc covers what follows it,
 * payload included. `durable` is how much of the file had been synced when the record was written,
 * which tells damage (ever durable, now unreadable) from a tail that never reached the disk. */
#ifndef EXECHOST_STORE_TRANSCRIPT_FORMAT_H
#define EXECHOST_STORE_TRANSCRIPT_FORMAT_H

#include "store/transcript.h"

enum {
    TRANSCRIPT_HEADER_SIZE = 16,
    TRANSCRIPT_RECORD_SIZE = 32, /* without payload */
    TRANSCRIPT_CHUNK_MAX = 64 * 1024,
    TRANSCRIPT_EXIT_MAX = 16 * 1024 * 1024,
};

struct transcript_record {
    uint32_t crc;
    uint32_t len;
    uint32_t kind;
    int64_t at;
    int64_t durable;
};

void transcript_header_write(uint32_t marker, unsigned char out[TRANSCRIPT_HEADER_SIZE]);
/* 1 and the marker, 0 for a header that never reached the disk (all zero), -1 for anything else. */
int transcript_header_read(const unsigned char in[TRANSCRIPT_HEADER_SIZE], uint32_t *marker);

/* Sets `crc` and writes the bytes before the payload. */
void transcript_record_write(uint32_t marker, struct transcript_record *record, const void *payload,
                             unsigned char out[TRANSCRIPT_RECORD_SIZE]);
/* False when the bytes cannot begin a record of this file. The payload is not looked at. */
bool transcript_record_read(uint32_t marker, const unsigned char in[TRANSCRIPT_RECORD_SIZE],
                            struct transcript_record *record);
bool transcript_record_check(const struct transcript_record *record, const void *payload);

/* True when a whole record behind `offset` says that `offset` was durable once: then what stands
 * there was damaged. `size` is the file's. -1 with an error is a failure to read. */
int transcript_find_durable(int fd, uint32_t marker, int64_t offset, int64_t size, bool *found,
                            struct error *err) WARN_UNUSED;

/* pread over EINTR and short reads; the bytes read, or -1. */
ssize_t transcript_pread(int fd, void *out, size_t len, int64_t offset);

/* <directory>/transcripts/<tenant>/<row>/<id>.log; owned, NULL with an error. */
char *transcript_path(const struct store_transcript_name *name, struct error *err);

/* Where a reader stands: behind the last record it returned. */
int64_t transcript_reader_offset(const struct store_transcript_reader *r);

#endif
