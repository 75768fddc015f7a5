/* Bodies in files and files as answers, over raw sockets. */
#include "base/file.h"
#include "server/http/exchange.h"
#include "server/http/range.h"
#include "server_http_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

enum { CAP = 4 << 20, CONTENT_SIZE = 1000, LEAD = 7, BIG = 24 << 20 };

/* Byte i of every content here. */
static char byte_at(int64_t i)
{
    return (char)('a' + i * 7 % 23);
}

static int content_fd(int64_t lead, int64_t size)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char *data = malloc((size_t)(lead + size));
    struct error err = ERROR_INIT;

    assert_true(fd >= 0);
    for (int64_t i = 0; i < lead + size; i++) {
        data[i] = i < lead ? '#' : byte_at(i - lead);
    }
    assert_int_equal(file_write_all(fd, data, (size_t)(lead + size), &err), 0);
    free(data);
    return fd;
}

static void handle_content(struct http_exchange *x)
{
    const struct http_content c = {.fd = content_fd(LEAD, CONTENT_SIZE),
                                   .offset = LEAD,
                                   .size = CONTENT_SIZE,
                                   .type = "application/octet-stream",
                                   .etag = "\"tag-1\""};

    http_reply_content(x, &c);
}

static void handle_untagged(struct http_exchange *x)
{
    const struct http_content c = {
        .fd = content_fd(0, CONTENT_SIZE), .size = CONTENT_SIZE, .type = "text/plain"};

    http_reply_content(x, &c);
}

static void handle_big(struct http_exchange *x)
{
    const struct http_content c = {
        .fd = content_fd(0, BIG), .size = BIG, .type = "application/octet-stream"};

    http_reply_content(x, &c);
}

static void handle_nothing(struct http_exchange *x)
{
    const struct http_content c = {.fd = content_fd(0, 0), .type = "text/plain"};

    http_reply_content(x, &c);
}

/* The bytes of a range that were fetched from elsewhere. */
static void handle_elsewhere(struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    int64_t first = 0;
    int64_t length = CONTENT_SIZE;
    int rc = http_range(x, CONTENT_SIZE, &first, &length, &err);
    struct http_content c = {.size = length, .type = "text/plain"};

    if (rc < 0) {
        http_reply_error(x, &err);
        return;
    }
    c.fd = content_fd(first, length);
    c.offset = first;
    c.first = first;
    c.of = rc > 0 ? CONTENT_SIZE : 0;
    http_reply_content(x, &c);
}

/* "head", 3 bytes of a file, nothing, 24 MiB of a file, "tail". */
static void handle_parts(struct http_exchange *x)
{
    const struct http_part parts[] = {
        {.data = "head", .fd = -1, .size = 4},
        {.fd = content_fd(LEAD, 3), .offset = LEAD, .size = 3},
        {.data = "", .fd = -1, .size = 0},
        {.fd = content_fd(0, BIG), .size = BIG},
        {.data = "tail", .fd = -1, .size = 4},
    };

    http_add_header(x, "Content-Disposition", "attachment");
    http_reply_parts(x, "application/x-tar", parts, ARRAY_SIZE(parts));
}

/* A file that is shorter than it was. */
static void handle_shrunk(struct http_exchange *x)
{
    const struct http_part parts[] = {{.fd = content_fd(0, 100), .size = 200}};

    http_reply_parts(x, "application/x-tar", parts, ARRAY_SIZE(parts));
}

static void handle_too_many_parts(struct http_exchange *x)
{
    struct http_part parts[HTTP_PARTS_MAX + 1];

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        parts[i] = (struct http_part){.fd = content_fd(0, 1), .size = 1};
    }
    http_reply_parts(x, "application/x-tar", parts, ARRAY_SIZE(parts));
}

static void handle_upload(struct http_exchange *x)
{
    int64_t size = -1;
    int fd = http_body_file(x, &size);
    int64_t wrong = 0;
    char data[4096];
    ssize_t n;
    int64_t at = 0;

    while ((n = read(fd, data, sizeof(data))) > 0) {
        for (ssize_t i = 0; i < n; i++, at++) {
            wrong += data[i] != byte_at(at) ? 1 : 0;
        }
    }
    http_reply_json(x, 200,
                    json_pack("{s:I, s:I, s:I}", "size", (json_int_t)size, "read", (json_int_t)at,
                              "wrong", (json_int_t)wrong));
}

