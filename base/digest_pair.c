#include "base/digest_pair.h"

#include "base/sha256_blocks.h"

#include <string.h>

enum { BLOCK = DIGEST_PAIR_BLOCK, LENGTH_BYTES = 8 };
enum which { WHOLE, PART, BOTH };

struct digest_pair {
    struct digest *plain[BOTH]; /* owned; NULL: the members below do it */
    struct sha256_state state[BOTH];
    uint64_t bytes[BOTH];
    unsigned char rest[BLOCK]; /* of both: parts end where blocks do */
    size_t rest_len;
};

struct digest_pair *digest_pair_new(bool plain)
{
    struct digest_pair *p = calloc(1, sizeof(*p));

    if (p == NULL) {
        abort();
    }
    for (int i = 0; i < BOTH; i++) {
        if (plain || !sha256_blocks_available()) {
            p->plain[i] = digest_new();
        } else {
            p->state[i] = SHA256_STATE_INIT;
        }
    }
    return p;
}

void digest_pair_free(struct digest_pair *p)
{
    if (p != NULL) {
        digest_free(p->plain[WHOLE]);
        digest_free(p->plain[PART]);
        free(p);
    }
}

/* --- bytes --- */

static void take_blocks(struct digest_pair *p, const unsigned char *data, size_t len)
{
    sha256_blocks_both(&p->state[WHOLE], &p->state[PART], data, len / BLOCK);
}

/* What is left of a block goes with the bytes that follow. */
static void take(struct digest_pair *p, const unsigned char *data, size_t len)
{
    if (p->rest_len > 0) {
        size_t room = BLOCK - p->rest_len;
        size_t n = len < room ? len : room;

        memcpy(p->rest + p->rest_len, data, n);
        p->rest_len += n;
        data += n;
        len -= n;
        if (p->rest_len < BLOCK) {
            return;
        }
        take_blocks(p, p->rest, BLOCK);
        p->rest_len = 0;
    }
    take_blocks(p, data, len);
    p->rest_len = len % BLOCK;
    memcpy(p->rest, data + len - p->rest_len, p->rest_len);
}

void digest_pair_update(struct digest_pair *p, const void *data, size_t len)
{
    if (p->plain[WHOLE] != NULL) {
        digest_update(p->plain[WHOLE], data, len);
        digest_update(p->plain[PART], data, len);
        return;
    }
    if (len == 0) {
        return;
    }
    if (p->bytes[PART] == 0 && p->rest_len > 0) {
        abort(); /* the last part ended within a block */
    }
    p->bytes[WHOLE] += len;
    p->bytes[PART] += len;
    take(p, data, len);
}

/* --- ends --- */

/* The rest, a bit, zeros and the length in bits. */
static void end(struct digest_pair *p, enum which which, char out[DIGEST_TEXT_SIZE])
{
    unsigned char last[2 * BLOCK] = {0};
    size_t len = p->rest_len < BLOCK - LENGTH_BYTES ? BLOCK : 2 * BLOCK;
    struct sha256_state unused = SHA256_STATE_INIT;
    unsigned char raw[DIGEST_BYTES];

    memcpy(last, p->rest, p->rest_len);
    last[p->rest_len] = 0x80;
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        last[len - 1 - i] = (unsigned char)(p->bytes[which] * 8 >> (8 * i));
    }
    sha256_blocks_both(&p->state[which], &unused, last, len / BLOCK);
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        raw[i] = (unsigned char)(p->state[which].words[i / 4] >> (24 - 8 * (i % 4)));
    }
    digest_format(raw, out);
}

void digest_pair_part(struct digest_pair *p, char out[DIGEST_TEXT_SIZE])
{
    if (p->plain[PART] != NULL) {
        digest_final(p->plain[PART], out);
        digest_free(p->plain[PART]);
        p->plain[PART] = digest_new();
        return;
    }
    end(p, PART, out);
    p->state[PART] = SHA256_STATE_INIT;
    p->bytes[PART] = 0;
}

void digest_pair_whole(struct digest_pair *p, char out[DIGEST_TEXT_SIZE])
{
    if (p->plain[WHOLE] != NULL) {
        digest_final(p->plain[WHOLE], out);
        return;
    }
    end(p, WHOLE, out);
}
