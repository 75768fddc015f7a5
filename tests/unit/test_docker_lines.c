/* Streams of JSON objects, one a line. */
#include "host/docker/engine_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void on_line(void *ctx, const json_t *object)
{
    int *sum = ctx;

    *sum = *sum * 10 + (int)json_integer_value(json_object_get(object, "n"));
}

static int feed(const char *text, size_t piece, int *sum)
{
    struct engine_lines lines;
    size_t len = strlen(text);
    int result = 0;

    *sum = 0;
    engine_lines_init(&lines, on_line, sum);
    for (size_t at = 0; at < len && result == 0; at += piece) {
        result = engine_lines_feed(&lines, text + at, len - at < piece ? len - at : piece);
    }
    if (result == 0) {
        result = engine_lines_end(&lines);
    }
    engine_lines_done(&lines);
    return result;
}

static void test_any_cut(void **state)
{
    static const char text[] = "{\"n\":1}\r\n\n{\"n\":2,\"s\":\"a\\nb\"}\n \n{\"n\":3}";
    int sum;

    (void)state;
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        assert_int_equal(feed(text, piece, &sum), 0);
        assert_int_equal(sum, 123);
    }
}

static void test_refused(void **state)
{
    int sum;

    (void)state;
    assert_int_equal(feed("{\"n\":1}\n[1]\n", 100, &sum), -1);
    assert_int_equal(sum, 1);
    assert_int_equal(feed("{\"n\":", 100, &sum), -1);
    assert_int_equal(feed("garbage\n", 3, &sum), -1);
}

static void test_line_too_long(void **state)
{
    struct engine_lines lines;
    static char block[64 * 1024];
    int sum = 0;
    int fed = 0;

    (void)state;
    memset(block, ' ', sizeof(block));
    engine_lines_init(&lines, on_line, &sum);
    while (engine_lines_feed(&lines, block, sizeof(block)) == 0) {
        fed++;
        assert_true(fed <= ENGINE_LINE_MAX / (int)sizeof(block));
    }
    engine_lines_done(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_line_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
