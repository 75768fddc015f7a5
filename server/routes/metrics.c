/* GET /metrics: what is counted as it happens, and what is there now. */
#include "server/metrics.h"
#include "server/routes/common.h"
#include "server/routes/routes.h"
#include "server/services/admission.h"
#include "server/services/runs.h"
#include "store/stored.h"

static const char TYPE[] = "text/plain; version=0.0.4; charset=utf-8";

enum { TEXT_MAX = 4 * 1024 * 1024 };

struct labelled {
    const char *labels;
    double value;
};

static void gauge(struct buf *out, const char *name, const char *help,
                  const struct labelled *samples, size_t count)
{
    metrics_head(out, name, "gauge", help);
    for (size_t i = 0; i < count; i++) {
        metrics_sample(out, name, samples[i].labels, samples[i].value);
    }
}

static void gauge_one(struct buf *out, const char *name, const char *help, double value)
{
    gauge(out, name, help, &(struct labelled){"", value}, 1);
}

static void tell_work(struct service *s, struct buf *out)
{
    static const char *const kinds[] = {
        [WORK_REQUESTS] = "kind=\"requests\"",
        [WORK_LONG] = "kind=\"long-requests\"",
        [WORK_PROVISIONS] = "kind=\"provisions\"",
        [WORK_COMMANDS] = "kind=\"commands\"",
        [WORK_CHECKPOINTS] = "kind=\"checkpoints\"",
        [WORK_FILES] = "kind=\"files\"",
        [WORK_ENDS] = "kind=\"ends\"",
        [WORK_LIMIT_ENDS] = "kind=\"ends-at-limit\"",
        [WORK_SHARES] = "kind=\"uploads\"",
    };
    _Static_assert(ARRAY_SIZE(kinds) == WORK_KINDS, "each kind has a name");
    struct labelled waiting[WORK_KINDS];
    struct labelled running[WORK_KINDS];
    for (unsigned i = 0; i < WORK_KINDS; i++) {
        struct pool_kind_load load;
        pool_kind_load(s->pool, i, &load);
        waiting[i] = (struct labelled){kinds[i], load.waiting};
        running[i] = (struct labelled){kinds[i], load.running};
    }
    gauge(out, "exechost_work_waiting", "Work that waits for a thread.", waiting, WORK_KINDS);
    gauge(out, "exechost_work_running", "Work on a thread.", running, WORK_KINDS);
}

static void tell_living(struct service *s, struct buf *out)
{
    struct live_totals totals;
    struct admission_share used;
    live_count(s->live, &totals);
    admission_used(s->admission, NULL, &used);
    gauge_one(out, "exechost_executions", "Living executions.", (double)used.executions);
    gauge_one(out, "exechost_granted_cpus", "Cpus they were granted.",
              (double)used.nano_cpus / 1e9);
    gauge_one(out, "exechost_granted_memory_bytes", "Memory they were granted.",
              (double)used.memory_bytes);
    gauge_one(out, "exechost_granted_disk_bytes", "Disk they were granted.",
              (double)used.disk_bytes);
    const struct labelled commands[] = {
        {"state=\"queued\"", (double)totals.commands_queued},
        {"state=\"running\"", (double)totals.commands_running},
    };
    gauge(out, "exechost_commands", "Commands that are not over.", commands, ARRAY_SIZE(commands));
    gauge_one(out, "exechost_runs", "Runs of programs that are not settled.", (double)used.runs);
    gauge_one(out, "exechost_run_processes_ready", "Processes kept ready for runs.",
              (double)runs_ready(s));
}

static void tell_http(struct service *s, struct buf *out)
{
    struct http_load load;
    http_server_load(s->http, &load);
    gauge_one(out, "exechost_http_connections", "Open connections.", load.connections);
    gauge_one(out, "exechost_http_requests_open", "Requests without their whole answer.",
              load.requests);
    gauge_one(out, "exechost_http_streams_open", "Answers that follow something.", load.streams);
}

static void tell_hosts(struct service *s, struct buf *out)
{
    struct labelled samples[SERVICE_HOSTS_MAX];
    char labels[SERVICE_HOSTS_MAX][64];
    for (unsigned i = 0; i < s->host_count; i++) {
        struct service_host *h = &s->hosts[i];
        pthread_mutex_lock(&h->lock);
        bool ready = h->reconciled && h->status.available;
        pthread_mutex_unlock(&h->lock);
        snprintf(labels[i], sizeof(labels[i]), "host=\"%s\"", h->name);
        samples[i] = (struct labelled){labels[i], ready};
    }
    gauge(out, "exechost_host_ready", "Whether the host takes work.", samples, s->host_count);
}

static void tell_stored(const struct store_stored *stored, struct buf *out)
{
    const struct labelled samples[] = {
        {"kind=\"checkpoints\"", (double)stored->checkpoints},
        {"kind=\"transcripts\"", (double)stored->transcripts},
        {"kind=\"records\"", (double)stored->records},
        {"kind=\"runs\"", (double)stored->runs},
    };
    gauge(out, "exechost_stored_bytes", "What is kept, of all tenants.", samples,
          ARRAY_SIZE(samples));
}

static const char *reason_name(unsigned reason)
{
    return reason <= END_PROVISION_FAILED ? end_reason_name((enum end_reason)reason) : "";
}

void route_metrics(struct http_exchange *x)
{
    static const struct metrics_names names = {reason_name, routes_name};
    struct service *s = http_service(x);
    struct error err = ERROR_INIT;
    struct store_stored stored = {0};
    _cleanup_buf_ struct buf out;
    buf_init(&out, TEXT_MAX);
    if (store_stored_bytes(s->store, NULL, &stored, &err) != 0) {
        route_fail(x, &err);
        return;
    }
    metrics_tell(s->metrics, &names, &out);
    tell_work(s, &out);
    tell_living(s, &out);
    tell_http(s, &out);
    tell_hosts(s, &out);
    tell_stored(&stored, &out);
    gauge(&out, "exechost_build_info", "The version that runs.",
          &(struct labelled){"version=\"" EXECHOST_VERSION "\"", 1}, 1);
    http_reply_bytes(x, 200, TYPE, buf_str(&out), out.len, true);
}
