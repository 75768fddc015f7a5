/* Two digests of the same bytes are those of each alone, by the processor's instructions and
 * without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest_pair.h"

#include <string.h>

enum { SIZE = 4096, PART_BYTES = 5 * DIGEST_PAIR_BLOCK };

static unsigned char content[SIZE];

static void digest_of(size_t first, size_t len, char out[DIGEST_TEXT_SIZE])
{
    struct digest *d = digest_new();

    digest_update(d, content + first, len);
    digest_final(d, out);
    digest_free(d);
}

/* `len` bytes in pieces of `step`, in parts of PART_BYTES. */
static void check_pieces(bool plain, size_t len, size_t step)
{
    struct digest_pair *p = digest_pair_new(plain);
    char expected[DIGEST_TEXT_SIZE];
    char found[DIGEST_TEXT_SIZE];

    for (size_t part = 0; part < len; part += PART_BYTES) {
        size_t end = len - part < PART_BYTES ? len : part + PART_BYTES;

        for (size_t at = part; at < end; at += step) {
            digest_pair_update(p, content + at, end - at < step ? end - at : step);
        }
        digest_pair_part(p, found);
        digest_of(part, end - part, expected);
        assert_string_equal(found, expected);
    }
    digest_pair_whole(p, found);
    digest_of(0, len, expected);
    assert_string_equal(found, expected);
    digest_pair_free(p);
}

static void each_length(void **state)
{
    (void)state;
    for (size_t len = 0; len <= 4 * PART_BYTES; len++) {
        check_pieces(false, len, SIZE);
        check_pieces(true, len, SIZE);
    }
}

static void each_piece(void **state)
{
    (void)state;
    for (size_t step = 1; step <= 3 * DIGEST_PAIR_BLOCK; step++) {
        check_pieces(false, SIZE, step);
        check_pieces(true, SIZE, step);
        check_pieces(false, SIZE - 11, step);
    }
}

static void nothing_at_all(void **state)
{
    static const char empty[] =
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct digest_pair *p = digest_pair_new(plain != 0);
        char found[DIGEST_TEXT_SIZE];

        digest_pair_update(p, content, 0);
        digest_pair_part(p, found);
        assert_string_equal(found, empty);
        digest_pair_whole(p, found);
        assert_string_equal(found, empty);
        digest_pair_free(p);
    }
    digest_pair_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_length),
        cmocka_unit_test(each_piece),
        cmocka_unit_test(nothing_at_all),
    };
    uint32_t x = 1;

    for (size_t i = 0; i < SIZE; i++) {
        x = x * 1664525 + 1013904223;
        content[i] = (unsigned char)(x >> 24);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
