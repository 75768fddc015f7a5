#include "api/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* GROWTH: "1e309" becomes LARGEST, which is less than five times as long. */
enum { DUMP_DEPTH_MAX = 2 * API_JSON_DEPTH_MAX, GROWTH = 5 };

/* DBL_MAX in text. */
static const char LARGEST[] = "1.7976931348623157e308";

/* --- reading --- */

struct scan {
    const char *data; /* NUL-terminated */
    size_t len;
    size_t at;
    size_t copied; /* what has gone to `out` so far */
    unsigned depth;
    struct buf out;
};

static size_t skip_digits(const char *p)
{
    size_t n = 0;

    while (isdigit((unsigned char)p[n])) {
        n++;
    }
    return n;
}

/* Length of the number at `p`, 0 when it is none; *whole tells whether it has no fraction or
 * exponent. */
static size_t number_length(const char *p, bool *whole)
{
    size_t n = *p == '-' ? 1 : 0;
    size_t digits = skip_digits(p + n);

    *whole = true;
    if (digits == 0 || (p[n] == '0' && digits > 1)) {
        return 0;
    }
    n += digits;
    if (p[n] == '.') {
        digits = skip_digits(p + n + 1);
        if (digits == 0) {
            return 0;
        }
        n += 1 + digits;
        *whole = false;
    }
    if (p[n] == 'e' || p[n] == 'E') {
        size_t sign = p[n + 1] == '+' || p[n + 1] == '-' ? 1 : 0;

        digits = skip_digits(p + n + 1 + sign);
        if (digits == 0) {
            return 0;
        }
        n += 1 + sign + digits;
        *whole = false;
    }
    return n;
}

/* jansson refuses a text for a number it can't hold, before anybody could say which field it is.
 * Such a number is passed on as the nearest real, which every numeric field refuses. */
static int scan_number(struct scan *s)
{
    const char *from = s->data + s->at;
    bool whole;
    size_t len = number_length(from, &whole);
    bool negative = *from == '-';
    double value;
    int rc = 0;

    if (len == 0) {
        s->at++;
        return 0;
    }
    value = strtod(from, NULL);
    s->at += len;
    if (isinf(value)) {
        size_t sign = negative ? 1 : 0;

        rc = buf_add(&s->out, s->data + s->copied, s->at - len + sign - s->copied);
        rc = rc != 0 ? rc : buf_add_str(&s->out, LARGEST);
        s->copied = s->at;
    } else if (whole) {
        errno = 0;
        (void)strtoll(from, NULL, 10);
        if (errno == ERANGE) {
            rc = buf_add(&s->out, s->data + s->copied, s->at - s->copied);
            rc = rc != 0 ? rc : buf_add_str(&s->out, "e0");
            s->copied = s->at;
        }
    }
    return rc;
}

static void scan_string(struct scan *s)
{
    s->at++;
    while (s->at < s->len && s->data[s->at] != '"') {
        s->at += s->data[s->at] == '\\' ? 2 : 1;
    }
    s->at++;
}

static int scan_text(struct scan *s, struct error *err)
{
    while (s->at < s->len) {
        char c = s->data[s->at];
        int rc = 0;

        if (c == '"') {
            scan_string(s);
        } else if (c == '-' || isdigit((unsigned char)c)) {
            rc = scan_number(s);
        } else {
            if (c == '[' || c == '{') {
                s->depth++;
            } else if ((c == ']' || c == '}') && s->depth > 0) {
                s->depth--;
            }
            s->at++;
        }
        if (rc != 0) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        if (s->depth > API_JSON_DEPTH_MAX) {
            return error_set(err, ERROR_INVALID_REQUEST,
                             "the JSON text is nested deeper than %d at byte %zu",
                             API_JSON_DEPTH_MAX, s->at - 1);
        }
    }
    return 0;
}

/* A copy of the text that ends with NUL and holds no number that is out of range. */
static int prepare(const char *data, size_t len, struct buf *out, struct error *err)
{
    _cleanup_free_ char *copy = malloc(len + 1);
    struct scan s = {.data = copy, .len = len};
    int rc;

    if (copy == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    memcpy(copy, data, len);
    copy[len] = '\0';
    buf_init(&s.out, out->max);
    rc = scan_text(&s, err);
    if (rc == 0 && buf_add(&s.out, copy + s.copied, len - s.copied) != 0) {
        rc = error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (rc != 0) {
        buf_done(&s.out);
        return -1;
    }
    *out = s.out;
    return 0;
}

int api_json_parse(const char *data, size_t len, json_t **out, struct error *err)
{
    _cleanup_buf_ struct buf text;
    const char *nul = len == 0 ? NULL : memchr(data, '\0', len);
    json_error_t why;
    json_t *value;

    buf_init(&text, len * GROWTH + sizeof(LARGEST));
    if (len == 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "the JSON text is empty");
    }
    if (nul != NULL) {
        return error_set(err, ERROR_INVALID_REQUEST, "the JSON text has a NUL at byte %zu",
                         (size_t)(nul - data));
    }
    if (prepare(data, len, &text, err) != 0) {
        return -1;
    }
    value = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (value == NULL) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the JSON text is invalid at line %d, column %d: %s", why.line, why.column,
                         why.text);
    }
    *out = value;
    return 0;
}

