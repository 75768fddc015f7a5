/* Runs and their events as text. */
#include "api/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 4096 };

#define RAW(text) ((struct api_raw){text, sizeof(text) - 1})

static void assert_buf(struct buf *b, const char *expected)
{
    assert_string_equal(buf_str(b), expected);
    buf_reset(b);
}

static void test_run(void **state)
{
    _cleanup_buf_ struct buf out;
    struct api_run view = {
        .run_id = "r-1",
        .state = "running",
        .description = "a \"b\"",
        .spec = RAW("{\"program\":\"\"}"),
        .started_at = 0,
        .completed_at = -1,
        .calls_total = 4,
        .calls_answered = 1,
        .calls_cancelled = 1,
    };

    (void)state;
    buf_init(&out, MAX);
    assert_int_equal(api_run_add(&view, &out), 0);
    assert_buf(&out, "{\"runId\":\"r-1\",\"state\":\"running\",\"description\":\"a \\\"b\\\"\","
                     "\"startedAt\":\"1970-01-01T00:00:00.000Z\",\"completedAt\":null,"
                     "\"calls\":{\"total\":4,\"pending\":2,\"answered\":1,\"cancelled\":1},"
                     "\"outcome\":null,\"spec\":{\"program\":\"\"},\"result\":null}");
    view.result = RAW("{}");
    view.outcome = "completed";
    assert_int_equal(api_run_add(&view, &out), 0);
    assert_non_null(strstr(buf_str(&out), "\"outcome\":\"completed\",\"spec\":{\"program\":\"\"},"
                                          "\"result\":{}}"));
}

static void test_result(void **state)
{
    _cleanup_buf_ struct buf out;
    struct api_run_result result = {
        .logs = RAW("[\"\\ud800\"]"), .value = RAW("1e300"), .mode = "read-only"};

    (void)state;
    buf_init(&out, MAX);
    assert_int_equal(api_run_result_add(&result, &out), 0);
    assert_buf(&out, "{\"logs\":[\"\\ud800\"],\"value\":1e300,\"sandbox\":{\"mode\":\"read-only\","
                     "\"denied\":false}}");
    result.value.len = 0;
    result.error_kind = "abort";
    result.message = RAW("\"m\"");
    result.denied = true;
    result.enforcement = "full";
    assert_int_equal(api_run_result_add(&result, &out), 0);
    assert_buf(&out, "{\"logs\":[\"\\ud800\"],\"error\":{\"kind\":\"abort\",\"message\":\"m\"},"
                     "\"sandbox\":{\"mode\":\"read-only\",\"denied\":true,"
                     "\"enforcement\":\"full\"}}");
}

static void test_events(void **state)
{
    _cleanup_buf_ struct buf out;
    const struct api_run_call call = {7, RAW("\"h\""), RAW("\"f\""), RAW("[1]"), 0};
    const struct api_run_call bare = {7, RAW("\"h\""), RAW("\"f\""), {NULL, 0}, 0};
    size_t place = 0;

    (void)state;
    buf_init(&out, MAX);
#define AT "\"at\":\"1970-01-01T00:00:00.000Z\""
    assert_int_equal(api_run_event_started(0, 0, &out), 0);
    assert_buf(&out, "{\"seq\":0,\"type\":\"started\"," AT "}\n");
    assert_int_equal(api_run_event_log(1, 0, RAW("\"x\""), &out), 0);
    assert_buf(&out, "{\"seq\":1,\"type\":\"log\"," AT ",\"text\":\"x\"}\n");
    assert_int_equal(api_run_event_call(2, 0, &call, &out), 0);
    assert_buf(&out, "{\"seq\":2,\"type\":\"call\"," AT
                     ",\"callId\":7,\"global\":\"h\",\"function\":\"f\",\"argument\":[1]}\n");
    assert_int_equal(api_run_call_add(&bare, &out), 0);
    assert_buf(&out, "{\"callId\":7,\"global\":\"h\",\"function\":\"f\"," AT "}");
    assert_int_equal(api_run_event_settled(3, 0, 7, "answered", &out), 0);
    assert_buf(&out, "{\"seq\":3,\"type\":\"call-settled\"," AT
                     ",\"callId\":7,\"state\":\"answered\"}\n");
    assert_int_equal(api_run_event_result(4, 0, RAW("{\"a\":1}"), &out, &place), 0);
    assert_memory_equal(out.data + place, "{\"a\":1}}\n", 9);
    assert_buf(&out, "{\"seq\":4,\"type\":\"result\"," AT ",\"result\":{\"a\":1}}\n");
}

/* What has no room is an error, never half an answer taken for a whole one. */
static void test_room(void **state)
{
    const struct api_run_call call = {7, RAW("\"h\""), RAW("\"f\""), RAW("[1]"), 0};

    (void)state;
    for (size_t max = 0; max < 100; max++) {
        _cleanup_buf_ struct buf out;

        buf_init(&out, max);
        assert_int_equal(api_run_event_call(2, 0, &call, &out), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
