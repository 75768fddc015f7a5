/* A reader that is cut and resumes gets a transcript once and whole, wherever it is cut.
 *
 * What a cut leaves behind is on the reader's side alone: the events it has whole. So all cuts
 * within one event, at whichever of its bytes, lead to the same resumed stream, and every byte of a
 * transcript of 10 MiB is covered by resuming behind each of its events. The long test does that:
 * each resumed stream must go on byte by byte as the uncut one does. The short one cuts a small
 * transcript at each byte one by one, with a reader that knows nothing but what it received. */
#include "store_fixture.h"

#include "api/base64.h"
#include "server/events/command_events.h"

#include <string.h>

enum {
    OUTPUT = 10 * 1024 * 1024,
    RECORD_MAX = 64 * 1024,
    SMALL_MAX = 16 * 1024,
    STREAM_MAX = 64 * 1024 * 1024,
    LOOK_EVENTS = 3,   /* of the largest kind: compared at each resume */
    WHOLE_RESUMES = 5, /* compared to the end */
    REOPEN_EVERY = 97, /* resumes until the store is opened anew */
};

struct scene {
    struct fixture *f;
    struct store_execution execution;
    struct store_command command;
    struct buf written[2]; /* what the program wrote */
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Text of one to four bytes a character, or any bytes; cut anywhere. */
static size_t make_data(uint32_t *seed, char *data, size_t len)
{
    static const char *const characters[] = {"a",        "\n",           "\"",
                                             "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    bool text = next_random(seed) % 4 != 0;
    size_t at = 0;

    while (at < len) {
        const char *c = characters[next_random(seed) % ARRAY_SIZE(characters)];

        if (!text) {
            data[at++] = (char)next_random(seed);
            continue;
        }
        while (*c != '\0' && at < len) {
            data[at++] = *c++;
        }
    }
    return len;
}

static struct store_transcript_name name_of(const struct scene *s)
{
    return (struct store_transcript_name){s->f->directory, "default", s->execution.row, "c-1",
                                          NULL};
}

/* A command that has ended, with `bytes` of output in records of up to `max`. */
static struct scene scene_new(void **state, size_t bytes, size_t max)
{
    struct scene s = {.f = *state};
    struct store_transcript *t = NULL;
    struct store_transcript_name name;
    struct error err = ERROR_INIT;
    char *data = malloc(max);
    uint32_t seed = 4711;

    assert_non_null(data);
    s.execution = execution_row("e-1");
    assert_ok(store_execution_insert(s.f->store, &s.execution, &err), err);
    s.command = command_row(s.execution.row, "c-1");
    s.command.started_at = 3000;
    s.command.completed_at = 4000;
    s.command.state = STORE_COMMAND_EXITED;
    assert_ok(store_command_insert(s.f->store, &s.command, &err), err);
    name = name_of(&s);
    buf_init(&s.written[0], bytes);
    buf_init(&s.written[1], bytes);
    assert_ok(store_transcript_create(&name, &t, &err), err);
    assert_ok(store_transcript_append(t, STORE_RECORD_STARTED, NULL, 0, &err), err);
    while (bytes > 0) {
        size_t len = 1 + next_random(&seed) % max;
        int which = next_random(&seed) % 2;

        len = make_data(&seed, data, len < bytes ? len : bytes);
        assert_ok(store_transcript_append(t, which == 0 ? STORE_RECORD_STDOUT : STORE_RECORD_STDERR,
                                          data, len, &err),
                  err);
        assert_int_equal(buf_add(&s.written[which], data, len), 0);
        bytes -= len;
    }
    assert_ok(store_transcript_append(t, STORE_RECORD_EXIT, "{}", 2, &err), err);
    store_transcript_close(t);
    free(data);
    return s;
}

static void scene_done(struct scene *s)
{
    buf_done(&s->written[0]);
    buf_done(&s->written[1]);
}

static json_t *encode(const struct store_command *row)
{
    return json_pack("{s:s}", "commandId", row->command_id);
}

/* Adds what a stream behind `after` sends, until it ends or that is at least `enough` bytes. */
static void stream(const struct scene *s, enum api_event_format format, int64_t after,
                   size_t enough, struct buf *all)
{
    struct command_events_config config = {
        .store = s->f->store,
        .name = name_of(s),
        .format = format,
        .follow = true,
        .after = after,
        .encode = encode,
    };
    enum http_stream_next next = HTTP_STREAM_MORE;
    struct command_events *e = NULL;
    struct error err = ERROR_INIT;
    size_t before = all->len;

    assert_ok(command_events_new(&config, &e, &err), err);
    while (next == HTTP_STREAM_MORE && all->len - before < enough) {
        struct buf out;

        buf_init(&out, EVENTS_FILL_MAX);
        next = command_events_ops.fill(e, &out);
        assert_int_equal(buf_add(all, out.data, out.len), 0);
        buf_done(&out);
    }
    assert_true(next == HTTP_STREAM_END || next == HTTP_STREAM_MORE);
    command_events_free(e);
}

/* --- every event of a long one --- */

static void take_output(const json_t *event, struct buf *streams)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    struct buf *b = &streams[strcmp(type, "stderr") == 0];
    const json_t *text = json_object_get(event, "data");
    const char *base64 = json_string_value(json_object_get(event, "dataBase64"));

    if (text == NULL && base64 == NULL) {
        return;
    }
    assert_int_equal(json_integer_value(json_object_get(event, "offset")), b->len);
    if (text != NULL) {
        assert_int_equal(buf_add(b, json_string_value(text), json_string_length(text)), 0);
    } else {
        char *data = NULL;
        size_t len;

        assert_int_equal(base64_decode(base64, strlen(base64), &data, &len), 0);
        assert_int_equal(buf_add(b, data, len), 0);
        free(data);
    }
}

/* The uncut stream, which must hold just what was written. */
static void check_content(const struct scene *s, const struct buf *whole)
{
    struct buf streams[2];
    json_int_t seq = 0;

    buf_init(&streams[0], OUTPUT);
    buf_init(&streams[1], OUTPUT);
    for (const char *at = whole->data; *at != '\0'; at = strchr(at, '\n') + 1) {
        json_t *event = json_loadb(at, (size_t)(strchr(at, '\n') - at), JSON_ALLOW_NUL, NULL);

        assert_non_null(event);
        assert_int_equal(json_integer_value(json_object_get(event, "seq")), seq++);
        take_output(event, streams);
        json_decref(event);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(streams[i].len, s->written[i].len);
        assert_memory_equal(streams[i].data, s->written[i].data, streams[i].len);
        buf_done(&streams[i]);
    }
}

static void resume_behind_each(void **state, size_t record_max)
{
    struct scene s = scene_new(state, OUTPUT, record_max);
    int64_t whole_every = (int64_t)(OUTPUT / (record_max / 2) / WHOLE_RESUMES);
    struct buf whole;
    size_t covered = 0;
    int64_t after = -1;

    buf_init(&whole, STREAM_MAX);
    stream(&s, API_EVENT_NDJSON, -1, SIZE_MAX, &whole);
    check_content(&s, &whole);
    while (covered < whole.len) {
        size_t enough = (after + 1) % whole_every == 0 ? SIZE_MAX : LOOK_EVENTS * record_max;
        size_t left = whole.len - covered;
        struct buf resumed;

        if (after % REOPEN_EVERY == 0) {
            fixture_reopen(s.f);
        }
        buf_init(&resumed, STREAM_MAX);
        stream(&s, API_EVENT_NDJSON, after, enough, &resumed);
        assert_true(resumed.len == left || (resumed.len >= enough && resumed.len < left));
        assert_memory_equal(resumed.data, whole.data + covered, resumed.len);
        /* All cuts from here to the end of the next event resume as this one did. */
        covered = (size_t)(strchr(whole.data + covered, '\n') + 1 - whole.data);
        after++;
        buf_done(&resumed);
    }
    print_message("%zu bytes, %lld events\n", whole.len, (long long)after + 1);
    buf_done(&whole);
    scene_done(&s);
}

static void test_every_event(void **state)
{
    resume_behind_each(state, RECORD_MAX);
}

static void test_every_small_event(void **state)
{
    resume_behind_each(state, SMALL_MAX);
}

/* --- every byte of a short one --- */

/* How much of what came is whole events, and the number of the last of them (-1: none), told by the
 * bytes alone. */
static size_t whole_events(const char *data, size_t len, enum api_event_format format,
                           int64_t *last)
{
    const char *end = format == API_EVENT_SSE ? "\n\n" : "\n";
    const char *number = format == API_EVENT_SSE ? "id: " : "{\"seq\":";
    size_t at = 0;
    const char *found;

    *last = -1;
    while ((found = memmem(data + at, len - at, end, strlen(end))) != NULL) {
        assert_memory_equal(data + at, number, strlen(number));
        *last = strtoll(data + at + strlen(number), NULL, 10);
        at = (size_t)(found - data) + strlen(end);
    }
    return at;
}

static void cut_everywhere(const struct scene *s, enum api_event_format format)
{
    struct buf whole;

    buf_init(&whole, STREAM_MAX);
    stream(s, format, -1, SIZE_MAX, &whole);
    for (size_t cut = 0; cut <= whole.len; cut++) {
        int64_t last;
        size_t kept = whole_events(whole.data, cut, format, &last);
        struct buf spliced;

        buf_init(&spliced, STREAM_MAX);
        assert_int_equal(buf_add(&spliced, whole.data, kept), 0);
        stream(s, format, last, SIZE_MAX, &spliced);
        assert_int_equal(spliced.len, whole.len);
        assert_memory_equal(spliced.data, whole.data, whole.len);
        buf_done(&spliced);
    }
    buf_done(&whole);
}

static void test_every_byte(void **state)
{
    struct scene s = scene_new(state, 2000, 100);

    cut_everywhere(&s, API_EVENT_NDJSON);
    cut_everywhere(&s, API_EVENT_SSE);
    scene_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_event, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_small_event, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_byte, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
