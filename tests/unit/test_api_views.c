/* What resources look like on the wire, compared as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/checkpoint.h"
#include "api/command.h"
#include "api/execution.h"
#include "api/host.h"
#include "api/image.h"
#include "api/json.h"
#include "api/list.h"
#include "api/problem.h"

#include <string.h>

static void expect_text(json_t *value, const char *expected)
{
    _cleanup_free_ char *text = NULL;

    assert_non_null(value);
    text = api_json_text(value, 1 << 24);
    assert_non_null(text);
    assert_string_equal(text, expected);
    json_decref(value);
}

static void execution_that_lives(void **state)
{
    _cleanup_json_ json_t *object = json_pack("{s:i}", "x", 1);
    const struct api_execution view = {
        .execution_id = "job-17",
        .incarnation = 2,
        .state = "provisioned",
        .host = "docker",
        .image = "i",
        .requested_at = 0,
        .created_at = 1,
        .expires_at = 1001,
        .terminated_at = -1,
        .resources = object,
        .network = object,
        .workspace = object,
        .environment = object,
        .metadata = object,
        .labels = object,
        .owner_id = "w",
        .fencing_token = 12,
        .cpu_ms = 0,
        .memory_peak_bytes = -1,
        .pids_peak = -1,
        .workspace_bytes = 4096,
    };

    (void)state;
    expect_text(
        api_execution_encode(&view),
        "{\"executionId\":\"job-17\",\"incarnation\":2,\"state\":\"provisioned\",\"host\":"
        "\"docker\",\"image\":\"i\",\"requestedAt\":\"1970-01-01T00:00:00.000Z\",\"createdAt\":"
        "\"1970-01-01T00:00:00.001Z\",\"expiresAt\":\"1970-01-01T00:00:01.001Z\","
        "\"terminatedAt\":null,\"resources\":{\"x\":1},\"network\":{\"x\":1},\"workspace\":{\"x\":"
        "1}"
        ",\"environment\":{\"x\":1},\"metadata\":{\"x\":1},\"labels\":{\"x\":1},\"owner\":"
        "{\"ownerId\":\"w\",\"fencingToken\":12},\"restoredFrom\":null,\"usage\":{\"cpuMs\":0,"
        "\"memoryPeakBytes\":null,\"pidsPeak\":null,\"workspaceBytes\":4096},\"termination\":null,"
        "\"warnings\":[]}");
}

static void execution_that_ended(void **state)
{
    _cleanup_json_ json_t *object = json_object();
    _cleanup_json_ json_t *encoded = NULL;
    _cleanup_free_ char *text = NULL;
    const struct api_execution view = {
        .execution_id = "e",
        .incarnation = 1,
        .state = "terminated",
        .host = "docker",
        .image = "i",
        .created_at = -1,
        .expires_at = -1,
        .terminated_at = 5,
        .resources = object,
        .network = object,
        .workspace = object,
        .environment = object,
        .metadata = object,
        .labels = object,
        .restored_from = "checkpoint-1",
        .termination_reason = "timeout",
        .termination_code = "EXECUTION_TIMEOUT",
        .termination_detail = "cut \xE2\x82",
        .termination_at = 5,
    };

    (void)state;
    encoded = api_execution_encode(&view);
    text = api_json_text(encoded, 10000);
    assert_non_null(strstr(text, "\"owner\":null,\"restoredFrom\":\"checkpoint-1\""));
    assert_non_null(strstr(text, "\"termination\":{\"reason\":\"timeout\",\"code\":"
                                 "\"EXECUTION_TIMEOUT\",\"detail\":\"cut ??\",\"at\":"
                                 "\"1970-01-01T00:00:00.005Z\"}"));
}

/* --- commands --- */

static struct api_command exited_command(void)
{
    return (struct api_command){
        .command_id = "c",
        .execution_id = "e",
        .state = "exited",
        .command = "true",
        .started_at = 0,
        .completed_at = 1500,
        .exit_code = 0,
        .stdout_bytes = 3,
        .cpu_ms = 9,
        .memory_peak_bytes = -1,
        .wall_ms = 1500,
        .termination_reason = "exited",
    };
}

