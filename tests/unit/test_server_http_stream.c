/* Streams: chunks, ends, cuts, followers, slow readers. */
#include "base/clock.h"
#include "server/http/exchange.h"
#include "server_http_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

enum { FOLLOWERS = 1000, PATIENCE_MS = 20000 };

/* A log of lines that grows; streams follow it from their own position. */
struct log {
    atomic_int lines;
    atomic_bool ended;
    atomic_bool cut;
    atomic_int open; /* streams that live */
    atomic_int fills;
};

static struct log log_;

struct follower {
    struct log *log;
    int at;
};

static enum http_stream_next fill_lines(void *state, struct buf *out)
{
    struct follower *f = state;
    bool ended = atomic_load(&f->log->ended); /* before the lines: none comes after it */

    atomic_fetch_add(&f->log->fills, 1);
    while (f->at < atomic_load(&f->log->lines) && out->len < 32768) {
        assert_int_equal(buf_addf(out, "line %d\n", f->at++), 0);
    }
    if (f->at < atomic_load(&f->log->lines)) {
        return HTTP_STREAM_MORE;
    }
    if (atomic_load(&f->log->cut)) {
        return HTTP_STREAM_CUT;
    }
    return ended ? HTTP_STREAM_END : HTTP_STREAM_WAIT;
}

static void add_ping(void *state, struct buf *out)
{
    (void)state;
    assert_int_equal(buf_add_str(out, "ping\n"), 0);
}

static void follower_done(void *state)
{
    struct follower *f = state;

    atomic_fetch_sub(&f->log->open, 1);
    free(f);
}

static const struct http_stream_ops follow = {fill_lines, add_ping, follower_done};
static const struct http_stream_ops follow_silent = {fill_lines, NULL, follower_done};

static void start(struct http_exchange *x, const struct http_stream_ops *ops)
{
    struct follower *f = calloc(1, sizeof(*f));

    f->log = http_service(x);
    atomic_fetch_add(&f->log->open, 1);
    http_reply_stream(x, "text/plain", "log", ops, f);
}

static void handle_follow(struct http_exchange *x)
{
    start(x, &follow);
}

static void handle_silent(struct http_exchange *x)
{
    start(x, &follow_silent);
}

static void follow_again(struct http_exchange *x)
{
    start(x, &follow);
}

/* First waits as a handler, then streams. */
static void handle_late(struct http_exchange *x)
{
    http_wait(x, "late", 0, NULL, follow_again);
    atomic_fetch_add(&log_.fills, 1);
}

/* Megabytes in fills without a wait. */
static enum http_stream_next fill_flood(void *state, struct buf *out)
{
    struct follower *f = state;
    char block[32768];

    memset(block, 'f', sizeof(block));
    assert_int_equal(buf_add(out, block, sizeof(block)), 0);
    return ++f->at < 1024 ? HTTP_STREAM_MORE : HTTP_STREAM_END;
}

static const struct http_stream_ops flood = {fill_flood, NULL, follower_done};

static void handle_flood(struct http_exchange *x)
{
    start(x, &flood);
}

static void handle_empty(struct http_exchange *x)
{
    http_reply_empty(x, 204);
}

static const struct http_route routes[] = {
    {"GET", "/follow", ROUTE_INLINE, handle_follow, 0, ""},
    {"GET", "/silent", ROUTE_INLINE, handle_silent, 0, ""},
    {"POST", "/follow", ROUTE_JOB, handle_follow, 16, ""},
    {"GET", "/late", ROUTE_JOB, handle_late, 0, ""},
    {"GET", "/flood", ROUTE_INLINE, handle_flood, 0, ""},
    {"GET", "/empty", ROUTE_INLINE, handle_empty, 0, ""},
};

static int setup_with(void **state, int64_t heartbeat_ms, unsigned timeout_s)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const struct http_config config = {.heartbeat_ms = heartbeat_ms, .head_timeout_s = timeout_s};

    log_ = (struct log){0};
    fixture_start(f, &config, routes, ARRAY_SIZE(routes), &log_);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 0, 0);
}

static int setup_heartbeat(void **state)
{
    return setup_with(state, 100, 0);
}

static int setup_short(void **state)
{
    return setup_with(state, 0, 1);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fixture_stop(f);
    assert_int_equal(atomic_load(&log_.open), 0);
    free(f);
    return 0;
}

static void add_lines(const struct fixture *f, int count)
{
    atomic_fetch_add(&log_.lines, count);
    topics_notify(f->topics, "log");
}

static void end_log(const struct fixture *f)
{
    atomic_store(&log_.ended, true);
    topics_notify(f->topics, "log");
}

