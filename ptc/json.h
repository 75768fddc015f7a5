/* JSON as text: values that the service carries without looking into them. A tokenizer checks them
 * in one pass without recursion (any depth) and hands out the places of members; nothing is turned
 * into numbers or strings of C and back. Owns nothing; any thread. */
#ifndef EXECHOST_PTC_JSON_H
#define EXECHOST_PTC_JSON_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A piece of text. */
struct ptc_text {
    const char *data;
    size_t len;
};

/* Whether all of it is one lossless JSON value: RFC 8259 in UTF-8, no -0 in any spelling, no number
 * beyond binary64. Lone surrogates are fine as \udNNN escapes. -1 with ERROR_PTC_INVALID_REQUEST;
 * the detail says what and at which byte. */
int ptc_json_check(const char *data, size_t len, struct error *err) WARN_UNUSED;

/* Appends the value in its one form, the one that JSON.stringify makes of what JSON.parse reads: no
 * white space, numbers as ECMAScript prints them, strings with the shortest escapes, lone
 * surrogates as \udNNN. Checks as ptc_json_check does. Fails with ERROR_OUTPUT_LIMIT when `out` is
 * full. */
int ptc_json_write(const char *data, size_t len, struct buf *out, struct error *err) WARN_UNUSED;

/* The members of an object that is checked already: calls `fn` with the key's text (quotes and
 * escapes as they stand) and the value's. Not entered any deeper. -1 when it is no object or when
 * `fn` says other than 0. */
typedef int (*ptc_json_member_fn)(void *ctx, struct ptc_text key, struct ptc_text value);
int ptc_json_members(const char *data, size_t len, ptc_json_member_fn fn, void *ctx) WARN_UNUSED;

/* Appends UTF-8 as a JSON string with the shortest escapes. Bytes that are no UTF-8 become U+FFFD.
 */
int ptc_json_quote(struct ptc_text text, struct buf *out) WARN_UNUSED;

/* The body of an answer to a binding call: {"ok": true, "value": …} (value may be left out) or
 * {"ok": false, "message": "…"}, no further members, each once. `payload` is a piece of `data`: the
 * value's text (empty: none) or the message as a JSON string. ERROR_PTC_INVALID_REQUEST with the
 * field's pointer. */
struct ptc_answer {
    bool ok;
    struct ptc_text payload;
};
int ptc_json_answer(const char *data, size_t len, struct ptc_answer *out,
                    struct error *err) WARN_UNUSED;

#endif
