/* Tokens: who is let in, to what, before a body is read. */
#include "server_http_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HOST "Host: elsewhere.example\r\n"
#define AS(token) "Authorization: Bearer " token "\r\n"

static char acme[] = "acme";
static char ops[] = "ops";
static char other[] = "other";

/* The SHA-256 of "reader", "writer", "admin" and "a.b_c-d~e+f/g==". */
static const struct token tokens[] = {
    {"3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30", acme, SCOPE_READ, {0}},
    {"b93006774cbdd4b299389a03ac3d88c3a76b460d538795bc12718011a909fba5", acme, SCOPE_WRITE, {0}},
    {"8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918", ops, SCOPE_ADMIN, {0}},
    {"68a65e776e201785337619ce7075e70fb30c0c8e69c54bcf7cd66f89eeefc24a",
     other,
     SCOPE_READ | SCOPE_WRITE,
     {0}},
};

static void handle_who(struct http_exchange *x)
{
    http_reply_json(
        x, 200,
        json_pack("{s:s, s:b}", "tenant", http_tenant(x), "admin", http_has_scope(x, SCOPE_ADMIN)));
}

static const struct http_route routes[] = {
    {"GET", "/things/{id}", ROUTE_INLINE, handle_who, 0, "q"},
    {"POST", "/things/{id}", ROUTE_JOB, handle_who, 1024, ""},
    {"GET", "/public", ROUTE_INLINE | ROUTE_PUBLIC, handle_who, 0, ""},
    {"GET", "/any", ROUTE_INLINE | ROUTE_ANY_SCOPE, handle_who, 0, ""},
    {"GET", "/admin", ROUTE_INLINE | ROUTE_ADMIN, handle_who, 0, ""},
};

static int setup(void **state)
{
    static const char *const origins[] = {"https://app.example", NULL};
    struct fixture *f = calloc(1, sizeof(*f));
    struct http_config config = {
        .tokens = tokens, .token_count = ARRAY_SIZE(tokens), .cors_origins = origins};

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

static void expect_who(const struct fixture *f, const char *request, const char *body)
{
    struct answer a;

    fixture_ask(f, request, &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, body);
    answer_done(&a);
}

static void expect_refused(const struct fixture *f, const char *request, int status,
                           const char *code)
{
    struct answer a;

    fixture_ask(f, request, &a);
    assert_problem(&a, status, code, "");
    assert_string_equal(answer_header(&a, "WWW-Authenticate"), status == 401 ? "Bearer" : "");
    answer_done(&a);
}

static void test_scopes(void **state)
{
    expect_who(*state, "GET /things/1 HTTP/1.1\r\n" HOST AS("reader") "\r\n",
               "{\"tenant\":\"acme\",\"admin\":false}");
    expect_who(*state, "POST /things/1 HTTP/1.1\r\n" HOST AS("writer") "\r\n",
               "{\"tenant\":\"acme\",\"admin\":false}");
    expect_who(*state, "GET /admin HTTP/1.1\r\n" HOST AS("admin") "\r\n",
               "{\"tenant\":\"ops\",\"admin\":true}");
    expect_who(*state, "GET /any HTTP/1.1\r\n" HOST AS("admin") "\r\n",
               "{\"tenant\":\"ops\",\"admin\":true}");
    expect_who(*state, "GET /any HTTP/1.1\r\n" HOST AS("writer") "\r\n",
               "{\"tenant\":\"acme\",\"admin\":false}");
    expect_who(*state, "GET /things/1 HTTP/1.1\r\n" HOST AS("a.b_c-d~e+f/g==") "\r\n",
               "{\"tenant\":\"other\",\"admin\":false}");
    expect_refused(*state, "POST /things/1 HTTP/1.1\r\n" HOST AS("reader") "\r\n", 403,
                   "FORBIDDEN");
    expect_refused(*state, "GET /things/1 HTTP/1.1\r\n" HOST AS("writer") "\r\n", 403, "FORBIDDEN");
    expect_refused(*state, "GET /things/1 HTTP/1.1\r\n" HOST AS("admin") "\r\n", 403, "FORBIDDEN");
    expect_refused(*state, "GET /admin HTTP/1.1\r\n" HOST AS("reader") "\r\n", 403, "FORBIDDEN");
}

static void test_public(void **state)
{
    expect_who(*state, "GET /public HTTP/1.1\r\n" HOST "\r\n", "{\"tenant\":\"\",\"admin\":false}");
    expect_who(*state, "GET /public HTTP/1.1\r\n" HOST AS("nobody") "\r\n",
               "{\"tenant\":\"\",\"admin\":false}");
}

static void test_strict_header(void **state)
{
    static const char *const headers[] = {
        "",
        AS("nobody"),
        AS("reader "),
        AS(" reader"),
        AS("reader, reader"),
        AS("reader="),
        AS("=reader"),
        AS(""),
        "Authorization: Bearer\r\n",
        "Authorization: Bearerreader\r\n",
        "Authorization: reader\r\n",
        "Authorization: Basic cmVhZGVyOg==\r\n",
        "Authorization: Bearer\treader\r\n",
        AS("reader") AS("reader"),
        AS("reader") AS("nobody"),
        AS("3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30"),
        "Proxy-Authorization: Bearer reader\r\n",
        "Cookie: Authorization=Bearer reader\r\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
        char request[512];

        snprintf(request, sizeof(request), "GET /things/1 HTTP/1.1\r\n" HOST "%s\r\n", headers[i]);
        expect_refused(*state, request, 401, "UNAUTHENTICATED");
    }
    expect_who(*state, "GET /any HTTP/1.1\r\n" HOST "authorization: bearer reader\r\n\r\n",
               "{\"tenant\":\"acme\",\"admin\":false}");
}

/* Nothing is told to who has no token: not what there is, nor what a call takes. */
static void test_order(void **state)
{
    expect_refused(*state, "GET /nowhere HTTP/1.1\r\n" HOST "\r\n", 401, "UNAUTHENTICATED");
    expect_refused(*state, "PUT /things/1 HTTP/1.1\r\n" HOST "\r\n", 401, "UNAUTHENTICATED");
    expect_refused(*state, "GET /things/1?x=1 HTTP/1.1\r\n" HOST "\r\n", 401, "UNAUTHENTICATED");
    expect_refused(*state, "GET /things/1?x=1 HTTP/1.1\r\n" HOST AS("writer") "\r\n", 403,
                   "FORBIDDEN");
    expect_refused(*state, "GET /nowhere HTTP/1.1\r\n" HOST AS("writer") "\r\n", 404,
                   "ROUTE_NOT_FOUND");
    expect_refused(*state, "PUT /things/1 HTTP/1.1\r\n" HOST AS("writer") "\r\n", 405,
                   "METHOD_NOT_ALLOWED");
}

/* Refused at the head: with the body not sent, and with a body that none is told the cap of. */
static void test_before_the_body(void **state)
{
    const struct fixture *f = *state;
    static const char *const rows[] = {"", AS("reader")};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char request[256];

        snprintf(request, sizeof(request),
                 "POST /things/1 HTTP/1.1\r\n" HOST
                 "Expect: 100-continue\r\nContent-Length: 1000000\r\n%s\r\n",
                 rows[i]);
        expect_refused(f, request, i == 0 ? 401 : 403, i == 0 ? "UNAUTHENTICATED" : "FORBIDDEN");
        snprintf(request, sizeof(request),
                 "POST /things/1 HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n%s\r\n", rows[i]);
        expect_refused(f, request, i == 0 ? 401 : 403, i == 0 ? "UNAUTHENTICATED" : "FORBIDDEN");
    }
}