static void wait_for(atomic_int *counter, int count)
{
    for (int i = 0; i < PATIENCE_MS && atomic_load(counter) != count; i++) {
        usleep(1000);
    }
    assert_int_equal(atomic_load(counter), count);
}

/* --- a client that reads chunks --- */

struct reader {
    int fd;
    char data[16384];
    size_t len, at;
};

/* -1 at the end of the connection. */
static int next_byte(struct reader *r)
{
    if (r->at == r->len) {
        struct pollfd p = {.fd = r->fd, .events = POLLIN};
        ssize_t n;

        if (poll(&p, 1, PATIENCE_MS) != 1) {
            fail_msg("nothing came for %d ms", PATIENCE_MS);
        }
        n = recv(r->fd, r->data, sizeof(r->data), 0);
        if (n <= 0) {
            return -1;
        }
        r->len = (size_t)n;
        r->at = 0;
    }
    return (unsigned char)r->data[r->at++];
}

static bool read_line(struct reader *r, char *line, size_t size)
{
    size_t len = 0;
    int c;

    while ((c = next_byte(r)) >= 0 && len + 1 < size) {
        line[len++] = (char)c;
        if (c == '\n') {
            line[len] = '\0';
            return true;
        }
    }
    line[len] = '\0';
    return false;
}

/* The head of a stream; true when it is chunked. */
static bool read_stream_head(struct reader *r, const char *status)
{
    char line[512];
    bool chunked = false;

    assert_true(read_line(r, line, sizeof(line)));
    assert_memory_equal(line, status, strlen(status));
    while (read_line(r, line, sizeof(line)) && strcmp(line, "\r\n") != 0) {
        chunked |= strcasecmp(line, "Transfer-Encoding: chunked\r\n") == 0;
        assert_int_not_equal(strncasecmp(line, "Content-Length", 14), 0);
    }
    return chunked;
}

/* Appends the next chunk. 1: one came, 0: the last, clean; -1: cut. */
static int read_chunk(struct reader *r, struct buf *out)
{
    char line[64];
    unsigned long size;

    if (!read_line(r, line, sizeof(line))) {
        return -1;
    }
    size = strtoul(line, NULL, 16);
    for (unsigned long i = 0; i < size; i++) {
        int c = next_byte(r);

        if (c < 0) {
            return -1;
        }
        assert_int_equal(buf_add_char(out, (char)c), 0);
    }
    if (!read_line(r, line, sizeof(line))) {
        return -1;
    }
    assert_string_equal(line, "\r\n");
    return size > 0 ? 1 : 0;
}

static void expect_lines(const struct buf *seen, int count)
{
    const char *at = buf_str(seen);

    for (int i = 0; i < count; i++) {
        char line[32];
        size_t len = (size_t)snprintf(line, sizeof(line), "line %d\n", i);

        assert_int_equal(strncmp(at, line, len), 0);
        at += len;
    }
    assert_string_equal(at, "");
}

static void ask(const struct fixture *f, struct reader *r, const char *request)
{
    *r = (struct reader){.fd = fixture_connect(f)};
    client_send_text(r->fd, request);
}

/* --- what is promised --- */

static void test_stream_ends_cleanly(void **state)
{
    static const char *const requests[] = {
        "GET /follow HTTP/1.1\r\n" HOST "\r\n", "POST /follow HTTP/1.1\r\n" HOST "\r\n",
        "GET /follow HTTP/1.1\r\nConnection: close\r\n" HOST "\r\n"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        struct reader r;
        struct buf seen;

        buf_init(&seen, 1 << 20);
        log_ = (struct log){.lines = 3};
        ask(f, &r, requests[i]);
        assert_true(read_stream_head(&r, "HTTP/1.1 200"));
        assert_int_equal(read_chunk(&r, &seen), 1);
        expect_lines(&seen, 3);
        for (int n = 4; n < 10; n++) {
            usleep(2000);
            add_lines(f, 1);
            assert_int_equal(read_chunk(&r, &seen), 1);
            expect_lines(&seen, n);
        }
        end_log(f);
        assert_int_equal(read_chunk(&r, &seen), 0);
        if (i < 2) {
            struct answer a;

            /* The connection goes on. */
            client_send_text(r.fd, "GET /empty HTTP/1.1\r\n" HOST "\r\n");
            client_read(r.fd, &a, false);
            assert_int_equal(a.status, 204);
            answer_done(&a);
        } else {
            assert_int_equal(next_byte(&r), -1);
        }
        close(r.fd);
        buf_done(&seen);
        wait_for(&log_.open, 0);
    }
}

