/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Owns nothing;
 * any thread. */
#ifndef EXECHOST_BASE_UTF8_H
#define EXECHOST_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes from the start are valid; `len` when all of them are. NUL is a valid byte. */
size_t utf8_valid_prefix(const char *data, size_t len);

bool utf8_is_valid(const char *data, size_t len);

/* Where to cut so that at most `max` bytes stay and no code point that was whole is split. Bytes
 * that are no UTF-8 anyway are cut at `max`. */
size_t utf8_cut(const char *data, size_t len, size_t max);

/* Replaces every byte that is no part of valid UTF-8 by '?'. */
void utf8_repair(char *data, size_t len);

#endif
