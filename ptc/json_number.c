#include "ptc/json_number.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_DIGITS = 15, TEXT_SIZE = 48, POINT_MAX = 21, POINT_MIN = -6 };

/* The digits of a finite number above zero, without trailing zeros, and where its point stands. */
struct decimal {
    char digits[TEXT_SIZE];
    int count;
    int point; /* the value is 0.DIGITS times ten to this */
};

static void find_shortest(double value, struct decimal *out)
{
    char text[TEXT_SIZE];
    /* Below the normal numbers fewer digits may tell them apart. */
    int least = value < DBL_MIN ? 1 : PLAIN_DIGITS;
    for (int precision = least; precision <= PLAIN_DIGITS + 2; precision++) {
        (void)snprintf(text, sizeof(text), "%.*e", precision - 1, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    const char *exponent = strchr(text, 'e');
    out->count = 0;
    for (const char *at = text; at < exponent; at++) {
        if (*at != '.') {
            out->digits[out->count++] = *at;
        }
    }
    while (out->count > 1 && out->digits[out->count - 1] == '0') {
        out->count--;
    }
    out->point = (int)strtol(exponent + 1, NULL, 10) + 1;
}

static int add_zeros(struct buf *out, int count)
{
    for (int i = 0; i < count; i++) {
        if (buf_add_char(out, '0') != 0) {
            return -1;
        }
    }
    return 0;
}

static int add_exponential(struct buf *out, const struct decimal *d)
{
    int exponent = d->point - 1;
    if (buf_add(out, d->digits, 1) != 0) {
        return -1;
    }
    if (d->count > 1 &&
        (buf_add_char(out, '.') != 0 || buf_add(out, d->digits + 1, (size_t)d->count - 1) != 0)) {
        return -1;
    }
    return buf_addf(out, "e%c%d", exponent < 0 ? '-' : '+', abs(exponent));
}

/* Number::toString of ECMAScript. */
static int add_decimal(struct buf *out, const struct decimal *d)
{
    size_t count = (size_t)d->count;
    if (d->point > POINT_MAX || d->point < POINT_MIN + 1) {
        return add_exponential(out, d);
    }
    if (d->point >= d->count) {
        return buf_add(out, d->digits, count) != 0 ? -1 : add_zeros(out, d->point - d->count);
    }
    if (d->point > 0) {
        size_t whole = (size_t)d->point;
        return buf_add(out, d->digits, whole) != 0 || buf_add_char(out, '.') != 0
                   ? -1
                   : buf_add(out, d->digits + whole, count - whole);
    }
    if (buf_add_str(out, "0.") != 0 || add_zeros(out, -d->point) != 0) {
        return -1;
    }
    return buf_add(out, d->digits, count);
}

static bool is_plain_integer(struct ptc_text text)
{
    size_t digits = text.len - (text.data[0] == '-');
    return digits <= PLAIN_DIGITS && memchr(text.data, '.', text.len) == NULL &&
           memchr(text.data, 'e', text.len) == NULL && memchr(text.data, 'E', text.len) == NULL;
}

static enum ptc_number_fault read_value(struct ptc_text text, double *value)
{
    char few[TEXT_SIZE];
    _cleanup_free_ char *many = NULL;
    char *copy = few;
    if (text.len >= sizeof(few)) {
        copy = many = malloc(text.len + 1);
        if (many == NULL) {
            return PTC_NUMBER_MEMORY;
        }
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *value = strtod(copy, NULL);
    return isfinite(*value) ? PTC_NUMBER_OK : PTC_NUMBER_TOO_LARGE;
}

static int add_value(struct buf *out, double value)
{
    struct decimal d;
    if (value == 0) {
        return buf_add_char(out, '0');
    }
    find_shortest(fabs(value), &d);
    return value < 0 && buf_add_char(out, '-') != 0 ? -1 : add_decimal(out, &d);
}

enum ptc_number_fault ptc_json_number(struct ptc_text text, struct buf *out)
{
    double value = 0;
    if (is_plain_integer(text) && !(text.data[0] == '-' && text.data[1] == '0')) {
        return out == NULL || buf_add(out, text.data, text.len) == 0 ? PTC_NUMBER_OK
                                                                     : PTC_NUMBER_MEMORY;
    }
    enum ptc_number_fault fault = read_value(text, &value);
    if (fault != PTC_NUMBER_OK) {
        return fault;
    }
    if (value == 0 && text.data[0] == '-') {
        return PTC_NUMBER_MINUS_ZERO;
    }
    return out == NULL || add_value(out, value) == 0 ? PTC_NUMBER_OK : PTC_NUMBER_MEMORY;
}
