/* What the native host needs of the machine: each looked for by trying it, with what to do where it
 * is missing. Doctor prints all of it; the host is unavailable with the first that is not met,
 * rather than running with less. Changes nothing that stays. Any thread; blocks for as long as the
 * kernel takes to make and drop namespaces and a control group. */
#ifndef EXECHOST_HOST_NATIVE_NEEDS_H
#define EXECHOST_HOST_NATIVE_NEEDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct native_needs_config {
    const char *images;      /* where images are kept: it or a directory above it exists */
    uint32_t host_uid_first; /* the range of user and group ids, one for each execution */
    uint32_t host_uid_count;
};

struct native_need {
    const char *name; /* static: "user namespaces" */
    bool met;
    char text[192];  /* what was found */
    const char *fix; /* static; NULL where it is met */
};

enum { NATIVE_NEEDS_MAX = 8 };

struct native_needs {
    struct native_need items[NATIVE_NEEDS_MAX];
    size_t count;
};

void native_needs_look(const struct native_needs_config *config, struct native_needs *out);
/* ERROR_HOST_UNAVAILABLE: the first that is not met, and what to do. */
int native_needs_check(const struct native_needs_config *config, struct error *err) WARN_UNUSED;

#endif
