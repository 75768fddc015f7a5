/* What people write on a command line, and the bar they see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/options.h"
#include "cli/progress.h"

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0},
                {"512", 512},
                {"512B", 512},
                {"64K", 65536},
                {"1.5M", 3 * 524288},
                {"256MiB", INT64_C(256) << 20},
                {"4G", INT64_C(4) << 30},
                {"1TB", INT64_C(1) << 40}};
    static const char *const bad[] = {"", "x", "-1", "1Q", "1 M", "nan", "inf", "1e300", "1K1"};
    int64_t value = -1;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(cli_parse_size(good[i].text, &value), 0);
        assert_int_equal(value, good[i].bytes);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(cli_parse_size(bad[i], &value), -1);
    }
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"500ms", 500}, {"30", 30000}, {"30s", 30000}, {"1.5m", 90000}, {"2h", 7200000}};
    static const char *const bad[] = {"", "s", "-1s", "1d", "1 s"};
    int64_t value = -1;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(cli_parse_duration(good[i].text, &value), 0);
        assert_int_equal(value, good[i].ms);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(cli_parse_duration(bad[i], &value), -1);
    }
}

static void test_numbers(void **state)
{
    static const char *const bad_counts[] = {"", "0", "-3", "1.5", "9999999999999999999"};
    static const char *const bad_cpus[] = {"", "0", "-0.5", "nan", "1x"};
    int64_t count = 0;
    double cpus = 0;

    (void)state;
    assert_int_equal(cli_parse_count("128", &count), 0);
    assert_int_equal(count, 128);
    assert_int_equal(cli_parse_cpus("0.5", &cpus), 0);
    assert_true(cpus == 0.5);
    for (size_t i = 0; i < ARRAY_SIZE(bad_counts); i++) {
        assert_int_equal(cli_parse_count(bad_counts[i], &count), -1);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad_cpus); i++) {
        assert_int_equal(cli_parse_cpus(bad_cpus[i], &cpus), -1);
    }
}

static void test_bar(void **state)
{
    char line[PROGRESS_LINE];
    char size[PROGRESS_SIZE_TEXT];

    (void)state;
    progress_size_text(1023, size);
    assert_string_equal(size, "1023 B");
    progress_size_text(INT64_C(27) << 30, size);
    assert_string_equal(size, "27.0 GiB");
    progress_line("sending", INT64_C(1) << 20, INT64_C(4) << 20, 1000, line);
    assert_string_equal(line,
                        "sending  [######..................]  25%  1.0 MiB of 4.0 MiB  1.0 MiB/s");
    progress_line("sending", 5, 4, 0, line);
    assert_string_equal(line, "sending  [########################] 100%  5 B of 4 B  0 B/s");
    progress_line("sending", 2048, 0, 500, line);
    assert_string_equal(line, "sending  2.0 KiB  4.0 KiB/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_durations),
                                       cmocka_unit_test(test_numbers), cmocka_unit_test(test_bar)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
