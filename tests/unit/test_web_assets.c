/* The dashboard in the binary: what the page names is there, in both forms. */
#include "web/assets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_page(void **state)
{
    struct web_asset page;
    (void)state;

    assert_true(web_asset_find("", false, &page));
    assert_string_equal(page.type, "text/html; charset=utf-8");
    assert_false(page.is_packed);
    assert_memory_equal(page.data, "<!doctype html>", 15);
    assert_non_null(memmem(page.data, page.len, "</html>", 7));
    assert_int_equal(page.etag[0], '"');
    assert_int_equal(page.etag[strlen(page.etag) - 1], '"');
}

/* Each name the page has behind /assets/ is one that is there. */
static void test_named_assets(void **state)
{
    static const char prefix[] = "/assets/";
    struct web_asset page;
    const char *at;
    size_t left;
    (void)state;

    assert_true(web_asset_find("", false, &page));
    at = page.data;
    left = page.len;
    while ((at = memmem(at, left, prefix, sizeof(prefix) - 1)) != NULL) {
        struct web_asset asset;
        char name[128] = "";
        const char *end;

        at += sizeof(prefix) - 1;
        left = page.len - (size_t)(at - page.data);
        end = memchr(at, '"', left);
        assert_non_null(end);
        assert_true((size_t)(end - at) < sizeof(name));
        memcpy(name, at, (size_t)(end - at));
        assert_true(web_asset_find(name, false, &asset));
        assert_true(asset.len > 0);
    }
}

static void test_packed(void **state)
{
    struct web_asset plain;
    struct web_asset packed;
    (void)state;

    assert_true(web_asset_find("", false, &plain));
    assert_true(web_asset_find("", true, &packed));
    if (packed.is_packed) {
        assert_memory_equal(packed.data, "\x1f\x8b", 2);
        assert_string_not_equal(packed.etag, plain.etag);
    } else {
        assert_string_equal(packed.etag, plain.etag);
    }
}

static void test_unknown(void **state)
{
    static const char *const names[] = {"/", "x", "index.html", "../openapi.yaml", "app.js"};
    struct web_asset asset;
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_false(web_asset_find(names[i], false, &asset));
    }
}

static void test_accepts_gzip(void **state)
{
    static const char *const yes[] = {
        "gzip", "GZIP", "deflate, gzip, br", "br;q=1, gzip;q=0.5", "gzip ; q=1", " ,, gzip"};
    static const char *const no[] = {
        "",       "identity",    "gzip;q=0", "gzip; Q=0.000", "gzipped",
        "x-gzip", "br, deflate", "*",        "gzip;q=0, br",  "deflate;x=gzip"};
    (void)state;

    assert_false(web_accepts_gzip(NULL));
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        assert_true(web_accepts_gzip(yes[i]));
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        assert_false(web_accepts_gzip(no[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page),         cmocka_unit_test(test_named_assets),
        cmocka_unit_test(test_packed),       cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_accepts_gzip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