static void test_cut_has_no_last_chunk(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    struct buf seen;

    buf_init(&seen, 1 << 20);
    ask(f, &r, "GET /follow HTTP/1.1\r\n" HOST "\r\n");
    assert_true(read_stream_head(&r, "HTTP/1.1 200"));
    atomic_store(&log_.cut, true);
    add_lines(f, 2);
    assert_int_equal(read_chunk(&r, &seen), 1);
    expect_lines(&seen, 2);
    assert_int_equal(read_chunk(&r, &seen), -1);
    buf_done(&seen);
    close(r.fd);
}

static void test_pipelined_after_a_stream(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    struct buf seen;
    char line[64];

    buf_init(&seen, 1 << 20);
    ask(f, &r, "GET /follow HTTP/1.1\r\n" HOST "\r\nGET /empty HTTP/1.1\r\n" HOST "\r\n");
    assert_true(read_stream_head(&r, "HTTP/1.1 200"));
    add_lines(f, 1);
    assert_int_equal(read_chunk(&r, &seen), 1);
    end_log(f);
    assert_int_equal(read_chunk(&r, &seen), 0);
    assert_true(read_line(&r, line, sizeof(line)));
    assert_string_equal(line, "HTTP/1.1 204 No Content\r\n");
    buf_done(&seen);
    close(r.fd);
}

static void test_head_has_no_body(void **state)
{
    struct fixture *f = *state;
    struct reader r;

    ask(f, &r, "HEAD /follow HTTP/1.1\r\n" HOST "\r\n");
    assert_false(read_stream_head(&r, "HTTP/1.1 200"));
    assert_int_equal(next_byte(&r), -1);
    close(r.fd);
    assert_int_equal(atomic_load(&log_.fills), 0);
}

static void test_http10_is_closed_at_the_end(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    struct buf seen;
    int c;

    buf_init(&seen, 1 << 22);
    ask(f, &r, "GET /follow HTTP/1.0\r\n" HOST "\r\n");
    assert_false(read_stream_head(&r, "HTTP/1.1 200"));
    add_lines(f, 5000);
    usleep(20000);
    add_lines(f, 5000);
    end_log(f);
    while ((c = next_byte(&r)) >= 0) {
        assert_int_equal(buf_add_char(&seen, (char)c), 0);
    }
    expect_lines(&seen, 10000);
    buf_done(&seen);
    close(r.fd);
}

static void test_stream_after_a_wait(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    struct buf seen;

    buf_init(&seen, 1 << 20);
    ask(f, &r, "GET /late HTTP/1.1\r\n" HOST "\r\n");
    wait_for(&log_.fills, 1);
    usleep(20000);
    log_.ended = true;
    log_.lines = 2;
    topics_notify(f->topics, "late");
    assert_true(read_stream_head(&r, "HTTP/1.1 200"));
    while (read_chunk(&r, &seen) > 0) {
    }
    expect_lines(&seen, 2);
    buf_done(&seen);
    close(r.fd);
}

static void test_heartbeat(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    struct buf seen;
    int64_t begin = clock_mono_ms();

    buf_init(&seen, 1 << 20);
    ask(f, &r, "GET /follow HTTP/1.1\r\n" HOST "\r\n");
    assert_true(read_stream_head(&r, "HTTP/1.1 200"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_chunk(&r, &seen), 1);
        assert_string_equal(buf_str(&seen), "ping\n");
        buf_reset(&seen);
    }
    assert_true(clock_mono_ms() - begin >= 299);
    add_lines(f, 1);
    do {
        buf_reset(&seen);
        assert_int_equal(read_chunk(&r, &seen), 1);
    } while (strcmp(buf_str(&seen), "ping\n") == 0);
    expect_lines(&seen, 1);
    buf_done(&seen);
    close(r.fd);
}

/* The probe of each heartbeat finds them; a stream without a heartbeat of its own too. */
static void test_peers_that_went_away(void **state)
{
    struct fixture *f = *state;
    struct reader a;
    struct reader b;

    ask(f, &a, "GET /follow HTTP/1.1\r\n" HOST "\r\n");
    ask(f, &b, "GET /silent HTTP/1.1\r\n" HOST "\r\n");
    assert_true(read_stream_head(&a, "HTTP/1.1 200"));
    assert_true(read_stream_head(&b, "HTTP/1.1 200"));
    assert_int_equal(atomic_load(&log_.open), 2);
    close(a.fd);
    close(b.fd);
    wait_for(&log_.open, 0);
}

