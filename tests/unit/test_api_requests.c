/* Request bodies, query parameters and headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/checkpoint.h"
#include "api/command.h"
#include "api/execution.h"
#include "api/image.h"
#include "api/list.h"
#include "api/signal.h"
#include "base/buf.h"

#include <signal.h>
#include <string.h>

static void expect_fault(int rc, const struct error *err, const char *body, const char *field)
{
    if (rc == 0) {
        fail_msg("accepted: %.200s", body);
    }
    assert_int_equal(err->code, ERROR_INVALID_REQUEST);
    assert_string_equal(err->field, field);
}

struct fault {
    const char *body;
    const char *field;
};

static void execution_create_keeps_the_rest_raw(void **state)
{
    static const char BODY[] =
        "{\"executionId\":5,\"host\":\"docker\",\"image\":[],\"workspace\":1,\"network\":null,"
        "\"resources\":{},\"environment\":{},\"metadata\":{},\"labels\":{},\"owner\":{}}";
    struct api_execution_create request;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_execution_create_decode(BODY, strlen(BODY), &request, &err), 0);
    assert_string_equal(request.host, "docker");
    assert_true(json_is_integer(request.execution_id));
    assert_true(json_is_array(request.image));
    assert_null(request.network);
    assert_non_null(request.workspace);
    assert_non_null(request.resources);
    assert_non_null(request.environment);
    assert_non_null(request.metadata);
    assert_non_null(request.labels);
    assert_non_null(request.owner);
    api_execution_create_done(&request);
    assert_null(request.root);
}

static void execution_create_faults(void **state)
{
    static const struct fault CASES[] = {
        {"", ""}, {"[]", ""}, {"{\"host\":5}", "/host"}, {"{\"extra\":1}", "/extra"}, {"{", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct api_execution_create request;
        struct error err = ERROR_INIT;

        expect_fault(
            api_execution_create_decode(CASES[i].body, strlen(CASES[i].body), &request, &err), &err,
            CASES[i].body, CASES[i].field);
    }
}

static void execution_patch(void **state)
{
    static const char BODY[] = "{\"labels\":{\"a\":\"b\"},\"expiresAt\":\"2026-11-29T15:00:00Z\"}";
    static const char ONLY[] = "{\"metadata\":{}}";
    static const struct fault BAD[] = {
        {"{}", ""},
        {"{\"labels\":null}", ""},
        {"{\"expiresAt\":5}", "/expiresAt"},
        {"{\"expiresAt\":\"tomorrow\"}", "/expiresAt"},
        {"{\"state\":\"x\"}", "/state"},
    };
    struct api_execution_patch request;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_execution_patch_decode(BODY, strlen(BODY), &request, &err), 0);
    assert_non_null(request.labels);
    assert_null(request.metadata);
    assert_int_equal(request.expires_at, 1795964400000);
    api_execution_patch_done(&request);
    assert_int_equal(api_execution_patch_decode(ONLY, strlen(ONLY), &request, &err), 0);
    assert_int_equal(request.expires_at, -1);
    api_execution_patch_done(&request);
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        expect_fault(api_execution_patch_decode(BAD[i].body, strlen(BAD[i].body), &request, &err),
                     &err, BAD[i].body, BAD[i].field);
    }
}

static void owner(void **state)
{
    static const char BODY[] = "{\"ownerId\":\"worker-a\",\"fencingToken\":9007199254740991}";
    static const struct fault BAD[] = {
        {"{\"ownerId\":\"a\"}", "/fencingToken"},
        {"{\"fencingToken\":1}", "/ownerId"},
        {"{\"ownerId\":\"a b\",\"fencingToken\":1}", "/ownerId"},
        {"{\"ownerId\":\"a\",\"fencingToken\":-1}", "/fencingToken"},
        {"{\"ownerId\":\"a\",\"fencingToken\":1.5}", "/fencingToken"},
        {"{\"ownerId\":\"a\",\"fencingToken\":9007199254740992}", "/fencingToken"},
        {"{\"ownerId\":\"a\",\"fencingToken\":1,\"x\":1}", "/x"},
    };
    struct api_owner out;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_owner_decode(BODY, strlen(BODY), &out, &err), 0);
    assert_string_equal(out.owner_id, "worker-a");
    assert_int_equal(out.fencing_token, 9007199254740991);
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        expect_fault(api_owner_decode(BAD[i].body, strlen(BAD[i].body), &out, &err), &err,
                     BAD[i].body, BAD[i].field);
    }
}

static void fencing_token_header(void **state)
{
    static const char *const BAD[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "x", "9007199254740992", "99999999999999999999"};
    struct error err = ERROR_INIT;
    int64_t token = -1;

    (void)state;
    assert_int_equal(api_fencing_token_decode("9007199254740991", &token, &err), 0);
    assert_int_equal(token, 9007199254740991);
    assert_int_equal(api_fencing_token_decode("0", &token, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        expect_fault(api_fencing_token_decode(BAD[i], &token, &err), &err, BAD[i], "Fencing-Token");
    }
    assert_int_equal(token, 0);
}

/* --- commands --- */

