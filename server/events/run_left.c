#include "server/events/run_left.h"

#include "base/clock.h"
#include "base/error.h"
#include "ptc/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 9, DECIMAL = 10 };

/* --- one line --- */

struct line {
    struct ptc_text type;
    struct ptc_text at;
    struct ptc_text text;
    struct ptc_text call_id;
    struct ptc_text state;
};

static bool is_text(struct ptc_text text, const char *literal)
{
    return text.len == strlen(literal) && memcmp(text.data, literal, text.len) == 0;
}

static int take_member(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct line *line = ctx;
    if (is_text(key, "\"type\"")) {
        line->type = value;
    } else if (is_text(key, "\"at\"")) {
        line->at = value;
    } else if (is_text(key, "\"text\"")) {
        line->text = value;
    } else if (is_text(key, "\"callId\"")) {
        line->call_id = value;
    } else if (is_text(key, "\"state\"")) {
        line->state = value;
    }
    return 0;
}

/* 0: none. */
static int64_t number_of(struct ptc_text text)
{
    char digits[DIGITS_MAX + 1] = "";
    if (text.len == 0 || text.len > DIGITS_MAX) {
        return 0;
    }
    memcpy(digits, text.data, text.len);
    return digits[strspn(digits, "0123456789")] == '\0' ? strtoll(digits, NULL, DECIMAL) : 0;
}

/* --- what it says --- */

enum taken { TAKEN, NOT_WHOLE, NO_MEMORY };

static enum taken take_start(struct run_left *l, const struct line *line)
{
    char at[64];
    if (line->at.len < 2 || line->at.len >= sizeof(at)) {
        return NOT_WHOLE;
    }
    memcpy(at, line->at.data + 1, line->at.len - 2);
    at[line->at.len - 2] = '\0';
    return clock_parse(at, &l->started_at) == 0 ? TAKEN : NOT_WHOLE;
}

/* As far as all of it still fits with the message. */
static enum taken take_log(struct run_left *l, const struct line *line)
{
    struct ptc_text text = line->text;
    if (text.len == 0 || text.data[0] != '"') {
        return NOT_WHOLE;
    }
    int64_t need = (int64_t)text.len + (l->logs.len > 1 ? 1 : 0);
    if (need > l->logs_room) {
        l->logs_room = 0;
        return TAKEN;
    }
    if ((l->logs.len > 1 && buf_add_char(&l->logs, ',') != 0) ||
        buf_add(&l->logs, text.data, text.len) != 0) {
        return NO_MEMORY;
    }
    l->logs_room -= need;
    return TAKEN;
}

static int make_room(struct run_left *l, size_t id)
{
    if (id < l->open_size) {
        return 0;
    }
    size_t size = id * 2 + 64;
    bool *grown = realloc(l->open, size * sizeof(*grown));
    if (grown == NULL) {
        return -1;
    }
    memset(grown + l->open_size, 0, (size - l->open_size) * sizeof(*grown));
    l->open = grown;
    l->open_size = size;
    return 0;
}

static enum taken take_call(struct run_left *l, const struct line *line)
{
    int64_t id = number_of(line->call_id);
    if (id != l->calls_total + 1) {
        return NOT_WHOLE;
    }
    if (make_room(l, (size_t)id) != 0) {
        return NO_MEMORY;
    }
    l->open[id] = true;
    l->calls_total = id;
    return TAKEN;
}

static enum taken take_settled(struct run_left *l, const struct line *line)
{
    int64_t id = number_of(line->call_id);
    if (id < 1 || (size_t)id >= l->open_size || !l->open[id]) {
        return NOT_WHOLE;
    }
    l->open[id] = false;
    l->calls_answered += is_text(line->state, "\"cancelled\"") ? 0 : 1;
    return TAKEN;
}

static enum taken take_line(struct run_left *l, const char *data, size_t len)
{
    struct line line = {0};
    struct error ignored = ERROR_INIT;
    char head[48];
    int head_len = snprintf(head, sizeof(head), "{\"seq\":%lld,\"type\":", (long long)l->seq);
    if (len < (size_t)head_len || memcmp(data, head, (size_t)head_len) != 0 ||
        ptc_json_check(data, len, &ignored) != 0 ||
        ptc_json_members(data, len, take_member, &line) != 0) {
        return NOT_WHOLE;
    }
    if (is_text(line.type, "\"started\"")) {
        return take_start(l, &line);
    }
    if (is_text(line.type, "\"log\"")) {
        return take_log(l, &line);
    }
    if (is_text(line.type, "\"call\"")) {
        return take_call(l, &line);
    }
    return is_text(line.type, "\"call-settled\"") ? take_settled(l, &line) : NOT_WHOLE;
}

/* --- the whole --- */

void run_left_init(struct run_left *l, size_t max)
{
    *l = (struct run_left){.seq = 0};
    buf_init(&l->text, max);
    buf_init(&l->logs, max);
}

void run_left_done(struct run_left *l)
{
    buf_done(&l->text);
    buf_done(&l->logs);
    free(l->open);
    l->open = NULL;
}

int run_left_take(struct run_left *l, int64_t logs_room)
{
    const char *data = buf_str(&l->text);
    l->logs_room = logs_room;
    if (buf_add_char(&l->logs, '[') != 0) {
        return -1;
    }
    while (l->len < l->text.len) {
        const char *end = memchr(data + l->len, '\n', l->text.len - l->len);
        enum taken taken =
            end == NULL ? NOT_WHOLE : take_line(l, data + l->len, (size_t)(end - data) - l->len);
        if (taken == NO_MEMORY) {
            return -1;
        }
        if (taken == NOT_WHOLE) {
            break;
        }
        l->seq++;
        l->len = (size_t)(end - data) + 1;
    }
    return buf_add_char(&l->logs, ']');
}