static void command_without_output(void **state)
{
    struct api_command view = exited_command();

    (void)state;
    expect_text(api_command_encode(&view),
                "{\"commandId\":\"c\",\"executionId\":\"e\",\"state\":\"exited\",\"command\":"
                "\"true\",\"args\":[],\"cwd\":\".\",\"startedAt\":\"1970-01-01T00:00:00.000Z\","
                "\"completedAt\":\"1970-01-01T00:00:01.500Z\",\"exitCode\":0,\"signal\":null,"
                "\"stdoutBytes\":3,\"stderrBytes\":0,\"truncated\":false,\"usage\":{\"cpuMs\":9,"
                "\"memoryPeakBytes\":null,\"wallMs\":1500},\"termination\":{\"reason\":\"exited\","
                "\"code\":null,\"detail\":null}}");
}

static void command_with_output(void **state)
{
    struct api_command view = exited_command();
    struct api_command_output output = {.stdout_data = "a\0\xE2\x82\xAC", .stdout_len = 5};

    (void)state;
    view.exit_code = -1;
    view.signal = "SIGKILL";
    view.cwd = "sub";
    view.termination_checkpoint_id = "checkpoint-1";
    expect_text(api_command_encode_output(&view, &output),
                "{\"commandId\":\"c\",\"executionId\":\"e\",\"state\":\"exited\",\"command\":"
                "\"true\",\"args\":[],\"cwd\":\"sub\",\"startedAt\":\"1970-01-01T00:00:00.000Z\","
                "\"completedAt\":\"1970-01-01T00:00:01.500Z\",\"exitCode\":null,\"signal\":"
                "\"SIGKILL\",\"stdout\":\"a\\u0000\xE2\x82\xAC\",\"stderr\":\"\",\"encoding\":"
                "\"utf-8\",\"inlineTruncated\":false,\"stdoutBytes\":3,\"stderrBytes\":0,"
                "\"truncated\":false,\"usage\":{\"cpuMs\":9,\"memoryPeakBytes\":null,\"wallMs\":"
                "1500},\"termination\":{\"reason\":\"exited\",\"code\":null,\"detail\":null,"
                "\"checkpointId\":\"checkpoint-1\"}}");
}

static const char *member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void one_bad_byte_makes_both_streams_base64(void **state)
{
    struct api_command view = exited_command();
    struct api_command_output output = {
        .stdout_data = "foo", .stdout_len = 3, .stderr_data = "\xFF", .stderr_len = 1};
    _cleanup_json_ json_t *encoded = api_command_encode_output(&view, &output);

    (void)state;
    assert_string_equal(member(encoded, "encoding"), "base64");
    assert_string_equal(member(encoded, "stdout"), "Zm9v");
    assert_string_equal(member(encoded, "stderr"), "/w==");
}

static void a_long_stream_is_cut_on_a_code_point(void **state)
{
    enum { SIZE = API_INLINE_READ_MAX };
    struct api_command view = exited_command();
    char *data = malloc(SIZE);

    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        struct api_command_output output = {.stdout_data = data, .stdout_len = SIZE};
        _cleanup_json_ json_t *encoded = NULL;

        memset(data, 'a', SIZE);
        /* The three bytes of one code point stand around the cut. */
        memcpy(data + API_INLINE_MAX - shift, "\xE2\x82\xAC", 3);
        encoded = api_command_encode_output(&view, &output);
        assert_string_equal(member(encoded, "encoding"), "utf-8");
        assert_int_equal(json_string_length(json_object_get(encoded, "stdout")),
                         API_INLINE_MAX - shift);
        assert_true(json_is_true(json_object_get(encoded, "inlineTruncated")));
    }
    free(data);
}

static void a_stream_of_exactly_the_maximum_is_whole(void **state)
{
    struct api_command view = exited_command();
    char *data = malloc(API_INLINE_MAX);
    struct api_command_output output = {.stdout_data = data, .stdout_len = API_INLINE_MAX};
    _cleanup_json_ json_t *encoded = NULL;

    (void)state;
    memset(data, 'a', API_INLINE_MAX);
    encoded = api_command_encode_output(&view, &output);
    assert_int_equal(json_string_length(json_object_get(encoded, "stdout")), API_INLINE_MAX);
    assert_true(json_is_false(json_object_get(encoded, "inlineTruncated")));
    free(data);
}

/* --- the rest --- */

