#include "base/digest.h"
#include "workspace/blocks.h"
#include "workspace/json_text.h"
#include "workspace/list.h"
#include "workspace/names.h"
#include "workspace/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void path_faults(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "...", "..a", ".a/b.", "\xff\xfe", "a b\n"};
    static const char *const bad[] = {"",  "/",  "/a",   "a/",   "a//b",
                                      ".", "..", "a/..", "../a", "a/./b"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_null(workspace_path_fault(good[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_non_null(workspace_path_fault(bad[i]));
    }
    char name[WORKSPACE_PATH_MAX + 2];
    memset(name, 'x', sizeof(name));
    name[255] = '\0';
    assert_null(workspace_path_fault(name));
    name[255] = 'x';
    name[256] = '\0';
    assert_non_null(workspace_path_fault(name));
    name[256] = 'x';
    for (size_t i = 200; i < sizeof(name) - 1; i += 200) {
        name[i] = '/';
    }
    name[WORKSPACE_PATH_MAX] = '\0';
    assert_null(workspace_path_fault(name));
    name[WORKSPACE_PATH_MAX] = 'x';
    name[WORKSPACE_PATH_MAX + 1] = '\0';
    assert_non_null(workspace_path_fault(name));
}

static void archive_order(void **state)
{
    (void)state;
    static const char *const sorted[] = {"a",     "a/b", "a/b/c", "a/b.c", "a!",
                                         "a.txt", "a0",  "b",     "\xff"};
    for (size_t i = 0; i < ARRAY_SIZE(sorted); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(sorted); k++) {
            int r = workspace_path_compare(sorted[i], sorted[k]);
            assert_int_equal((r > 0) - (r < 0), (i > k) - (i < k));
        }
    }
}

static void names_for_people(void **state)
{
    (void)state;
    assert_string_equal(workspace_path_show("a\n\xff\\b").text, "a\\x0a\\xff\\x5cb");
    char name[1000];
    memset(name, 0xff, sizeof(name));
    name[999] = '\0';
    struct workspace_path_text shown = workspace_path_show(name);
    assert_true(strlen(shown.text) < sizeof(shown.text));
    assert_string_equal(shown.text + strlen(shown.text) - 3, "...");
}

static void name_set(void **state)
{
    (void)state;
    _cleanup_names_ struct workspace_names n;
    workspace_names_init(&n);
    assert_int_equal(workspace_names_find(&n, "a", 1), WORKSPACE_NAMES_NONE);
    char name[32];
    for (int i = 0; i < 20000; i++) {
        int len = snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(workspace_names_find(&n, name, (size_t)len), WORKSPACE_NAMES_NONE);
        assert_int_equal(workspace_names_add(&n, name, (size_t)len, 1 + i % 4), 0);
    }
    for (int i = 0; i < 20000; i++) {
        int len = snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(workspace_names_find(&n, name, (size_t)len), 1 + i % 4);
    }
    assert_int_equal(workspace_names_find(&n, "20000", 5), WORKSPACE_NAMES_NONE);
    assert_true(n.size * sizeof(*n.slots) <= 20000 * 22U);
}

struct runs {
    unsigned char image[64 * 1024];
    int count;
};

static int take_run(void *ctx, int64_t offset, const void *data, size_t len, struct error *err)
{
    struct runs *r = ctx;
    (void)err;
    assert_int_equal(offset % WORKSPACE_BLOCK, 0);
    for (size_t i = 0; i < len; i += WORKSPACE_BLOCK) {
        size_t n = len - i < WORKSPACE_BLOCK ? len - i : WORKSPACE_BLOCK;
        assert_false(workspace_blocks_is_zero((const char *)data + i, n));
    }
    memcpy(r->image + offset, data, len);
    r->count++;
    return 0;
}

/* Whatever the pieces, the runs hold the same bytes. */
static void pieces_become_blocks(void **state)
{
    (void)state;
    static unsigned char file[50001];
    static struct runs runs;
    for (size_t i = 0; i < sizeof(file); i++) {
        file[i] = i / WORKSPACE_BLOCK % 3 == 1 ? 0 : (unsigned char)(i % 7 == 0);
    }
    static const size_t pieces[] = {1, 13, 4095, 4096, 4097, 10000, 50001};
    for (size_t p = 0; p < ARRAY_SIZE(pieces); p++) {
        struct workspace_blocks b;
        struct error err = ERROR_INIT;
        memset(&runs, 0, sizeof(runs));
        workspace_blocks_begin(&b, sizeof(file), take_run, &runs);
        for (size_t at = 0; at < sizeof(file); at += pieces[p]) {
            size_t n = sizeof(file) - at < pieces[p] ? sizeof(file) - at : pieces[p];
            assert_int_equal(workspace_blocks_add(&b, (int64_t)at, file + at, n, &err), 0);
        }
        assert_int_equal(workspace_blocks_end(&b, &err), 0);
        assert_memory_equal(runs.image, file, sizeof(file));
        assert_true(runs.count >= 5);
    }
}

static void data_beyond_the_file(void **state)
{
    (void)state;
    static struct runs runs;
    struct workspace_blocks b;
    struct error err = ERROR_INIT;
    workspace_blocks_begin(&b, 10, take_run, &runs);
    assert_int_equal(workspace_blocks_add(&b, 5, "abcdef", 6, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
    error_clear(&err);
    assert_int_equal(workspace_blocks_add(&b, 5, "ab", 2, &err), 0);
    assert_int_equal(workspace_blocks_add(&b, 6, "ab", 2, &err), -1);
}

static void reals_are_shortest(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.1, "0.1"},
                {0.333, "0.333"},
                {1, "1.0"},
                {1e300, "1e+300"},
                {0.30000000000000004, "0.30000000000000004"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        _cleanup_buf_ struct buf b;
        buf_init(&b, 100);
        assert_int_equal(workspace_json_put_real(&b, rows[i].value), 0);
        assert_string_equal(buf_str(&b), rows[i].text);
    }
}

static void list_lines(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf b;
    buf_init(&b, WORKSPACE_LIST_LINE_MAX);
    struct workspace_entry e = {
        .type = WORKSPACE_FILE, .path = "a\"b\n\xc3\xa9", .mode = 06644, .size = 3};
    char digest[DIGEST_TEXT_SIZE];
    struct digest *d = digest_new();
    digest_update(d, "abc", 3);
    digest_final(d, digest);
    digest_free(d);
    assert_int_equal(workspace_list_line(&b, &e, digest), 0);
    assert_string_equal(
        buf_str(&b), "{\"path\":\"a\\\"b\\n\xc3\xa9\",\"type\":\"file\",\"mode\":420,\"size\":3,"
                     "\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015"
                     "ad\"}\n");
    buf_reset(&b);
    e = (struct workspace_entry){
        .type = WORKSPACE_SYMLINK, .path = "\xff", .mode = 0777, .target = "\xfe\xfd"};
    assert_int_equal(workspace_list_line(&b, &e, NULL), 0);
    assert_string_equal(buf_str(&b), "{\"pathBase64\":\"/w==\",\"type\":\"symlink\",\"mode\":511,"
                                     "\"targetBase64\":\"/v0=\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_faults),          cmocka_unit_test(archive_order),
        cmocka_unit_test(names_for_people),     cmocka_unit_test(name_set),
        cmocka_unit_test(pieces_become_blocks), cmocka_unit_test(data_beyond_the_file),
        cmocka_unit_test(reals_are_shortest),   cmocka_unit_test(list_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
