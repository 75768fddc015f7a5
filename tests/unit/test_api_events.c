/* Events on the wire: what a client may ask for, and each event as it stands in both formats. */
#include "api/event.h"
#include "api/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void accept_prefers(void **state)
{
    static const struct {
        const char *accept;
        enum api_event_format format;
    } CASES[] = {
        {NULL, API_EVENT_JSON},
        {"", API_EVENT_JSON},
        {"*/*", API_EVENT_JSON},
        {"text/html, */*;q=0.1", API_EVENT_JSON},
        {"text/event-stream", API_EVENT_SSE},
        {"Text/Event-Stream ; charset=utf-8", API_EVENT_SSE},
        {"application/x-ndjson", API_EVENT_NDJSON},
        {"application/x-ndjson;q=0.5, text/event-stream;q=0.7", API_EVENT_SSE},
        {"application/x-ndjson ; q=0.75 ,text/event-stream;q=0.7", API_EVENT_NDJSON},
        {"application/json, text/event-stream", API_EVENT_JSON},
        {"application/json;q=0.9, text/event-stream", API_EVENT_SSE},
        {"text/event-stream;q=0", API_EVENT_JSON},
        {"text/event-stream;q=0.000, application/x-ndjson;q=0.001", API_EVENT_NDJSON},
        {"text/event-stream;q=1.000", API_EVENT_SSE},
        {"text/event-stream;q=nonsense", API_EVENT_SSE},
        {"text/event-streams, xapplication/x-ndjson", API_EVENT_JSON},
        {",,;,;q=,;q=1,text/event-stream,", API_EVENT_SSE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        assert_int_equal(api_event_accept(CASES[i].accept, API_EVENT_JSON), CASES[i].format);
    }
    assert_int_equal(api_event_accept("*/*", API_EVENT_SSE), API_EVENT_SSE);
    assert_string_equal(api_event_media_type(API_EVENT_NDJSON), "application/x-ndjson");
    assert_string_equal(api_event_media_type(API_EVENT_SSE), "text/event-stream");
    assert_string_equal(api_event_media_type(API_EVENT_JSON), "application/json");
}

static void after_is_a_number(void **state)
{
    static const char *const BAD[] = {"-1", "x", "1x", " 1", "1.0", "+1", "1234567890123456789"};
    struct error err = ERROR_INIT;
    int64_t after = -1;

    (void)state;
    assert_int_equal(api_event_after(NULL, NULL, &after, &err), 0);
    assert_int_equal(after, -1);
    assert_int_equal(api_event_after("7", NULL, &after, &err), 0);
    assert_int_equal(after, 7);
    assert_int_equal(api_event_after("7", "", &after, &err), 0);
    assert_int_equal(after, 7);
    assert_int_equal(api_event_after("7", "12", &after, &err), 0);
    assert_int_equal(after, 12);
    assert_int_equal(api_event_after(NULL, "0", &after, &err), 0);
    assert_int_equal(after, 0);
    assert_int_equal(api_event_after("", NULL, &after, &err), -1);
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        assert_int_equal(api_event_after(BAD[i], "3", &after, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
        assert_string_equal(err.field, "?after");
        assert_int_equal(api_event_after("3", BAD[i], &after, &err), -1);
        assert_string_equal(err.field, "Last-Event-ID");
        assert_int_equal(after, 0);
    }
}

/* *Takes* the event. */
static void expect(json_t *event, const char *ndjson, const char *sse_head)
{
    _cleanup_buf_ struct buf line;
    _cleanup_buf_ struct buf sse;
    _cleanup_buf_ struct buf wanted;

    buf_init(&line, 4096);
    buf_init(&sse, 4096);
    buf_init(&wanted, 4096);
    assert_int_equal(api_event_add(event, API_EVENT_NDJSON, &line), 0);
    assert_int_equal(buf_addf(&wanted, "%s\n", ndjson), 0);
    assert_string_equal(buf_str(&line), buf_str(&wanted));
    buf_reset(&wanted);
    assert_int_equal(api_event_add(event, API_EVENT_SSE, &sse), 0);
    assert_int_equal(buf_addf(&wanted, "%s\ndata: %s\n\n", sse_head, ndjson), 0);
    assert_string_equal(buf_str(&sse), buf_str(&wanted));
    json_decref(event);
}

static void command_events(void **state)
{
    struct api_event_output output = {.seq = 5,
                                      .at = 1000,
                                      .type = "stdout",
                                      .offset = 70,
                                      .data = "a\n\xC3\xA4\"\x01",
                                      .len = 6};
    json_t *command = json_pack("{s:s}", "commandId", "c-1");

    (void)state;
    expect(api_event_started(0, 0),
           "{\"seq\":0,\"type\":\"started\",\"at\":\"1970-01-01T00:00:00.000Z\"}",
           "id: 0\nevent: started");
    expect(api_event_output(&output),
           "{\"seq\":5,\"type\":\"stdout\",\"at\":\"1970-01-01T00:00:01.000Z\",\"offset\":70,"
           "\"data\":\"a\\n\xC3\xA4\\\"\\u0001\"}",
           "id: 5\nevent: stdout");
    output.type = "stderr";
    output.len = 3; /* in the middle of the code point */
    expect(api_event_output(&output),
           "{\"seq\":5,\"type\":\"stderr\",\"at\":\"1970-01-01T00:00:01.000Z\",\"offset\":70,"
           "\"dataBase64\":\"YQrD\"}",
           "id: 5\nevent: stderr");
    output.data = NULL;
    output.len = 0;
    expect(api_event_output(&output),
           "{\"seq\":5,\"type\":\"stderr\",\"at\":\"1970-01-01T00:00:01.000Z\",\"offset\":70,"
           "\"data\":\"\"}",
           "id: 5\nevent: stderr");
    expect(api_event_exit(6, 2000, command),
           "{\"seq\":6,\"type\":\"exit\",\"at\":\"1970-01-01T00:00:02.000Z\","
           "\"command\":{\"commandId\":\"c-1\"}}",
           "id: 6\nevent: exit");
    assert_null(api_event_exit(6, 2000, NULL));
}

static void changes(void **state)
{
    struct api_change change = {.seq = 3,
                                .at = 1000,
                                .type = "execution",
                                .execution_id = "e-1",
                                .incarnation = 2,
                                .state = "provisioned",
                                .host = "docker",
                                .expires_at = 2000,
                                .exit_code = -1};

    (void)state;
    expect(api_event_change(&change),
           "{\"seq\":3,\"type\":\"execution\",\"at\":\"1970-01-01T00:00:01.000Z\",\"executionId\":"
           "\"e-1\",\"incarnation\":2,\"state\":\"provisioned\",\"host\":\"docker\",\"expiresAt\":"
           "\"1970-01-01T00:00:02.000Z\",\"reason\":null}",
           "id: 3\nevent: execution");
    change.type = "command";
    change.command_id = "c-1";
    change.state = "exited";
    change.exit_code = 7;
    change.reason = "exited";
    expect(api_event_change(&change),
           "{\"seq\":3,\"type\":\"command\",\"at\":\"1970-01-01T00:00:01.000Z\",\"executionId\":"
           "\"e-1\",\"incarnation\":2,\"state\":\"exited\",\"commandId\":\"c-1\",\"exitCode\":7,"
           "\"reason\":\"exited\"}",
           "id: 3\nevent: command");
    change.type = "checkpoint";
    change.command_id = NULL;
    change.checkpoint_id = "k-1";
    change.state = "local";
    expect(api_event_change(&change),
           "{\"seq\":3,\"type\":\"checkpoint\",\"at\":\"1970-01-01T00:00:01.000Z\",\"executionId\":"
           "\"e-1\",\"incarnation\":2,\"state\":\"local\",\"checkpointId\":\"k-1\"}",
           "id: 3\nevent: checkpoint");
    expect(api_event_gap(41, 0),
           "{\"seq\":41,\"type\":\"gap\",\"at\":\"1970-01-01T00:00:00.000Z\"}",
           "id: 41\nevent: gap");
}

static void pings_and_caps(void **state)
{
    _cleanup_buf_ struct buf out;
    json_t *event = api_event_started(0, 0);

    (void)state;
    buf_init(&out, 64);
    assert_int_equal(api_event_add_ping(API_EVENT_SSE, &out), 0);
    assert_int_equal(api_event_add_ping(API_EVENT_NDJSON, &out), 0);
    assert_string_equal(buf_str(&out), ": ping\n\n{\"type\":\"ping\"}\n");
    assert_int_equal(api_event_add(event, API_EVENT_NDJSON, &out), -1);
    assert_int_equal(api_event_add(event, API_EVENT_SSE, &out), -1);
    assert_int_equal(api_event_add(NULL, API_EVENT_SSE, &out), -1);
    json_decref(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_prefers), cmocka_unit_test(after_is_a_number),
        cmocka_unit_test(command_events), cmocka_unit_test(changes),
        cmocka_unit_test(pings_and_caps),
    };

    return cmocka_run_group_tests_name("api events", tests, NULL, NULL);
}