static void handle_any(struct http_exchange *x)
{
    size_t len;

    http_body(x, &len);
    http_reply_json(x, 200, json_pack("{s:I}", "size", (json_int_t)len));
}

static const struct http_route routes[] = {
    {"GET", "/content", ROUTE_INLINE, handle_content, 0, ""},
    {"GET", "/job", ROUTE_JOB, handle_content, 0, ""},
    {"GET", "/untagged", ROUTE_JOB, handle_untagged, 0, ""},
    {"GET", "/big", ROUTE_JOB, handle_big, 0, ""},
    {"GET", "/nothing", ROUTE_INLINE, handle_nothing, 0, ""},
    {"GET", "/elsewhere", ROUTE_JOB, handle_elsewhere, 0, ""},
    {"GET", "/parts", ROUTE_JOB, handle_parts, 0, ""},
    {"GET", "/shrunk", ROUTE_INLINE, handle_shrunk, 0, ""},
    {"GET", "/many", ROUTE_JOB, handle_too_many_parts, 0, ""},
    {"PUT", "/upload", ROUTE_JOB | ROUTE_BODY_FILE, handle_upload, CAP, ""},
    {"POST", "/upload", ROUTE_INLINE | ROUTE_BODY_FILE, handle_upload, CAP, ""},
    {"POST", "/any", ROUTE_INLINE | ROUTE_BODY_ANY, handle_any, 64, ""},
};

static int setup(void **state)
{
    const struct http_config config = {.scratch = "/tmp"};
    struct fixture *f = calloc(1, sizeof(*f));

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

/* --- ranges --- */

struct range_row {
    const char *text;
    int64_t size;
    enum range_result result;
    int64_t first;
    int64_t length;
};

static const struct range_row ranges[] = {
    {"bytes=0-0", 10, RANGE_PART, 0, 1},
    {"bytes=2-5", 10, RANGE_PART, 2, 4},
    {"bytes=2-", 10, RANGE_PART, 2, 8},
    {"bytes=9-", 10, RANGE_PART, 9, 1},
    {"bytes=2-99", 10, RANGE_PART, 2, 8},
    {"bytes=-3", 10, RANGE_PART, 7, 3},
    {"bytes=-10", 10, RANGE_PART, 0, 10},
    {"bytes=-99", 10, RANGE_PART, 0, 10},
    {"BYTES=1-1", 10, RANGE_PART, 1, 1},
    {"bytes= 1-1 ", 10, RANGE_PART, 1, 1},
    {"bytes=0-99999999999999999999999", 10, RANGE_PART, 0, 10},
    {"bytes=-99999999999999999999999", 10, RANGE_PART, 0, 10},
    {"bytes=10-", 10, RANGE_OUTSIDE, 0, 0},
    {"bytes=10-20", 10, RANGE_OUTSIDE, 0, 0},
    {"bytes=99999999999999999999999-", 10, RANGE_OUTSIDE, 0, 0},
    {"bytes=-0", 10, RANGE_OUTSIDE, 0, 0},
    {"bytes=1-", 0, RANGE_OUTSIDE, 0, 0},
    {"bytes=0-", 0, RANGE_NONE, 0, 0},
    {"bytes=-5", 0, RANGE_NONE, 0, 0},
    {"bytes=0-1,3-4", 10, RANGE_NONE, 0, 0},
    {"bytes=5-2", 10, RANGE_NONE, 0, 0},
    {"bytes=", 10, RANGE_NONE, 0, 0},
    {"bytes=-", 10, RANGE_NONE, 0, 0},
    {"bytes=a-b", 10, RANGE_NONE, 0, 0},
    {"bytes=1-2x", 10, RANGE_NONE, 0, 0},
    {"bytes=1", 10, RANGE_NONE, 0, 0},
    {"bytes=--1", 10, RANGE_NONE, 0, 0},
    {"bytes=+1-2", 10, RANGE_NONE, 0, 0},
    {"bytes 1-2", 10, RANGE_NONE, 0, 0},
    {"lines=1-2", 10, RANGE_NONE, 0, 0},
    {"", 10, RANGE_NONE, 0, 0},
};

static void test_range_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
        int64_t first = 0;
        int64_t length = 0;
        enum range_result result = range_parse(ranges[i].text, ranges[i].size, &first, &length);

        if (result != ranges[i].result || first != ranges[i].first || length != ranges[i].length) {
            fail_msg("%s of %lld: %d %lld %lld", ranges[i].text, (long long)ranges[i].size, result,
                     (long long)first, (long long)length);
        }
    }
}

