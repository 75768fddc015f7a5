#include "ptc/json.h"

#include "ptc/json_number.h"
#include "ptc/json_string.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 8, NESTING_FIRST = 64 };

enum expect { EXPECT_VALUE, EXPECT_FIRST_VALUE, EXPECT_FIRST_KEY, EXPECT_KEY, EXPECT_REST };

/* One pass over a text. Which containers are open is a bit each: set for objects. */
struct scan {
    struct ptc_text text;
    size_t at;
    struct buf *out; /* or NULL */
    unsigned char *nesting;
    size_t nesting_size;
    size_t depth;
    enum expect expect;
    const char *fault; /* static */
    bool full;
};

static int fail(struct scan *s, const char *what)
{
    s->fault = what;
    return -1;
}

static int fail_full(struct scan *s)
{
    s->full = true;
    return fail(s, "too long");
}

static int put(struct scan *s, char c)
{
    return s->out == NULL || buf_add_char(s->out, c) == 0 ? 0 : fail_full(s);
}

static int put_text(struct scan *s, const char *text)
{
    return s->out == NULL || buf_add_str(s->out, text) == 0 ? 0 : fail_full(s);
}

static bool in_object(const struct scan *s)
{
    size_t top = s->depth - 1;
    return (s->nesting[top / BITS] >> (top % BITS)) & 1;
}

static int enter(struct scan *s, bool object)
{
    if (s->depth / BITS >= s->nesting_size) {
        size_t size = s->nesting_size == 0 ? NESTING_FIRST : s->nesting_size * 2;
        unsigned char *wider = realloc(s->nesting, size);
        if (wider == NULL) {
            return fail_full(s);
        }
        s->nesting = wider;
        s->nesting_size = size;
    }
    unsigned char bit = (unsigned char)(1U << (s->depth % BITS));
    unsigned char *byte = &s->nesting[s->depth / BITS];
    *byte = (unsigned char)(object ? *byte | bit : *byte & ~bit);
    s->depth++;
    s->at++;
    s->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
    return put(s, object ? '{' : '[');
}

static int leave(struct scan *s)
{
    char end = in_object(s) ? '}' : ']';
    s->depth--;
    s->at++;
    s->expect = EXPECT_REST;
    return put(s, end);
}

static int take_word(struct scan *s, const char *word)
{
    size_t len = strlen(word);
    if (s->text.len - s->at < len || memcmp(s->text.data + s->at, word, len) != 0) {
        return fail(s, "no JSON value");
    }
    s->at += len;
    return put_text(s, word);
}

static size_t skip_digits(struct ptc_text text, size_t at)
{
    while (at < text.len && text.data[at] >= '0' && text.data[at] <= '9') {
        at++;
    }
    return at;
}

/* Behind a number of JSON's grammar, or where it stood: none. */
static size_t find_number_end(struct ptc_text text, size_t start)
{
    size_t at = start;
    if (at < text.len && text.data[at] == '-') {
        at++;
    }
    size_t whole = skip_digits(text, at);
    if (whole == at || (text.data[at] == '0' && whole > at + 1)) {
        return start;
    }
    at = whole;
    if (at < text.len && text.data[at] == '.') {
        size_t part = skip_digits(text, at + 1);
        if (part == at + 1) {
            return start;
        }
        at = part;
    }
    if (at < text.len && (text.data[at] == 'e' || text.data[at] == 'E')) {
        at++;
        if (at < text.len && (text.data[at] == '+' || text.data[at] == '-')) {
            at++;
        }
        size_t exponent = skip_digits(text, at);
        return exponent == at ? start : exponent;
    }
    return at;
}

static int take_number(struct scan *s)
{
    size_t end = find_number_end(s->text, s->at);
    if (end == s->at) {
        return fail(s, "no JSON value");
    }
    struct ptc_text number = {s->text.data + s->at, end - s->at};
    switch (ptc_json_number(number, s->out)) {
    case PTC_NUMBER_OK: break;
    case PTC_NUMBER_MINUS_ZERO: return fail(s, "-0");
    case PTC_NUMBER_TOO_LARGE: return fail(s, "a number that is not finite");
    default: return fail_full(s);
    }
    s->at = end;
    return 0;
}

static int take_string(struct scan *s)
{
    switch (ptc_json_string(s->text, &s->at, s->out)) {
    case PTC_STRING_OK: return 0;
    case PTC_STRING_BAD: return fail(s, "a string that is none");
    default: return fail_full(s);
    }
}

static int take_value(struct scan *s)
{
    char c = s->text.data[s->at];
    s->expect = EXPECT_REST;
    switch (c) {
    case '{': return enter(s, true);
    case '[': return enter(s, false);
    case '"': return take_string(s);
    case 't': return take_word(s, "true");
    case 'f': return take_word(s, "false");
    case 'n': return take_word(s, "null");
    default: return take_number(s);
    }
}

