/* The lanes of live.h: what waits, whose turn it is, and how a turn ends. */
#include "server/services/ending.h"
#include "server/services/live.h"

/* An item whose execution began to end before its turn did goes back: the end drops what waits. */
static bool withdraw(struct live_item *item)
{
    struct live_execution *x = item->execution;
    live_lock(x->service->live);
    bool ending = x->ending != END_NONE;
    if (ending) {
        x->current = NULL;
        TAILQ_INSERT_HEAD(&x->queue, item, entry);
        x->queued++;
    }
    live_unlock(x->service->live);
    return ending;
}

static void start_item(void *arg)
{
    struct live_item *item = arg;
    struct live_execution *x = live_ref(item->execution);
    log_trace_set(item->trace);
    if (withdraw(item)) {
        ending_continue(x);
    } else {
        item->ops->start(item);
    }
    live_unref(x);
}

static void drop_fenced(void *arg)
{
    struct live_item *item = arg;
    log_trace_set(item->trace);
    item->ops->drop(item, END_ABORTED, "a higher fencing token took over");
    live_item_release(item);
}

void live_item_release(struct live_item *item)
{
    struct live_execution *x = item->execution;
    item->ops->release(item);
    live_unref(x);
}

static void submit_start(struct live_item *item)
{
    struct live_execution *x = item->execution;
    pool_submit_owned_always(x->service->pool, item->ops->work, x->tenant, start_item, item);
}

struct place {
    uint64_t serial; /* of the item, which may be gone by the time somebody asks */
    bool first;      /* its turn is now */
};

static int push(struct live_execution *x, struct live_item *item, struct place *out,
                struct error *err)
{
    struct live *l = x->service->live;
    unsigned queue_max = (unsigned)x->service->config->queue_max;
    live_lock(l);
    enum end_reason ending = x->ending;
    struct place place = {.first = x->current == NULL && TAILQ_EMPTY(&x->queue)};
    bool full = !place.first && x->queued >= queue_max;
    bool gone = ending != END_NONE || x->phase == LIVE_ENDED;
    if (!gone && !full) {
        item->execution = x;
        item->trace = log_trace_now();
        item->serial = ++x->serials;
        place.serial = item->serial;
        x->refs++;
        if (place.first) {
            x->current = item;
        } else {
            TAILQ_INSERT_TAIL(&x->queue, item, entry);
            x->queued++;
        }
    }
    live_unlock(l);

    if (gone) {
        ending_error(ending, x->execution_id, err);
        return -1;
    }
    if (full) {
        return error_set(err, ERROR_OVERLOADED, "%u commands wait already in execution %s",
                         queue_max, x->execution_id);
    }
    *out = place;
    return 0;
}

int live_push(struct live_execution *x, struct live_item *item, struct error *err)
{
    struct place place;
    if (push(x, item, &place, err) != 0) {
        return -1;
    }
    if (place.first) {
        submit_start(item);
    }
    return 0;
}

int live_push_quick(struct live_execution *x, struct live_item *item, uint64_t *serial,
                    struct error *err)
{
    bool here = x->host->host->ops->exec_is_quick;
    struct place place;
    if (push(x, item, &place, err) != 0) {
        return -1;
    }
    *serial = place.serial;
    if (place.first && here) {
        start_item(item);
    } else if (place.first) {
        submit_start(item);
    }
    return 0;
}

bool live_item_waits(struct live_execution *x, uint64_t serial)
{
    struct live_item *item;
    live_lock(x->service->live);
    bool usual = x->ending == END_NONE && x->unrecorded_row == 0;
    bool waits = usual && x->current != NULL && x->current->serial == serial;
    TAILQ_FOREACH(item, &x->queue, entry)
    {
        waits = waits || (usual && item->serial == serial);
    }
    live_unlock(x->service->live);
    return waits;
}

/* [lock] The next in line becomes the current one. While the execution ends nothing follows: what
 * waits is dropped by the end itself. */
static struct live_item *take_next(struct live_execution *x)
{
    struct live_item *next = x->ending == END_NONE ? TAILQ_FIRST(&x->queue) : NULL;
    if (next != NULL) {
        TAILQ_REMOVE(&x->queue, next, entry);
        x->queued--;
    }
    x->current = next;
    return next;
}

void live_item_done(struct live_item *item)
{
    struct live_execution *x = item->execution;
    struct live *l = x->service->live;
    live_lock(l);
    struct live_item *next = NULL;
    bool was_current = x->current == item;
    if (was_current) {
        next = take_next(x);
    }
    bool ending = x->ending != END_NONE;
    live_unlock(l);

    if (next != NULL) {
        submit_start(next);
    } else if (was_current && ending) {
        ending_continue(x);
    }
    live_unref(x);
}

bool live_item_park(struct live_item *item)
{
    struct live_execution *x = item->execution;
    live_lock(x->service->live);
    bool park = x->ending != END_NONE;
    bool destroyed = x->destroyed;
    item->parked = park;
    if (park && destroyed) {
        x->refs++;
    }
    live_unlock(x->service->live);
    if (park && destroyed) {
        ending_continue(x); /* nobody else comes back for it */
        live_unref(x);
    }
    return park;
}

void live_fence_out(struct live_execution *x, int64_t token)
{
    live_lock(x->service->live);
    struct live_item *item;
    struct live_item *next;
    for (item = TAILQ_FIRST(&x->queue); item != NULL; item = next) {
        next = TAILQ_NEXT(item, entry);
        if (item->fencing_token >= 0 && item->fencing_token < token) {
            TAILQ_REMOVE(&x->queue, item, entry);
            x->queued--;
            pool_submit_owned_always(x->service->pool, WORK_ENDS, x->tenant, drop_fenced, item);
        }
    }
    live_unlock(x->service->live);
}