static void test_etags(void **state)
{
    (void)state;
    assert_true(range_etag_listed("\"a\"", "\"a\""));
    assert_true(range_etag_listed("\"b\", W/\"a\"", "\"a\""));
    assert_true(range_etag_listed(" \"b\" ,\"a\" ", "\"a\""));
    assert_true(range_etag_listed("\"x,y\",\"a\"", "\"a\""));
    assert_true(range_etag_listed("*", "\"a\""));
    assert_true(range_etag_listed("\"a\"", "W/\"a\""));
    assert_false(range_etag_listed("\"ab\"", "\"a\""));
    assert_false(range_etag_listed("a", "\"a\""));
    assert_false(range_etag_listed("\"a", "\"a\""));
    assert_false(range_etag_listed("", "\"a\""));
    assert_false(range_etag_listed("*x", "\"a\""));
    assert_true(range_etag_same("\"a\"", "\"a\""));
    assert_false(range_etag_same("W/\"a\"", "\"a\""));
    assert_false(range_etag_same("W/\"a\"", "W/\"a\""));
    assert_false(range_etag_same("\"ab\"", "\"a\""));
    assert_false(range_etag_same("Sun, 29 Nov 2026 15:00:00 GMT", "\"a\""));
}

static void expect_content(const struct fixture *f, const char *request, int status, int64_t first,
                           int64_t length, const char *content_range)
{
    struct answer a;

    fixture_ask(f, request, &a);
    assert_int_equal(a.status, status);
    assert_string_equal(answer_header(&a, "Content-Range"), content_range);
    if (strncmp(request, "HEAD ", 5) != 0) {
        assert_int_equal(a.body_len, length);
        for (int64_t i = 0; i < length; i++) {
            assert_int_equal(a.body[i], byte_at(first + i));
        }
    }
    answer_done(&a);
}

static void test_parts(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char length[24];

    snprintf(length, sizeof(length), "%d", 4 + 3 + BIG + 4);
    fixture_ask(f, "GET /parts HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Length"), length);
    assert_string_equal(answer_header(&a, "Content-Type"), "application/x-tar");
    assert_int_equal(a.body_len, 4 + 3 + BIG + 4);
    assert_memory_equal(a.body, "head", 4);
    assert_memory_equal(a.body + a.body_len - 4, "tail", 4);
    for (int64_t i = 0; i < 3 + BIG; i++) {
        if (a.body[4 + i] != byte_at(i < 3 ? i : i - 3)) {
            fail_msg("byte %lld", (long long)i);
        }
    }
    answer_done(&a);
    fixture_ask(f, "HEAD /parts HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Length"), length);
    answer_done(&a);
    fixture_ask(f, "GET /many HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", &a);
    assert_int_equal(a.status, 500);
    answer_done(&a);
}

/* What is promised and can't be sent ends the connection: nobody takes a part for the whole. */
static void test_shrunk_part(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    char got[2048] = "";
    size_t len = 0;
    ssize_t n;

    client_send_text(fd, "GET /shrunk HTTP/1.1\r\n" HOST "\r\n");
    while ((n = recv(fd, got + len, sizeof(got) - 1 - len, 0)) > 0) {
        len += (size_t)n;
    }
    close(fd);
    assert_non_null(strstr(got, "Content-Length: 200\r\n"));
    assert_non_null(strstr(got, "\r\n\r\n"));
    assert_true(strlen(strstr(got, "\r\n\r\n") + 4) <= 100);
}

