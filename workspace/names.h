/* The set of names one stream has shown so far, with their types: what finds duplicates, names
 * through links and hard links to nothing. Keeps a keyed 61-bit hash per name, not the name: about
 * 20 bytes an entry at most, and a wrong answer has odds of about n/2⁶¹ that no sender can raise.
 * One thread at a time. */
#ifndef EXECHOST_WORKSPACE_NAMES_H
#define EXECHOST_WORKSPACE_NAMES_H

#include "base/macros.h"

#include <stdint.h>

enum workspace_names_kind {
    WORKSPACE_NAMES_NONE,
    WORKSPACE_NAMES_DIRECTORY,
    WORKSPACE_NAMES_FILE,
    WORKSPACE_NAMES_SYMLINK,
    WORKSPACE_NAMES_SPECIAL,
};

struct workspace_names {
    uint64_t key[2];
    uint64_t *slots; /* hash with the kind in the low three bits; 0 is free */
    size_t size;     /* a power of two, or 0 */
    size_t used;
};

#define _cleanup_names_ _cleanup_(workspace_names_done)

void workspace_names_init(struct workspace_names *n);
void workspace_names_done(struct workspace_names *n);

/* The first `len` bytes of `path`; WORKSPACE_NAMES_NONE when they were never added. */
enum workspace_names_kind workspace_names_find(const struct workspace_names *n, const char *path,
                                               size_t len);
/* The name is new. -1 when memory is out. */
int workspace_names_add(struct workspace_names *n, const char *path, size_t len,
                        enum workspace_names_kind kind) WARN_UNUSED;

#endif
