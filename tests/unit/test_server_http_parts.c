/* The pure parts of the HTTP adapter: targets, routes, origins, ids of requests. */
#include "server/http/exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_uri_segments(void **state)
{
    struct uri u;

    (void)state;
    assert_int_equal(uri_parse(&u, "/v1/a%2Fb/c%C3%A9+d?x=1"), 0);
    assert_true(u.path_valid);
    assert_int_equal(u.segment_count, 3);
    assert_string_equal(u.segments[0], "v1");
    assert_string_equal(u.segments[1], "a/b");
    assert_string_equal(u.segments[2], "c\xC3\xA9+d");
    assert_string_equal(u.path, "/v1/a%2Fb/c%C3%A9+d");
    uri_done(&u);
    assert_int_equal(uri_parse(&u, "/"), 0);
    assert_true(u.path_valid);
    assert_int_equal(u.segment_count, 1);
    assert_string_equal(u.segments[0], "");
    uri_done(&u);
}

static void test_uri_bad_paths(void **state)
{
    static const char *const bad[] = {
        "",      "v1",   "*",       "http://x/%", "/a%",    "/a%1",
        "/a%1g", "/%00", "/%c3%28", "/%ed%a0%80", "/a/%fe", "/1/2/3/4/5/6/7/8/9/10/11"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct uri u;

        assert_int_equal(uri_parse(&u, bad[i]), 0);
        assert_false(u.path_valid);
        uri_done(&u);
    }
}

