#include "server/services/provision.h"

#include "api/problem.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/metrics.h"
#include "server/services/admission.h"
#include "server/services/ending.h"
#include "server/services/files.h"

#include <string.h>

/* The first item of every lane. */
struct provision {
    struct live_item item;
    struct host_provision_plan plan;
    struct restore_source *source;
};

static void provision_free(struct provision *p)
{
    host_provision_plan_done(&p->plan);
    restore_source_free(p->source);
    free(p);
}

struct outcome {
    struct host_provisioned *provisioned;
    int64_t created_at;
    int64_t expires_at;
};

static void change_to_provisioned(struct store_execution *record, void *ctx)
{
    const struct outcome *o = ctx;
    record->state = STORE_PROVISIONED;
    record->created_at = o->created_at;
    record->expires_at = o->expires_at;
    store_text_set(&record->handle, o->provisioned->handle);
    store_text_set(&record->image_digests, o->provisioned->image_digests);
}

static int publish(struct live_execution *x, struct host_provisioned *provisioned,
                   struct error *err)
{
    struct outcome o = {.provisioned = provisioned, .created_at = clock_wall_ms()};
    o.expires_at = o.created_at + x->limits.runtime_ms;

    live_lock(x->service->live);
    x->handle = TAKE_PTR(provisioned->handle);
    live_unlock(x->service->live);
    provisioned->handle = x->handle; /* lent to the record; constant from here on */
    int result = live_record(x, change_to_provisioned, &o, err);
    provisioned->handle = NULL;
    if (result != 0) {
        return -1;
    }
    live_lock(x->service->live);
    x->expires_at = o.expires_at;
    x->phase = LIVE_READY;
    live_unlock(x->service->live);
    ending_arm_expiry(x);
    files_go_on(x);
    return 0;
}

static int run(struct provision *p, struct host_provisioned *out, struct error *err)
{
    struct host *host = p->item.execution->host->host;
    if (p->source != NULL) {
        return restore_source_provision(p->source, host, &p->plan, out, err);
    }
    return host->ops->provision(host, &p->plan, out, err);
}

static void start(struct live_item *item)
{
    struct provision *p = (struct provision *)item;
    struct live_execution *x = item->execution;
    struct host_provisioned provisioned = {0};
    struct error err = ERROR_INIT;
    p->plan.cancel = x->cancel;
    int64_t began = clock_mono_ms();
    int result = run(p, &provisioned, &err);
    if (result == 0) {
        result = publish(x, &provisioned, &err);
    }
    host_provisioned_done(&provisioned);
    metrics_operation(x->service->metrics, p->source != NULL ? METRICS_RESTORE : METRICS_PROVISION,
                      x->host->name, result == 0, (clock_mono_ms() - began) * 1000);
    if (result == 0) {
        char ms[24];
        snprintf(ms, sizeof(ms), "%lld", (long long)(clock_mono_ms() - began));
        log_info("provisioned", "execution", x->execution_id, "tenant", x->tenant, "host",
                 x->host->name, "ms", ms, NULL);
    } else {
        log_failure(LOG_LEVEL_WARN, &err, "provision failed", "execution", x->execution_id,
                    "tenant", x->tenant, NULL);
        ending_begin_failed(x, &err);
    }
    live_notify(x);
    live_item_done(item);
    provision_free(p);
}

static void drop(struct live_item *item, enum end_reason reason, const char *detail)
{
    (void)item;
    (void)reason;
    (void)detail;
}

static void release(struct live_item *item)
{
    provision_free((struct provision *)item);
}

/* A provision is never parked: its end is what the destruction waits for. */
static const struct live_item_ops provision_ops = {.work = WORK_PROVISIONS,
                                                   .start = start,
                                                   .settle = NULL,
                                                   .drop = drop,
                                                   .release = release};

static int insert(struct service_host *host, struct host_provision_plan *plan,
                  struct store_execution *row, struct error *err)
{
    struct service *s = host->service;
    row->requested_at = clock_wall_ms();
    row->state = STORE_PROVISIONING;
    if (store_execution_insert(s->store, row, err) != 0) {
        return -1;
    }
    plan->incarnation = row->incarnation;
    return 0;
}

int provision_admit(struct service *s, const struct caller *who, const struct host_limits *limits,
                    struct error *err)
{
    const struct admission_share share = live_share(limits);
    if (admission_storing(s, who->tenant, who->quotas, 0, err) != 0) {
        return -1;
    }
    return admission_take(s->admission, who->tenant, &share, who->quotas, err);
}

int provision_begin(struct service_host *host, struct host_provision_plan *plan,
                    struct store_execution *row, struct restore_source *source,
                    struct live_execution **out, struct error *err)
{
    struct provision *p = calloc(1, sizeof(*p));
    if (p == NULL || insert(host, plan, row, err) != 0) {
        const struct admission_share share = live_share(&plan->limits);
        if (p == NULL) {
            error_set(err, ERROR_INTERNAL, "out of memory");
        }
        free(p);
        admission_give(host->service->admission, plan->tenant, &share);
        host_provision_plan_done(plan);
        restore_source_free(source);
        store_execution_done(row);
        return -1;
    }
    p->item.ops = &provision_ops;
    p->item.fencing_token = -1;
    p->plan = *plan;
    *plan = (struct host_provision_plan){0};
    p->source = source;
    struct live_execution *x = live_add(host->service, host, row);
    if (x == NULL || live_push(x, &p->item, err) != 0) {
        /* The row stays as an intent; the next start removes it. */
        provision_free(p);
        live_unref(x);
        store_execution_done(row);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *out = x;
    return 0;
}

bool provision_settled(struct live_execution *x)
{
    live_lock(x->service->live);
    bool settled = x->phase != LIVE_PROVISIONING || x->failed_attempts > 0;
    live_unlock(x->service->live);
    return settled;
}

int provision_outcome(struct live_execution *x, struct error *err)
{
    live_lock(x->service->live);
    bool usable = x->expires_at != 0;
    enum end_reason ending = x->ending;
    struct error why = x->provision_failure;
    struct error cleanup = x->failure;
    bool stuck = x->failed_attempts > 0 && !x->destroyed;
    live_unlock(x->service->live);
    if (usable) {
        return 0;
    }
    if (why.code == ERROR_NONE || ending != END_PROVISION_FAILED) {
        ending_error(ending, x->execution_id, &why);
    }
    if (!stuck) {
        *err = why;
        return -1;
    }
    error_set(err, why.code == ERROR_HOST_UNAVAILABLE ? why.code : ERROR_RUNTIME,
              "provision failed (%.160s), and removing what it left failed too (%.160s)",
              api_problem_detail(why.code, why.detail),
              api_problem_detail(cleanup.code, cleanup.detail));
    error_add_cause(err, &why);
    error_add_cause(err, &cleanup);
    return error_in_phase(err, PHASE_CLEANUP);
}
