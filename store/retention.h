/* What is old enough, or too much, to be let go: checkpoints, transcripts of ended commands,
 * records of ended executions, settled runs. Age counts from when a thing came here or ended; bytes
 * are those of its files, and for records those of its texts and of its commands' with a fixed part
 * for each row. See store.h for threads and errors. */
#ifndef EXECHOST_STORE_RETENTION_H
#define EXECHOST_STORE_RETENTION_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

enum store_kept {
    STORE_KEPT_CHECKPOINTS, /* one that is being uploaded counts, but is not overdue */
    STORE_KEPT_TRANSCRIPTS,
    STORE_KEPT_RECORDS, /* not while a command of it has no recorded end */
    STORE_KEPT_RUNS,    /* records of settled runs with their logs */
};

enum { STORE_OVERDUE_MAX = 64 };

struct store_overdue {
    int64_t row;           /* of the checkpoint, command, execution or run */
    int64_t execution_row; /* transcripts and records */
    char tenant[ID_SIZE];
    char id[ID_SIZE]; /* of the checkpoint, command, execution or run */
};

struct store_overdue_list {
    struct store_overdue items[STORE_OVERDUE_MAX]; /* oldest first */
    size_t count;
};

/* The oldest ones that are of before `before_ms`, or that bring what is kept over `bytes_max`. */
int store_retention_overdue(struct store *s, enum store_kept kind, int64_t before_ms,
                            int64_t bytes_max, struct store_overdue_list *out,
                            struct error *err) WARN_UNUSED;

/* The files of these commands' transcripts are gone. */
int store_retention_transcripts_gone(struct store *s, const struct store_overdue_list *gone,
                                     struct error *err) WARN_UNUSED;
/* Deletes the record of an ended execution: a bounded number of its commands at a time, then the
 * execution's row. *gone tells whether that was it. */
int store_retention_record_delete(struct store *s, int64_t execution_row, bool *gone,
                                  struct error *err) WARN_UNUSED;

#endif