static void test_content(void **state)
{
    static const char *const paths[] = {"/content", "/job"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        char request[256];

#define ASK(method, headers)                                                                       \
    (snprintf(request, sizeof(request), method " %s HTTP/1.1\r\n" HOST headers "\r\n", paths[i]),  \
     request)
        expect_content(f, ASK("GET", ""), 200, 0, CONTENT_SIZE, "");
        expect_content(f, ASK("GET", "Range: bytes=10-19\r\n"), 206, 10, 10, "bytes 10-19/1000");
        expect_content(f, ASK("GET", "Range: bytes=990-\r\n"), 206, 990, 10, "bytes 990-999/1000");
        expect_content(f, ASK("GET", "Range: bytes=-1\r\n"), 206, 999, 1, "bytes 999-999/1000");
        expect_content(f, ASK("GET", "Range: bytes=0-1,5-6\r\n"), 200, 0, CONTENT_SIZE, "");
        expect_content(f, ASK("GET", "Range: bytes=0-1\r\nRange: bytes=5-6\r\n"), 200, 0,
                       CONTENT_SIZE, "");
        expect_content(f, ASK("GET", "Range: lines=0-1\r\n"), 200, 0, CONTENT_SIZE, "");
        expect_content(f, ASK("GET", "Range: bytes=1-2\r\nIf-Range: \"tag-1\"\r\n"), 206, 1, 2,
                       "bytes 1-2/1000");
        expect_content(f, ASK("GET", "Range: bytes=1-2\r\nIf-Range: \"tag-0\"\r\n"), 200, 0,
                       CONTENT_SIZE, "");
        expect_content(f, ASK("GET", "Range: bytes=1-2\r\nIf-None-Match: \"tag-0\"\r\n"), 206, 1, 2,
                       "bytes 1-2/1000");
        expect_content(f, ASK("HEAD", "Range: bytes=1-2\r\n"), 200, 0, 0, "");
#undef ASK
    }
    expect_content(f, "GET /untagged HTTP/1.1\r\n" HOST "Range: bytes=1-2\r\n\r\n", 206, 1, 2,
                   "bytes 1-2/1000");
    expect_content(f,
                   "GET /untagged HTTP/1.1\r\n" HOST "Range: bytes=1-2\r\nIf-Range: \"a\"\r\n\r\n",
                   200, 0, CONTENT_SIZE, "");
    expect_content(f, "GET /nothing HTTP/1.1\r\n" HOST "Range: bytes=0-\r\n\r\n", 200, 0, 0, "");
    expect_content(f, "GET /elsewhere HTTP/1.1\r\n" HOST "Range: bytes=20-29\r\n\r\n", 206, 0, 10,
                   "bytes 20-29/1000");
    expect_content(f, "GET /elsewhere HTTP/1.1\r\n" HOST "\r\n", 200, 0, CONTENT_SIZE, "");
}

static void test_content_headers(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    fixture_ask(f, "HEAD /content HTTP/1.1\r\n" HOST "\r\n", &a);
    assert_string_equal(answer_header(&a, "Content-Length"), "1000");
    assert_string_equal(answer_header(&a, "Accept-Ranges"), "bytes");
    assert_string_equal(answer_header(&a, "ETag"), "\"tag-1\"");
    assert_string_equal(answer_header(&a, "Content-Type"), "application/octet-stream");
    answer_done(&a);
}

static void test_not_modified(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    for (int i = 0; i < 2; i++) {
        client_send_text(fd, i == 0 ? "GET /content HTTP/1.1\r\n" HOST
                                      "If-None-Match: \"x\", \"tag-1\"\r\nRange: bytes=0-1\r\n\r\n"
                                    : "GET /job HTTP/1.1\r\n" HOST "If-None-Match: *\r\n\r\n");
        client_read(fd, &a, true);
        assert_int_equal(a.status, 304);
        assert_string_equal(answer_header(&a, "ETag"), "\"tag-1\"");
        answer_done(&a);
    }
    client_send_text(fd, "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
    client_read(fd, &a, false);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    close(fd);
}

static void test_range_outside(void **state)
{
    static const char *const paths[] = {"/content", "/job", "/untagged", "/elsewhere"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        char request[128];
        struct answer a;

        snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "Range: bytes=1000-\r\n\r\n",
                 paths[i]);
        fixture_ask(f, request, &a);
        assert_problem(&a, 416, "RANGE_NOT_SATISFIABLE", "Range");
        assert_string_equal(answer_header(&a, "Content-Range"), "bytes */1000");
        answer_done(&a);
    }
}

/* Larger than all buffers on the way, read late; another request is served meanwhile. */
static void test_big_content_to_a_slow_reader(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "GET /big HTTP/1.1\r\n" HOST "\r\n");
    usleep(200000);
    expect_content(f, "GET /job HTTP/1.1\r\n" HOST "\r\n", 200, 0, CONTENT_SIZE, "");
    client_read(fd, &a, false);
    assert_int_equal(a.body_len, BIG);
    for (int64_t i = 0; i < BIG; i += 4093) {
        assert_int_equal(a.body[i], byte_at(i));
    }
    answer_done(&a);
    close(fd);
}

/* --- bodies in files --- */

