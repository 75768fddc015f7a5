/* The checkpoint archive: pax, sorted, sparse, zstd or plain, and the list of its files beside it.
 * A writer is a workspace_sink that makes both files; a reader verifies and yields them again.
 * Both keep constant memory (about 20 bytes a name apart). Block on files; one thread at a time.
 * Rules: checkpoint page "What one is". */
#ifndef EXECHOST_WORKSPACE_ARCHIVE_H
#define EXECHOST_WORKSPACE_ARCHIVE_H

#include "base/cancel.h"
#include "base/digest.h"
#include "workspace/entry.h"

#include <stdbool.h>

enum workspace_compression { WORKSPACE_COMPRESSION_NONE, WORKSPACE_COMPRESSION_ZSTD };

/* What writing has found out, and what reading is held to. */
struct workspace_archive_facts {
    char archive_digest[DIGEST_TEXT_SIZE]; /* of the file's bytes as stored */
    int64_t archive_bytes;
    char files_digest[DIGEST_TEXT_SIZE]; /* of the uncompressed per-file list */
    enum workspace_compression compression;
    int64_t entries; /* kept ones */
    int64_t skipped; /* special files left out */
    int64_t
        content_bytes; /* 4 KiB blocks that hold a byte other than zero × 4096, hard links once */
    /* Reading only: the most apparent bytes an archive may yield; 0: no bound. Bounds the time that
     * an archive of holes can take. */
    int64_t apparent_bytes_max;
};

/* Writes to the two descriptors (borrowed, at offset 0). `level` 1..19 for zstd. The sink refuses
 * more than `apparent_bytes_max` apparent bytes (ERROR_RESOURCE_LIMIT) and entries that are not in
 * archive order (ERROR_INTERNAL). ENOSPC is ERROR_STORAGE_FULL. A file with more than 1 MiB of
 * content passes through a nameless file beside the archive, as large as that content: the map of
 * its holes stands before its data. Same entries, same compression and level: the same bytes. */
struct workspace_writer;
struct workspace_writer_spec {
    int archive_fd;
    int files_fd;
    enum workspace_compression compression;
    int level;
    int64_t apparent_bytes_max;
};
int workspace_writer_new(const struct workspace_writer_spec *spec, struct workspace_writer **out,
                         struct error *err) WARN_UNUSED;
struct workspace_sink *workspace_writer_sink(struct workspace_writer *w); /* borrowed */
/* Flushes everything (no fsync) and tells the facts; afterwards only free. */
int workspace_writer_finish(struct workspace_writer *w, struct workspace_archive_facts *facts,
                            struct error *err) WARN_UNUSED;
void workspace_writer_free(struct workspace_writer *w); /* NULL is fine */

/* Reads archive and list, holding them to `facts` (skipped is not checked) while it feeds `sink`.
 * Every fault is ERROR_CHECKPOINT_INVALID with a detail that names which digest or entry differs.
 * The archive digest is only known at the end: a caller that must not show anything of a bad
 * archive verifies first with `sink` NULL, then feeds. The reader guarantees that both passes see
 * the same bytes or fail. */
struct workspace_reader;
int workspace_reader_new(int archive_fd, int files_fd, const struct workspace_archive_facts *facts,
                         struct workspace_reader **out, struct error *err) WARN_UNUSED;
int workspace_reader_run(struct workspace_reader *r, struct workspace_sink *sink,
                         struct cancel *cancel, struct error *err) WARN_UNUSED;
void workspace_reader_free(struct workspace_reader *r); /* closes nothing; NULL is fine */

/* The facts a reader is held to; borrowed. */
const struct workspace_archive_facts *workspace_reader_facts(const struct workspace_reader *r);

#endif
