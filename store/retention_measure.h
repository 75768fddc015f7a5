/* Inside the module: how much room the record of an ended execution takes. */
#ifndef EXECHOST_STORE_RETENTION_MEASURE_H
#define EXECHOST_STORE_RETENTION_MEASURE_H

#include "store/sql.h"

/* Writes it into the execution's row: its texts, its commands', and for each row about what SQLite
 * and the indices add. Nothing for one that has not ended. */
int retention_measure(struct sql *s, int64_t execution_row, struct error *err) WARN_UNUSED;

#endif
