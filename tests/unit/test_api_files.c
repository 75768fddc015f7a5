/* Paths, modes and items of files on the wire. */
#include "api/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_paths(void **state)
{
    static const struct {
        const char *path;
        const char *base64;
        const char *expected; /* NULL: refused */
        const char *field;
    } rows[] = {
        {NULL, NULL, "", NULL},
        {"", NULL, "", NULL},
        {".", NULL, "", NULL},
        {"a/b", NULL, "a/b", NULL},
        {"./a//b/./c/", NULL, "a/b/c", NULL},
        {"..a/b..", NULL, "..a/b..", NULL},
        {"...", NULL, "...", NULL},
        {"/", NULL, NULL, "?path"},
        {"/a", NULL, NULL, "?path"},
        {"..", NULL, NULL, "?path"},
        {"a/..", NULL, NULL, "?path"},
        {"a/../b", NULL, NULL, "?path"},
        {NULL, "YS9i", "a/b", NULL},
        {NULL, "/w==", "\xff", NULL},
        {NULL, "_w==", "\xff", NULL},
        {NULL, "+/8=", "\xfb\xff", NULL},
        {NULL, "-_8=", "\xfb\xff", NULL},
        {NULL, " /8=", "\xfb\xff", NULL},
        {NULL, "", "", NULL},
        {NULL, "Li4=", NULL, "?pathBase64"},
        {NULL, "L2E=", NULL, "?pathBase64"},
        {NULL, "YQBi", NULL, "?pathBase64"},
        {NULL, "YQ", NULL, "?pathBase64"},
        {NULL, "!", NULL, "?pathBase64"},
        {"a", "YQ==", NULL, "?pathBase64"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char path[API_PATH_MAX + 1];
        struct error err = ERROR_INIT;
        int result = api_path_decode(rows[i].path, rows[i].base64, path, &err);
        assert_int_equal(result, rows[i].expected != NULL ? 0 : -1);
        if (result == 0) {
            assert_string_equal(path, rows[i].expected);
        } else {
            assert_int_equal(err.code, ERROR_INVALID_REQUEST);
            assert_string_equal(err.field, rows[i].field);
        }
    }
}

static void test_long_paths(void **state)
{
    char long_path[5001];
    char path[API_PATH_MAX + 1];
    struct error err = ERROR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof(long_path) - 1; i++) {
        long_path[i] = i % 2 == 0 ? 'a' : '/';
    }
    long_path[4095] = '\0';
    assert_int_equal(api_path_decode(long_path, NULL, path, &err), 0);
    assert_string_equal(path, long_path);
    long_path[4095] = '/';
    long_path[4096] = '\0';
    assert_int_equal(api_path_decode(long_path, NULL, path, &err), -1);
    memset(long_path, 'a', 256);
    long_path[255] = '\0';
    assert_int_equal(api_path_decode(long_path, NULL, path, &err), 0);
    long_path[255] = 'a';
    long_path[256] = '\0';
    assert_int_equal(api_path_decode(long_path, NULL, path, &err), -1);
    assert_string_equal(err.field, "?path");
}

static void test_modes(void **state)
{
    static const char *const bad[] = {"", "7", "64", "4755", "1777", "00644", "rw-", "0x1", "888"};
    unsigned mode = 0;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(api_file_mode_decode("0644", &mode, &err), 0);
    assert_int_equal(mode, 0644);
    assert_int_equal(api_file_mode_decode("777", &mode, &err), 0);
    assert_int_equal(mode, 0777);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(api_file_mode_decode(bad[i], &mode, &err), -1);
        assert_string_equal(err.field, "?mode");
    }
}

static void expect_view(const struct api_file *view, const char *expected)
{
    json_t *value = api_file_encode(view);
    char *text = json_dumps(value, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(value);
}

static void test_views(void **state)
{
    (void)state;
    expect_view(&(struct api_file){"d/f", "file", NULL, 5, 0640, 1700000000123},
                "{\"path\":\"d/f\",\"type\":\"file\",\"size\":5,\"mode\":\"0640\","
                "\"mtime\":\"2023-11-14T22:13:20.123Z\",\"target\":null}");
    expect_view(&(struct api_file){"l", "symlink", "f", 0, 0777, -5},
                "{\"path\":\"l\",\"type\":\"symlink\",\"size\":0,\"mode\":\"0777\","
                "\"mtime\":\"1970-01-01T00:00:00.000Z\",\"target\":\"f\"}");
    expect_view(&(struct api_file){"l", "symlink", "\xff", 0, 0777, INT64_MAX},
                "{\"pathBase64\":\"bA==\",\"type\":\"symlink\",\"size\":0,\"mode\":\"0777\","
                "\"mtime\":\"9999-12-31T23:59:59.999Z\",\"targetBase64\":\"/w==\"}");
    expect_view(&(struct api_file){"\xff", "special", NULL, 0, 01644, 0},
                "{\"pathBase64\":\"/w==\",\"type\":\"special\",\"size\":0,\"mode\":\"1644\","
                "\"mtime\":\"1970-01-01T00:00:00.000Z\",\"targetBase64\":null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
