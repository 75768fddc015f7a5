/* Directories in requests. Looks at the file system, so it may block shortly. Any thread. */
#ifndef EXECHOST_PTC_PLACES_H
#define EXECHOST_PTC_PLACES_H

#include "ptc/spec.h"

/* Where a private directory shows. */
#define PTC_PRIVATE_WORKSPACE "/workspace"

/* The named root without links, below one of `roots`. Returns a new string; NULL with
 * ERROR_PTC_INVALID_REQUEST. */
json_t *ptc_places_root(json_t *wanted, const char *const *roots, struct error *err) WARN_UNUSED;
/* The directory to start in: `wanted` or, when that is NULL, the workspace. Mode and workspace_root
 * of `spec` are set. As above. */
json_t *ptc_places_cwd(json_t *wanted, const struct ptc_spec *spec, struct error *err) WARN_UNUSED;

#endif
