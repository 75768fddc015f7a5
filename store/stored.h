/* How many bytes are stored of each tenant, kept by triggers: a number is right with every commit,
 * after a crash too. See store.h for threads and errors. */
#ifndef EXECHOST_STORE_STORED_H
#define EXECHOST_STORE_STORED_H

#include "store/store.h"

struct store_stored {
    int64_t checkpoints; /* their files */
    int64_t transcripts; /* of ended commands */
    int64_t records;     /* of ended executions with their commands */
    int64_t runs;        /* records with their logs */
};

/* NULL tenant: of all. */
int store_stored_bytes(struct store *s, const char *tenant, struct store_stored *out,
                       struct error *err) WARN_UNUSED;
int64_t store_stored_total(const struct store_stored *stored);

#endif
