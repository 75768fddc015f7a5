/* Streams of events and of output, driven by hand as the adapter drives them: what comes, when they
 * wait and how they end. */
#include "store_fixture.h"

#include "server/events/command_events.h"
#include "server/events/output_bytes.h"
#include "server/events/tenant_events.h"
#include "store/transaction.h"

#include <string.h>
#include <unistd.h>

enum { OUT_MAX = 1 << 20, BIG = 200 * 1024 };

struct scene {
    struct fixture *f;
    struct store_execution execution;
    struct store_command command;
    struct store_transcript *transcript;
};

static struct store_transcript_name name_of(const struct scene *s)
{
    return (struct store_transcript_name){s->f->directory, "default", s->execution.row, "c-1",
                                          NULL};
}

static struct scene scene_new(void **state)
{
    struct scene s = {.f = *state};
    struct error err = ERROR_INIT;

    s.execution = execution_row("e-1");
    assert_ok(store_execution_insert(s.f->store, &s.execution, &err), err);
    s.command = command_row(s.execution.row, "c-1");
    assert_ok(store_command_insert(s.f->store, &s.command, &err), err);
    return s;
}

static void save(struct scene *s, enum store_command_state state)
{
    struct error err = ERROR_INIT;

    s->command.state = state;
    assert_ok(store_command_update(s->f->store, &s->command, &err), err);
}

static void append(struct scene *s, enum store_record_kind kind, const char *data, size_t len)
{
    struct error err = ERROR_INIT;

    assert_ok(store_transcript_append(s->transcript, kind, data, len, &err), err);
}

static void start(struct scene *s)
{
    struct store_transcript_name name = name_of(s);
    struct error err = ERROR_INIT;

    assert_ok(store_transcript_create(&name, &s->transcript, &err), err);
    append(s, STORE_RECORD_STARTED, NULL, 0);
    s->command.started_at = 3000;
    save(s, STORE_COMMAND_RUNNING);
}

static void finish(struct scene *s)
{
    s->command.completed_at = 4000;
    save(s, STORE_COMMAND_EXITED);
    store_transcript_close(s->transcript);
    s->transcript = NULL;
}

static json_t *encode(const struct store_command *row)
{
    return json_pack("{s:s, s:i}", "commandId", row->command_id, "state", (int)row->state);
}

static int open_events(struct scene *s, int64_t after, bool follow, struct command_events **out,
                       struct error *err)
{
    struct command_events_config config = {
        .store = s->f->store,
        .name = name_of(s),
        .format = API_EVENT_NDJSON,
        .follow = follow,
        .after = after,
        .encode = encode,
    };

    return command_events_new(&config, out, err);
}

static struct command_events *events_of(struct scene *s, int64_t after, bool follow)
{
    struct command_events *e = NULL;
    struct error err = ERROR_INIT;

    assert_ok(open_events(s, after, follow, &e, &err), err);
    return e;
}

/* Fills until it is not MORE, as often as that takes. */
static enum http_stream_next run(const struct http_stream_ops *ops, void *state, struct buf *all)
{
    enum http_stream_next next = HTTP_STREAM_MORE;

    while (next == HTTP_STREAM_MORE) {
        _cleanup_buf_ struct buf out;

        buf_init(&out, OUT_MAX);
        next = ops->fill(state, &out);
        assert_true(out.len <= EVENTS_FILL_MAX);
        assert_int_equal(buf_add(all, out.len == 0 ? "" : out.data, out.len), 0);
    }
    return next;
}

/* Runs the stream and compares, times left out. */
static void expect(const struct http_stream_ops *ops, void *state, enum http_stream_next end,
                   const char *text)
{
    _cleanup_buf_ struct buf all;
    char *at;

    buf_init(&all, OUT_MAX);
    assert_int_equal(run(ops, state, &all), end);
    assert_int_equal(buf_add(&all, "", 0), 0);
    while (all.data != NULL && (at = strstr(all.data, ",\"at\":\"")) != NULL) {
        char *rest = strchr(at + 7, '"') + 1;

        memmove(at, rest, strlen(rest) + 1);
    }
    assert_string_equal(all.data == NULL ? "" : all.data, text);
}

