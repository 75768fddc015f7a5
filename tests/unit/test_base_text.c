/* Texts with a form of their own: times, ids, digests, UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/id.h"
#include "base/secret.h"
#include "base/utf8.h"

#include <string.h>

static void clock_formats_milliseconds(void **state)
{
    char text[CLOCK_TEXT_SIZE];

    (void)state;
    clock_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    clock_format(1795964400007, text);
    assert_string_equal(text, "2026-11-29T15:00:00.007Z");
    clock_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    clock_format(-5, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
}

static void clock_parses_rfc3339(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } GOOD[] = {
        {"2026-11-29T15:00:00.007Z", 1795964400007},
        {"2026-11-29T15:00:00Z", 1795964400000},
        {"2026-11-29t15:00:00z", 1795964400000},
        {"2026-11-29T16:30:00.5+01:30", 1795964400500},
        {"2026-11-29T13:00:00-02:00", 1795964400000},
        {"2026-11-29T15:00:00.123456789Z", 1795964400123},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"1970-01-01T00:00:00Z", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
        int64_t ms = -1;

        assert_int_equal(clock_parse(GOOD[i].text, &ms), 0);
        assert_int_equal(ms, GOOD[i].ms);
    }
}

static void clock_refuses_what_is_no_time(void **state)
{
    static const char *const BAD[] = {
        "",
        "2026",
        "2026-11-29",
        "2026-11-29T15:00Z",
        "2026-11-29 15:00:00Z",
        "2026-11-29T15:00:00",
        "2026-11-29T15:00:00.Z",
        "2026-11-29T15:00:00.1234567890Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-29T24:00:00Z",
        "2026-11-29T15:60:00Z",
        "2026-11-29T15:00:61Z",
        "2026-11-29T15:00:00+24:00",
        "2026-11-29T15:00:00+0100",
        "2026-11-29T15:00:00Z ",
        " 2026-11-29T15:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00",
        "+026-11-29T15:00:00Z",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        int64_t ms = 42;

        assert_int_equal(clock_parse(BAD[i], &ms), -1);
        assert_int_equal(ms, 42);
    }
}

static void clock_is_doubted_after_a_jump(void **state)
{
    struct clock_trust t = {0};
    int64_t wall = 1795964400000;
    int64_t year = 365LL * 24 * 3600 * 1000;

    (void)state;
    assert_true(clock_trust_ask(&t, wall, 1000));
    assert_true(clock_trust_ask(&t, wall + 60000, 61000));
    assert_true(clock_trust_ask(&t, wall + 120000 + 60000, 121000)); /* set right */
    assert_true(clock_trust_ask(&t, wall, 122000));                  /* back */
    assert_false(clock_trust_ask(&t, wall + year, 123000));
    assert_false(clock_trust_ask(&t, wall + year + 60000, 183000));
    assert_false(clock_trust_ask(&t, wall + year + 3599000, 123000 + 3599000));
    assert_true(clock_trust_ask(&t, wall + year + 3600000, 123000 + 3600000));
}

static void clock_round_trips(void **state)
{
    (void)state;
    for (int64_t ms = 1; ms < 253402300799999; ms += 86399999999) {
        char text[CLOCK_TEXT_SIZE];
        int64_t back;

        clock_format(ms, text);
        assert_int_equal(clock_parse(text, &back), 0);
        assert_int_equal(back, ms);
    }
    assert_true(clock_mono_us() / 1000 <= clock_mono_ms() + 1);
    assert_true(clock_wall_ms() > 1700000000000);
}

static void ids_are_long_valid_and_different(void **state)
{
    char first[ID_SIZE];
    char second[ID_SIZE];

    (void)state;
    id_generate("exec", first);
    id_generate("exec", second);
    assert_int_equal(strlen(first), strlen("exec-") + 26);
    assert_memory_equal(first, "exec-", 5);
    assert_true(id_is_valid(first));
    assert_string_not_equal(first, second);
    assert_int_equal(strspn(first + 5, "0123456789abcdefghijklmnopqrstuv"), 26);
}

