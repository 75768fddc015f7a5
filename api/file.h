/* Files of a workspace on the wire. Pure; any thread. */
#ifndef EXECHOST_API_FILE_H
#define EXECHOST_API_FILE_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

enum { API_PATH_MAX = 4095, API_PATH_NAME_MAX = 255 };

/* A path below the workspace, from `path` (UTF-8) or `path_base64` (any bytes; the URL-safe
 * alphabet too), of which one may be NULL; both NULL is "". "." and empty components are dropped;
 * "", the workspace itself, is allowed. Faults are ERROR_INVALID_REQUEST naming "?path" or
 * "?pathBase64": absolute, "..", too long, NUL. */
int api_path_decode(const char *path, const char *path_base64, char out[API_PATH_MAX + 1],
                    struct error *err) WARN_UNUSED;

/* Three or four octal digits, 0000..0777. ERROR_INVALID_REQUEST naming "?mode". */
int api_file_mode_decode(const char *text, unsigned *mode, struct error *err) WARN_UNUSED;

/* A view; borrows everything. */
struct api_file {
    const char *path;   /* any bytes; as base64 together with the target where either is no UTF-8 */
    const char *type;   /* "file", "directory", "symlink", "special" */
    const char *target; /* NULL: no link */
    int64_t size;
    unsigned mode;
    int64_t mtime_ms; /* wall clock */
};

/* Returns owned; NULL when memory is out. */
json_t *api_file_encode(const struct api_file *view);

#endif
