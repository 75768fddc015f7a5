/* A run's log as a stream: every place to begin at, both formats, lines longer than a piece, and
 * nothing that is not published yet. */
#include "store_fixture.h"

#include "api/run.h"
#include "server/events/run_events.h"

#include <string.h>

enum { EVENTS = 40, OUT_MAX = 8 << 20, LONG = 100 * 1024 };

struct scene {
    struct fixture *f;
    int64_t published;
    bool all;
};

static int published(void *ctx, const char *tenant, const char *run_id, int64_t *bytes, bool *all,
                     struct error *err)
{
    const struct scene *s = ctx;

    (void)tenant;
    (void)run_id;
    (void)err;
    *bytes = s->published;
    *all = s->all;
    return 0;
}

/* Entries of all lengths, some longer than a piece; the bytes and where each line begins. */
static void make_log(struct scene *s, struct buf *text, size_t starts[EVENTS + 1])
{
    const struct store_run_log_name name = {s->f->directory, "t-1", "r-1"};
    struct store_run_log *log = NULL;
    struct error err = ERROR_INIT;
    char *entry = malloc(LONG + 2);

    assert_non_null(entry);
    assert_int_equal(api_run_event_started(0, 1, text), 0);
    starts[0] = 0;
    for (int64_t seq = 1; seq < EVENTS; seq++) {
        size_t len = seq % 13 == 0 ? LONG : (size_t)seq * 97;

        starts[seq] = text->len;
        memset(entry, 'x', len + 2);
        entry[0] = '"';
        entry[len + 1] = '"';
        assert_int_equal(api_run_event_log(seq, 1, (struct api_raw){entry, len + 2}, text), 0);
    }
    starts[EVENTS] = text->len;
    free(entry);
    assert_ok(store_run_log_create(&name, &log, &err), err);
    assert_ok(store_run_log_append(log, text->data, text->len, &err), err);
    store_run_log_close(log);
    s->published = (int64_t)text->len;
    s->all = true;
}

static struct run_events *stream_new(struct scene *s, enum api_event_format format, int64_t after)
{
    const struct run_events_config config = {
        .name = {s->f->directory, "t-1", "r-1"},
        .row = 1,
        .format = format,
        .follow = true,
        .after = after,
        .published = published,
        .ctx = s,
    };
    struct run_events *e = NULL;
    struct error err = ERROR_INIT;

    assert_ok(run_events_new(&config, &e, &err), err);
    return e;
}

/* As the adapter does. What came last. */
static enum http_stream_next drain(struct run_events *e, struct buf *all)
{
    enum http_stream_next next;

    do {
        struct buf piece;

        buf_init(&piece, OUT_MAX);
        next = run_events_ops.fill(e, &piece);
        assert_true(piece.len <= 33 * 1024);
        assert_int_equal(buf_add(all, buf_str(&piece), piece.len), 0);
        buf_done(&piece);
    } while (next == HTTP_STREAM_MORE);
    return next;
}

static void test_lines(void **state)
{
    struct scene s = {.f = *state};
    _cleanup_buf_ struct buf text;
    size_t starts[EVENTS + 1];

    buf_init(&text, OUT_MAX);
    make_log(&s, &text, starts);
    for (int64_t after = -1; after < EVENTS; after++) {
        struct run_events *e = stream_new(&s, API_EVENT_NDJSON, after);
        _cleanup_buf_ struct buf got;

        buf_init(&got, OUT_MAX);
        assert_int_equal(run_events_over(e), after == EVENTS - 1);
        assert_int_equal(drain(e, &got), HTTP_STREAM_END);
        assert_int_equal(got.len, text.len - starts[after + 1]);
        assert_memory_equal(buf_str(&got), text.data + starts[after + 1], got.len);
        run_events_free(e);
    }
}

static void test_server_sent(void **state)
{
    struct scene s = {.f = *state};
    _cleanup_buf_ struct buf text;
    _cleanup_buf_ struct buf expected;
    _cleanup_buf_ struct buf got;
    size_t starts[EVENTS + 1];
    struct run_events *e;

    buf_init(&text, OUT_MAX);
    buf_init(&expected, OUT_MAX);
    buf_init(&got, OUT_MAX);
    make_log(&s, &text, starts);
    for (int seq = 0; seq < EVENTS; seq++) {
        assert_int_equal(
            buf_addf(&expected, "id: %d\nevent: %s\ndata: ", seq, seq == 0 ? "started" : "log"), 0);
        assert_int_equal(buf_add(&expected, text.data + starts[seq], starts[seq + 1] - starts[seq]),
                         0);
        assert_int_equal(buf_add_char(&expected, '\n'), 0);
    }
    e = stream_new(&s, API_EVENT_SSE, -1);
    assert_int_equal(drain(e, &got), HTTP_STREAM_END);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, got.len);
    run_events_free(e);
}

/* Line by line as they are published. */
static void test_published(void **state)
{
    struct scene s = {.f = *state};
    _cleanup_buf_ struct buf text;
    _cleanup_buf_ struct buf got;
    size_t starts[EVENTS + 1];
    struct run_events *e;

    buf_init(&text, OUT_MAX);
    buf_init(&got, OUT_MAX);
    make_log(&s, &text, starts);
    e = stream_new(&s, API_EVENT_NDJSON, -1);
    s.all = false;
    for (int seq = 0; seq <= EVENTS; seq++) {
        s.published = (int64_t)starts[seq];
        assert_int_equal(drain(e, &got), HTTP_STREAM_WAIT);
        assert_int_equal(got.len, starts[seq]);
    }
    s.all = true;
    assert_int_equal(drain(e, &got), HTTP_STREAM_END);
    assert_memory_equal(got.data, text.data, text.len);
    run_events_free(e);
}

static void test_gone(void **state)
{
    struct scene s = {.f = *state, .published = 10, .all = true};
    _cleanup_buf_ struct buf got;
    struct run_events *e = stream_new(&s, API_EVENT_NDJSON, -1);

    buf_init(&got, OUT_MAX);
    assert_int_equal(drain(e, &got), HTTP_STREAM_CUT);
    run_events_free(e);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_lines),
        TEST(test_server_sent),
        TEST(test_published),
        TEST(test_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