#define STARTED "{\"seq\":0,\"type\":\"started\"}\n"
#define EXIT(seq)                                                                                  \
    "{\"seq\":" #seq ",\"type\":\"exit\",\"command\":{\"commandId\":\"c-1\",\"state\":2}}\n"

/* --- a command's --- */

static void test_life(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e = events_of(&s, -1, true);
    struct command_events *late;

    expect(&command_events_ops, e, HTTP_STREAM_WAIT, "");
    start(&s);
    expect(&command_events_ops, e, HTTP_STREAM_WAIT, STARTED);
    expect(&command_events_ops, e, HTTP_STREAM_WAIT, "");
    append(&s, STORE_RECORD_STDOUT, "one", 3);
    append(&s, STORE_RECORD_STDERR, "\xFF", 1);
    append(&s, STORE_RECORD_STDOUT, "two", 3);
    expect(&command_events_ops, e, HTTP_STREAM_WAIT,
           "{\"seq\":1,\"type\":\"stdout\",\"offset\":0,\"data\":\"one\"}\n"
           "{\"seq\":2,\"type\":\"stderr\",\"offset\":0,\"dataBase64\":\"/w==\"}\n"
           "{\"seq\":3,\"type\":\"stdout\",\"offset\":3,\"data\":\"two\"}\n");
    late = events_of(&s, 2, false);
    expect(&command_events_ops, late, HTTP_STREAM_END,
           "{\"seq\":3,\"type\":\"stdout\",\"offset\":3,\"data\":\"two\"}\n");
    command_events_free(late);
    append(&s, STORE_RECORD_EXIT, "{}", 2);
    /* Whoever hears of the end finds it on record. */
    expect(&command_events_ops, e, HTTP_STREAM_WAIT, "");
    late = events_of(&s, 4, true);
    assert_false(command_events_over(late));
    finish(&s);
    expect(&command_events_ops, e, HTTP_STREAM_END, EXIT(4));
    expect(&command_events_ops, late, HTTP_STREAM_END, "");
    command_events_free(late);
    command_events_free(e);
    for (int64_t after = 3; after < 7; after++) {
        late = events_of(&s, after, true);
        assert_int_equal(command_events_over(late), after > 3);
        expect(&command_events_ops, late, HTTP_STREAM_END, after > 3 ? "" : EXIT(4));
        command_events_free(late);
    }
}

static void test_never_started(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e = events_of(&s, -1, true);
    struct command_events *late;

    finish(&s);
    expect(&command_events_ops, e, HTTP_STREAM_END, EXIT(0));
    command_events_free(e);
    late = events_of(&s, 0, true);
    assert_true(command_events_over(late));
    expect(&command_events_ops, late, HTTP_STREAM_END, "");
    command_events_free(late);
}

/* The disk was full when the exit record was to be written: the row tells. */
static void test_no_exit_record(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e;

    start(&s);
    append(&s, STORE_RECORD_STDOUT, "x", 1);
    finish(&s);
    e = events_of(&s, 0, true);
    expect(&command_events_ops, e, HTTP_STREAM_END,
           "{\"seq\":1,\"type\":\"stdout\",\"offset\":0,\"data\":\"x\"}\n" EXIT(2));
    command_events_free(e);
}

static void test_after_of_what_is_to_come(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e = events_of(&s, 1, true);

    expect(&command_events_ops, e, HTTP_STREAM_WAIT, "");
    start(&s);
    expect(&command_events_ops, e, HTTP_STREAM_WAIT, "");
    append(&s, STORE_RECORD_STDOUT, "a", 1);
    append(&s, STORE_RECORD_STDOUT, "b", 1);
    expect(&command_events_ops, e, HTTP_STREAM_WAIT,
           "{\"seq\":2,\"type\":\"stdout\",\"offset\":1,\"data\":\"b\"}\n");
    append(&s, STORE_RECORD_EXIT, "{}", 2);
    finish(&s);
    expect(&command_events_ops, e, HTTP_STREAM_END, EXIT(3));
    command_events_free(e);
}

static void remove_transcript(const struct scene *s)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/transcripts/default/%lld/c-1.log", s->f->directory,
             (long long)s->execution.row);
    assert_int_equal(unlink(path), 0);
}

