#include "server/events/tenant_events.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

enum { BATCH = 64, FILL_MAX = 32 * 1024 };

struct tenant_events {
    struct store *store;
    char tenant[ID_SIZE];
    enum api_event_format format;
    bool follow;
    bool checked; /* that the place is not behind the newest event */
    int64_t after;
};

/* *Takes* the event. */
static int put(const struct tenant_events *e, json_t *event, struct buf *out, struct error *err)
{
    int result = api_event_add(event, e->format, out);

    json_decref(event);
    return result == 0 ? 0 : error_set(err, ERROR_INTERNAL, "an event cannot be written");
}

static json_t *event_of(const struct store_event *row)
{
    struct api_change change = {
        .seq = row->seq,
        .at = row->at,
        .type = row->type,
        .execution_id = row->execution_id,
        .incarnation = row->incarnation,
        .command_id = row->command_id,
        .checkpoint_id = row->checkpoint_id,
        .run_id = row->run_id,
        .state = row->state,
        .host = row->host,
        .expires_at = row->expires_at == 0 ? -1 : row->expires_at,
        .exit_code = row->exit_code,
        .reason = row->reason,
    };

    return api_event_change(&change);
}

/* Says, where it must be said, that what follows `e->after` is not what happened after it. */
static int put_gap(struct tenant_events *e, int64_t from, struct buf *out, struct error *err)
{
    if (e->after == from) {
        return 0;
    }
    if (e->after != TENANT_EVENTS_OLDEST &&
        put(e, api_event_gap(from, clock_wall_ms()), out, err) != 0) {
        return -1;
    }
    e->after = from;
    return 0;
}

static int put_events(struct tenant_events *e, const struct store_event_list *list, struct buf *out,
                      struct error *err)
{
    for (size_t i = 0; i < list->count && out->len < FILL_MAX; i++) {
        if (put_gap(e, list->items[i].seq - 1, out, err) != 0 ||
            put(e, event_of(&list->items[i]), out, err) != 0) {
            return -1;
        }
        e->after = list->items[i].seq;
    }
    return 0;
}

/* The newest event is never removed, so a place behind it was never one of this store's. */
static int check_place(struct tenant_events *e, struct buf *out, struct error *err)
{
    int64_t newest;

    if (e->checked) {
        return 0;
    }
    if (store_event_newest(e->store, e->tenant, &newest, err) != 0) {
        return -1;
    }
    e->checked = true;
    return newest < e->after ? put_gap(e, newest, out, err) : 0;
}

/* 1: there may be more at once; 0: that is all; -1. */
static int put_what_is_there(struct tenant_events *e, struct buf *out, struct error *err)
{
    struct store_event_list list = {0};
    bool all;
    int result;

    if (check_place(e, out, err) != 0 ||
        store_event_list(e->store, e->tenant, e->after, BATCH, &list, err) != 0) {
        return -1;
    }
    result = put_events(e, &list, out, err);
    all = list.count == 0 || (list.count < BATCH && e->after == list.items[list.count - 1].seq);
    store_event_list_done(&list);
    return result != 0 ? -1 : !all;
}

static enum http_stream_next fill(void *state, struct buf *out)
{
    struct tenant_events *e = state;
    struct error err = ERROR_INIT;
    int more = put_what_is_there(e, out, &err);

    if (more < 0) {
        log_failure(LOG_LEVEL_WARN, &err, "a stream of events was cut", "tenant", e->tenant, NULL);
        return HTTP_STREAM_CUT;
    }
    if (more > 0) {
        return HTTP_STREAM_MORE;
    }
    return e->follow ? HTTP_STREAM_WAIT : HTTP_STREAM_END;
}

static void heartbeat(void *state, struct buf *out)
{
    const struct tenant_events *e = state;
    int ignored = api_event_add_ping(e->format, out);

    (void)ignored; /* without memory there is one sign of life less */
}

static void done(void *state)
{
    tenant_events_free(state);
}

const struct http_stream_ops tenant_events_ops = {.fill = fill,
                                                  .heartbeat = heartbeat,
                                                  .done = done};

int tenant_events_new(const struct tenant_events_config *config, struct tenant_events **out,
                      struct error *err)
{
    struct tenant_events *e = calloc(1, sizeof(*e));

    if (e == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    e->store = config->store;
    e->format = config->format;
    e->follow = config->follow;
    e->after = config->after;
    snprintf(e->tenant, sizeof(e->tenant), "%s", config->tenant);
    if (config->after == TENANT_EVENTS_LATEST &&
        store_event_newest(e->store, e->tenant, &e->after, err) != 0) {
        tenant_events_free(e);
        return -1;
    }
    *out = e;
    return 0;
}

void tenant_events_free(struct tenant_events *e)
{
    free(e);
}