static void command_create_in_full(void **state)
{
    static const char BODY[] =
        "{\"commandId\":\"c1\",\"command\":\"/bin/sh\",\"args\":[\"-c\",\"npm test\",\"\"],"
        "\"cwd\":\"sub/dir\",\"environment\":{\"LANG\":\"C\"},\"stdin\":\"te\\u20acxt\","
        "\"timeoutMs\":86400000,\"onLimit\":{\"checkpoint\":true}}";
    struct api_command_create request;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_command_create_decode(BODY, strlen(BODY), &request, &err), 0);
    assert_string_equal(request.command_id, "c1");
    assert_string_equal(request.command, "/bin/sh");
    assert_int_equal(request.arg_count, 3);
    assert_string_equal(request.args[1], "npm test");
    assert_string_equal(request.args[2], "");
    assert_null(request.args[3]);
    assert_int_equal(json_array_size(request.args_json), 3);
    assert_string_equal(request.cwd, "sub/dir");
    assert_non_null(request.environment);
    assert_true(request.has_stdin);
    assert_int_equal(request.stdin_len, 7);
    assert_memory_equal(request.stdin_data, "te\xE2\x82\xACxt", 7);
    assert_int_equal(request.timeout_ms, 86400000);
    assert_true(request.on_limit_checkpoint);
    assert_false(request.stdin_open);
    api_command_create_done(&request);
}

static void command_create_defaults(void **state)
{
    static const char BODY[] = "{\"command\":\"true\",\"args\":null,\"stdin\":null,\"stdinBase64\":"
                               "null,\"timeoutMs\":null,\"onLimit\":null,\"stdinOpen\":null}";
    struct api_command_create request;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_command_create_decode(BODY, strlen(BODY), &request, &err), 0);
    assert_null(request.command_id);
    assert_int_equal(request.arg_count, 0);
    assert_null(request.args[0]);
    assert_false(request.has_stdin);
    assert_int_equal(request.timeout_ms, -1);
    assert_false(request.on_limit_checkpoint);
    api_command_create_done(&request);
}

static void command_stdin_as_bytes_and_empty(void **state)
{
    static const char BYTES[] = "{\"command\":\"cat\",\"stdinBase64\":\"AP8=\"}";
    static const char EMPTY[] = "{\"command\":\"cat\",\"stdin\":\"\"}";
    static const char OPEN[] = "{\"command\":\"cat\",\"stdinOpen\":true}";
    static const char BOTH[] = "{\"command\":\"cat\",\"stdinOpen\":true,\"stdin\":\"a\"}";
    struct api_command_create request;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_command_create_decode(BYTES, strlen(BYTES), &request, &err), 0);
    assert_true(request.has_stdin);
    assert_int_equal(request.stdin_len, 2);
    assert_memory_equal(request.stdin_data, "\0\xFF", 2);
    api_command_create_done(&request);
    assert_int_equal(api_command_create_decode(EMPTY, strlen(EMPTY), &request, &err), 0);
    assert_true(request.has_stdin);
    assert_int_equal(request.stdin_len, 0);
    api_command_create_done(&request);
    assert_int_equal(api_command_create_decode(OPEN, strlen(OPEN), &request, &err), 0);
    assert_true(request.stdin_open);
    assert_false(request.has_stdin);
    api_command_create_done(&request);
    assert_int_equal(api_command_create_decode(BOTH, strlen(BOTH), &request, &err), 0);
    assert_true(request.stdin_open && request.has_stdin);
    assert_int_equal(request.stdin_len, 1);
    api_command_create_done(&request);
}

