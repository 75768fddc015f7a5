/* Inside the module: the steps from an empty file to today's schema. Owns nothing; any thread. */
#ifndef EXECHOST_STORE_SCHEMA_H
#define EXECHOST_STORE_SCHEMA_H

#include "store/sql.h"

/* An execution that counts: its id is taken, and a list of live ones shows it. As it stands in the
 * partial indices, which a statement can use only when it says the same. */
#define SCHEMA_LIVE "(state IN ('provisioning', 'provisioned', 'terminating') OR leftover = 1)"
/* One whose end is on record and of which nothing is left on its host. */
#define SCHEMA_ENDED "state IN ('terminated', 'failed') AND leftover = 0"
/* A command that has ended and whose transcript has not been let go. */
#define SCHEMA_TRANSCRIPT "transcript_bytes > 0"
/* A run that is not settled. */
#define SCHEMA_RUN_UNFINISHED "state IN ('starting', 'running')"
#define SCHEMA_UNFINISHED "state IN ('queued', 'running')"

/* The version that this service writes. */
int schema_version(void);

/* Brings the file from its user_version to schema_version(), each step in a transaction of its own;
 * a newer file is refused, naming both. Any failure leaves the last whole step. */
int schema_migrate(struct sql *writer, struct error *err) WARN_UNUSED;

#endif