static void test_slow_reader_blocks_nobody(void **state)
{
    struct fixture *f = *state;
    struct reader slow[8];
    struct answer a;
    struct buf seen;

    for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
        ask(f, &slow[i], "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    }
    usleep(100000);
    for (int i = 0; i < 20; i++) {
        int64_t begin = clock_mono_ms();

        fixture_ask(f, "GET /empty HTTP/1.1\r\n" HOST "\r\n", &a);
        assert_int_equal(a.status, 204);
        answer_done(&a);
        assert_true(clock_mono_ms() - begin < 3000);
    }
    buf_init(&seen, 64 << 20);
    assert_true(read_stream_head(&slow[0], "HTTP/1.1 200"));
    while (read_chunk(&slow[0], &seen) > 0) {
    }
    assert_int_equal(seen.len, 1024 * 32768);
    buf_done(&seen);
    for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
        close(slow[i].fd);
    }
    wait_for(&log_.open, 0);
}

static void test_stalled_reader_is_cut(void **state)
{
    struct fixture *f = *state;
    struct reader r;

    ask(f, &r, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    wait_for(&log_.open, 1);
    wait_for(&log_.open, 0);
    close(r.fd);
}

/* --- many --- */

static struct reader followers[FOLLOWERS];

static void *write_log(void *arg)
{
    for (int i = 0; i < 50; i++) {
        add_lines(arg, 1);
        usleep(5000);
    }
    end_log(arg);
    return NULL;
}

/* A fill for each notification and each start, not more: no stream spins. */
static void test_a_thousand_followers(void **state)
{
    struct fixture *f = *state;
    pthread_t writer;

    for (int i = 0; i < FOLLOWERS; i++) {
        ask(f, &followers[i],
            i % 2 == 0 ? "GET /follow HTTP/1.1\r\n" HOST "\r\n"
                       : "POST /follow HTTP/1.1\r\n" HOST "\r\n");
        if (i % 100 == 99) {
            wait_for(&log_.open, i + 1);
        }
    }
    assert_int_equal(pthread_create(&writer, NULL, write_log, f), 0);
    for (int i = 0; i < FOLLOWERS; i++) {
        struct buf seen;
        int rc;

        buf_init(&seen, 1 << 20);
        assert_true(read_stream_head(&followers[i], "HTTP/1.1 200"));
        while ((rc = read_chunk(&followers[i], &seen)) > 0) {
        }
        assert_int_equal(rc, 0);
        expect_lines(&seen, 50);
        buf_done(&seen);
        close(followers[i].fd);
    }
    pthread_join(writer, NULL);
    wait_for(&log_.open, 0);
    assert_true(atomic_load(&log_.fills) <= FOLLOWERS * (50 + 2));
}

static void *stop_server(void *arg)
{
    struct fixture *f = arg;

    http_server_free(f->server);
    return NULL;
}

/* Idle ones, ones that send, and ones whose reader does not read. */
static void test_stop_cuts_all(void **state)
{
    struct fixture *f = *state;
    struct reader idle[40];
    struct reader busy[4];
    pthread_t stopper;
    int64_t begin;

    for (size_t i = 0; i < ARRAY_SIZE(idle); i++) {
        ask(f, &idle[i], "GET /follow HTTP/1.1\r\n" HOST "\r\n");
        assert_true(read_stream_head(&idle[i], "HTTP/1.1 200"));
    }
    for (size_t i = 0; i < ARRAY_SIZE(busy); i++) {
        ask(f, &busy[i], "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    }
    wait_for(&log_.open, ARRAY_SIZE(idle) + ARRAY_SIZE(busy));
    begin = clock_mono_ms();
    assert_int_equal(pthread_create(&stopper, NULL, stop_server, f), 0);
    for (size_t i = 0; i < ARRAY_SIZE(idle); i++) {
        struct buf seen;

        buf_init(&seen, 1 << 20);
        assert_int_equal(read_chunk(&idle[i], &seen), -1);
        assert_int_equal(seen.len, 0);
        buf_done(&seen);
        close(idle[i].fd);
    }
    pthread_join(stopper, NULL);
    assert_true(clock_mono_ms() - begin < 10000);
    assert_int_equal(atomic_load(&log_.open), 0);
    for (size_t i = 0; i < ARRAY_SIZE(busy); i++) {
        close(busy[i].fd);
    }
    f->server = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stream_ends_cleanly, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_has_no_last_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipelined_after_a_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_head_has_no_body, setup, teardown),
        cmocka_unit_test_setup_teardown(test_http10_is_closed_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_after_a_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heartbeat, setup_heartbeat, teardown),
        cmocka_unit_test_setup_teardown(test_peers_that_went_away, setup_heartbeat, teardown),
        cmocka_unit_test_setup_teardown(test_slow_reader_blocks_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stalled_reader_is_cut, setup_short, teardown),
        cmocka_unit_test_setup_teardown(test_a_thousand_followers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_cuts_all, setup, teardown),
    };
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
