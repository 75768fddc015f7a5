/* Heads that can be read in two ways, over raw sockets: 400 and close, with nothing behind them
 * taken for a request. */
#include "server_http_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"
#define JSON "Content-Type: application/json\r\n"

static void handle_echo(struct http_exchange *x)
{
    size_t len;
    const char *body = http_body(x, &len);

    http_reply_json(x, 200, json_pack("{s:s%, s:s?}", "body", body, len, "q", http_query(x, "q")));
}

static const struct http_route routes[] = {
    {"GET", "/echo", ROUTE_INLINE, handle_echo, 0, "q"},
    {"POST", "/echo", ROUTE_INLINE, handle_echo, 65536, "q"},
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct http_config config = {.loopback_rules = true, .head_timeout_s = 2};

    fixture_start(f, &config, routes, ARRAY_SIZE(routes), NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_stop(*state);
    free(*state);
    return 0;
}

/* Some of libmicrohttpd's own refusals send their head twice before the end. */
static bool ends_without_another(int fd)
{
    char rest[4096];
    size_t len = 0;
    ssize_t n;

    while (len < sizeof(rest) && (n = recv(fd, rest + len, sizeof(rest) - len, 0)) > 0) {
        len += (size_t)n;
    }
    return len < sizeof(rest) && memmem(rest, len, "HTTP/1.1 2", 10) == NULL &&
           memmem(rest, len, "problem", 7) == NULL;
}

static void expect_bytes_refused(const struct fixture *f, const char *request, size_t len)
{
    int fd = fixture_connect(f);
    struct answer a;

    client_send(fd, request, len);
    client_read(fd, &a, false);
    if (a.status != 400) {
        fail_msg("%d to %s", a.status, request);
    }
    if (answer_header(&a, "Content-Type")[0] != '\0') { /* else it is one of libmicrohttpd's own */
        assert_problem(&a, 400, "EXECUTION_INVALID_REQUEST", "");
    }
    assert_string_equal(answer_header(&a, "Connection"), "close");
    assert_true(ends_without_another(fd));
    answer_done(&a);
    close(fd);
}

static void expect_refused(const struct fixture *f, const char *request)
{
    expect_bytes_refused(f, request, strlen(request));
}

static void expect_answered(const struct fixture *f, const char *request, const char *body)
{
    struct answer a;

    fixture_ask(f, request, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, body);
    answer_done(&a);
}

static void test_lengths_and_hosts(void **state)
{
    static const char *const fields[] = {
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\ncontent-length: 0\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked \r\n",
        "Transfer-Encoding:\r\n",
        "Host: 127.0.0.1\r\n",
    };
    char request[512];

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        snprintf(request, sizeof(request), "POST /echo HTTP/1.1\r\n" HOST JSON "%s\r\n{}",
                 fields[i]);
        expect_refused(*state, request);
    }
    expect_refused(*state, "POST /echo HTTP/1.0\r\n" HOST JSON
                           "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\nHost: localhost, evil\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\nHost: localhost evil\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\nHost: x@localhost\r\n\r\n");
}

/* Each has a second request in what would be its body. */
static void test_names(void **state)
{
    static const char *const fields[] = {
        "Content-Length : 48\r\n",
        "Content-Length\t: 48\r\n",
        " Content-Length: 48\r\n",
        "\tX: y\r\n",
        "X Y: z\r\n",
        ": z\r\n",
        "X(y): z\r\n",
        "X\x01: z\r\n",
        "X\xff: z\r\n",
        "X\x7f: z\r\n",
    };
    char request[512];

    for (size_t i = 0; i < 2 * ARRAY_SIZE(fields); i++) {
        const char *field = fields[i / 2];

        snprintf(request, sizeof(request),
                 "POST /echo HTTP/1.1\r\n%s%s\r\nGET /echo HTTP/1.1\r\n" HOST
                 "\r\n0123456789abcdef",
                 i % 2 == 0 ? field : HOST, i % 2 == 0 ? HOST : field);
        expect_refused(*state, request);
    }
}

static void test_values(void **state)
{
    static const char nul_in_length[] =
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 2\0 9\r\n\r\n{}       ";
    static const char nul_at_end[] = "GET /echo HTTP/1.1\r\n" HOST "X: y\0\r\n\r\n";
    static const char nul_then_line[] =
        "GET /echo HTTP/1.1\r\n" HOST "X: y\0\0Y: z\r\nZ: 1\r\n\r\n";
    static const char nul_in_target[] = "GET /echo\0/x HTTP/1.1\r\n" HOST "\r\n";

    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "X: a\x01z\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "X: a\rContent-Length: 4\r\n\r\n");
    expect_bytes_refused(*state, nul_in_length, sizeof(nul_in_length) - 1);
    expect_bytes_refused(*state, nul_at_end, sizeof(nul_at_end) - 1);
    expect_bytes_refused(*state, nul_then_line, sizeof(nul_then_line) - 1);
    expect_bytes_refused(*state, nul_in_target, sizeof(nul_in_target) - 1);
    expect_answered(*state,
                    "GET /echo HTTP/1.1\r\n" HOST "X: a\tb \xc3\xa4\xff\r\nY:\r\nZ: \r\n"
                    "W: a \t \r\n\r\n",
                    "{\"body\":\"\",\"q\":null}");
}

