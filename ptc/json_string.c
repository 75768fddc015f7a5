#include "ptc/json_string.h"

#include "base/utf8.h"

#include <string.h>

enum { SPACE = 0x20, HIGH = 0xd800, LOW = 0xdc00, SURROGATES_END = 0xe000, ASTRAL = 0x10000 };
enum { SURROGATE_BITS = 10, SURROGATE_MASK = 0x3ff, HEX_DIGITS = 4, HEX = 16 };

static int add_utf8(struct buf *out, unsigned long point)
{
    char bytes[4];
    size_t len = 0;
    if (point < 0x800) {
        bytes[len++] = (char)(0xc0 | (point >> 6));
    } else if (point < ASTRAL) {
        bytes[len++] = (char)(0xe0 | (point >> 12));
        bytes[len++] = (char)(0x80 | ((point >> 6) & 0x3f));
    } else {
        bytes[len++] = (char)(0xf0 | (point >> 18));
        bytes[len++] = (char)(0x80 | ((point >> 12) & 0x3f));
        bytes[len++] = (char)(0x80 | ((point >> 6) & 0x3f));
    }
    bytes[len++] = (char)(0x80 | (point & 0x3f));
    return buf_add(out, bytes, len);
}

int ptc_json_add_unit(struct buf *out, unsigned unit)
{
    switch (unit) {
    case '"': return buf_add_str(out, "\\\"");
    case '\\': return buf_add_str(out, "\\\\");
    case '\b': return buf_add_str(out, "\\b");
    case '\t': return buf_add_str(out, "\\t");
    case '\n': return buf_add_str(out, "\\n");
    case '\f': return buf_add_str(out, "\\f");
    case '\r': return buf_add_str(out, "\\r");
    default: break;
    }
    if (unit < SPACE || (unit >= HIGH && unit < SURROGATES_END)) {
        return buf_addf(out, "\\u%04x", unit);
    }
    return unit < 0x80 ? buf_add_char(out, (char)unit) : add_utf8(out, unit);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The unit of "\uNNNN" at `at`, -1: there is none. */
static int read_unit(struct ptc_text text, size_t at)
{
    int unit = 0;
    if (text.len < 2 + HEX_DIGITS || at > text.len - 2 - HEX_DIGITS || text.data[at] != '\\' ||
        text.data[at + 1] != 'u') {
        return -1;
    }
    for (size_t i = at + 2; i < at + 2 + HEX_DIGITS; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit * HEX + digit;
    }
    return unit;
}

static enum ptc_string_fault take_unit(struct ptc_text text, size_t *at, struct buf *out)
{
    int unit = read_unit(text, *at);
    if (unit < 0) {
        return PTC_STRING_BAD;
    }
    *at += 2 + HEX_DIGITS;
    int next = unit >= HIGH && unit < LOW ? read_unit(text, *at) : -1;
    if (next >= LOW && next < SURROGATES_END) {
        *at += 2 + HEX_DIGITS;
        unsigned long point = ASTRAL + (((unsigned long)unit & SURROGATE_MASK) << SURROGATE_BITS) +
                              ((unsigned long)next & SURROGATE_MASK);
        return out == NULL || add_utf8(out, point) == 0 ? PTC_STRING_OK : PTC_STRING_MEMORY;
    }
    return out == NULL || ptc_json_add_unit(out, (unsigned)unit) == 0 ? PTC_STRING_OK
                                                                      : PTC_STRING_MEMORY;
}

static enum ptc_string_fault take_escape(struct ptc_text text, size_t *at, struct buf *out)
{
    static const char names[] = "\"\\/bfnrt";
    static const char units[] = "\"\\/\b\f\n\r\t";
    if (text.len - *at < 2) {
        return PTC_STRING_BAD;
    }
    if (text.data[*at + 1] == 'u') {
        return take_unit(text, at, out);
    }
    const char *name = memchr(names, text.data[*at + 1], sizeof(names) - 1);
    if (name == NULL) {
        return PTC_STRING_BAD;
    }
    *at += 2;
    return out == NULL || ptc_json_add_unit(out, (unsigned char)units[name - names]) == 0
               ? PTC_STRING_OK
               : PTC_STRING_MEMORY;
}

/* A run of characters that stand for themselves. */
static enum ptc_string_fault take_plain(struct ptc_text text, size_t *at, struct buf *out)
{
    size_t end = *at;
    while (end < text.len && (unsigned char)text.data[end] >= SPACE && text.data[end] != '"' &&
           text.data[end] != '\\') {
        end++;
    }
    size_t valid = utf8_valid_prefix(text.data + *at, end - *at);
    if (valid == 0 || valid != end - *at) {
        *at += valid;
        return PTC_STRING_BAD;
    }
    if (out != NULL && buf_add(out, text.data + *at, valid) != 0) {
        return PTC_STRING_MEMORY;
    }
    *at = end;
    return PTC_STRING_OK;
}

enum ptc_string_fault ptc_json_string(struct ptc_text text, size_t *at, struct buf *out)
{
    enum ptc_string_fault fault = PTC_STRING_OK;
    if (out != NULL && buf_add_char(out, '"') != 0) {
        return PTC_STRING_MEMORY;
    }
    ++*at;
    while (fault == PTC_STRING_OK && *at < text.len && text.data[*at] != '"') {
        fault = text.data[*at] == '\\' ? take_escape(text, at, out) : take_plain(text, at, out);
    }
    if (fault != PTC_STRING_OK) {
        return fault;
    }
    if (*at >= text.len) {
        return PTC_STRING_BAD;
    }
    ++*at;
    return out == NULL || buf_add_char(out, '"') == 0 ? PTC_STRING_OK : PTC_STRING_MEMORY;
}

int ptc_json_quote(struct ptc_text text, struct buf *out)
{
    size_t at = 0;
    if (buf_add_char(out, '"') != 0) {
        return -1;
    }
    while (at < text.len) {
        size_t plain = at;
        while (plain < text.len && (unsigned char)text.data[plain] >= SPACE &&
               text.data[plain] != '"' && text.data[plain] != '\\') {
            plain++;
        }
        size_t valid = utf8_valid_prefix(text.data + at, plain - at);
        if (buf_add(out, text.data + at, valid) != 0) {
            return -1;
        }
        at += valid;
        if (at == text.len) {
            break;
        }
        unsigned char byte = (unsigned char)text.data[at++];
        if ((byte < 0x80 ? ptc_json_add_unit(out, byte) : buf_add_str(out, "\xef\xbf\xbd")) != 0) {
            return -1;
        }
    }
    return buf_add_char(out, '"');
}
