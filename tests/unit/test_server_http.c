/* Requests and answers of the HTTP adapter, over raw sockets. */
#include "base/clock.h"
#include "server_http_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"
#define JSON "Content-Type: application/json\r\n"

static void handle_echo(struct http_exchange *x)
{
    size_t len;
    const char *body = http_body(x, &len);
    const char *query = http_query(x, "q");
    const char *param = http_param(x, 0);

    http_add_header(x, "Location", "/here");
    http_reply_json(x, 200,
                    json_pack("{s:s%, s:s?, s:s?, s:f}", "body", body, len, "q", query, "param",
                              param, "real", 0.1));
}

static void handle_empty(struct http_exchange *x)
{
    http_reply_empty(x, 204);
}

static void handle_number(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    int64_t n = 7;
    int64_t token;
    bool flag = false;

    if (http_query_int(x, "n", 1, 10, &n, &err) != 0 ||
        http_query_bool(x, "flag", &flag, &err) != 0 || http_fencing_token(x, &token, &err) != 0) {
        http_reply_error(x, &err);
        return;
    }
    http_reply_json(
        x, 200,
        json_pack("{s:I, s:b, s:I}", "n", (json_int_t)n, "flag", flag, "token", (json_int_t)token));
}

static void handle_mute(struct http_exchange *x)
{
    (void)x;
}

static void handle_static(struct http_exchange *x)
{
    http_reply_bytes(x, 200, "text/plain", "static", 6, false);
}

static void handle_overloaded(struct http_exchange *x)
{
    struct error err = ERROR_INIT;

    (void)error_set(&err, ERROR_OVERLOADED, "not now");
    http_reply_error(x, &err);
}

static const struct http_route routes[] = {
    {"GET", "/echo", ROUTE_INLINE, handle_echo, 0, "q"},
    {"POST", "/echo", ROUTE_INLINE, handle_echo, 65536, "q"},
    {"POST", "/job", ROUTE_JOB, handle_echo, 65536, "q"},
    {"PUT", "/empty", ROUTE_JOB, handle_empty, 16, ""},
    {"GET", "/items/{id}", ROUTE_INLINE, handle_echo, 0, ""},
    {"DELETE", "/items/{id}", ROUTE_INLINE, handle_empty, 0, ""},
    {"GET", "/number", ROUTE_INLINE, handle_number, 0, "n flag"},
    {"GET", "/mute", ROUTE_INLINE, handle_mute, 0, ""},
    {"GET", "/mutejob", ROUTE_JOB, handle_mute, 0, ""},
    {"GET", "/static", ROUTE_INLINE, handle_static, 0, ""},
    {"GET", "/overloaded", ROUTE_INLINE, handle_overloaded, 0, ""},
};

