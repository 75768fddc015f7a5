/* Which requests are the same: by what they ask for, not by how it is written. */
#include "server/http/request_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void digest_file(const char *method, const char *target, const struct request_body *body,
                        char out[DIGEST_TEXT_SIZE])
{
    struct uri uri;
    struct error err = ERROR_INIT;

    assert_int_equal(uri_parse(&uri, target), 0);
    assert_int_equal(request_digest(method, &uri, "wait", body, out, &err), 0);
    uri_done(&uri);
}

static void digest(const char *method, const char *target, const char *text,
                   char out[DIGEST_TEXT_SIZE])
{
    const struct request_body body = {.data = text, .size = (int64_t)strlen(text), .fd = -1};

    digest_file(method, target, &body, out);
}

static bool same(const char *target, const char *other)
{
    char a[DIGEST_TEXT_SIZE];
    char b[DIGEST_TEXT_SIZE];

    digest("POST", target, "{}", a);
    digest("POST", other, "{}", b);
    return strcmp(a, b) == 0;
}

static void test_the_same(void **state)
{
    (void)state;
    assert_true(same("/v1/a", "/v1/a"));
    assert_true(same("/v1/a", "/v1/%61"));
    assert_true(same("/v1/a", "/v1/a?wait=false"));
    assert_true(same("/v1/a?wait=true&x=1", "/v1/a?x=1"));
    assert_true(same("/v1/a?x=1&y=2", "/v1/a?y=2&x=1"));
    assert_true(same("/v1/a?x=%20", "/v1/a?x=+"));
    assert_true(same("/v1/a?x", "/v1/a?x="));
}

static void test_others(void **state)
{
    (void)state;
    assert_false(same("/v1/a", "/v1/b"));
    assert_false(same("/v1/a/b", "/v1/a%2Fb"));
    assert_false(same("/v1/a", "/v1/a/"));
    assert_false(same("/v1/a", "/v1/a?x="));
    assert_false(same("/v1/a?x=1", "/v1/a?x=2"));
    assert_false(same("/v1/a?x=1", "/v1/a?y=1"));
    assert_false(same("/v1/a?x=1&y=2", "/v1/a?x=2&y=1"));
    assert_false(same("/v1/a?xy=1", "/v1/a?x=y1"));
    assert_false(same("/v1/a?waits=1", "/v1/a"));
    assert_false(same("/v1/a/%3F", "/v1/a?%3F="));
    assert_false(same("/v1/1:a", "/v1/1/a"));
}

static void test_method_and_body(void **state)
{
    char a[DIGEST_TEXT_SIZE];
    char b[DIGEST_TEXT_SIZE];

    (void)state;
    digest("POST", "/v1/a", "{}", a);
    digest("PUT", "/v1/a", "{}", b);
    assert_string_not_equal(a, b);
    digest("POST", "/v1/a", "{} ", b);
    assert_string_not_equal(a, b);
    digest("POST", "/v1/a", "", b);
    assert_string_not_equal(a, b);
    assert_true(digest_is_valid(a));
}

/* A body in a file counts as the same bytes in memory do, and its offset stays. */
static void test_file(void **state)
{
    static char text[200001];
    char a[DIGEST_TEXT_SIZE];
    char b[DIGEST_TEXT_SIZE];
    char path[] = "/tmp/exechost-digest-XXXXXX";
    struct request_body body = {.fd = mkstemp(path), .size = sizeof(text) - 1};
    struct uri uri;
    struct error err = ERROR_INIT;

    (void)state;
    assert_true(body.fd >= 0);
    unlink(path);
    memset(text, 'x', sizeof(text) - 1);
    text[100000] = 'y';
    assert_int_equal(write(body.fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(lseek(body.fd, 7, SEEK_SET), 7);
    digest("PUT", "/v1/a", text, a);
    digest_file("PUT", "/v1/a", &body, b);
    assert_string_equal(a, b);
    assert_int_equal(lseek(body.fd, 0, SEEK_CUR), 7);
    body.size++;
    assert_int_equal(uri_parse(&uri, "/v1/a"), 0);
    assert_int_equal(request_digest("PUT", &uri, "wait", &body, b, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
    uri_done(&uri);
    close(body.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_method_and_body),
        cmocka_unit_test(test_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