static void test_gone(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e;
    struct command_events *none = NULL;
    struct error err = ERROR_INIT;

    start(&s);
    append(&s, STORE_RECORD_EXIT, "{}", 2);
    finish(&s);
    e = events_of(&s, -1, true);
    remove_transcript(&s);
    expect(&command_events_ops, e, HTTP_STREAM_CUT, "");
    command_events_free(e);
    assert_code(open_events(&s, -1, true, &none, &err), err, ERROR_TRANSCRIPT_GONE);
}

/* One event that is far larger than a fill. */
static void test_large_events(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e = events_of(&s, -1, true);
    _cleanup_free_ char *data = malloc(BIG);
    _cleanup_buf_ struct buf all;
    size_t lines = 0;

    assert_non_null(data);
    memset(data, 1, BIG); /* six bytes of JSON each */
    start(&s);
    append(&s, STORE_RECORD_STDOUT, data, BIG);
    append(&s, STORE_RECORD_EXIT, "{}", 2);
    finish(&s);
    buf_init(&all, 8 * OUT_MAX);
    assert_int_equal(run(&command_events_ops, e, &all), HTTP_STREAM_END);
    for (const char *at = all.data; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, 6);
    assert_true(all.len > BIG * 6 && all.len < BIG * 6 + 1000);
    command_events_free(e);
}

static void test_signs_of_life(void **state)
{
    struct scene s = scene_new(state);
    struct command_events *e = events_of(&s, -1, true);
    _cleanup_buf_ struct buf out;

    buf_init(&out, 64);
    command_events_ops.heartbeat(e, &out);
    assert_string_equal(buf_str(&out), "{\"type\":\"ping\"}\n");
    command_events_ops.done(e);
}

/* --- raw output --- */

static void test_output(void **state)
{
    static const char OUT[] = "0123456789abcdefghij";
    struct scene s = scene_new(state);
    struct store_transcript_name name = name_of(&s);
    struct output_bytes *b = NULL;
    struct error err = ERROR_INIT;
    int64_t size = -1;

    assert_code(output_bytes_size(&name, STORE_RECORD_STDOUT, &size, &err), err, ERROR_NOT_FOUND);
    error_clear(&err);
    start(&s);
    assert_ok(output_bytes_size(&name, STORE_RECORD_STDOUT, &size, &err), err);
    assert_int_equal(size, 0);
    for (size_t at = 0, len = 1; at < 20; at += len, len = len % 4 + 1) {
        append(&s, STORE_RECORD_STDERR, "noise", 5);
        append(&s, STORE_RECORD_STDOUT, OUT + at, at + len > 20 ? 20 - at : len);
    }
    assert_ok(output_bytes_size(&name, STORE_RECORD_STDOUT, &size, &err), err);
    assert_int_equal(size, 20);
    for (int64_t first = 0; first < 20; first++) {
        for (int64_t length = 0; first + length <= 20; length++) {
            char wanted[32];

            snprintf(wanted, sizeof(wanted), "%.*s", (int)length, OUT + first);
            assert_ok(output_bytes_new(&name, STORE_RECORD_STDOUT, first, length, &b, &err), err);
            expect(&output_bytes_ops, b, HTTP_STREAM_END, wanted);
            output_bytes_free(b);
        }
    }
    assert_ok(output_bytes_new(&name, STORE_RECORD_STDOUT, 19, 2, &b, &err), err);
    expect(&output_bytes_ops, b, HTTP_STREAM_CUT, "j");
    output_bytes_ops.done(b);
    finish(&s);
}

/* --- a tenant's --- */

static struct tenant_events *tenant_of(struct fixture *f, int64_t after, bool follow)
{
    struct tenant_events_config config = {f->store, "default", API_EVENT_NDJSON, follow, after};
    struct tenant_events *e = NULL;
    struct error err = ERROR_INIT;

    assert_ok(tenant_events_new(&config, &e, &err), err);
    return e;
}

#define EXECUTION                                                                                  \
    "{\"seq\":1,\"type\":\"execution\",\"executionId\":\"e-1\",\"incarnation\":1,\"state\":"       \
    "\"provisioning\",\"host\":\"docker\",\"expiresAt\":null,\"reason\":null}\n"
#define COMMAND(seq, state)                                                                        \
    "{\"seq\":" #seq ",\"type\":\"command\",\"executionId\":\"e-1\",\"incarnation\":1,\"state\":"  \
    "\"" state "\",\"commandId\":\"c-1\",\"exitCode\":null,\"reason\":null}\n"