static void signals(void **state)
{
    const struct {
        const char *name;
        int number;
    } rows[] = {
        {"SIGINT", SIGINT},
        {"SIGKILL", SIGKILL},
        {"SIGHUP", 1},
        {"SIGSYS", SIGSYS},
        {"SIGIO", SIGIO},
        {"SIGPOLL", SIGPOLL},
        {"SIGCLD", SIGCHLD},
        {"SIGIOT", SIGABRT},
        {"SIGRTMIN", SIGRTMIN},
        {"SIGRTMIN+1", SIGRTMIN + 1},
        {"SIGRTMAX", SIGRTMAX},
        {"SIGRTMAX-14", SIGRTMAX - 14},
        {"INT", 0},
        {"sigint", 0},
        {"SIG", 0},
        {"", 0},
        {"SIGINT ", 0},
        {"SIG2", 0},
        {"SIGRTMIN+0", 0},
        {"SIGRTMIN+31", 0},
        {"SIGRTMIN-1", 0},
        {"SIGRTMIN+", 0},
        {"SIGRTMIN+1x", 0},
        {"SIGRTMIN+01", 0},
        {"SIGRTMAX+1", 0},
        {"SIGRTMAX-99999999999", 0},
        {"SIGEXIT", 0},
    };
    char name[API_SIGNAL_SIZE];
    struct error err = ERROR_INIT;
    int number = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(api_signal_number(rows[i].name), rows[i].number);
    }
    for (number = 1; number <= SIGRTMAX; number++) {
        if (number < 32 || number >= SIGRTMIN) {
            api_signal_name(number, name);
            assert_int_equal(api_signal_number(name), number);
        }
    }
    api_signal_name(SIGRTMIN, name);
    assert_string_equal(name, "SIGRTMIN");
    assert_int_equal(api_signal_decode("{\"signal\":\"SIGTERM\"}", 20, &number, &err), 0);
    assert_int_equal(number, SIGTERM);
    expect_fault(api_signal_decode("{\"signal\":\"TERM\"}", 17, &number, &err), &err, "",
                 "/signal");
    expect_fault(api_signal_decode("{\"signal\":15}", 13, &number, &err), &err, "", "/signal");
    expect_fault(api_signal_decode("{}", 2, &number, &err), &err, "", "/signal");
    expect_fault(api_signal_decode("{\"signal\":\"SIGINT\",\"to\":1}", 26, &number, &err), &err, "",
                 "/to");
}

static void command_create_faults(void **state)
{
    static const struct fault CASES[] = {
        {"{}", "/command"},
        {"{\"command\":\"\"}", "/command"},
        {"{\"command\":[]}", "/command"},
        {"{\"command\":\"a\",\"args\":\"x\"}", "/args"},
        {"{\"command\":\"a\",\"args\":[\"x\",5]}", "/args/1"},
        {"{\"command\":\"a\",\"args\":[null]}", "/args/0"},
        {"{\"command\":\"a\",\"cwd\":5}", "/cwd"},
        {"{\"command\":\"a\",\"stdin\":5}", "/stdin"},
        {"{\"command\":\"a\",\"stdin\":\"\",\"stdinBase64\":\"\"}", "/stdinBase64"},
        {"{\"command\":\"a\",\"stdinBase64\":\"a\"}", "/stdinBase64"},
        {"{\"command\":\"a\",\"stdinOpen\":1}", "/stdinOpen"},
        {"{\"command\":\"a\",\"timeoutMs\":0}", "/timeoutMs"},
        {"{\"command\":\"a\",\"timeoutMs\":-1}", "/timeoutMs"},
        {"{\"command\":\"a\",\"timeoutMs\":86400001}", "/timeoutMs"},
        {"{\"command\":\"a\",\"timeoutMs\":99999999999999999999}", "/timeoutMs"},
        {"{\"command\":\"a\",\"timeoutMs\":\"5\"}", "/timeoutMs"},
        {"{\"command\":\"a\",\"onLimit\":true}", "/onLimit"},
        {"{\"command\":\"a\",\"onLimit\":{\"checkpoint\":1}}", "/onLimit/checkpoint"},
        {"{\"command\":\"a\",\"onLimit\":{\"other\":1}}", "/onLimit/other"},
        {"{\"command\":\"a\",\"commandId\":\"-x\"}", "/commandId"},
        {"{\"command\":\"a\",\"shell\":true}", "/shell"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct api_command_create request;
        struct error err = ERROR_INIT;

        expect_fault(
            api_command_create_decode(CASES[i].body, strlen(CASES[i].body), &request, &err), &err,
            CASES[i].body, CASES[i].field);
    }
}

/* A body with `count` args of `len` bytes. Returns owned. */
static char *body_with_args(size_t count, size_t len)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    assert_int_equal(buf_add_str(&b, "{\"command\":\"echo\",\"args\":["), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(buf_add_str(&b, i == 0 ? "\"" : ",\""), 0);
        for (size_t j = 0; j < len; j++) {
            assert_int_equal(buf_add_char(&b, 'x'), 0);
        }
        assert_int_equal(buf_add_char(&b, '"'), 0);
    }
    assert_int_equal(buf_add_str(&b, "]}"), 0);
    return buf_take(&b, NULL);
}

