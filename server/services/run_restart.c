/* What an earlier run of the service left unfinished is settled, never run again: its log ends
 * where the last whole event does, calls that waited are cancelled, and the result says why. */
#include "server/services/runs_private.h"

#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/events/run_left.h"

#include <string.h>

static const char MESSAGE[] =
    "\"the service was restarted while the program ran; it is not run again\"";

static int read_log(struct service *s, const struct store_run *row, struct run_left *l,
                    struct error *err)
{
    enum { PIECE = 1024 * 1024 };
    struct store_run_log_name name = run_log_name(s, row->tenant, row->run_id);
    _cleanup_close_ int fd = store_run_log_open(&name, err);
    if (fd < 0) {
        return err->code == ERROR_NOT_FOUND ? 0 : -1;
    }
    for (;;) {
        char *place = buf_reserve(&l->text, PIECE);
        if (place == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        int64_t got = store_run_log_read(fd, (int64_t)l->text.len, place, PIECE, err);
        if (got < 0) {
            return -1;
        }
        l->text.len += (size_t)got;
        if (got < PIECE) {
            return 0;
        }
    }
}

/* --- the end --- */

static int add_cancelled(struct run_left *l, struct buf *out)
{
    int64_t now = clock_wall_ms();
    for (size_t id = 1; id < l->open_size; id++) {
        if (l->open[id] &&
            api_run_event_settled(l->seq++, now, (int64_t)id, "cancelled", out) != 0) {
            return -1;
        }
    }
    return 0;
}

/* What the spec says of the run. */
static int read_spec(const struct store_run *row, int64_t *output_max, char mode[32],
                     struct error *err)
{
    _cleanup_json_ json_t *spec = NULL;
    if (api_json_load_stored(row->spec, &spec, err) != 0) {
        return -1;
    }
    const json_t *policy = json_object_get(spec, "sandboxPolicy");
    const char *name = json_string_value(json_object_get(policy, "mode"));
    const json_t *limits = json_object_get(spec, "limits");
    *output_max = json_integer_value(json_object_get(limits, "maxOutputBytes"));
    snprintf(mode, 32, "%s", name == NULL ? ptc_mode_name(PTC_READ_ONLY) : name);
    return 0;
}

static int make_end(struct run_left *l, const char *mode, struct store_run *row, struct buf *out)
{
    _cleanup_buf_ struct buf text;
    size_t place;
    struct api_run_result view = {
        .error_kind = ptc_error_kind_name(PTC_WORKER_EXIT),
        .message = {MESSAGE, sizeof(MESSAGE) - 1},
        .mode = mode,
    };
    buf_init(&text, RUN_LINE_MAX);
    row->completed_at = clock_wall_ms();
    view.logs = (struct api_raw){l->logs.data, l->logs.len};
    if (add_cancelled(l, out) != 0 || api_run_result_add(&view, &text) != 0 ||
        api_run_event_result(l->seq, row->completed_at, (struct api_raw){text.data, text.len}, out,
                             &place) != 0) {
        return -1;
    }
    row->result_place = (int64_t)(l->len + place);
    row->result_bytes = (int64_t)text.len;
    return 0;
}

static int write_end(struct service *s, const struct store_run *row, const struct run_left *l,
                     const struct buf *end, struct error *err)
{
    struct store_run_log_name name = run_log_name(s, row->tenant, row->run_id);
    struct store_run_log *log = NULL;
    if (store_run_log_reopen(&name, (int64_t)l->len, &log, err) != 0) {
        return -1;
    }
    int result = store_run_log_append(log, end->data, end->len, err);
    if (result == 0) {
        result = store_run_log_sync(log, err);
    }
    store_run_log_close(log);
    return result;
}

static int finish(struct service *s, struct store_run *row, struct run_left *l, struct error *err)
{
    _cleanup_buf_ struct buf end;
    char mode[32];
    int64_t output_max = 0;
    buf_init(&end, RUN_LINE_MAX);
    if (read_spec(row, &output_max, mode, err) != 0 || read_log(s, row, l, err) != 0) {
        return -1;
    }
    error_clear(err);
    if (run_left_take(l, output_max - 2 - (int64_t)(sizeof(MESSAGE) - 1)) != 0 ||
        make_end(l, mode, row, &end) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (write_end(s, row, l, &end, err) != 0) {
        return -1;
    }
    row->state = STORE_RUN_SETTLED;
    row->started_at = l->started_at;
    row->calls_total = l->calls_total;
    row->calls_answered = l->calls_answered;
    row->calls_cancelled = l->calls_total - l->calls_answered;
    row->log_bytes = (int64_t)(l->len + end.len);
    store_text_set(&row->outcome, ptc_error_kind_name(PTC_WORKER_EXIT));
    return store_run_settle(s->store, row, err);
}

static int settle_one(struct service *s, struct store_run *row, struct error *err)
{
    struct run_left l;
    run_left_init(&l, RUN_LINE_MAX);
    int result = finish(s, row, &l, err);
    run_left_done(&l);
    return result;
}

int runs_reconcile(struct service *s, struct error *err)
{
    struct store_run_list list = {0};
    if (store_run_list_unfinished(s->store, &list, err) != 0) {
        return -1;
    }
    int result = 0;
    for (size_t i = 0; i < list.count && result == 0; i++) {
        result = settle_one(s, &list.items[i], err);
        log_info("a run that a restart cut is settled", "run", list.items[i].run_id, "tenant",
                 list.items[i].tenant, NULL);
    }
    store_run_list_done(&list);
    return result;
}