static void test_connection_goes_on(void **state)
{
    int fd = fixture_connect(*state);
    struct answer a;

    client_send_text(fd, "POST /things/1 HTTP/1.1\r\n" HOST
                         "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                         "GET /things/1 HTTP/1.1\r\n" HOST AS(
                             "reader") "\r\n"
                                       "GET /things/1 HTTP/1.1\r\n" HOST "\r\n");
    client_read(fd, &a, false);
    assert_problem(&a, 401, "UNAUTHENTICATED", "");
    answer_done(&a);
    client_read(fd, &a, false);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    client_read(fd, &a, false);
    assert_problem(&a, 401, "UNAUTHENTICATED", "");
    answer_done(&a);
    close(fd);
}

/* A browser can't add a token by itself: only what CORS allows reads answers. */
static void test_cors(void **state)
{
    struct answer a;

    fixture_ask(*state,
                "OPTIONS /things/1 HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n"
                "Access-Control-Request-Method: POST\r\n\r\n",
                &a);
    assert_int_equal(a.status, 204);
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Methods"), "GET, HEAD, POST");
    answer_done(&a);
    fixture_ask(*state,
                "OPTIONS /things/1 HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n"
                "Access-Control-Request-Method: POST\r\n\r\n",
                &a);
    assert_problem(&a, 401, "UNAUTHENTICATED", "");
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Origin"), "");
    answer_done(&a);
    fixture_ask(
        *state,
        "POST /things/1 HTTP/1.1\r\n" HOST AS("writer") "Origin: https://evil.example\r\n\r\n", &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Origin"), "");
    answer_done(&a);
    fixture_ask(*state, "GET /things/1 HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n\r\n",
                &a);
    assert_problem(&a, 401, "UNAUTHENTICATED", "");
    assert_string_equal(answer_header(&a, "Access-Control-Allow-Origin"), "https://app.example");
    answer_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_public),
        cmocka_unit_test(test_strict_header),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_before_the_body),
        cmocka_unit_test(test_connection_goes_on),
        cmocka_unit_test(test_cors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
