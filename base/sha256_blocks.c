#include "base/sha256_blocks.h"

const struct sha256_state SHA256_STATE_INIT = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

enum {
    GROUPS = 16, /* of four rounds */
    BLOCK_BYTES = 64,
    HAS_SSSE3 = 1 << 9,
    HAS_SSE41 = 1 << 19,
    HAS_SHA = 1 << 29,
};

static const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

bool sha256_blocks_available(void)
{
    unsigned a, b, c, d;

    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & HAS_SSSE3) == 0 || (c & HAS_SSE41) == 0) {
        return false;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & HAS_SHA) != 0;
}

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

/* As the instructions take them: (a b e f) and (c d g h), the first in the highest word. */
struct halves {
    __m128i abef;
    __m128i cdgh;
};

WITH_SHA static inline struct halves load(const struct sha256_state *state)
{
    const uint32_t *w = state->words;

    return (struct halves){
        _mm_set_epi32((int)w[0], (int)w[1], (int)w[4], (int)w[5]),
        _mm_set_epi32((int)w[2], (int)w[3], (int)w[6], (int)w[7]),
    };
}

WITH_SHA static inline void store(struct sha256_state *state, const struct halves *h)
{
    uint32_t abef[4];
    uint32_t cdgh[4];

    _mm_storeu_si128((__m128i *)abef, h->abef);
    _mm_storeu_si128((__m128i *)cdgh, h->cdgh);
    *state = (struct sha256_state){
        {abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]}};
}

/* Four rounds. */
WITH_SHA static inline void turn(struct halves *h, __m128i words)
{
    h->cdgh = _mm_sha256rnds2_epu32(h->cdgh, h->abef, words);
    h->abef = _mm_sha256rnds2_epu32(h->abef, h->cdgh, _mm_shuffle_epi32(words, 0x0e));
}

/* The four words of the schedule that follow upon those sixteen. */
WITH_SHA static inline __m128i next_words(const __m128i w[4])
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));

    return _mm_sha256msg2_epu32(sum, w[3]);
}

WITH_SHA static inline void block(struct halves *a, struct halves *b, const unsigned char *data)
{
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const struct halves before_a = *a;
    const struct halves before_b = *b;
    __m128i w[4];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data + i), order);
    }
#pragma GCC unroll 16
    for (int i = 0; i < GROUPS; i++) {
        __m128i constants = _mm_loadu_si128((const __m128i *)CONSTANTS + i);
        __m128i words = _mm_add_epi32(w[0], constants);
        __m128i next = i < GROUPS - 4 ? next_words(w) : w[0];

        turn(a, words);
        turn(b, words);
        w[0] = w[1];
        w[1] = w[2];
        w[2] = w[3];
        w[3] = next;
    }
    a->abef = _mm_add_epi32(a->abef, before_a.abef);
    a->cdgh = _mm_add_epi32(a->cdgh, before_a.cdgh);
    b->abef = _mm_add_epi32(b->abef, before_b.abef);
    b->cdgh = _mm_add_epi32(b->cdgh, before_b.cdgh);
}

WITH_SHA void sha256_blocks_both(struct sha256_state *a, struct sha256_state *b,
                                 const unsigned char *data, size_t count)
{
    struct halves ha = load(a);
    struct halves hb = load(b);

    for (; count > 0; count--, data += BLOCK_BYTES) {
        block(&ha, &hb, data);
    }
    store(a, &ha);
    store(b, &hb);
}

#else

bool sha256_blocks_available(void)
{
    return false;
}

void sha256_blocks_both(struct sha256_state *a, struct sha256_state *b, const unsigned char *data,
                        size_t count)
{
    (void)a;
    (void)b;
    (void)data;
    (void)count;
}

#endif
