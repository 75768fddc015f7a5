/* What an earlier run of the service left unfinished is settled, never run again: its log ends
 * where the last whole event does, calls that waited are cancelled, and the result says why. */
#include "server/services/runs_private.h"

#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"

#include <string.h>

static const char MESSAGE[] =
    "\"the service was restarted while the program ran; it is not run again\"";

/* What its events tell of a run. */
struct left {
    struct buf text; /* the whole log */
    size_t len;      /* of the events that are whole */
    int64_t seq;     /* of the next one */
    int64_t started_at;
    int64_t output_max;
    struct buf logs;
    int64_t logs_room; /* of what the ledger lets them have */
    int64_t calls_total;
    int64_t calls_answered;
    bool *open; /* by number: waits for its answer */
    size_t open_size;
};

/* --- one line --- */

struct line {
    struct api_raw type;
    struct api_raw at;
    struct api_raw text;
    struct api_raw call_id;
};

static bool is_text(struct ptc_text text, const char *literal)
{
    return text.len == strlen(literal) && memcmp(text.data, literal, text.len) == 0;
}

static int take_member(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct line *line = ctx;
    struct api_raw raw = {value.data, value.len};
    if (is_text(key, "\"type\"")) {
        line->type = raw;
    } else if (is_text(key, "\"at\"")) {
        line->at = raw;
    } else if (is_text(key, "\"text\"")) {
        line->text = raw;
    } else if (is_text(key, "\"callId\"")) {
        line->call_id = raw;
    }
    return 0;
}

static bool is_type(const struct line *line, const char *quoted)
{
    return is_text((struct ptc_text){line->type.data, line->type.len}, quoted);
}

/* As far as all of it still fits with the message. */
static int keep_log(struct left *l, struct api_raw text)
{
    int64_t need = (int64_t)text.len + (l->logs.len > 1 ? 1 : 0);
    if (need > l->logs_room) {
        l->logs_room = 0;
        return 0;
    }
    l->logs_room -= need;
    if (l->logs.len > 1 && buf_add_char(&l->logs, ',') != 0) {
        return -1;
    }
    return buf_add(&l->logs, text.data, text.len);
}

static int keep_call(struct left *l, int64_t id, bool open)
{
    if (id < 1 || (size_t)id > l->text.len) {
        return -1;
    }
    if ((size_t)id >= l->open_size) {
        size_t size = (size_t)id * 2 + 64;
        bool *grown = realloc(l->open, size * sizeof(*grown));
        if (grown == NULL) {
            return -1;
        }
        memset(grown + l->open_size, 0, (size - l->open_size) * sizeof(*grown));
        l->open = grown;
        l->open_size = size;
    }
    l->open[id] = open;
    return 0;
}

/* Nothing of it, where it is no event that could stand there. */
static int take_line(struct left *l, const char *data, size_t len)
{
    struct line line = {0};
    struct error ignored = ERROR_INIT;
    char head[48];
    int head_len = snprintf(head, sizeof(head), "{\"seq\":%lld,\"type\":", (long long)l->seq);
    if (len < (size_t)head_len || memcmp(data, head, (size_t)head_len) != 0 ||
        ptc_json_check(data, len, &ignored) != 0 ||
        ptc_json_members(data, len, take_member, &line) != 0 || is_type(&line, "\"result\"")) {
        return -1;
    }
    int64_t id = line.call_id.len == 0 ? 0 : strtoll(line.call_id.data, NULL, 10);
    if (is_type(&line, "\"started\"") && line.at.len > 2) {
        _cleanup_free_ char *at = strndup(line.at.data + 1, line.at.len - 2);
        return at == NULL ? -1 : clock_parse(at, &l->started_at);
    }
    if (is_type(&line, "\"log\"")) {
        return keep_log(l, line.text);
    }
    if (is_type(&line, "\"call\"")) {
        l->calls_total++;
        return keep_call(l, id, true);
    }
    l->calls_answered++;
    return keep_call(l, id, false);
}

static void take_lines(struct left *l)
{
    const char *data = buf_str(&l->text);
    while (l->len < l->text.len) {
        const char *end = memchr(data + l->len, '\n', l->text.len - l->len);
        if (end == NULL || take_line(l, data + l->len, (size_t)(end - data) - l->len) != 0) {
            return;
        }
        l->seq++;
        l->len = (size_t)(end - data) + 1;
    }
}

static int read_log(struct service *s, const struct store_run *row, struct left *l,
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

static int add_cancelled(struct left *l, struct buf *out)
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
static int read_spec(const struct store_run *row, struct left *l, char mode[32], struct error *err)
{
    _cleanup_json_ json_t *spec = NULL;
    if (api_json_load_stored(row->spec, &spec, err) != 0) {
        return -1;
    }
    const json_t *policy = json_object_get(spec, "sandboxPolicy");
    const char *name = json_string_value(json_object_get(policy, "mode"));
    const json_t *limits = json_object_get(spec, "limits");
    l->output_max = json_integer_value(json_object_get(limits, "maxOutputBytes"));
    snprintf(mode, 32, "%s", name == NULL ? ptc_mode_name(PTC_READ_ONLY) : name);
    return 0;
}

static int make_end(struct left *l, const char *mode, struct store_run *row, struct buf *out)
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
    if (buf_add_char(&l->logs, ']') != 0) {
        return -1;
    }
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

static int write_end(struct service *s, const struct store_run *row, const struct left *l,
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

static int finish(struct service *s, struct store_run *row, struct left *l, struct error *err)
{
    _cleanup_buf_ struct buf end;
    char mode[32];
    buf_init(&end, RUN_LINE_MAX);
    if (read_spec(row, l, mode, err) != 0 || read_log(s, row, l, err) != 0) {
        return -1;
    }
    error_clear(err);
    l->logs_room = l->output_max - 2 - (int64_t)(sizeof(MESSAGE) - 1);
    if (buf_add_char(&l->logs, '[') != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    take_lines(l);
    if (make_end(l, mode, row, &end) != 0) {
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
    struct left l = {0};
    buf_init(&l.text, RUN_LINE_MAX);
    buf_init(&l.logs, RUN_LINE_MAX);
    int result = finish(s, row, &l, err);
    buf_done(&l.text);
    buf_done(&l.logs);
    free(l.open);
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