static int setup(void **state)
{
    static const char *const origins[] = {"https://app.example", NULL};
    struct fixture *f = calloc(1, sizeof(*f));
    struct http_config config = {
        .loopback_rules = true, .cors_origins = origins, .head_timeout_s = 2};

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

static void expect_problem(const struct fixture *f, const char *request, int status,
                           const char *code, const char *field)
{
    struct answer a;

    fixture_ask(f, request, &a);
    assert_problem(&a, status, code, field);
    answer_done(&a);
}

static void expect_body(const struct fixture *f, const char *request, int status, const char *body)
{
    struct answer a;

    fixture_ask(f, request, &a);
    assert_int_equal(a.status, status);
    assert_string_equal(a.body, body);
    answer_done(&a);
}

static void test_answers(void **state)
{
    struct fixture *f = *state;

    expect_body(f, "GET /echo?q=a%20b+c%2B HTTP/1.1\r\n" HOST "\r\n", 200,
                "{\"body\":\"\",\"q\":\"a b c+\",\"param\":null,\"real\":0.1}");
    expect_body(f, "POST /job HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{}", 200,
                "{\"body\":\"{}\",\"q\":null,\"param\":null,\"real\":0.1}");
    expect_body(f,
                "POST /echo HTTP/1.1\r\n" HOST JSON
                "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
                200, "{\"body\":\"{}\",\"q\":null,\"param\":null,\"real\":0.1}");
    expect_body(f, "GET /items/a%2Fb%20c HTTP/1.1\r\n" HOST "\r\n", 200,
                "{\"body\":\"\",\"q\":null,\"param\":\"a/b c\",\"real\":0.1}");
    expect_body(f, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 200,
                "{\"body\":\"\",\"q\":null,\"param\":null,\"real\":0.1}");
    expect_body(f, "POST /echo HTTP/1.1\r\n" HOST "\r\n", 200,
                "{\"body\":\"\",\"q\":null,\"param\":null,\"real\":0.1}");
    expect_body(f, "GET /static HTTP/1.1\r\n" HOST "\r\n", 200, "static");
}

static void test_no_content_and_head(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    fixture_ask(f, "PUT /empty HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_int_equal(a.status, 204);
    assert_string_equal(answer_header(&a, "Content-Type"), "");
    assert_string_equal(answer_header(&a, "Content-Length"), "");
    answer_done(&a);
    fixture_ask(f, "HEAD /static HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Length"), "6");
    answer_done(&a);
}

static void test_request_id(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    fixture_ask(f, "GET /echo HTTP/1.1\r\n" HOST "X-Request-Id: abc.DEF_1-2\r\n\r\n", &a);
    assert_string_equal(answer_header(&a, "X-Request-Id"), "abc.DEF_1-2");
    assert_string_equal(answer_header(&a, "Location"), "/here");
    answer_done(&a);
    fixture_ask(f, "GET /nowhere HTTP/1.1\r\n" HOST "X-Request-Id: a b\r\n\r\n", &a);
    assert_memory_equal(answer_header(&a, "X-Request-Id"), "req-", 4);
    answer_done(&a);
}

static void test_routing_faults(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    expect_problem(f, "GET /nowhere HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "");
    expect_problem(f, "GET /echo/ HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "");
    expect_problem(f, "GET /items/ HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "");
    expect_problem(f, "GET /items/a%00 HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "");
    expect_problem(f, "GET /items/%ff HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "");
    expect_problem(f, "GET /items/%4 HTTP/1.1\r\n" HOST "\r\n", 404, "ROUTE_NOT_FOUND", "");
    fixture_ask(f, "PATCH /items/a HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_problem(&a, 405, "METHOD_NOT_ALLOWED", "");
    assert_string_equal(answer_header(&a, "Allow"), "GET, HEAD, DELETE");
    answer_done(&a);
}

static void test_query_faults(void **state)
{
    struct fixture *f = *state;

    expect_problem(f, "GET /echo?x=1 HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "?x");
    expect_problem(f, "GET /echo?q=1&q=1 HTTP/1.1\r\n" HOST "\r\n", 400,
                   "EXECUTION_INVALID_REQUEST", "?q");
    expect_problem(f, "GET /echo?q=%zz HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "?q");
    expect_problem(f, "GET /echo?q=%00 HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "?q");
    expect_problem(f, "GET /echo?%zz=1 HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "");
    expect_problem(f, "GET /number?n=11 HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "?n");
    expect_problem(f, "GET /number?n=+3 HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "?n");
    expect_problem(f, "GET /number?n= HTTP/1.1\r\n" HOST "\r\n", 400, "EXECUTION_INVALID_REQUEST",
                   "?n");
    expect_problem(f, "GET /number?flag=yes HTTP/1.1\r\n" HOST "\r\n", 400,
                   "EXECUTION_INVALID_REQUEST", "?flag");
    expect_body(f, "GET /number HTTP/1.1\r\n" HOST "\r\n", 200,
                "{\"n\":7,\"flag\":false,\"token\":-1}");
    expect_body(f, "GET /number?n=10&flag=true HTTP/1.1\r\n" HOST "Fencing-Token: 12\r\n\r\n", 200,
                "{\"n\":10,\"flag\":true,\"token\":12}");
}

static void test_media_type(void **state)
{
    struct fixture *f = *state;

    expect_problem(f, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}", 415,
                   "UNSUPPORTED_MEDIA_TYPE", "");
    expect_problem(
        f, "POST /echo HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
        415, "UNSUPPORTED_MEDIA_TYPE", "");
    expect_problem(f,
                   "POST /echo HTTP/1.1\r\n" HOST
                   "Content-Type: application/json; charset=latin1\r\nContent-Length: 2\r\n\r\n{}",
                   415, "UNSUPPORTED_MEDIA_TYPE", "");
    expect_body(f,
                "POST /echo HTTP/1.1\r\n" HOST
                "Content-Type: application/JSON; charset=UTF-8\r\nContent-Length: 2\r\n\r\n{}",
                200, "{\"body\":\"{}\",\"q\":null,\"param\":null,\"real\":0.1}");
}

static void test_handlers_without_answer(void **state)
{
    struct fixture *f = *state;

    expect_problem(f, "GET /mute HTTP/1.1\r\n" HOST "\r\n", 500, "INTERNAL", "");
    expect_problem(f, "GET /mutejob HTTP/1.1\r\n" HOST "\r\n", 500, "INTERNAL", "");
}

static void test_overloaded_says_when(void **state)
{
    struct answer a;

    fixture_ask(*state, "GET /overloaded HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_problem(&a, 503, "OVERLOADED", "");
    assert_string_equal(answer_header(&a, "Retry-After"), "1");
    answer_done(&a);
}

/* --- connections --- */

static void test_keep_alive_and_pipelining(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "GET /echo?q=1 HTTP/1.1\r\n" HOST "\r\n"
                         "POST /job?q=2 HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{}"
                         "GET /nowhere HTTP/1.1\r\n" HOST "\r\n"
                         "GET /echo?q=3 HTTP/1.1\r\n" HOST "\r\n");
    for (int i = 1; i <= 4; i++) {
        static const char *const expected[] = {"\"q\":\"1\"", "\"q\":\"2\"", "ROUTE_NOT_FOUND",
                                               "\"q\":\"3\""};

        client_read(fd, &a, false);
        assert_non_null(strstr(a.body, expected[i - 1]));
        answer_done(&a);
    }
    close(fd);
}

static void test_large_head_passes(void **state)
{
    struct fixture *f = *state;
    struct buf request;
    struct answer a;

    buf_init(&request, 65536);
    assert_int_equal(buf_add_str(&request, "GET /echo HTTP/1.1\r\n" HOST), 0);
    for (int i = 0; request.len < 16384; i++) {
        assert_int_equal(buf_addf(&request, "X-Field-%d: %0*d\r\n", i, 100, i), 0);
    }
    assert_int_equal(buf_add_str(&request, "\r\n"), 0);
    fixture_ask(f, buf_str(&request), &a);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    buf_done(&request);
}

static void test_huge_head_is_refused(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    char *line = malloc(200000);
    struct answer a;

    memset(line, 'a', 200000);
    client_send_text(fd, "GET /echo HTTP/1.1\r\n" HOST "X-Long: ");
    (void)!send(fd, line, 200000, MSG_NOSIGNAL);
    client_read(fd, &a, true);
    assert_true(a.status == 431 || a.status == 0);
    answer_done(&a);
    free(line);
    close(fd);
}

/* --- bodies --- */

static void test_large_body_refused_before_it_is_read(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 65537\r\n\r\n");
    client_read(fd, &a, false);
    assert_problem(&a, 413, "PAYLOAD_TOO_LARGE", "");
    answer_done(&a);
    assert_true(client_sees_end(fd, 3000));
    close(fd);
}

static void test_expect_continue_is_refused_at_once(void **state)
{
    struct fixture *f = *state;

    expect_problem(f,
                   "POST /echo HTTP/1.1\r\n" HOST JSON
                   "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n",
                   413, "PAYLOAD_TOO_LARGE", "");
}

static void test_body_where_none_is_taken(void **state)
{
    struct fixture *f = *state;

    expect_problem(f, "DELETE /items/a HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{}", 413,
                   "PAYLOAD_TOO_LARGE", "");
    expect_problem(f,
                   "DELETE /items/a HTTP/1.1\r\n" HOST JSON
                   "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                   413, "PAYLOAD_TOO_LARGE", "");
}

/* A client that sends everything before it reads still gets its answer, not a reset. */
static void test_answer_survives_unread_body(void **state)
{
    struct fixture *f = *state;
    size_t size = 8 << 20;
    char *body = calloc(1, size);
    char head[256];

    for (int round = 0; round < 3; round++) {
        int fd = fixture_connect(f);
        struct answer a;

        snprintf(head, sizeof(head),
                 "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n", size);
        client_send_text(fd, head);
        client_send(fd, body, size);
        client_read(fd, &a, false);
        assert_problem(&a, 413, "PAYLOAD_TOO_LARGE", "");
        answer_done(&a);
        close(fd);
    }
    free(body);
}

static void test_chunked_body_over_the_cap(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    char chunk[4096 + 16];
    struct answer a;

    client_send_text(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n");
    memset(chunk, 'x', sizeof(chunk));
    memcpy(chunk, "1000\r\n", 6);
    memcpy(chunk + 6 + 4096, "\r\n", 2);
    for (int i = 0; i < 400; i++) {
        client_send(fd, chunk, 6 + 4096 + 2);
    }
    client_read(fd, &a, false);
    assert_problem(&a, 413, "PAYLOAD_TOO_LARGE", "");
    assert_string_equal(answer_header(&a, "Connection"), "close");
    answer_done(&a);
    assert_true(client_sees_end(fd, 3000));
    close(fd);
}

static void test_body_of_exactly_the_cap(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    char *body = malloc(65536);
    struct answer a;

    memset(body, ' ', 65536);
    client_send_text(fd, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 65536\r\n\r\n");
    client_send(fd, body, 65536);
    client_read(fd, &a, false);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    free(body);
    close(fd);
}

static void test_slow_requests_are_cut(void **state)
{
    struct fixture *f = *state;
    int head = fixture_connect(f);
    int body = fixture_connect(f);
    int idle = fixture_connect(f);

    client_send_text(head, "GET /echo HTT");
    client_send_text(body, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 10\r\n\r\n{");
    assert_true(client_sees_end(head, 8000));
    assert_true(client_sees_end(body, 8000));
    assert_true(client_sees_end(idle, 8000));
    close(head);
    close(body);
    close(idle);
}

static void test_half_closed_peer_gets_its_answer(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "POST /job HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{}");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    client_read(fd, &a, false);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    close(fd);
}

/* --- who may ask --- */

static void test_loopback_rules(void **state)
{
    struct fixture *f = *state;

    expect_problem(f, "GET /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "FORBIDDEN", "");
    expect_problem(f, "GET /echo HTTP/1.1\r\nHost: localhost.evil.example:80\r\n\r\n", 403,
                   "FORBIDDEN", "");
    expect_problem(f, "GET /nowhere HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "FORBIDDEN", "");
    expect_problem(f, "DELETE /items/a HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n\r\n",
                   403, "FORBIDDEN", "");
    expect_problem(f, "DELETE /items/a HTTP/1.1\r\n" HOST "Origin: null\r\n\r\n", 403, "FORBIDDEN",
                   "");
    expect_body(f, "GET /static HTTP/1.1\r\nHost: 127.1.2.3:8470\r\n\r\n", 200, "static");
    expect_body(f,
                "GET /static HTTP/1.1\r\nHost: [::1]:8470\r\nOrigin: https://evil.example\r\n\r\n",
                200, "static");
    expect_body(f, "DELETE /items/a HTTP/1.1\r\n" HOST "Origin: http://localhost:3000\r\n\r\n", 204,
                "");
    expect_body(f, "DELETE /items/a HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n\r\n", 204,
                "");
}

static void test_missing_host(void **state)
{
    struct answer a;

    fixture_ask(*state, "GET /static HTTP/1.1\r\n\r\n", &a);
    assert_int_equal(a.status, 400);
    answer_done(&a);
}

static void test_cors(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    fixture_ask(f,
                "OPTIONS /items/a HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n"
                "Access-Control-Request-Method: DELETE\r\n\r\n",
                &a);
    assert_int_equal(a.status, 204);
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Origin"), "https://app.example");
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Methods"), "GET, HEAD, DELETE");
    assert_non_null(strstr(answer_header(&a, "Access-Control-Allow-Headers"), "Content-Type"));
    answer_done(&a);
    fixture_ask(f, "GET /static HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n\r\n", &a);
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Origin"), "https://app.example");
    assert_string_equal(answer_header(&a, "Vary"), "Origin");
    answer_done(&a);
    fixture_ask(f,
                "OPTIONS /items/a HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n"
                "Access-Control-Request-Method: DELETE\r\n\r\n",
                &a);
    assert_problem(&a, 405, "METHOD_NOT_ALLOWED", "");
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Origin"), "");
    answer_done(&a);
}

/* --- listening --- */

static void expect_listen_fault(const struct fixture *f, const char *listen, enum error_code code)
{
    struct http_config config = {.listen = listen,
                                 .threads = 1,
                                 .connections_max = 16,
                                 .head_timeout_s = 5,
                                 .loopback_rules = true,
                                 .routes = routes,
                                 .route_count = 1,
                                 .pool = f->pool,
                                 .timers = f->timers,
                                 .topics = f->topics};
    struct http_server *s = NULL;
    struct error err = ERROR_INIT;

    assert_int_equal(http_server_new(&config, &s, &err), -1);
    assert_null(s);
    assert_int_equal(err.code, code);
}

static void test_listen_faults(void **state)
{
    struct fixture *f = *state;
    char taken[64];

    expect_listen_fault(f, "0.0.0.0:0", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "[::]:0", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "127.0.0.1", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "127.0.0.1:", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "127.0.0.1:65536", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "127.0.0.1:80x", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "::1:80", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, ":80", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "unix:", ERROR_INVALID_REQUEST);
    expect_listen_fault(f, "unix:/dev/null", ERROR_INVALID_REQUEST);
    snprintf(taken, sizeof(taken), "127.0.0.1:%u", f->port);
    expect_listen_fault(f, taken, ERROR_INTERNAL);
}

static void test_unix_socket(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char directory[] = "/tmp/exechost-http-XXXXXX";
    char listen[128];
    struct http_config config = {.listen = listen, .threads = 1, .loopback_rules = true};
    struct fixture f;
    struct answer a;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory);
    snprintf(listen, sizeof(listen), "unix:%s", address.sun_path);
    for (int round = 0; round < 2; round++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        if (round == 1) {
            int stale = socket(AF_UNIX, SOCK_STREAM, 0);

            assert_int_equal(bind(stale, (struct sockaddr *)&address, sizeof(address)), 0);
            close(stale);
        }
        fixture_start(&f, &config, routes, ARRAY_SIZE(routes), NULL);
        assert_string_equal(http_server_address(f.server), listen);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        client_send_text(
            fd, "DELETE /items/a HTTP/1.1\r\nHost: exechost\r\nOrigin: https://x.example\r\n\r\n");
        client_read(fd, &a, false);
        assert_int_equal(a.status, 204);
        answer_done(&a);
        close(fd);
        fixture_stop(&f);
        assert_int_equal(access(address.sun_path, F_OK), -1);
    }
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_no_content_and_head),
        cmocka_unit_test(test_request_id),
        cmocka_unit_test(test_routing_faults),
        cmocka_unit_test(test_query_faults),
        cmocka_unit_test(test_media_type),
        cmocka_unit_test(test_handlers_without_answer),
        cmocka_unit_test(test_overloaded_says_when),
        cmocka_unit_test(test_keep_alive_and_pipelining),
        cmocka_unit_test(test_large_head_passes),
        cmocka_unit_test(test_huge_head_is_refused),
        cmocka_unit_test(test_large_body_refused_before_it_is_read),
        cmocka_unit_test(test_expect_continue_is_refused_at_once),
        cmocka_unit_test(test_body_where_none_is_taken),
        cmocka_unit_test(test_answer_survives_unread_body),
        cmocka_unit_test(test_chunked_body_over_the_cap),
        cmocka_unit_test(test_body_of_exactly_the_cap),
        cmocka_unit_test(test_slow_requests_are_cut),
        cmocka_unit_test(test_half_closed_peer_gets_its_answer),
        cmocka_unit_test(test_loopback_rules),
        cmocka_unit_test(test_missing_host),
        cmocka_unit_test(test_cors),
        cmocka_unit_test(test_listen_faults),
        cmocka_unit_test(test_unix_socket),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