static void checkpoint_views(void **state)
{
    static const char *const PROBLEMS[] = {"digest differs"};
    _cleanup_json_ json_t *resources = json_object();
    struct api_checkpoint view = {
        .checkpoint_id = "cp",
        .source_execution_id = "e",
        .created_at = 0,
        .size_bytes = 8192,
        .archive_bytes = 512,
        .archive_digest = "sha256:x",
        .entries = 3,
        .skipped = 0,
        .image = "i",
        .resources = resources,
        .durability = "local",
    };

    (void)state;
    expect_text(api_checkpoint_encode(&view),
                "{\"checkpointId\":\"cp\",\"sourceExecutionId\":\"e\",\"createdAt\":"
                "\"1970-01-01T00:00:00.000Z\",\"sizeBytes\":8192,\"archiveBytes\":512,"
                "\"archiveDigest\":\"sha256:x\",\"entries\":3,\"skipped\":0,\"image\":\"i\","
                "\"resources\":{},\"metadata\":{},\"durability\":\"local\",\"shared\":null}");
    expect_text(api_verification_encode(NULL, 0), "{\"ok\":true,\"problems\":[]}");
    expect_text(api_verification_encode(PROBLEMS, 1),
                "{\"ok\":false,\"problems\":[\"digest differs\"]}");
}

static void image_view_and_list(void **state)
{
    _cleanup_json_ json_t *digests = json_pack("[s]", "sha256:1");
    const struct api_image view = {
        .reference = "a@sha256:1", .host = "docker", .digests = digests, .size_bytes = 7};
    json_t *items = json_array();

    (void)state;
    json_array_append_new(items, api_image_encode(&view));
    expect_text(api_list_encode(items, "next"),
                "{\"items\":[{\"reference\":\"a@sha256:1\",\"host\":\"docker\",\"digests\":"
                "[\"sha256:1\"],\"sizeBytes\":7}],\"nextCursor\":\"next\"}");
    expect_text(api_list_encode(json_array(), NULL), "{\"items\":[],\"nextCursor\":null}");
}

static void service_view(void **state)
{
    static const char *const ENFORCES[] = {"cpu quota", NULL};
    const struct api_range range = {1, 2};
    const struct api_host hosts[] = {{
        .name = "docker",
        .available = true,
        .reason = "",
        .is_default = true,
        .engine_version = "20.10",
        .engine_api = "1.41",
        .nano_cpus = {10000000, 8000000000},
        .memory_bytes = range,
        .disk_bytes = range,
        .pids = range,
        .runtime_ms = range,
        .max_output_bytes = range,
        .enforces = ENFORCES,
    }};
    const struct api_reconciliation last = {.started_at = 0, .completed_at = -1, .adopted = 2};
    const struct api_service view = {
        .version = "1",
        .instance_id = "abc",
        .hosts = hosts,
        .host_count = 1,
        .capacity = {.executions = 1, .nano_cpus = 1500000000},
        .last_reconciliation = &last,
    };

    (void)state;
    expect_text(
        api_service_encode(&view),
        "{\"version\":\"1\",\"instanceId\":\"abc\",\"hosts\":[{\"name\":\"docker\",\"state\":"
        "\"available\",\"reason\":null,\"isDefault\":true,\"engine\":{\"version\":\"20.10\","
        "\"apiVersion\":\"1.41\"},\"limits\":{\"cpus\":{\"min\":0.01,\"max\":8},\"memoryBytes\":"
        "{\"min\":1,\"max\":2},\"diskBytes\":{\"min\":1,\"max\":2},\"pids\":{\"min\":1,\"max\":2},"
        "\"runtimeMs\":{\"min\":1,\"max\":2},\"maxOutputBytes\":{\"min\":1,\"max\":2}},"
        "\"enforces\":[\"cpu quota\"]}],\"capacity\":{\"executions\":1,\"commandsRunning\":0,"
        "\"commandsQueued\":0,\"cpus\":1.5,\"memoryBytes\":0,\"diskBytes\":0,\"limits\":{"
        "\"executions\":null,\"cpus\":null,\"memoryBytes\":null,\"diskBytes\":null,"
        "\"runs\":null}},\"quotas\":{},"
        "\"lastReconciliation\":{\"startedAt\":\"1970-01-01T00:00:00.000Z\",\"completedAt\":null,"
        "\"adopted\":2,\"hostLost\":0,\"expired\":0,\"destroyedUnrecorded\":0,\"thawed\":0,"
        "\"terminationsFinished\":0,\"checkpointsRemoved\":0,\"transcriptsRepaired\":0,"
        "\"foreignLeftAlone\":0,\"problems\":[]},\"sharedStore\":null}");
}

