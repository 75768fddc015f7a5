#include "server/metrics.h"

#include "base/macros.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { REASONS_MAX = 16, LABELS_MAX = 256, NAME_MAX_BYTES = 96 };

/* Upper bounds in microseconds; the last bucket has none. */
static const int64_t bounds[] = {500,     1000,     2500,     5000,     10000,    25000,
                                 50000,   100000,   250000,   500000,   1000000,  2500000,
                                 5000000, 10000000, 30000000, 60000000, 300000000};
enum { BUCKETS = ARRAY_SIZE(bounds) + 1 };

static const char *const operation_names[] = {
    [METRICS_PROVISION] = "provision",   [METRICS_RESTORE] = "restore",     [METRICS_EXEC] = "exec",
    [METRICS_CHECKPOINT] = "checkpoint", [METRICS_TERMINATE] = "terminate",
};
static const char *const host_names[] = {"docker", "native"};
static const char *const transfer_names[] =
    {[METRICS_UPLOAD] = "upload", [METRICS_DOWNLOAD] = "download"};
static const char *const outcome_names[] = {"failed", "succeeded"};

/* Those that the service answers with; any other is counted as 0, "other". */
static const unsigned statuses[] = {0,   200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405,
                                    409, 410, 413, 415, 416, 422, 429, 500, 502, 503, 504, 507};

struct histogram {
    _Atomic uint64_t buckets[BUCKETS]; /* each by itself, not summed up */
    _Atomic uint64_t sum_us;
};

struct transfer {
    _Atomic uint64_t count[ARRAY_SIZE(outcome_names)];
    _Atomic uint64_t bytes;
    struct histogram took;
};

