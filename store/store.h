/* What is remembered: SQLite in WAL mode. What was committed survives a SIGKILL of the service, and
 * whatever is lost with the machine's power, the rows that remain agree: it is the newest ones.
 * Rows of checkpoints, what was asked for under an idempotency key, the key's own row and all that
 * was committed before any of these survive a power loss, too. One writer connection behind a mutex
 * and four reader connections beside it; any thread may call; every call blocks for as long as
 * SQLite and the disk take (reads do not wait for writers, and see what was committed before they
 * began).
 *
 * Transactions are made by one wrapper inside the module that alone retries SQLITE_BUSY. Each write
 * is one transaction with fault points store.<kind>.<operation>.{begin,step,commit,committed}.
 * Errors: ERROR_STORAGE_FULL when the disk is, else ERROR_INTERNAL; a failed write changed nothing,
 * and the store stays readable and usable.
 *
 * Texts in rows: `*_init` is not needed, zero is empty; `*_done` frees. NULL text is SQL NULL;
 * times are wall milliseconds, 0 is NULL; counts that may be unknown are -1 for NULL. JSON columns
 * are text. Inserts and updates borrow the texts of their row. */
#ifndef EXECHOST_STORE_STORE_H
#define EXECHOST_STORE_STORE_H

#include "base/error.h"
#include "base/id.h"

#include <stdint.h>

struct store;
struct store_readers;

/* Opens or creates `<directory>/exechost.db`, migrates it by user_version (a newer one is refused,
 * naming both), makes the instance id on first use. Takes a lock file so that a second service on
 * the same directory is refused, after some seconds; while it is open the database can be opened by
 * no other process, for reading neither. */
int store_open(const char *directory, struct store **out, struct error *err) WARN_UNUSED;
/* NULL is fine. No call may be under way. */
void store_close(struct store *s);

/* 16 lowercase [0-9a-v], constant for the data directory; borrowed. */
const char *store_instance_id(const struct store *s);

/* Makes the room that deletions go on in on a full disk, where it was used up and there is room
 * again. */
void store_keep_reserve(struct store *s);

/* Who reads transcripts of this store; borrowed. */
struct store_readers *store_readers(struct store *s);

/* Frees the text of a row and sets a copy of another in its place; NULL and "" become NULL. */
void store_text_set(char **slot, const char *text);

/* A page of a list: rows with a number below `before` (0: from the newest), newest first. */
struct store_page {
    int64_t before;
    int limit;
};

#endif