static void ids_follow_their_pattern(void **state)
{
    static const char *const GOOD[] = {"a", "Z9", "job-17", "a.b_c-d", "0"};
    static const char *const BAD[] = {"", "-a", ".a", "_a", "a b", "a/b", "a\n", "\xC3\xA4", "a:"};
    char longest[ID_SIZE + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
        assert_true(id_is_valid(GOOD[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        assert_false(id_is_valid(BAD[i]));
    }
    memset(longest, 'x', sizeof(longest));
    longest[ID_MAX] = '\0';
    assert_true(id_is_valid(longest));
    longest[ID_MAX] = 'x';
    longest[ID_MAX + 1] = '\0';
    assert_false(id_is_valid(longest));
}

static void digest_is_sha256(void **state)
{
    char text[DIGEST_TEXT_SIZE];
    struct digest *d = digest_new();

    (void)state;
    digest_update(d, "a", 1);
    digest_update(d, "bc", 2);
    digest_final(d, text);
    digest_free(d);
    digest_free(NULL);
    assert_string_equal(text, "sha256:ba7816bf8f01cfea414140de5dae2223"
                              "b00361a396177a9cb410ff61f20015ad");
    assert_true(digest_is_valid(text));
    text[10] = 'A';
    assert_false(digest_is_valid(text));
    assert_false(digest_is_valid("sha256:"));
    assert_false(digest_is_valid("sha512:ba7816bf8f01cfea414140de5dae2223"
                                 "b00361a396177a9cb410ff61f20015ad"));
    assert_false(digest_is_valid("sha256:ba7816bf8f01cfea414140de5dae2223"
                                 "b00361a396177a9cb410ff61f20015ad0"));
}

static void utf8_validity(void **state)
{
    static const char *const GOOD[] = {"",
                                       "a",
                                       "\xC2\x80",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF"};
    static const char *const BAD[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xC2",
                                      "\xE0\x9F\xBF",
                                      "\xED\xA0\x80",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xE2\x82",
                                      "\xE2\x28\xA1",
                                      "\xFF"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
        assert_true(utf8_is_valid(GOOD[i], strlen(GOOD[i])));
    }
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        assert_false(utf8_is_valid(BAD[i], strlen(BAD[i])));
    }
    assert_int_equal(utf8_valid_prefix("ab\xFF", 3), 2);
    assert_true(utf8_is_valid("a\0b", 3));
}

static void utf8_cuts_between_code_points(void **state)
{
    static const char TEXT[] = "a\xE2\x82\xAC\xF0\x9F\x98\x80z"; /* a, 3 bytes, 4 bytes, z */
    static const size_t EXPECTED[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9, 9};

    (void)state;
    for (size_t max = 0; max < ARRAY_SIZE(EXPECTED); max++) {
        assert_int_equal(utf8_cut(TEXT, 9, max), EXPECTED[max]);
    }
    /* Bytes that are no code point anyway are cut where asked. */
    assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80\x80", 6, 4), 4);
    assert_int_equal(utf8_cut("ab\xE2\x82", 4, 3), 3);
}

static void utf8_repair_keeps_what_is_valid(void **state)
{
    char text[] = "\xFF"
                  "a\xE2\x82\xAC\xC3z\x80";

    (void)state;
    utf8_repair(text, strlen(text));
    assert_string_equal(text, "?a\xE2\x82\xAC?z?");
}

static void secret_like_names(void **state)
{
    static const char *const SECRET[] = {
        "GITHUB_TOKEN",    "MYTOKEN",   "API__KEY",  "KEY_API",   "AWS_ACCESS_KEY_ID",
        "SSH_PRIVATE_KEY", "DB_PASSWD", "PASS_WORD", "my_secret", "Credentials"};
    static const char *const PLAIN[] = {"PATH", "DATABASE_URL", "PASS", "AUTH", "KEY", ""};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(SECRET); i++) {
        assert_true(secret_name_like(SECRET[i], strlen(SECRET[i])));
    }
    for (size_t i = 0; i < ARRAY_SIZE(PLAIN); i++) {
        assert_false(secret_name_like(PLAIN[i], strlen(PLAIN[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_formats_milliseconds),
        cmocka_unit_test(clock_parses_rfc3339),
        cmocka_unit_test(clock_refuses_what_is_no_time),
        cmocka_unit_test(clock_is_doubted_after_a_jump),
        cmocka_unit_test(clock_round_trips),
        cmocka_unit_test(ids_are_long_valid_and_different),
        cmocka_unit_test(ids_follow_their_pattern),
        cmocka_unit_test(digest_is_sha256),
        cmocka_unit_test(utf8_validity),
        cmocka_unit_test(utf8_cuts_between_code_points),
        cmocka_unit_test(utf8_repair_keeps_what_is_valid),
        cmocka_unit_test(secret_like_names),
    };

    return cmocka_run_group_tests_name("base texts", tests, NULL, NULL);
}