static void test_tenant(void **state)
{
    struct scene s = scene_new(state);
    struct tenant_events *all = tenant_of(s.f, TENANT_EVENTS_OLDEST, true);
    struct tenant_events *now = tenant_of(s.f, TENANT_EVENTS_LATEST, true);
    struct tenant_events *one;

    expect(&tenant_events_ops, all, HTTP_STREAM_WAIT, EXECUTION COMMAND(2, "queued"));
    expect(&tenant_events_ops, now, HTTP_STREAM_WAIT, "");
    save(&s, STORE_COMMAND_RUNNING);
    expect(&tenant_events_ops, all, HTTP_STREAM_WAIT, COMMAND(3, "running"));
    expect(&tenant_events_ops, now, HTTP_STREAM_WAIT, COMMAND(3, "running"));
    one = tenant_of(s.f, 2, false);
    expect(&tenant_events_ops, one, HTTP_STREAM_END, COMMAND(3, "running"));
    tenant_events_free(one);
    one = tenant_of(s.f, 3, false);
    expect(&tenant_events_ops, one, HTTP_STREAM_END, "");
    tenant_events_free(one);
    one = tenant_of(s.f, 17, true); /* of another store */
    expect(&tenant_events_ops, one, HTTP_STREAM_WAIT, "{\"seq\":3,\"type\":\"gap\"}\n");
    save(&s, STORE_COMMAND_FAILED);
    expect(&tenant_events_ops, one, HTTP_STREAM_WAIT, COMMAND(4, "failed"));
    tenant_events_ops.done(one);
    tenant_events_free(all);
    tenant_events_free(now);
}

static int forget(struct sql *s, void *ctx, struct error *err)
{
    (void)ctx;
    return sql_script(s, "DELETE FROM events WHERE seq < 3", err);
}

static void test_gap(void **state)
{
    static const struct sql_points POINTS = SQL_POINTS("test");
    struct scene s = scene_new(state);
    struct tenant_events *slow = tenant_of(s.f, 1, true);
    struct tenant_events *all = tenant_of(s.f, TENANT_EVENTS_OLDEST, true);
    struct tenant_events *nearly = tenant_of(s.f, 2, true);
    struct error err = ERROR_INIT;

    save(&s, STORE_COMMAND_RUNNING);
    assert_ok(store_write(s.f->store, &POINTS, forget, NULL, &err), err);
    expect(&tenant_events_ops, slow, HTTP_STREAM_WAIT,
           "{\"seq\":2,\"type\":\"gap\"}\n" COMMAND(3, "running"));
    expect(&tenant_events_ops, all, HTTP_STREAM_WAIT, COMMAND(3, "running"));
    expect(&tenant_events_ops, nearly, HTTP_STREAM_WAIT, COMMAND(3, "running"));
    tenant_events_free(slow);
    tenant_events_free(all);
    tenant_events_free(nearly);
}

static int change_often(struct sql *s, void *ctx, struct error *err)
{
    (void)ctx;
    for (int i = 0; i < 1000; i++) {
        if (sql_script(s, "UPDATE executions SET fencing_token = fencing_token + 1", err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* More than a fill and more than a batch, in both formats. */
static void test_many(void **state)
{
    static const struct sql_points POINTS = SQL_POINTS("test");
    struct scene s = scene_new(state);
    struct tenant_events *e = tenant_of(s.f, 2, false);
    _cleanup_buf_ struct buf all;
    struct error err = ERROR_INIT;
    const char *at;
    int64_t seq = 3;

    assert_ok(store_write(s.f->store, &POINTS, change_often, NULL, &err), err);
    buf_init(&all, OUT_MAX);
    assert_int_equal(run(&tenant_events_ops, e, &all), HTTP_STREAM_END);
    for (at = all.data; *at != '\0'; at = strchr(at, '\n') + 1) {
        char head[32];

        snprintf(head, sizeof(head), "{\"seq\":%lld,", (long long)seq++);
        assert_memory_equal(at, head, strlen(head));
    }
    assert_int_equal(seq, 1003);
    tenant_events_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_never_started, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_exit_record, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_after_of_what_is_to_come, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_gone, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_large_events, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_signs_of_life, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_output, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_tenant, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_gap, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