static void skip_space(struct scan *s)
{
    while (s->at < s->text.len && s->text.data[s->at] != '\0' &&
           strchr(" \t\n\r", s->text.data[s->at]) != NULL) {
        s->at++;
    }
}

static int take_key(struct scan *s)
{
    if (s->text.data[s->at] != '"') {
        return fail(s, "no key");
    }
    if (take_string(s) != 0) {
        return -1;
    }
    skip_space(s);
    if (s->at >= s->text.len || s->text.data[s->at] != ':') {
        return fail(s, "no colon");
    }
    s->at++;
    s->expect = EXPECT_VALUE;
    return put(s, ':');
}

static int take_rest(struct scan *s)
{
    char c = s->text.data[s->at];
    if (c == (in_object(s) ? '}' : ']')) {
        return leave(s);
    }
    if (c != ',') {
        return fail(s, "no comma");
    }
    s->at++;
    s->expect = in_object(s) ? EXPECT_KEY : EXPECT_VALUE;
    return put(s, ',');
}

static int take_next(struct scan *s)
{
    char c = s->text.data[s->at];
    switch (s->expect) {
    case EXPECT_FIRST_VALUE: return c == ']' ? leave(s) : take_value(s);
    case EXPECT_FIRST_KEY: return c == '}' ? leave(s) : take_key(s);
    case EXPECT_KEY: return take_key(s);
    case EXPECT_REST: return take_rest(s);
    default: return take_value(s);
    }
}

/* One value from `at` on; `at` is behind it then. */
static int scan_value(struct scan *s)
{
    s->expect = EXPECT_VALUE;
    s->depth = 0;
    do {
        skip_space(s);
        if (s->at >= s->text.len) {
            return fail(s, "an end too soon");
        }
        if (take_next(s) != 0) {
            return -1;
        }
    } while (s->depth > 0 || s->expect != EXPECT_REST);
    return 0;
}

static int scan_all(struct scan *s)
{
    int result = scan_value(s);
    if (result == 0) {
        skip_space(s);
        result = s->at == s->text.len ? 0 : fail(s, "more than one value");
    }
    free(s->nesting);
    return result;
}

static int tell(const struct scan *s, struct error *err)
{
    if (s->full) {
        return error_set(err, ERROR_OUTPUT_LIMIT, "the JSON value is too long");
    }
    return error_set(err, ERROR_PTC_INVALID_REQUEST, "not lossless JSON: %s at byte %zu", s->fault,
                     s->at);
}

int ptc_json_check(const char *data, size_t len, struct error *err)
{
    struct scan s = {.text = {data, len}};
    return scan_all(&s) == 0 ? 0 : tell(&s, err);
}

int ptc_json_write(const char *data, size_t len, struct buf *out, struct error *err)
{
    struct scan s = {.text = {data, len}, .out = out};
    size_t before = out->len;
    if (scan_all(&s) == 0) {
        return 0;
    }
    out->len = before;
    if (out->data != NULL) {
        out->data[before] = '\0';
    }
    return tell(&s, err);
}

/* --- members --- */

/* Key and value of the member at `at`, which ends before ',' or '}'. */
static int scan_member(struct scan *s, struct ptc_text *key, struct ptc_text *value)
{
    skip_space(s);
    size_t start = s->at;
    if (s->at >= s->text.len || s->text.data[s->at] != '"' || take_string(s) != 0) {
        return -1;
    }
    *key = (struct ptc_text){s->text.data + start, s->at - start};
    skip_space(s);
    if (s->at >= s->text.len || s->text.data[s->at] != ':') {
        return -1;
    }
    s->at++;
    skip_space(s);
    start = s->at;
    if (scan_value(s) != 0) {
        return -1;
    }
    *value = (struct ptc_text){s->text.data + start, s->at - start};
    skip_space(s);
    return s->at < s->text.len ? 0 : -1;
}

static int each_member(struct scan *s, ptc_json_member_fn fn, void *ctx)
{
    skip_space(s);
    if (s->at >= s->text.len || s->text.data[s->at] != '{') {
        return -1;
    }
    s->at++;
    skip_space(s);
    if (s->at < s->text.len && s->text.data[s->at] == '}') {
        return 0;
    }
    for (;;) {
        struct ptc_text key;
        struct ptc_text value;
        if (scan_member(s, &key, &value) != 0 || fn(ctx, key, value) != 0) {
            return -1;
        }
        char c = s->text.data[s->at++];
        if (c != ',') {
            return c == '}' ? 0 : -1;
        }
    }
}

int ptc_json_members(const char *data, size_t len, ptc_json_member_fn fn, void *ctx)
{
    struct scan s = {.text = {data, len}};
    int result = each_member(&s, fn, ctx);
    free(s.nesting);
    return result;
}