static void command_args_are_bounded(void **state)
{
    static const struct {
        size_t count;
        size_t len;
        bool ok;
    } CASES[] = {
        {1, 64 * 1024, true},       {1, 128 * 1024 - 6, true}, /* "echo" and two NULs are the other
                                                                  six */
        {1, 128 * 1024 - 5, false}, {4096, 1, true},           {4097, 1, false}, {4096, 32, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_free_ char *body = body_with_args(CASES[i].count, CASES[i].len);
        struct api_command_create request = {0};
        struct error err = ERROR_INIT;
        int rc = api_command_create_decode(body, strlen(body), &request, &err);

        assert_int_equal(rc, CASES[i].ok ? 0 : -1);
        if (!CASES[i].ok) {
            assert_string_equal(err.field, "/args");
        }
        api_command_create_done(&request);
    }
}

/* --- checkpoints, images, lists --- */

static void checkpoint_requests(void **state)
{
    static const char BODY[] = "{\"metadata\":{\"a\":null},\"share\":true,\"checkpointId\":\"cp\"}";
    static const char RESTORE[] = "{\"executionId\":\"e\",\"host\":\"docker\",\"labels\":{}}";
    struct api_checkpoint_create create;
    struct api_checkpoint_restore restore;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_checkpoint_create_decode(BODY, strlen(BODY), &create, &err), 0);
    assert_true(create.share);
    assert_string_equal(create.checkpoint_id, "cp");
    assert_true(json_is_null(json_object_get(create.metadata, "a")));
    api_checkpoint_create_done(&create);
    assert_int_equal(api_checkpoint_create_decode("", 0, &create, &err), 0);
    assert_null(create.metadata);
    assert_false(create.share);
    api_checkpoint_create_done(&create);
    expect_fault(api_checkpoint_create_decode("{\"share\":1}", 11, &create, &err), &err, "",
                 "/share");
    expect_fault(api_checkpoint_create_decode("{\"checkpointId\":\"\"}", 19, &create, &err), &err,
                 "", "/checkpointId");
    assert_int_equal(api_checkpoint_restore_decode(RESTORE, strlen(RESTORE), &restore, &err), 0);
    assert_string_equal(restore.host, "docker");
    assert_non_null(restore.labels);
    assert_null(restore.owner);
    api_checkpoint_restore_done(&restore);
    assert_int_equal(api_checkpoint_restore_decode("", 0, &restore, &err), 0);
    api_checkpoint_restore_done(&restore);
    expect_fault(api_checkpoint_restore_decode("{\"image\":\"x\"}", 13, &restore, &err), &err, "",
                 "/image");
}

static void image_requests(void **state)
{
    struct api_image_fetch request;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_image_fetch_decode("{\"reference\":\"a@b\"}", 19, &request, &err), 0);
    assert_string_equal(request.reference, "a@b");
    assert_null(request.host);
    api_image_fetch_done(&request);
    expect_fault(api_image_fetch_decode("{}", 2, &request, &err), &err, "{}", "/reference");
}

static void pages(void **state)
{
    static const char *const BAD_LIMITS[] = {"",    "0", "201", "-1",
                                             "1.0", "x", " 1",  "99999999999999999999"};
    char cursor[API_CURSOR_SIZE];
    struct api_page page;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_page_decode("executions", NULL, NULL, &page, &err), 0);
    assert_int_equal(page.limit, 50);
    assert_int_equal(page.before_row, INT64_MAX);
    api_cursor_encode("executions", 123456789012, cursor);
    assert_int_equal(api_page_decode("executions", "200", cursor, &page, &err), 0);
    assert_int_equal(page.limit, 200);
    assert_int_equal(page.before_row, 123456789012);
    expect_fault(api_page_decode("commands", NULL, cursor, &page, &err), &err, cursor, "?cursor");
    cursor[3] = cursor[3] == '1' ? '2' : '1';
    expect_fault(api_page_decode("executions", NULL, cursor, &page, &err), &err, cursor, "?cursor");
    expect_fault(api_page_decode("executions", NULL, "", &page, &err), &err, "", "?cursor");
    for (size_t i = 0; i < ARRAY_SIZE(BAD_LIMITS); i++) {
        expect_fault(api_page_decode("executions", BAD_LIMITS[i], NULL, &page, &err), &err,
                     BAD_LIMITS[i], "?limit");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(execution_create_keeps_the_rest_raw),
        cmocka_unit_test(execution_create_faults),
        cmocka_unit_test(execution_patch),
        cmocka_unit_test(owner),
        cmocka_unit_test(fencing_token_header),
        cmocka_unit_test(command_create_in_full),
        cmocka_unit_test(command_create_defaults),
        cmocka_unit_test(command_stdin_as_bytes_and_empty),
        cmocka_unit_test(signals),
        cmocka_unit_test(command_create_faults),
        cmocka_unit_test(command_args_are_bounded),
        cmocka_unit_test(checkpoint_requests),
        cmocka_unit_test(image_requests),
        cmocka_unit_test(pages),
    };

    return cmocka_run_group_tests_name("api requests", tests, NULL, NULL);
}