static void problems(void **state)
{
    struct error err = ERROR_INIT;
    struct error cause = ERROR_INIT;

    (void)state;
    error_set(&err, ERROR_HOST_UNAVAILABLE, "no engine");
    expect_text(
        api_problem_encode(&err, "r-1"),
        "{\"type\":\"urn:exechost:problem:EXECUTION_HOST_UNAVAILABLE\",\"title\":"
        "\"The host cannot be reached or started\",\"status\":503,\"detail\":\"no engine\","
        "\"code\":\"EXECUTION_HOST_UNAVAILABLE\",\"retryable\":true,\"requestId\":\"r-1\"}");
    error_set_field(&err, ERROR_RUNTIME, "/image", "\xFF");
    error_set(&cause, ERROR_TIMEOUT, "slow");
    error_in_phase(&err, PHASE_CLEANUP);
    error_add_cause(&err, &cause);
    expect_text(api_problem_encode(&err, "r-2"),
                "{\"type\":\"urn:exechost:problem:EXECUTION_RUNTIME_ERROR\",\"title\":"
                "\"The host failed\",\"status\":500,\"detail\":\"?\",\"code\":"
                "\"EXECUTION_RUNTIME_ERROR\",\"retryable\":false,\"requestId\":\"r-2\",\"field\":"
                "\"/image\",\"phase\":\"cleanup\",\"causes\":[{\"code\":\"EXECUTION_TIMEOUT\","
                "\"detail\":\"slow\"}]}");
}

static void every_code_has_a_status(void **state)
{
    static const struct {
        enum error_code code;
        int status;
    } CASES[] = {
        {ERROR_NONE, 500},
        {ERROR_INVALID_REQUEST, 400},
        {ERROR_RESOURCE_LIMIT, 422},
        {ERROR_NETWORK_POLICY, 422},
        {ERROR_NOT_FOUND, 404},
        {ERROR_ALREADY_EXISTS, 409},
        {ERROR_TIMEOUT, 504},
        {ERROR_HOST_UNAVAILABLE, 503},
        {ERROR_RUNTIME, 500},
        {ERROR_CREDENTIAL, 422},
        {ERROR_CHECKPOINT_NOT_FOUND, 404},
        {ERROR_CHECKPOINT_INVALID, 422},
        {ERROR_CHECKPOINT_IN_USE, 409},
        {ERROR_COMMAND_NOT_FOUND, 404},
        {ERROR_FILE_NOT_FOUND, 404},
        {ERROR_TRANSCRIPT_GONE, 410},
        {ERROR_IMAGE_NOT_FOUND, 422},
        {ERROR_SHARED_STORE_NOT_CONFIGURED, 409},
        {ERROR_ID_IN_USE, 409},
        {ERROR_OWNER_FENCED, 409},
        {ERROR_IDEMPOTENCY_CONFLICT, 409},
        {ERROR_INTERNAL, 500},
        {ERROR_ROUTE_NOT_FOUND, 404},
        {ERROR_METHOD_NOT_ALLOWED, 405},
        {ERROR_FORBIDDEN, 403},
        {ERROR_PAYLOAD_TOO_LARGE, 413},
        {ERROR_UNSUPPORTED_MEDIA_TYPE, 415},
        {ERROR_OVERLOADED, 503},
        {ERROR_STORAGE_FULL, 507},
        {ERROR_RANGE_NOT_SATISFIABLE, 416},
        {ERROR_UNAUTHENTICATED, 401},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        assert_int_equal(api_problem_kind(CASES[i].code)->status, CASES[i].status);
    }
    for (int i = 1; i < ERROR_CODE_COUNT; i++) {
        const struct api_problem_kind *kind = api_problem_kind((enum error_code)i);

        assert_true(i == ERROR_INTERNAL || kind != api_problem_kind(ERROR_INTERNAL));
        assert_true(strlen(kind->title) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(execution_that_lives),
        cmocka_unit_test(execution_that_ended),
        cmocka_unit_test(command_without_output),
        cmocka_unit_test(command_with_output),
        cmocka_unit_test(one_bad_byte_makes_both_streams_base64),
        cmocka_unit_test(a_long_stream_is_cut_on_a_code_point),
        cmocka_unit_test(a_stream_of_exactly_the_maximum_is_whole),
        cmocka_unit_test(checkpoint_views),
        cmocka_unit_test(image_view_and_list),
        cmocka_unit_test(service_view),
        cmocka_unit_test(problems),
        cmocka_unit_test(every_code_has_a_status),
    };

    return cmocka_run_group_tests_name("api views", tests, NULL, NULL);
}
