/* Just enough JSON output for the manifest and the file list: compact, the same bytes for the same
 * value, reals as the shortest text that reads back equal. Owns nothing; any thread. Each function
 * returns 0, or -1 when the buffer's cap or memory is out. */
#ifndef EXECHOST_WORKSPACE_JSON_TEXT_H
#define EXECHOST_WORKSPACE_JSON_TEXT_H

#include "base/buf.h"

#include <jansson.h>

/* A string in quotes; `s` is UTF-8. */
int workspace_json_put_string(struct buf *out, const char *s, size_t len) WARN_UNUSED;
/* The bytes as base64 (with padding) in quotes. */
int workspace_json_put_base64(struct buf *out, const char *s, size_t len) WARN_UNUSED;
int workspace_json_put_real(struct buf *out, double value) WARN_UNUSED;
/* Any value; members keep their order. Deeper than WORKSPACE_JSON_DEPTH_MAX is refused. */
int workspace_json_put(struct buf *out, const json_t *value) WARN_UNUSED;

enum { WORKSPACE_JSON_DEPTH_MAX = 64 };

#endif
