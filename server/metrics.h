/* What the service counts of itself, for GET /metrics. Counters are atomic words in one table: any
 * thread, no lock, no memory. Labels are closed sets (operations, hosts, reasons, routes,
 * statuses), so that what is kept and told is bounded whatever clients do. */
#ifndef EXECHOST_SERVER_METRICS_H
#define EXECHOST_SERVER_METRICS_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;

enum metrics_operation {
    METRICS_PROVISION,
    METRICS_RESTORE,
    METRICS_EXEC,
    METRICS_CHECKPOINT,
    METRICS_TERMINATE,
    METRICS_OPERATIONS,
};

/* Of checkpoints to and from the shared store. */
enum metrics_transfer { METRICS_UPLOAD, METRICS_DOWNLOAD, METRICS_TRANSFERS };

/* `routes`: how many rows the route table has. */
int metrics_new(size_t routes, struct metrics **out, struct error *err) WARN_UNUSED;
void metrics_free(struct metrics *m); /* NULL is fine */

/* One operation of a host ("docker", "native"), however it ended. */
void metrics_operation(struct metrics *m, enum metrics_operation operation, const char *host,
                       bool succeeded, int64_t us);
/* An execution's end; `reason` is one of enum end_reason. */
void metrics_termination(struct metrics *m, unsigned reason);
void metrics_reconciliation(struct metrics *m, bool succeeded);
void metrics_transfer(struct metrics *m, enum metrics_transfer transfer, bool succeeded,
                      int64_t bytes, int64_t us);
/* An answered request; route: its place in the table, or one behind it where there was none. */
void metrics_request(struct metrics *m, size_t route, unsigned status);

/* --- telling --- */

/* The text of a family's head, then of its samples; `labels` is what stands between the braces, ""
 * none. Failures of memory show in the buffer's being short of its end. */
void metrics_head(struct buf *out, const char *name, const char *type, const char *help);
void metrics_sample(struct buf *out, const char *name, const char *labels, double value);

/* Everything counted above. `route_labels` gives method and path of a route. */
struct metrics_names {
    const char *(*reason)(unsigned reason); /* "" none */
    void (*route)(size_t route, const char **method, const char **path);
};
void metrics_tell(struct metrics *m, const struct metrics_names *names, struct buf *out);

#endif
