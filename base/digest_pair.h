/* Two SHA-256 of the same bytes: of all of them, and of each part of them. The caller's thread
 * hashes the part; a thread of the object's own hashes the whole, from the same buffers, at most a
 * few of them behind. One thread at a time per object. */
#ifndef EXECHOST_BASE_DIGEST_PAIR_H
#define EXECHOST_BASE_DIGEST_PAIR_H

#include "base/digest.h"

enum { DIGEST_PAIR_BUFFER = 256 * 1024 }; /* bytes */

struct digest_pair; /* opaque */

struct digest_pair *digest_pair_new(void);    /* returns owned; aborts when there is no memory */
void digest_pair_free(struct digest_pair *p); /* NULL is fine */
/* Where the next bytes go, room for DIGEST_PAIR_BUFFER; the object's, until `took`. */
void *digest_pair_buffer(struct digest_pair *p);
/* So many bytes are in the buffer that was given last. */
void digest_pair_took(struct digest_pair *p, size_t len);
/* "sha256:…" of the part that ends here; the next one begins. */
void digest_pair_part(struct digest_pair *p, char out[DIGEST_TEXT_SIZE]);
/* "sha256:…" of everything; the object can only be freed afterwards. */
void digest_pair_whole(struct digest_pair *p, char out[DIGEST_TEXT_SIZE]);

#endif
