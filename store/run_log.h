/* What a run of a program has said, on disk: the events of the run, one line of JSON each, as they
 * are sent. The number of an event is that of its line, from 0. Every line begins with
 * {"seq":N,"type":"T", and holds no line break but the one that ends it.
 *
 * File: <directory>/runs/<tenant>/<run id>.ndjson, 0600. A writer belongs to one thread at a time.
 * Appends go to the page cache; `sync` makes them, and on its first call the file's name, durable.
 * Fault points store.run.open, .append and .fsync. Errors as in store.h. */
#ifndef EXECHOST_STORE_RUN_LOG_H
#define EXECHOST_STORE_RUN_LOG_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct store_run_log; /* a writer */

struct store_run_log_name {
    const char *directory; /* the data directory */
    const char *tenant;
    const char *run_id;
};

/* An empty file, whatever was there. Makes its directories. */
int store_run_log_create(const struct store_run_log_name *name, struct store_run_log **out,
                         struct error *err) WARN_UNUSED;
/* What is there up to `size`; the rest is cut off. */
int store_run_log_reopen(const struct store_run_log_name *name, int64_t size,
                         struct store_run_log **out, struct error *err) WARN_UNUSED;
/* Whole, or not at all where the disk is full. */
int store_run_log_append(struct store_run_log *log, const void *data, size_t len,
                         struct error *err) WARN_UNUSED;
int store_run_log_sync(struct store_run_log *log, struct error *err) WARN_UNUSED;
int64_t store_run_log_size(const struct store_run_log *log);
void store_run_log_close(struct store_run_log *log); /* NULL is fine */

/* For reading; returns owned, -1. No file: ERROR_NOT_FOUND. */
int store_run_log_open(const struct store_run_log_name *name, struct error *err) WARN_UNUSED;
/* Up to `len` bytes from `place` on; fewer only where the file ends. -1. */
int64_t store_run_log_read(int fd, int64_t place, void *data, size_t len,
                           struct error *err) WARN_UNUSED;
/* Missing is fine; who reads it reads on. */
int store_run_log_remove(const struct store_run_log_name *name, struct error *err) WARN_UNUSED;

#endif
