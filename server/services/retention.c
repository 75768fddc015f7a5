#include "server/services/retention.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/events/run_events.h"
#include "server/services/checkpoints.h"
#include "store/readers.h"
#include "store/retention.h"
#include "store/runs.h"
#include "store/transcript.h"

enum { FIRST_MS = 1000, AGAIN_MS = 50 };

/* Nothing is too old for a clock that may be wrong. */
static int64_t before(const struct service *s, int64_t age_max)
{
    bool trusted = s->clock_trust.doubted_until <= clock_mono_ms();
    return trusted ? clock_wall_ms() - age_max : 0;
}

static struct store_transcript_name transcript_name(struct service *s,
                                                    const struct store_overdue *o)
{
    return (struct store_transcript_name){
        .directory = s->config->data_dir,
        .tenant = o->tenant,
        .execution_row = o->execution_row,
        .command_id = o->id,
    };
}

/* --- checkpoints --- */

/* 1 when it went, 0 when it is in use, -1. */
static int let_checkpoint_go(struct service *s, const struct store_overdue *o, struct error *err)
{
    if (checkpoints_delete(s, o->tenant, o->id, false, err) == 0) {
        log_info("checkpoint let go", "checkpoint", o->id, "tenant", o->tenant, NULL);
        return 1;
    }
    if (err->code != ERROR_CHECKPOINT_IN_USE) {
        return -1;
    }
    error_clear(err);
    return 0;
}

/* --- transcripts --- */

/* The file first: a row that still tells of one is asked again, a file without a row never is. */
static int remove_transcripts(struct service *s, const struct store_overdue_list *list,
                              struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        struct store_transcript_name name = transcript_name(s, &list->items[i]);
        if (store_transcript_remove(&name, err) != 0) {
            return -1;
        }
    }
    return list->count == 0 ? 0 : store_retention_transcripts_gone(s->store, list, err);
}

/* All but those of executions that are being read. */
static int let_transcripts_go(struct service *s, struct store_overdue_list *list, struct error *err)
{
    struct store_reader removers[STORE_OVERDUE_MAX];
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (store_removal_begin(store_readers(s->store), &removers[count],
                                list->items[i].execution_row)) {
            list->items[count++] = list->items[i];
        }
    }
    list->count = count;
    int result = remove_transcripts(s, list, err);
    for (size_t i = 0; i < count; i++) {
        store_reader_end(&removers[i]);
    }
    return result;
}

/* --- records --- */

static int remove_record(struct service *s, const struct store_overdue *o, struct error *err)
{
    struct store_transcript_name name = transcript_name(s, o);
    bool gone = false;
    if (store_transcript_remove_all(&name, err) != 0) {
        return -1;
    }
    while (!gone) {
        if (store_retention_record_delete(s->store, o->row, &gone, err) != 0) {
            return -1;
        }
    }
    log_info("record let go", "execution", o->id, "tenant", o->tenant, NULL);
    return 0;
}

/* 1 when it went, 0 when something of it is being read, -1. */
static int let_record_go(struct service *s, const struct store_overdue *o, struct error *err)
{
    struct store_reader remover;
    if (!store_removal_begin(store_readers(s->store), &remover, o->row)) {
        return 0;
    }
    int result = remove_record(s, o, err);
    store_reader_end(&remover);
    return result == 0 ? 1 : -1;
}

/* --- runs --- */

/* 1 when it went, 0 when it is being read, -1. */
static int let_run_go(struct service *s, const struct store_overdue *o, struct error *err)
{
    struct store_reader remover;
    const struct store_run_log_name name = {s->config->data_dir, o->tenant, o->id};
    if (!store_removal_begin(store_readers(s->store), &remover, run_events_reading(o->row))) {
        return 0;
    }
    int result = store_run_log_remove(&name, err);
    if (result == 0) {
        result = store_run_delete(s->store, o->row, err);
    }
    store_reader_end(&remover);
    return result == 0 ? 1 : -1;
}

/* --- a look --- */

/* Each returns 1 when there may be more, 0, or -1. */
static int sweep_checkpoints(struct service *s, struct error *err)
{
    const struct config *c = s->config;
    struct store_overdue_list list;
    int went = 0;
    if (store_retention_overdue(s->store, STORE_KEPT_CHECKPOINTS, before(s, c->checkpoint_age_max),
                                c->checkpoint_bytes_max, &list, err) != 0) {
        return -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        int result = let_checkpoint_go(s, &list.items[i], err);
        if (result < 0) {
            return -1;
        }
        went += result;
    }
    return went == STORE_OVERDUE_MAX;
}

static int sweep_transcripts(struct service *s, struct error *err)
{
    const struct config *c = s->config;
    struct store_overdue_list list;
    if (store_retention_overdue(s->store, STORE_KEPT_TRANSCRIPTS, before(s, c->transcript_age_max),
                                c->transcript_bytes_max, &list, err) != 0 ||
        let_transcripts_go(s, &list, err) != 0) {
        return -1;
    }
    return list.count == STORE_OVERDUE_MAX;
}

static int sweep_records(struct service *s, struct error *err)
{
    const struct config *c = s->config;
    struct store_overdue_list list;
    if (store_retention_overdue(s->store, STORE_KEPT_RECORDS, before(s, c->record_age_max),
                                c->record_bytes_max, &list, err) != 0) {
        return -1;
    }
    int went = 0;
    for (size_t i = 0; i < list.count; i++) {
        int result = let_record_go(s, &list.items[i], err);
        if (result < 0) {
            return -1;
        }
        went += result;
    }
    return went == STORE_OVERDUE_MAX;
}

static int sweep_runs(struct service *s, struct error *err)
{
    const struct config *c = s->config;
    struct store_overdue_list list;
    int went = 0;
    if (store_retention_overdue(s->store, STORE_KEPT_RUNS, before(s, c->run_age_max),
                                c->run_bytes_max, &list, err) != 0) {
        return -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        int result = let_run_go(s, &list.items[i], err);
        if (result < 0) {
            return -1;
        }
        went += result;
    }
    return went == STORE_OVERDUE_MAX;
}

static void arm(struct service *s, int64_t in_ms);

static void sweep(void *arg)
{
    static int (*const parts[])(struct service *, struct error *) = {
        sweep_checkpoints, sweep_transcripts, sweep_records, sweep_runs};
    struct service *s = arg;
    bool more = false;
    if (!clock_trust_ask(&s->clock_trust, clock_wall_ms(), clock_mono_ms())) {
        log_warn("the wall clock has jumped ahead: nothing is let go for its age", NULL);
    }
    store_keep_reserve(s->store);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        struct error err = ERROR_INIT;
        int result = parts[i](s, &err);
        if (result < 0) {
            log_failure(LOG_LEVEL_WARN, &err, "what is overdue could not be let go", NULL);
        }
        more |= result > 0;
    }
    arm(s, more ? AGAIN_MS : s->config->sweep_interval_ms);
}

static void submit_sweep(void *arg)
{
    struct service *s = arg;
    pool_submit_always(s->pool, sweep, s);
}

static void arm(struct service *s, int64_t in_ms)
{
    timers_add(s->timers, clock_mono_ms() + in_ms, submit_sweep, s);
}

void retention_start(struct service *s)
{
    int64_t interval = s->config->sweep_interval_ms;
    arm(s, interval < FIRST_MS ? interval : FIRST_MS);
}
