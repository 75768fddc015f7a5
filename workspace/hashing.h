/* SHA-256 of a file whose holes are never seen as data: fills them with zeros. Embedded; one thread
 * at a time. */
#ifndef EXECHOST_WORKSPACE_HASHING_H
#define EXECHOST_WORKSPACE_HASHING_H

#include "base/digest.h"

#include <stdint.h>

struct workspace_hashing {
    struct digest *digest; /* owned; NULL between files */
    int64_t done;
};

void workspace_hashing_begin(struct workspace_hashing *h);
/* `offset` is not below what was hashed already. */
void workspace_hashing_add(struct workspace_hashing *h, int64_t offset, const void *data,
                           size_t len);
void workspace_hashing_end(struct workspace_hashing *h, int64_t size, char out[DIGEST_TEXT_SIZE]);
void workspace_hashing_done(struct workspace_hashing *h);

#endif
