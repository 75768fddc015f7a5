#include "workspace/names.h"

#include <string.h>
#include <sys/random.h>

void workspace_names_init(struct workspace_names *n)
{
    memset(n, 0, sizeof(*n));
    if (getrandom(n->key, sizeof(n->key), 0) != (ssize_t)sizeof(n->key)) {
        abort();
    }
}

void workspace_names_done(struct workspace_names *n)
{
    free(n->slots);
    n->slots = NULL;
    n->size = n->used = 0;
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3: senders choose the names, so the hash has to be keyed. */
static uint64_t hash_name(const uint64_t key[2], const char *data, size_t len)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU,
                     key[0] ^ 0x6c7967656e657261U, key[1] ^ 0x7465646279746573U};
    for (size_t i = 0;; i += 8) {
        uint64_t word = 0;
        size_t take = len - i < 8 ? len - i : 8;
        memcpy(&word, data + i, take);
        if (take < 8) {
            word |= (uint64_t)len << 56;
        }
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
        if (take < 8) {
            break;
        }
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot that holds this hash, or the free one where it belongs. */
static size_t place(const uint64_t *slots, size_t size, uint64_t hash)
{
    size_t i = (hash >> 3) & (size - 1);
    while (slots[i] != 0 && slots[i] >> 3 != hash >> 3) {
        i = (i + 1) & (size - 1);
    }
    return i;
}

static int grow(struct workspace_names *n)
{
    size_t size = n->size == 0 ? 64 : n->size * 2;
    uint64_t *slots = calloc(size, sizeof(*slots));
    if (slots == NULL) {
        return -1;
    }
    for (size_t i = 0; i < n->size; i++) {
        if (n->slots[i] != 0) {
            slots[place(slots, size, n->slots[i])] = n->slots[i];
        }
    }
    free(n->slots);
    n->slots = slots;
    n->size = size;
    return 0;
}

enum workspace_names_kind workspace_names_find(const struct workspace_names *n, const char *path,
                                               size_t len)
{
    if (n->size == 0) {
        return WORKSPACE_NAMES_NONE;
    }
    size_t i = place(n->slots, n->size, hash_name(n->key, path, len));
    return (enum workspace_names_kind)(n->slots[i] & 7);
}

int workspace_names_add(struct workspace_names *n, const char *path, size_t len,
                        enum workspace_names_kind kind)
{
    if (n->used * 4 >= n->size * 3 && grow(n) != 0) {
        return -1;
    }
    uint64_t hash = hash_name(n->key, path, len);
    n->slots[place(n->slots, n->size, hash)] = (hash & ~UINT64_C(7)) | (uint64_t)kind;
    n->used++;
    return 0;
}
