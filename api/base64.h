/* Base64 (RFC 4648). Pure; any thread. */
#ifndef EXECHOST_API_BASE64_H
#define EXECHOST_API_BASE64_H

#include "base/macros.h"

#include <stddef.h>

/* Standard alphabet with padding. Returns owned text, NULL when memory is out. */
char *base64_encode(const void *data, size_t len, size_t *text_len) WARN_UNUSED;
/* Strict: standard alphabet, padding, no spaces, unused bits zero; -1 otherwise or when memory is
 * out.
 * `*out` is owned and never NULL on success. */
int base64_decode(const char *text, size_t text_len, char **out, size_t *len) WARN_UNUSED;

#endif
