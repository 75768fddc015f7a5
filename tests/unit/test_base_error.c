/* The error type and the capped buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>

static void error_set_fills_code_and_detail(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(error_set(&err, ERROR_NOT_FOUND, "no %s", "job"), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_string_equal(err.detail, "no job");
    assert_string_equal(err.field, "");
    assert_int_equal(err.phase, PHASE_NONE);
}

static void error_set_again_resets_the_rest(void **state)
{
    struct error err = ERROR_INIT;
    struct error cause = ERROR_INIT;

    (void)state;
    error_set_field(&err, ERROR_INVALID_REQUEST, "/a", "bad");
    error_in_phase(&err, PHASE_CREATE);
    error_set(&cause, ERROR_RUNTIME, "deep");
    error_add_cause(&err, &cause);
    error_set(&err, ERROR_RUNTIME, "after: %s", err.detail);
    assert_string_equal(err.detail, "after: bad");
    assert_string_equal(err.field, "");
    assert_int_equal(err.phase, PHASE_NONE);
    assert_int_equal(err.cause_count, 0);
}

static void error_detail_is_cut_on_a_code_point(void **state)
{
    struct error err = ERROR_INIT;
    char text[ERROR_DETAIL_MAX * 2];

    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        size_t len = 0;

        memset(text, 'a', (size_t)shift);
        len = (size_t)shift;
        while (len + 4 < sizeof(text)) {
            memcpy(text + len, "\xF0\x9F\x98\x80", 4);
            len += 4;
        }
        text[len] = '\0';
        error_set(&err, ERROR_RUNTIME, "%s", text);
        assert_true(strlen(err.detail) > ERROR_DETAIL_MAX - 5);
        assert_true(utf8_is_valid(err.detail, strlen(err.detail)));
        assert_null(strchr(err.detail, '?'));
    }
}

static void error_detail_is_always_utf8(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    error_set(&err, ERROR_RUNTIME, "name \xFF\xC3;");
    assert_string_equal(err.detail, "name ??;");
}

static void error_errno_knows_a_full_disk(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    error_set_errno(&err, ERROR_INTERNAL, ENOSPC, "write %d", 1);
    assert_int_equal(err.code, ERROR_STORAGE_FULL);
    assert_string_equal(err.detail, "write 1: No space left on device");
    error_set_errno(&err, ERROR_INTERNAL, EDQUOT, "write");
    assert_int_equal(err.code, ERROR_STORAGE_FULL);
    error_set_errno(&err, ERROR_RUNTIME, ENOSPC, "write");
    assert_int_equal(err.code, ERROR_RUNTIME);
    error_set_errno(&err, ERROR_INTERNAL, EIO, "write");
    assert_int_equal(err.code, ERROR_INTERNAL);
}

static void error_causes_are_flattened_and_bounded(void **state)
{
    struct error err = ERROR_INIT;
    struct error middle = ERROR_INIT;
    struct error deep = ERROR_INIT;

    (void)state;
    error_set(&deep, ERROR_TIMEOUT, "deep");
    error_set(&middle, ERROR_RUNTIME, "middle");
    error_add_cause(&middle, &deep);
    error_set(&err, ERROR_RUNTIME, "top");
    error_add_cause(&err, &middle);
    assert_int_equal(err.cause_count, 2);
    assert_string_equal(err.causes[0].detail, "middle");
    assert_string_equal(err.causes[1].detail, "deep");
    assert_int_equal(err.causes[1].code, ERROR_TIMEOUT);
    error_add_cause(&err, &middle);
    assert_int_equal(err.cause_count, ERROR_CAUSES_MAX);
}

static void error_phase_is_set_once(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    error_set(&err, ERROR_RUNTIME, "x");
    assert_int_equal(error_in_phase(&err, PHASE_IMPORT), -1);
    error_in_phase(&err, PHASE_CREATE);
    assert_int_equal(err.phase, PHASE_IMPORT);
    assert_string_equal(error_phase_name(err.phase), "import");
    assert_null(error_phase_name(PHASE_NONE));
    assert_null(error_phase_name((enum error_phase)99));
}

static void error_names_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < ERROR_CODE_COUNT; i++) {
        const char *name = error_code_name((enum error_code)i);

        /* Two codes may have one name. */
        assert_string_equal(error_code_name(error_code_from_name(name)), name);
    }
    assert_int_equal(error_code_from_name("NO_SUCH_CODE"), ERROR_INTERNAL);
    assert_string_equal(error_code_name((enum error_code)999), "INTERNAL");
}

static void buf_grows_and_stays_terminated(void **state)
{
    _cleanup_buf_ struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    assert_string_equal(buf_str(&b), "");
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_addf(&b, "%04d", i), 0);
        assert_int_equal(b.data[b.len], '\0');
    }
    assert_int_equal(b.len, 4000);
    assert_memory_equal(b.data + 3996, "0999", 4);
    buf_consume(&b, 3996);
    assert_string_equal(buf_str(&b), "0999");
    buf_consume(&b, 100);
    assert_string_equal(buf_str(&b), "");
}

static void buf_refuses_more_than_its_cap_and_keeps_its_content(void **state)
{
    _cleanup_buf_ struct buf b;

    (void)state;
    buf_init(&b, 10);
    assert_int_equal(buf_add_str(&b, "12345678"), 0);
    assert_int_equal(buf_add_str(&b, "901"), -1);
    assert_int_equal(buf_addf(&b, "%d", 901), -1);
    assert_null(buf_reserve(&b, 3));
    assert_string_equal(buf_str(&b), "12345678");
    assert_int_equal(buf_add(&b, "\0x", 2), 0);
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "12345678\0x", 11);
    assert_int_equal(buf_add_char(&b, 'y'), -1);
}

static void buf_take_hands_everything_out(void **state)
{
    _cleanup_free_ char *first = NULL;
    _cleanup_free_ char *second = NULL;
    struct buf b;
    size_t len;

    (void)state;
    buf_init(&b, 100);
    assert_int_equal(buf_add_str(&b, "abc"), 0);
    first = buf_take(&b, &len);
    assert_string_equal(first, "abc");
    assert_int_equal(len, 3);
    second = buf_take(&b, &len);
    assert_string_equal(second, "");
    assert_int_equal(len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_set_fills_code_and_detail),
        cmocka_unit_test(error_set_again_resets_the_rest),
        cmocka_unit_test(error_detail_is_cut_on_a_code_point),
        cmocka_unit_test(error_detail_is_always_utf8),
        cmocka_unit_test(error_errno_knows_a_full_disk),
        cmocka_unit_test(error_causes_are_flattened_and_bounded),
        cmocka_unit_test(error_phase_is_set_once),
        cmocka_unit_test(error_names_round_trip),
        cmocka_unit_test(buf_grows_and_stays_terminated),
        cmocka_unit_test(buf_refuses_more_than_its_cap_and_keeps_its_content),
        cmocka_unit_test(buf_take_hands_everything_out),
    };

    return cmocka_run_group_tests_name("base error and buf", tests, NULL, NULL);
}