static void test_uri_absolute(void **state)
{
    static const struct {
        const char *raw;
        const char *authority;
        const char *segment;
    } rows[] = {
        {"http://h:80/v1?a=b", "h:80", "v1"},
        {"HTTPS://[::1]/v1", "[::1]", "v1"},
        {"http://h", "h", ""},
        {"http://h?a=b", "h", ""},
        {"http:///v1", "", "v1"},
        {"/http://h", NULL, "http:"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct uri u;

        assert_int_equal(uri_parse(&u, rows[i].raw), 0);
        assert_true(u.path_valid);
        assert_string_equal(u.raw, rows[i].raw);
        assert_string_equal(u.segments[0], rows[i].segment);
        assert_int_equal(u.authority == NULL, rows[i].authority == NULL);
        if (u.authority != NULL) {
            assert_string_equal(u.authority, rows[i].authority);
        }
        uri_done(&u);
    }
}

static void test_uri_query(void **state)
{
    struct uri u;

    (void)state;
    assert_int_equal(uri_parse(&u, "/?a=1&&b=x%3Dy+z&c&d==&label=k%3Av&"), 0);
    assert_null(u.query_error);
    assert_string_equal(uri_query(&u, "a"), "1");
    assert_string_equal(uri_query(&u, "b"), "x=y z");
    assert_string_equal(uri_query(&u, "c"), "");
    assert_string_equal(uri_query(&u, "d"), "=");
    assert_string_equal(uri_query(&u, "label"), "k:v");
    assert_null(uri_query(&u, "e"));
    uri_done(&u);
}

static void test_uri_query_faults(void **state)
{
    static const struct {
        const char *target;
        const char *field;
    } rows[] = {{"/?a=1&b=2&a=3", "?a"}, {"/?a=%", "?a"}, {"/?a=%e2%82", "?a"},
                {"/?a=%00", "?a"},       {"/?%=1", ""},   {"/?%61=1&a", "?a"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct uri u;

        assert_int_equal(uri_parse(&u, rows[i].target), 0);
        assert_int_equal(u.query_error->code, ERROR_INVALID_REQUEST);
        assert_string_equal(u.query_error->field, rows[i].field);
        uri_done(&u);
    }
}

static void test_uri_too_many_names(void **state)
{
    struct buf target;
    struct uri u;

    (void)state;
    buf_init(&target, 4096);
    assert_int_equal(buf_add_str(&target, "/?"), 0);
    for (int i = 0; i <= URI_QUERY_MAX; i++) {
        assert_int_equal(buf_addf(&target, "n%d&", i), 0);
    }
    assert_int_equal(uri_parse(&u, buf_str(&target)), 0);
    assert_int_equal(u.query_count, URI_QUERY_MAX);
    assert_int_equal(u.query_error->code, ERROR_INVALID_REQUEST);
    uri_done(&u);
    buf_done(&target);
}

static void nothing(struct http_exchange *x)
{
    (void)x;
}

static const struct http_route routes[] = {
    {"GET", "/", ROUTE_INLINE, nothing, 0, ""},
    {"POST", "/v1/things", ROUTE_INLINE, nothing, 10, "?wait"},
    {"GET", "/v1/things", ROUTE_INLINE, nothing, 0, "limit cursor"},
    {"GET", "/v1/things/{id}/parts/{part}", ROUTE_INLINE, nothing, 0, ""},
};

static const struct http_route *find(const char *method, const char *target, struct router_match *m,
                                     struct uri *u)
{
    assert_int_equal(uri_parse(u, target), 0);
    router_find(routes, ARRAY_SIZE(routes), u, method, m);
    return m->route;
}

static void test_router(void **state)
{
    struct router_match m;
    struct uri u;

    (void)state;
    assert_ptr_equal(find("GET", "/", &m, &u), &routes[0]);
    uri_done(&u);
    assert_ptr_equal(find("HEAD", "/v1/things", &m, &u), &routes[2]);
    assert_string_equal(m.allow, "");
    uri_done(&u);
    assert_ptr_equal(find("GET", "/v1/things/a%2F/parts/b", &m, &u), &routes[3]);
    assert_string_equal(m.params[0], "a/");
    assert_string_equal(m.params[1], "b");
    uri_done(&u);
    assert_null(find("get", "/v1/things", &m, &u));
    assert_string_equal(m.allow, "POST, GET, HEAD");
    uri_done(&u);
    assert_null(find("GET", "/v1/thingsx", &m, &u));
    assert_string_equal(m.allow, "");
    uri_done(&u);
    assert_null(find("GET", "/v1", &m, &u));
    uri_done(&u);
    assert_null(find("GET", "/v1%2Fthings", &m, &u));
    assert_string_equal(m.allow, "");
    uri_done(&u);
    assert_null(find("GET", "/v1/things/a/parts/b/c", &m, &u));
    uri_done(&u);
}

static void test_router_query_names(void **state)
{
    static const struct {
        const char *target;
        const char *field; /* NULL: fine */
    } rows[] = {{"/v1/things?limit=1&cursor=", NULL},
                {"/v1/things?limi=1", "?limi"},
                {"/v1/things?wait=1", "?wait"},
                {"/v1/things?limit%20cursor", "?limit cursor"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct error err = ERROR_INIT;
        struct router_match m;
        struct uri u;

        assert_non_null(find("GET", rows[i].target, &m, &u));
        assert_int_equal(router_check_query(m.route, &u, &err), rows[i].field == NULL ? 0 : -1);
        assert_string_equal(err.field, rows[i].field == NULL ? "" : rows[i].field);
        uri_done(&u);
    }
}

static void test_loopback_hosts(void **state)
{
    static const char *const good[] = {"localhost",         "LocalHost:1", "127.0.0.1",
                                       "127.255.1.1:65535", "[::1]",       "[::1]:80"};
    static const char *const bad[] = {
        "",           "localhost.", "localhost:", "localhost:a", "127.0.0.1.evil.example",
        "128.0.0.1",  "[::2]",      "[::1",       "::1",         "evil.example",
        "localhost@", "127.1",      "[::1]x",     "0.0.0.0",     "[::ffff:127.0.0.1]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_true(origin_host_is_loopback(good[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_false(origin_host_is_loopback(bad[i]));
    }
    assert_true(origin_is_loopback("http://localhost:3000"));
    assert_true(origin_is_loopback("https://[::1]"));
    assert_false(origin_is_loopback("null"));
    assert_false(origin_is_loopback("ftp://localhost"));
    assert_false(origin_is_loopback("http://localhost.evil.example"));
    assert_false(origin_is_loopback("http://localhost/"));
}

static void test_request_ids(void **state)
{
    char out[REQUEST_ID_MAX + 1];
    char again[REQUEST_ID_MAX + 1];
    char text[REQUEST_ID_MAX + 2];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[REQUEST_ID_MAX] = '\0';
    trace_request_id(text, out);
    assert_string_equal(out, text);
    text[REQUEST_ID_MAX] = 'a';
    text[REQUEST_ID_MAX + 1] = '\0';
    trace_request_id(text, out);
    assert_memory_equal(out, "req-", 4);
    trace_request_id("", out);
    assert_memory_equal(out, "req-", 4);
    trace_request_id("a\"b", out);
    trace_request_id(NULL, again);
    assert_memory_equal(out, "req-", 4);
    assert_string_not_equal(out, again);
}

static void test_traceparent(void **state)
{
#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
    static const struct {
        const char *header;
        const char *trace;
    } rows[] = {
        {"00-" TRACE "-00f067aa0ba902b7-01", TRACE},
        {"cc-" TRACE "-00f067aa0ba902b7-01-what-comes", TRACE},
        {"00-" TRACE "-00f067aa0ba902b7-01-x", ""},
        {"00-" TRACE "-00f067aa0ba902b7-01x", ""},
        {"cc-" TRACE "-00f067aa0ba902b7-01x", ""},
        {"ff-" TRACE "-00f067aa0ba902b7-01", ""},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
        {"00-" TRACE "-0000000000000000-01", ""},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", ""},
        {"00-" TRACE "-00f067aa0ba902b7", ""},
        {"", ""},
    };
    struct log_trace out;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        trace_parent(rows[i].header, &out);
        assert_string_equal(out.id, rows[i].trace);
    }
    trace_parent(NULL, &out);
    assert_string_equal(out.id, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uri_segments),     cmocka_unit_test(test_uri_bad_paths),
        cmocka_unit_test(test_uri_absolute),     cmocka_unit_test(test_uri_query),
        cmocka_unit_test(test_uri_query_faults), cmocka_unit_test(test_uri_too_many_names),
        cmocka_unit_test(test_router),           cmocka_unit_test(test_router_query_names),
        cmocka_unit_test(test_loopback_hosts),   cmocka_unit_test(test_request_ids),
        cmocka_unit_test(test_traceparent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