static void test_lines(void **state)
{
    expect_refused(*state, "GET /echo HTTP/1.1\n" HOST "\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\nHost: localhost\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "\n");
    expect_refused(*state, "GET /echo HTTP/1.1\nHost: localhost\n\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "X: y\r\n z\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "X: y\r\n\tz\r\nA: b\r\n\r\n");
    expect_refused(*state, "GET /echo HTTP/1.1\r\n" HOST "X:\r\n \r\nA: b\r\n\r\n");
    expect_refused(*state,
                   "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 1\r\n 0\r\n\r\n0123456789");
    expect_refused(*state, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length:\r\n 2\r\n\r\n{}");
    expect_refused(*state, "GET  /echo HTTP/1.1\r\n" HOST "\r\n");
    expect_refused(*state, "GET /e\tcho HTTP/1.1\r\n" HOST "\r\n");
    expect_refused(*state, "GET /e\x01"
                           "cho HTTP/1.1\r\n" HOST "\r\n");
    expect_refused(*state, "GET /echo?q=\x7f HTTP/1.1\r\n" HOST "\r\n");
}

/* What libmicrohttpd refuses by itself: closed too, with 400 where the answer gets through. */
static void test_refused_below(void **state)
{
    static const char *const requests[] = {
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 2, 2\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: +2\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: -2\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 0x2\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 2 \r\n\r\n{}",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: \r\n\r\n{}",
        "GET /echo HTTP/1.1\r\n\r\n",
        "GET /echo HTTP/1.1\r\nnothing\r\n" HOST "\r\n",
        "GET /echo\r\n" HOST "\r\n",
        "GET /e cho HTTP/1.1\r\n" HOST "\r\n",
        "GET /echo  HTTP/1.1\r\n" HOST "\r\n",
        "POST /echo HTTP/1.1\r\n" HOST JSON
        "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST JSON
        "Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST JSON
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        int fd = fixture_connect(*state);
        struct answer a;

        client_send_text(fd, requests[i]);
        client_read(fd, &a, false);
        if ((a.status != 400 && a.status != 0) || (a.status == 400 && !ends_without_another(fd))) {
            fail_msg("%d to %s", a.status, requests[i]);
        }
        answer_done(&a);
        close(fd);
    }
}

/* Where chunks may be read in two ways, and where they may not: one answer, and the end. */
static void test_chunked_is_the_last(void **state)
{
    static const char *const bodies[] = {
        "2\r\n{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "2\r\n{}\r\n0\n\r\n",
        "2\r\n{}\r\n0\r\n\n",
        "2;a\n{}\r\n0\r\n\r\n",
        "2;a=b\r\n{}\r\n0\r\n\r\n",
        "2;a=\"\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}\r\n0\r\nX: y\n\r\n",
        "2\r\n{}\r\n0\r\nX : y\r\n\r\n",
        "0002\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n",
    };
    char request[512];

    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        int fd = fixture_connect(*state);
        struct answer a;

        snprintf(request, sizeof(request),
                 "POST /echo HTTP/1.1\r\n" HOST JSON
                 "Transfer-Encoding: chunked\r\n\r\n%sGET /echo HTTP/1.1\r\n" HOST "\r\n",
                 bodies[i]);
        client_send_text(fd, request);
        client_read(fd, &a, false);
        if (a.status != 200 || strcmp(answer_header(&a, "Connection"), "close") != 0 ||
            !ends_without_another(fd)) {
            fail_msg("%d to %s", a.status, request);
        }
        assert_string_equal(a.body, "{\"body\":\"{}\",\"q\":null}");
        answer_done(&a);
        close(fd);
    }
}

static void test_absolute_target(void **state)
{
    struct answer a;

    expect_answered(*state, "GET http://localhost/echo?q=1 HTTP/1.1\r\n" HOST "\r\n",
                    "{\"body\":\"\",\"q\":\"1\"}");
    expect_answered(*state, "GET HTTP://LOCALHOST/echo HTTP/1.1\r\n" HOST "\r\n",
                    "{\"body\":\"\",\"q\":null}");
    expect_refused(*state, "GET http://evil.example/echo HTTP/1.1\r\n" HOST "\r\n");
    expect_refused(*state, "GET http://x@localhost/echo HTTP/1.1\r\n" HOST "\r\n");
    expect_refused(*state, "GET http:///echo HTTP/1.1\r\n" HOST "\r\n");
    expect_refused(*state, "GET http://localhost/echo HTTP/1.0\r\n\r\n");
    fixture_ask(*state, "GET http://localhost?q=1 HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_problem(&a, 404, "ROUTE_NOT_FOUND", "");
    answer_done(&a);
    fixture_ask(*state, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_problem(&a, 404, "ROUTE_NOT_FOUND", "");
    answer_done(&a);
}

/* Heads in pieces, long ones whose buffer grows, and further ones on the connection are no fault.
 */
static void test_exact_heads_pass(void **state)
{
    int fd = fixture_connect(*state);
    struct buf head;
    struct answer a;

    buf_init(&head, 1 << 20);
    for (int round = 0; round < 3; round++) {
        buf_reset(&head);
        assert_int_equal(buf_addf(&head, "%sPOST /echo?q=%d%%20 HTTP/1.1\r\n" HOST JSON,
                                  round == 1 ? "\r\n" : "", round),
                         0);
        for (int i = 0; i < round * 40; i++) {
            assert_int_equal(buf_addf(&head, "X-%d: %0150d\r\nCookie: a=b; c=d\r\n", i, i), 0);
        }
        assert_int_equal(buf_add_str(&head, "Content-Length: 2\r\n\r\n{}"), 0);
        for (size_t at = 0; at < head.len; at += 3000) {
            size_t left = head.len - at;

            client_send(fd, head.data + at, left < 3000 ? left : 3000);
            usleep(1000);
        }
        client_read(fd, &a, false);
        assert_int_equal(a.status, 200);
        answer_done(&a);
    }
    buf_done(&head);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_and_hosts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_refused_below),
        cmocka_unit_test(test_chunked_is_the_last),
        cmocka_unit_test(test_absolute_target),
        cmocka_unit_test(test_exact_heads_pass),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
