/* The response head of a connection that is taken over. */
#include "host/docker/engine_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static ssize_t parse(const char *text, struct engine_head *out)
{
    return engine_head_parse(text, strlen(text), out);
}

static void test_upgrade(void **state)
{
    static const char text[] = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\nrest";
    struct engine_head head;

    (void)state;
    assert_int_equal(parse(text, &head), (ssize_t)strlen(text) - 4);
    assert_int_equal(head.status, 101);
    assert_int_equal(head.content_length, -1);
    assert_false(head.chunked);
}

static void test_fields(void **state)
{
    struct engine_head head;

    (void)state;
    assert_true(parse("HTTP/1.1 404 Not Found\r\ncontent-length:  12 \r\n\r\n", &head) > 0);
    assert_int_equal(head.content_length, 12);
    assert_true(parse("HTTP/1.0 500\r\nTransfer-Encoding: chunked\r\n\r\n", &head) > 0);
    assert_true(head.chunked);
    assert_int_equal(head.status, 500);
}

static void test_every_prefix_wants_more(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
    struct engine_head head;

    (void)state;
    for (size_t len = 0; len < strlen(text); len++) {
        assert_int_equal(engine_head_parse(text, len, &head), 0);
    }
    assert_int_equal(engine_head_parse(text, strlen(text), &head), (ssize_t)strlen(text));
}

static void test_refused(void **state)
{
    static const char *const BAD[] = {
        "\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 O\001K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
    };
    struct engine_head head;

    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        if (parse(BAD[i], &head) != -1) {
            fail_msg("accepted: %s", BAD[i]);
        }
    }
}

static void test_too_long(void **state)
{
    static char text[ENGINE_HEAD_MAX + 64];
    struct engine_head head;

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text, "HTTP/1.1 200 OK\r\nA: ", 20);
    assert_int_equal(engine_head_parse(text, ENGINE_HEAD_MAX, &head), 0);
    assert_int_equal(engine_head_parse(text, ENGINE_HEAD_MAX + 1, &head), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upgrade),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_every_prefix_wants_more),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