int api_json_parse_object(const char *data, size_t len, bool optional, json_t **out,
                          struct error *err)
{
    json_t *value;

    if (len == 0 && optional) {
        value = json_object();
        if (value == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        *out = value;
        return 0;
    }
    if (api_json_parse(data, len, &value, err) != 0) {
        return -1;
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return error_set(err, ERROR_INVALID_REQUEST, "the body must be a JSON object");
    }
    *out = value;
    return 0;
}

int api_json_load_stored(const char *text, json_t **out, struct error *err)
{
    json_error_t why;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);

    if (value == NULL) {
        return error_set(err, ERROR_INTERNAL, "stored JSON is damaged: %s", why.text);
    }
    *out = value;
    return 0;
}

/* --- writing --- */

static int dump_value(const json_t *value, struct buf *out, unsigned depth);

static int dump_escaped(struct buf *out, unsigned char c)
{
    switch (c) {
    case '"': return buf_add_str(out, "\\\"");
    case '\\': return buf_add_str(out, "\\\\");
    case '\b': return buf_add_str(out, "\\b");
    case '\f': return buf_add_str(out, "\\f");
    case '\n': return buf_add_str(out, "\\n");
    case '\r': return buf_add_str(out, "\\r");
    case '\t': return buf_add_str(out, "\\t");
    default: return buf_addf(out, "\\u%04x", c);
    }
}

static int dump_string(const char *text, size_t len, struct buf *out)
{
    size_t plain = 0;

    if (buf_add_char(out, '"') != 0) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        if (buf_add(out, text + plain, i - plain) != 0 || dump_escaped(out, c) != 0) {
            return -1;
        }
        plain = i + 1;
    }
    return buf_add(out, text + plain, len - plain) != 0 ? -1 : buf_add_char(out, '"');
}

static int dump_real(double value, struct buf *out)
{
    char text[40];
    int precision = 0;
    long exponent;

    do {
        snprintf(text, sizeof(text), "%.*e", precision, value);
    } while (strtod(text, NULL) != value && ++precision < 17);
    exponent = strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent < -5 || exponent > 16) {
        return buf_add_str(out, text);
    }
    precision = precision - (int)exponent;
    return buf_addf(out, "%.*f", precision < 1 ? 1 : precision, value);
}

static int dump_array(const json_t *array, struct buf *out, unsigned depth)
{
    const json_t *item;
    size_t index;

    if (buf_add_char(out, '[') != 0) {
        return -1;
    }
    json_array_foreach(array, index, item)
    {
        if ((index > 0 && buf_add_char(out, ',') != 0) || dump_value(item, out, depth + 1) != 0) {
            return -1;
        }
    }
    return buf_add_char(out, ']');
}

static int dump_object(const json_t *object, struct buf *out, unsigned depth)
{
    /* The iteration changes nothing, but jansson's functions take no const object. */
    json_t *members = (json_t *)object;
    const char *separator = "{";
    const char *key;
    json_t *value;

    if (json_object_size(object) == 0) {
        return buf_add_str(out, "{}");
    }
    json_object_foreach(members, key, value)
    {
        if (buf_add_str(out, separator) != 0 || dump_string(key, strlen(key), out) != 0 ||
            buf_add_char(out, ':') != 0 || dump_value(value, out, depth + 1) != 0) {
            return -1;
        }
        separator = ",";
    }
    return buf_add_char(out, '}');
}

static int dump_value(const json_t *value, struct buf *out, unsigned depth)
{
    if (value == NULL || depth > DUMP_DEPTH_MAX) {
        return -1;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT: return dump_object(value, out, depth);
    case JSON_ARRAY: return dump_array(value, out, depth);
    case JSON_STRING: return dump_string(json_string_value(value), json_string_length(value), out);
    case JSON_INTEGER: return buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL: return dump_real(json_real_value(value), out);
    case JSON_TRUE: return buf_add_str(out, "true");
    case JSON_FALSE: return buf_add_str(out, "false");
    case JSON_NULL: return buf_add_str(out, "null");
    }
    return -1;
}

int api_json_dump(const json_t *value, struct buf *out)
{
    return dump_value(value, out, 1);
}

char *api_json_text(const json_t *value, size_t max)
{
    _cleanup_buf_ struct buf text;

    buf_init(&text, max);
    if (api_json_dump(value, &text) != 0) {
        return NULL;
    }
    return buf_take(&text, NULL);
}
