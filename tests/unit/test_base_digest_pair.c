/* Two digests of the same bytes are those of each alone, however they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest_pair.h"

#include <string.h>

enum { SIZE = 40 * 1000, PART_BYTES = 10 * 1000 };

static unsigned char content[SIZE];

static void digest_of(size_t first, size_t len, char out[DIGEST_TEXT_SIZE])
{
    struct digest *d = digest_new();

    digest_update(d, content + first, len);
    digest_final(d, out);
    digest_free(d);
}

static void feed(struct digest_pair *p, size_t at, size_t len)
{
    memcpy(digest_pair_buffer(p), content + at, len);
    digest_pair_took(p, len);
}

/* `len` bytes in pieces of `step`, in parts of PART_BYTES. */
static void check_pieces(size_t len, size_t step)
{
    struct digest_pair *p = digest_pair_new();
    char expected[DIGEST_TEXT_SIZE];
    char found[DIGEST_TEXT_SIZE];

    for (size_t part = 0; part < len; part += PART_BYTES) {
        size_t end = len - part < PART_BYTES ? len : part + PART_BYTES;

        for (size_t at = part; at < end; at += step) {
            feed(p, at, end - at < step ? end - at : step);
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

static void each_piece(void **state)
{
    (void)state;
    for (size_t step = 1; step <= SIZE; step = step * 3 + 1) {
        check_pieces(SIZE, step);
        check_pieces(SIZE - 11, step);
        check_pieces(PART_BYTES, step);
    }
}

/* Many times around the ring of buffers, each of them full. */
static void whole_buffers(void **state)
{
    struct digest_pair *p = digest_pair_new();
    struct digest *alone = digest_new();
    char expected[DIGEST_TEXT_SIZE];
    char found[DIGEST_TEXT_SIZE];

    (void)state;
    for (int i = 0; i < 100; i++) {
        unsigned char *buffer = digest_pair_buffer(p);

        memset(buffer, i, DIGEST_PAIR_BUFFER);
        digest_update(alone, buffer, DIGEST_PAIR_BUFFER);
        digest_pair_took(p, DIGEST_PAIR_BUFFER);
    }
    digest_pair_part(p, found);
    digest_final(alone, expected);
    assert_string_equal(found, expected);
    digest_pair_whole(p, found);
    assert_string_equal(found, expected);
    digest_free(alone);
    digest_pair_free(p);
}

static void nothing_at_all(void **state)
{
    static const char empty[] =
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    struct digest_pair *p = digest_pair_new();
    char found[DIGEST_TEXT_SIZE];

    (void)state;
    (void)digest_pair_buffer(p);
    digest_pair_took(p, 0);
    digest_pair_part(p, found);
    assert_string_equal(found, empty);
    digest_pair_whole(p, found);
    assert_string_equal(found, empty);
    digest_pair_free(p);
}

static void given_up_midway(void **state)
{
    (void)state;
    for (int pieces = 0; pieces < 8; pieces++) {
        struct digest_pair *p = digest_pair_new();

        for (int i = 0; i < pieces; i++) {
            feed(p, 0, SIZE);
        }
        (void)digest_pair_buffer(p);
        digest_pair_free(p);
    }
    digest_pair_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece),
        cmocka_unit_test(whole_buffers),
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(given_up_midway),
    };
    uint32_t x = 1;

    for (size_t i = 0; i < SIZE; i++) {
        x = x * 1664525 + 1013904223;
        content[i] = (unsigned char)(x >> 24);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
