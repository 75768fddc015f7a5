/* Two SHA-256 of the same bytes: of all of them, and of each part of them. Where the processor has
 * instructions for it, both cost hardly more than one: they share the blocks' schedules, and each
 * works while the other waits. One thread at a time per object. */
#ifndef EXECHOST_BASE_DIGEST_PAIR_H
#define EXECHOST_BASE_DIGEST_PAIR_H

#include "base/digest.h"

#include <stdbool.h>

enum { DIGEST_PAIR_BLOCK = 64 }; /* every part but the last has a multiple of so many bytes */

struct digest_pair; /* opaque */

/* `plain`: without such instructions, as on a processor that has none. Returns owned; aborts when
 * there is no memory. */
struct digest_pair *digest_pair_new(bool plain);
void digest_pair_free(struct digest_pair *p); /* NULL is fine */
void digest_pair_update(struct digest_pair *p, const void *data, size_t len);
/* "sha256:…" of the part that ends here; the next one begins. */
void digest_pair_part(struct digest_pair *p, char out[DIGEST_TEXT_SIZE]);
/* "sha256:…" of everything; the object can only be freed afterwards. */
void digest_pair_whole(struct digest_pair *p, char out[DIGEST_TEXT_SIZE]);

#endif
