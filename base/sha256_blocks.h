/* The compression of SHA-256 by instructions of x86-64, of two messages that have the same blocks
 * at the same places. Inside of digest_pair; any thread. */
#ifndef EXECHOST_BASE_SHA256_BLOCKS_H
#define EXECHOST_BASE_SHA256_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sha256_state {
    uint32_t words[8]; /* a to h */
};
extern const struct sha256_state SHA256_STATE_INIT;

bool sha256_blocks_available(void);
/* Only where it is available. `count` blocks of 64 bytes go into both states. */
void sha256_blocks_both(struct sha256_state *a, struct sha256_state *b, const unsigned char *data,
                        size_t count);

#endif
