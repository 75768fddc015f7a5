/* SHA-256 (libcrypto). One thread at a time per object. */
#ifndef EXECHOST_BASE_DIGEST_H
#define EXECHOST_BASE_DIGEST_H

#include "base/macros.h"

#include <stdbool.h>

enum { DIGEST_TEXT_SIZE = 7 + 64 + 1 }; /* "sha256:" and 64 lowercase hex digits */

struct digest; /* opaque */

struct digest *digest_new(void); /* returns owned; aborts when libcrypto has no SHA-256 */
void digest_free(struct digest *d);
void digest_update(struct digest *d, const void *data, size_t len);
/* "sha256:…"; the object can only be freed afterwards. */
void digest_final(struct digest *d, char out[DIGEST_TEXT_SIZE]);

/* "sha256:" + 64 lowercase hex, nothing else. */
bool digest_is_valid(const char *text);

#endif
