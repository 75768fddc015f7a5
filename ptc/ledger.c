#include "ptc/ledger.h"

#include "ptc/json_string.h"

#include <string.h>

enum { BRACKETS = 2, QUOTES = 2, UNIT_ESCAPE = 6 };

void ptc_ledger_init(struct ptc_ledger *l, int64_t max)
{
    l->max = (size_t)max;
    l->count = 0;
    l->over = false;
    buf_init(&l->logs, l->max + BRACKETS);
    buf_init(&l->last, l->max + BRACKETS);
}

void ptc_ledger_done(struct ptc_ledger *l)
{
    buf_done(&l->logs);
    buf_done(&l->last);
}

size_t ptc_ledger_size(const struct ptc_ledger *l)
{
    return l->count == 0 ? BRACKETS : l->logs.len + 1;
}

bool ptc_ledger_fits(const struct ptc_ledger *l, size_t len)
{
    return !l->over && ptc_ledger_size(l) <= l->max && len <= l->max - ptc_ledger_size(l);
}

/* How much of a JSON string's text fits into `room`, quotes included: where to put the closing
 * quote. Escapes stand for one code point each. */
static size_t find_cut(struct ptc_text entry, size_t room)
{
    size_t at = 1;
    while (at + 1 < entry.len) {
        unsigned char c = (unsigned char)entry.data[at];
        size_t step = 1;
        if (c == '\\') {
            step = entry.data[at + 1] == 'u' ? UNIT_ESCAPE : 2;
        } else if (c >= 0xc0) {
            step = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        }
        if (at + step + 1 > room) {
            break;
        }
        at += step;
    }
    return at;
}

static void keep_last(struct ptc_ledger *l, struct ptc_text entry)
{
    size_t cut = entry.len <= l->max ? entry.len - 1 : find_cut(entry, l->max);
    buf_reset(&l->last);
    if (buf_add(&l->last, entry.data, cut) != 0 || buf_add_char(&l->last, '"') != 0) {
        buf_reset(&l->last);
    }
}

int ptc_ledger_log(struct ptc_ledger *l, struct ptc_text entry)
{
    if (l->over) {
        return -1;
    }
    if (!ptc_ledger_fits(l, entry.len + (l->count > 0 ? 1 : 0)) ||
        buf_add_char(&l->logs, l->count == 0 ? '[' : ',') != 0 ||
        buf_add(&l->logs, entry.data, entry.len) != 0) {
        keep_last(l, entry);
        l->over = true;
        return -1;
    }
    l->count++;
    return 0;
}

struct ptc_text ptc_ledger_close(struct ptc_ledger *l)
{
    if (buf_add_str(&l->logs, l->count == 0 ? "[]" : "]") != 0) {
        return (struct ptc_text){"[]", BRACKETS};
    }
    return (struct ptc_text){l->logs.data, l->logs.len};
}

static void cut_message(struct ptc_ledger *l, struct buf *message)
{
    size_t room = l->max - BRACKETS;
    if (message->len > room) {
        size_t cut = find_cut((struct ptc_text){message->data, message->len}, room);
        message->data[cut] = '"';
        message->len = cut + 1;
        message->data[message->len] = '\0';
    }
}

/* Appends the entry, or a prefix of one character at least, to an array that may have `room` bytes.
 * True when all of it went in. */
static bool add_part(struct buf *out, struct ptc_text entry, size_t room)
{
    size_t used = out->len == 0 ? 1 : out->len + 1;
    if (room < used + 1 + QUOTES) {
        return false;
    }
    room -= used + 1;
    size_t cut = entry.len <= room ? entry.len - 1 : find_cut(entry, room);
    bool whole = cut == entry.len - 1;
    if (!whole && cut == 1) {
        return false;
    }
    return buf_add_char(out, out->len == 0 ? '[' : ',') == 0 &&
           buf_add(out, entry.data, cut) == 0 && buf_add_char(out, '"') == 0 && whole;
}

struct ptc_text ptc_ledger_overflow(struct ptc_ledger *l, struct buf *message)
{
    struct buf cut;
    cut_message(l, message);
    size_t room = l->max - message->len;
    struct ptc_text logs = {l->logs.data, l->logs.len};
    size_t at = 1;
    bool fits = true;
    buf_init(&cut, l->logs.max);
    for (size_t i = 0; i < l->count && fits; i++) {
        size_t start = at;
        if (ptc_json_string(logs, &at, NULL) != PTC_STRING_OK) {
            break;
        }
        fits = add_part(&cut, (struct ptc_text){logs.data + start, at - start}, room);
        at++;
    }
    if (fits && l->last.len > 0) {
        (void)add_part(&cut, (struct ptc_text){l->last.data, l->last.len}, room);
    }
    buf_done(&l->logs);
    l->logs = cut;
    l->count = cut.len > 0 ? 1 : 0;
    return ptc_ledger_close(l);
}
