#include "workspace/json_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static int put_escaped(struct buf *out, unsigned char c)
{
    switch (c) {
    case '"': return buf_add_str(out, "\\\"");
    case '\\': return buf_add_str(out, "\\\\");
    case '\n': return buf_add_str(out, "\\n");
    case '\r': return buf_add_str(out, "\\r");
    case '\t': return buf_add_str(out, "\\t");
    default: return buf_addf(out, "\\u%04x", c);
    }
}

int workspace_json_put_string(struct buf *out, const char *s, size_t len)
{
    if (buf_add_char(out, '"') != 0) {
        return -1;
    }
    size_t plain = 0;
    for (size_t i = 0; i <= len; i++) {
        unsigned char c = i < len ? (unsigned char)s[i] : 0;
        if (i < len && c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        if (i > plain && buf_add(out, s + plain, i - plain) != 0) {
            return -1;
        }
        plain = i + 1;
        if (i < len && put_escaped(out, c) != 0) {
            return -1;
        }
    }
    return buf_add_char(out, '"');
}

int workspace_json_put_base64(struct buf *out, const char *s, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (buf_add_char(out, '"') != 0) {
        return -1;
    }
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        unsigned bits = 0;
        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (k < have ? (unsigned char)s[i + k] : 0U);
        }
        char quad[4];
        for (size_t k = 0; k < 4; k++) {
            quad[k] = k <= have ? digits[bits >> (18 - 6 * k) & 63] : '=';
        }
        if (buf_add(out, quad, sizeof(quad)) != 0) {
            return -1;
        }
    }
    return buf_add_char(out, '"');
}

int workspace_json_put_real(struct buf *out, double value)
{
    if (!isfinite(value)) {
        return -1;
    }
    char text[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    if (strpbrk(text, ".e") == NULL) {
        /* Otherwise it would read back as an integer. */
        return buf_addf(out, "%s.0", text);
    }
    return buf_add_str(out, text);
}

static int put_value(struct buf *out, const json_t *value, int depth);

static int put_array(struct buf *out, const json_t *array, int depth)
{
    int r = buf_add_char(out, '[');
    for (size_t i = 0; r == 0 && i < json_array_size(array); i++) {
        r = i > 0 ? buf_add_char(out, ',') : 0;
        r = r == 0 ? put_value(out, json_array_get(array, i), depth + 1) : r;
    }
    return r == 0 ? buf_add_char(out, ']') : r;
}

static int put_object(struct buf *out, const json_t *object, int depth)
{
    int r = buf_add_char(out, '{');
    const char *key;
    json_t *member;
    bool first = true;
    json_object_foreach((json_t *)object, key, member)
    {
        r = r == 0 && !first ? buf_add_char(out, ',') : r;
        r = r == 0 ? workspace_json_put_string(out, key, strlen(key)) : r;
        r = r == 0 ? buf_add_char(out, ':') : r;
        r = r == 0 ? put_value(out, member, depth + 1) : r;
        first = false;
    }
    return r == 0 ? buf_add_char(out, '}') : r;
}

static int put_value(struct buf *out, const json_t *value, int depth)
{
    if (value == NULL || depth > WORKSPACE_JSON_DEPTH_MAX) {
        return -1;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT: return put_object(out, value, depth);
    case JSON_ARRAY: return put_array(out, value, depth);
    case JSON_STRING:
        return workspace_json_put_string(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER: return buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL: return workspace_json_put_real(out, json_real_value(value));
    case JSON_TRUE: return buf_add_str(out, "true");
    case JSON_FALSE: return buf_add_str(out, "false");
    default: return buf_add_str(out, "null");
    }
}

int workspace_json_put(struct buf *out, const json_t *value)
{
    return put_value(out, value, 0);
}