static char *make_body(size_t size)
{
    char *body = malloc(size);

    for (size_t i = 0; i < size; i++) {
        body[i] = byte_at((int64_t)i);
    }
    return body;
}

static void expect_upload(const struct fixture *f, const char *method, size_t size)
{
    int fd = fixture_connect(f);
    char *body = make_body(size + 1);
    char head[256];
    struct answer a;

    snprintf(head, sizeof(head),
             "%s /upload HTTP/1.1\r\n" HOST "Content-Type: application/x-tar\r\n"
             "Content-Length: %zu\r\n\r\n",
             method, size);
    client_send_text(fd, head);
    client_send(fd, body, size);
    client_read(fd, &a, false);
    assert_int_equal(a.status, 200);
    snprintf(head, sizeof(head), "{\"size\":%zu,\"read\":%zu,\"wrong\":0}", size, size);
    assert_string_equal(a.body, head);
    answer_done(&a);
    close(fd);
    free(body);
}

static void test_uploads(void **state)
{
    static const size_t sizes[] = {0, 1, 70000, CAP};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        expect_upload(f, "PUT", sizes[i]);
        expect_upload(f, "POST", sizes[i]);
    }
}

static void send_chunks(int fd, size_t count)
{
    char *body = make_body(count * 4096);

    for (size_t i = 0; i < count; i++) {
        client_send_text(fd, "1000\r\n");
        client_send(fd, body + i * 4096, 4096);
        client_send_text(fd, "\r\n");
    }
    free(body);
}

static void test_chunked_upload(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;

    client_send_text(fd, "PUT /upload HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    send_chunks(fd, 20);
    client_send_text(fd, "0\r\n\r\n");
    client_read(fd, &a, false);
    assert_string_equal(a.body, "{\"size\":81920,\"read\":81920,\"wrong\":0}");
    answer_done(&a);
    close(fd);
}

static void test_upload_over_the_cap(void **state)
{
    struct fixture *f = *state;
    int fd = fixture_connect(f);
    struct answer a;
    char head[128];

    client_send_text(fd, "PUT /upload HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    send_chunks(fd, CAP / 4096 + 1);
    client_read(fd, &a, false);
    assert_problem(&a, 413, "PAYLOAD_TOO_LARGE", "");
    answer_done(&a);
    assert_true(client_sees_end(fd, 3000));
    close(fd);
    fd = fixture_connect(f);
    snprintf(head, sizeof(head), "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
             CAP + 1);
    client_send_text(fd, head);
    client_read(fd, &a, false);
    assert_problem(&a, 413, "PAYLOAD_TOO_LARGE", "");
    answer_done(&a);
    close(fd);
}

static void test_any_type(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    fixture_ask(f, "POST /any HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n\xff\x01z", &a);
    assert_string_equal(a.body, "{\"size\":3}");
    answer_done(&a);
}

/* In a process of its own, whose scratch directory is a file system of 1 MiB. */
static int upload_to_full_disk(const char *directory)
{
    struct http_config config = {.scratch = directory, .threads = 1};
    struct fixture f;
    int fd;
    struct answer a;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", directory, "tmpfs", 0, "size=1m") != 0) {
        return 10;
    }
    fixture_start(&f, &config, routes, ARRAY_SIZE(routes), NULL);
    for (int round = 0; round < 3; round++) {
        fd = fixture_connect(&f);
        client_send_text(fd, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 3000000\r\n\r\n");
        send_chunks(fd, 2000000 / 4096);
        client_read(fd, &a, false);
        assert_problem(&a, 507, "STORAGE_FULL", "");
        assert_string_equal(answer_header(&a, "Connection"), "close");
        answer_done(&a);
        close(fd);
        expect_upload(&f, "PUT", 500000); /* what was refused holds no room */
    }
    fixture_stop(&f);
    return 0;
}

static void test_full_disk(void **state)
{
    char directory[] = "/tmp/exechost-spool-XXXXXX";
    int status;
    pid_t pid;

    (void)state;
    assert_non_null(mkdtemp(directory));
    pid = fork();
    if (pid == 0) {
        _exit(upload_to_full_disk(directory));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_table),
        cmocka_unit_test(test_etags),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test_setup_teardown(test_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shrunk_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_content_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_modified, setup, teardown),
        cmocka_unit_test_setup_teardown(test_range_outside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_big_content_to_a_slow_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uploads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chunked_upload, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upload_over_the_cap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_any_type, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
