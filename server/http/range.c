#include "server/http/range.h"

#include <string.h>
#include <strings.h>

/* Digits, cut at the largest number; NULL when there is none. */
static const char *parse_number(const char *text, int64_t *out)
{
    int64_t value = 0;

    if (*text < '0' || *text > '9') {
        return NULL;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        int digit = *text - '0';

        value = value > (INT64_MAX - digit) / 10 ? INT64_MAX : value * 10 + digit;
    }
    *out = value;
    return text;
}

static bool is_end(const char *text)
{
    return text[strspn(text, " \t")] == '\0';
}

/* "-N": the last N bytes. */
static enum range_result parse_suffix(const char *text, int64_t size, int64_t *first,
                                      int64_t *length)
{
    int64_t count;
    const char *rest = parse_number(text, &count);

    if (rest == NULL || !is_end(rest)) {
        return RANGE_NONE;
    }
    if (count == 0) {
        return RANGE_OUTSIDE;
    }
    if (size == 0) {
        return RANGE_NONE;
    }
    *length = count < size ? count : size;
    *first = size - *length;
    return RANGE_PART;
}

/* "A-" or "A-B". */
static enum range_result parse_bounds(const char *text, int64_t size, int64_t *first,
                                      int64_t *length)
{
    int64_t from;
    int64_t to = INT64_MAX;
    const char *rest = parse_number(text, &from);

    if (rest == NULL || *rest != '-') {
        return RANGE_NONE;
    }
    rest++;
    if (!is_end(rest)) {
        rest = parse_number(rest, &to);
        if (rest == NULL || !is_end(rest) || to < from) {
            return RANGE_NONE;
        }
    }
    if (from == 0 && size == 0) {
        return RANGE_NONE;
    }
    if (from >= size) {
        return RANGE_OUTSIDE;
    }
    *first = from;
    *length = (to < size ? to + 1 : size) - from;
    return RANGE_PART;
}

enum range_result range_parse(const char *text, int64_t size, int64_t *first, int64_t *length)
{
    static const char unit[] = "bytes=";

    if (strncasecmp(text, unit, sizeof(unit) - 1) != 0) {
        return RANGE_NONE;
    }
    text += sizeof(unit) - 1;
    text += strspn(text, " \t");
    if (*text == '-') {
        return parse_suffix(text + 1, size, first, length);
    }
    return parse_bounds(text, size, first, length);
}

static const char *skip_weak(const char *tag)
{
    return strncmp(tag, "W/", 2) == 0 ? tag + 2 : tag;
}

bool range_etag_listed(const char *list, const char *etag)
{
    const char *opaque = skip_weak(etag);
    size_t len = strlen(opaque);

    list += strspn(list, " \t");
    if (*list == '*') {
        return is_end(list + 1);
    }
    while (*list != '\0') {
        const char *end;

        list = skip_weak(list + strspn(list, " \t,"));
        end = *list == '"' ? strchr(list + 1, '"') : NULL;
        if (end == NULL) {
            return false;
        }
        end++;
        if ((size_t)(end - list) == len && memcmp(list, opaque, len) == 0) {
            return true;
        }
        list = end + strspn(end, " \t");
    }
    return false;
}

bool range_etag_same(const char *text, const char *etag)
{
    size_t len = strlen(etag);

    return etag[0] == '"' && strncmp(text, etag, len) == 0 && is_end(text + len);
}