struct metrics {
    struct histogram took[METRICS_OPERATIONS][ARRAY_SIZE(host_names)][ARRAY_SIZE(outcome_names)];
    struct transfer transfers[METRICS_TRANSFERS];
    _Atomic uint64_t terminations[REASONS_MAX];
    _Atomic uint64_t reconciliations[ARRAY_SIZE(outcome_names)];
    size_t routes;
    _Atomic uint64_t requests[]; /* routes + 1 times the statuses */
};

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t value_of(_Atomic uint64_t *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

int metrics_new(size_t routes, struct metrics **out, struct error *err)
{
    size_t cells = (routes + 1) * ARRAY_SIZE(statuses);
    struct metrics *m = calloc(1, sizeof(*m) + cells * sizeof(m->requests[0]));

    if (m == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    m->routes = routes;
    *out = m;
    return 0;
}

void metrics_free(struct metrics *m)
{
    free(m);
}

/* --- counting --- */

static void observe(struct histogram *h, int64_t us)
{
    size_t i = 0;

    while (i < ARRAY_SIZE(bounds) && us > bounds[i]) {
        i++;
    }
    add(&h->buckets[i], 1);
    add(&h->sum_us, us > 0 ? (uint64_t)us : 0);
}

void metrics_operation(struct metrics *m, enum metrics_operation operation, const char *host,
                       bool succeeded, int64_t us)
{
    for (size_t i = 0; i < ARRAY_SIZE(host_names); i++) {
        if (strcmp(host_names[i], host) == 0) {
            observe(&m->took[operation][i][succeeded], us);
        }
    }
}

void metrics_termination(struct metrics *m, unsigned reason)
{
    add(&m->terminations[reason < REASONS_MAX ? reason : 0], 1);
}

void metrics_reconciliation(struct metrics *m, bool succeeded)
{
    add(&m->reconciliations[succeeded], 1);
}

void metrics_transfer(struct metrics *m, enum metrics_transfer transfer, bool succeeded,
                      int64_t bytes, int64_t us)
{
    struct transfer *t = &m->transfers[transfer];

    add(&t->count[succeeded], 1);
    add(&t->bytes, bytes > 0 ? (uint64_t)bytes : 0);
    observe(&t->took, us);
}

void metrics_request(struct metrics *m, size_t route, unsigned status)
{
    size_t place = 0;

    for (size_t i = 1; i < ARRAY_SIZE(statuses); i++) {
        if (statuses[i] == status) {
            place = i;
        }
    }
    route = route < m->routes ? route : m->routes;
    add(&m->requests[route * ARRAY_SIZE(statuses) + place], 1);
}

/* --- telling --- */

void metrics_head(struct buf *out, const char *name, const char *type, const char *help)
{
    (void)!buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_sample(struct buf *out, const char *name, const char *labels, double value)
{
    (void)!buf_addf(out, labels[0] == '\0' ? "%s%s %.17g\n" : "%s{%s} %.17g\n", name, labels,
                    value);
}

static void tell_count(struct buf *out, const char *name, const char *labels, uint64_t count)
{
    (void)!buf_addf(out, labels[0] == '\0' ? "%s%s %" PRIu64 "\n" : "%s{%s} %" PRIu64 "\n", name,
                    labels, count);
}

/* Sums come from the buckets as they are read, so that what is told agrees with itself. */
static void tell_histogram(struct buf *out, const char *name, const char *labels,
                           struct histogram *h)
{
    char sample[NAME_MAX_BYTES];
    uint64_t total = 0;

    for (size_t i = 0; i < BUCKETS; i++) {
        total += value_of(&h->buckets[i]);
        if (i < ARRAY_SIZE(bounds)) {
            (void)!buf_addf(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels,
                            (double)bounds[i] / 1e6, total);
        } else {
            (void)!buf_addf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, total);
        }
    }
    snprintf(sample, sizeof(sample), "%s_sum", name);
    metrics_sample(out, sample, labels, (double)value_of(&h->sum_us) / 1e6);
    snprintf(sample, sizeof(sample), "%s_count", name);
    tell_count(out, sample, labels, total);
}

static void tell_operations(struct metrics *m, struct buf *out)
{
    static const char name[] = "exechost_operation_duration_seconds";
    char labels[LABELS_MAX];

    metrics_head(out, name, "histogram", "Operations of hosts, by how they ended.");
    for (size_t o = 0; o < METRICS_OPERATIONS; o++) {
        for (size_t h = 0; h < ARRAY_SIZE(host_names); h++) {
            for (size_t e = 0; e < ARRAY_SIZE(outcome_names); e++) {
                snprintf(labels, sizeof(labels), "operation=\"%s\",host=\"%s\",outcome=\"%s\"",
                         operation_names[o], host_names[h], outcome_names[e]);
                tell_histogram(out, name, labels, &m->took[o][h][e]);
            }
        }
    }
}

static void tell_terminations(struct metrics *m, const struct metrics_names *names, struct buf *out)
{
    static const char name[] = "exechost_terminations_total";
    char labels[LABELS_MAX];

    metrics_head(out, name, "counter", "Executions that ended, by reason.");
    for (unsigned i = 0; i < REASONS_MAX; i++) {
        const char *reason = names->reason(i);

        if (reason[0] != '\0') {
            snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
            tell_count(out, name, labels, value_of(&m->terminations[i]));
        }
    }
}

static void tell_outcomes(struct buf *out, const char *name, const char *more,
                          _Atomic uint64_t counts[])
{
    char labels[LABELS_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(outcome_names); i++) {
        snprintf(labels, sizeof(labels), "%soutcome=\"%s\"", more, outcome_names[i]);
        tell_count(out, name, labels, value_of(&counts[i]));
    }
}

static void tell_transfers(struct metrics *m, struct buf *out)
{
    char labels[METRICS_TRANSFERS][LABELS_MAX];
    char more[LABELS_MAX + 1];

    for (size_t i = 0; i < METRICS_TRANSFERS; i++) {
        snprintf(labels[i], sizeof(labels[i]), "direction=\"%s\"", transfer_names[i]);
    }
    metrics_head(out, "exechost_transfers_total", "counter",
                 "Checkpoints sent to the shared store or fetched from there.");
    for (size_t i = 0; i < METRICS_TRANSFERS; i++) {
        snprintf(more, sizeof(more), "%.200s,", labels[i]);
        tell_outcomes(out, "exechost_transfers_total", more, m->transfers[i].count);
    }
    metrics_head(out, "exechost_transfer_bytes_total", "counter", "Bytes of those.");
    for (size_t i = 0; i < METRICS_TRANSFERS; i++) {
        tell_count(out, "exechost_transfer_bytes_total", labels[i],
                   value_of(&m->transfers[i].bytes));
    }
    metrics_head(out, "exechost_transfer_duration_seconds", "histogram", "How long they took.");
    for (size_t i = 0; i < METRICS_TRANSFERS; i++) {
        tell_histogram(out, "exechost_transfer_duration_seconds", labels[i], &m->transfers[i].took);
    }
}

/* Only what has been asked: the whole table would be long. */
static void tell_requests(struct metrics *m, const struct metrics_names *names, struct buf *out)
{
    static const char name[] = "exechost_http_requests_total";
    char labels[LABELS_MAX];

    metrics_head(out, name, "counter", "Answered requests, by route and status.");
    for (size_t r = 0; r <= m->routes; r++) {
        const char *method = "";
        const char *path = "";

        if (r < m->routes) {
            names->route(r, &method, &path);
        }
        for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
            uint64_t count = value_of(&m->requests[r * ARRAY_SIZE(statuses) + i]);

            if (count > 0) {
                snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\",status=\"%u\"", method,
                         path, statuses[i]);
                tell_count(out, name, labels, count);
            }
        }
    }
}

void metrics_tell(struct metrics *m, const struct metrics_names *names, struct buf *out)
{
    tell_operations(m, out);
    tell_terminations(m, names, out);
    metrics_head(out, "exechost_reconciliations_total", "counter",
                 "Comparisons of the store with a host.");
    tell_outcomes(out, "exechost_reconciliations_total", "", m->reconciliations);
    tell_transfers(m, out);
    tell_requests(m, names, out);
}
