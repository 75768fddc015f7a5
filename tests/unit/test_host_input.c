/* What is on its way to a command: order, window, bounds. The frames are taken apart as the guest
 * would. */
#include "host/input.h"

#include "guest/protocol.h"
#include "host/host.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW GUEST_STDIN_WINDOW

/* What the guest has got: "s<number>" for a signal, "d<bytes>" for data, "e" for the end. */
struct got {
    char what[256];
    struct buf data;
    size_t unreported;
};

static void take_frame(struct got *got, const uint8_t *frame, size_t len)
{
    char *to = got->what + strlen(got->what);
    size_t room = sizeof(got->what) - strlen(got->what);
    const uint8_t *payload = frame + GUEST_FRAME_HEADER;
    if (frame[0] == GUEST_SIGNAL) {
        assert_int_equal(len, 4);
        snprintf(to, room, "s%u ", guest_get_u32(payload));
    } else if (frame[0] == GUEST_STDIN) {
        assert_true(len > 0 && len <= GUEST_FRAME_MAX);
        assert_int_equal(buf_add(&got->data, payload, len), 0);
        got->unreported += len;
        assert_true(got->unreported <= WINDOW);
        snprintf(to, room, "d%zu ", len);
    } else {
        assert_int_equal(frame[0], GUEST_STDIN_EOF);
        assert_int_equal(len, 0);
        snprintf(to, room, "e ");
    }
}

/* Everything that can be sent now, in writes of `step` bytes. */
static void pump(struct host_input *in, struct got *got, size_t step)
{
    _cleanup_buf_ struct buf stream;
    const void *data;
    size_t len;
    buf_init(&stream, 1 << 24);
    got->what[0] = '\0';
    while ((data = host_input_next(in, &len)) != NULL) {
        assert_true(len > 0 && host_input_ready(in));
        len = len < step ? len : step;
        assert_int_equal(buf_add(&stream, data, len), 0);
        host_input_sent(in, len);
    }
    assert_false(host_input_ready(in));
    while (stream.len > 0) {
        const uint8_t *at = (const uint8_t *)stream.data;
        size_t payload = guest_get_u32(at + 1);
        assert_true(stream.len >= GUEST_FRAME_HEADER + payload);
        take_frame(got, at, payload);
        buf_consume(&stream, GUEST_FRAME_HEADER + payload);
    }
}

static void expect(struct host_input *in, struct got *got, const char *what)
{
    pump(in, got, SIZE_MAX);
    assert_string_equal(got->what, what);
}

static void begin(struct host_input *in, struct got *got, const struct host_input_begin *with)
{
    struct error err = ERROR_INIT;
    assert_int_equal(host_input_init(in, with, &err), 0);
    memset(got, 0, sizeof(*got));
    buf_init(&got->data, 1 << 24);
}

static void done(struct host_input *in, struct got *got)
{
    host_input_done(in);
    buf_done(&got->data);
}

static void test_given_at_once(void **state)
{
    (void)state;
    struct host_input in;
    struct got got;
    begin(&in, &got, &(struct host_input_begin){0});
    expect(&in, &got, "");
    done(&in, &got);
    begin(&in, &got, &(struct host_input_begin){.has_data = true});
    expect(&in, &got, "e ");
    expect(&in, &got, "");
    done(&in, &got);
    begin(&in, &got, &(struct host_input_begin){.has_data = true, .data = "abc", .len = 3});
    expect(&in, &got, "d3 e ");
    assert_memory_equal(got.data.data, "abc", 3);
    done(&in, &got);
}

static void test_window(void **state)
{
    (void)state;
    struct host_input in;
    struct got got;
    size_t len = 5 * 1024 * 1024;
    _cleanup_free_ char *data = malloc(len);
    assert_non_null(data);
    for (size_t i = 0; i < len; i++) {
        data[i] = (char)(i * 7 + i / 251);
    }
    begin(&in, &got, &(struct host_input_begin){.has_data = true, .data = data, .len = len});
    expect(&in, &got, "d65536 ");
    assert_int_equal(host_input_taken(&in, WINDOW + 1), -1);
    while (got.data.len < len) {
        uint32_t part = got.unreported > 20000 ? 20000 : (uint32_t)got.unreported;
        assert_int_equal(host_input_taken(&in, part), 0);
        got.unreported -= part;
        pump(&in, &got, 777);
    }
    assert_memory_equal(got.data.data, data, len);
    assert_non_null(strstr(got.what, "e "));
    assert_int_equal(host_input_taken(&in, (uint32_t)got.unreported + 1), -1);
    done(&in, &got);
}

static void test_late(void **state)
{
    (void)state;
    struct host_input in;
    struct got got;
    struct error err = ERROR_INIT;
    begin(&in, &got,
          &(struct host_input_begin){.has_data = true, .data = "a", .len = 1, .open = true});
    expect(&in, &got, "d1 ");
    assert_int_equal(host_input_add(&in, "bc", 2, false, &err), 0);
    assert_int_equal(host_input_add(&in, NULL, 0, false, &err), 0);
    assert_int_equal(host_input_add(&in, "d", 1, true, &err), 0);
    expect(&in, &got, "d3 e ");
    assert_memory_equal(got.data.data, "abcd", 4);
    assert_int_equal(host_input_add(&in, "x", 1, false, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "closed already"));
    done(&in, &got);
    begin(&in, &got, &(struct host_input_begin){.has_data = true});
    assert_int_equal(host_input_add(&in, "x", 1, false, &err), -1);
    assert_non_null(strstr(err.detail, "without stdinOpen"));
    done(&in, &got);
}

static void test_bound(void **state)
{
    (void)state;
    struct host_input in;
    struct got got;
    struct error err = ERROR_INIT;
    _cleanup_free_ char *data = calloc(1, HOST_INPUT_MAX);
    assert_non_null(data);
    begin(&in, &got, &(struct host_input_begin){.open = true});
    assert_int_equal(host_input_add(&in, data, HOST_INPUT_MAX, false, &err), 0);
    assert_int_equal(host_input_add(&in, "x", 1, true, &err), -1);
    assert_int_equal(err.code, ERROR_OVERLOADED);
    expect(&in, &got, "d65536 ");
    assert_int_equal(host_input_add(&in, data, 65536, false, &err), 0);
    assert_int_equal(host_input_add(&in, "x", 1, true, &err), -1);
    /* Refused whole: it is not closed either. */
    assert_int_equal(host_input_add(&in, NULL, 0, true, &err), 0);
    done(&in, &got);
}

static void test_signals(void **state)
{
    (void)state;
    struct host_input in;
    struct got got;
    struct error err = ERROR_INIT;
    _cleanup_free_ char *data = calloc(1, 2 * WINDOW);
    assert_non_null(data);
    begin(&in, &got, &(struct host_input_begin){.has_data = true, .data = data, .len = 2 * WINDOW});
    expect(&in, &got, "d65536 ");
    assert_int_equal(host_input_signal(&in, SIGSTOP, &err), 0);
    assert_int_equal(host_input_signal(&in, SIGCONT, &err), 0);
    expect(&in, &got, "s19 s18 ");
    for (int i = 0; i < HOST_INPUT_SIGNALS_MAX; i++) {
        assert_int_equal(host_input_signal(&in, SIGINT, &err), 0);
    }
    assert_int_equal(host_input_signal(&in, SIGINT, &err), -1);
    assert_int_equal(err.code, ERROR_OVERLOADED);
    host_input_drop(&in);
    assert_false(host_input_ready(&in));
    assert_int_equal(host_input_signal(&in, SIGINT, &err), 0);
    size_t len;
    assert_null(host_input_next(&in, &len));
    done(&in, &got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_at_once), cmocka_unit_test(test_window),
        cmocka_unit_test(test_late),          cmocka_unit_test(test_bound),
        cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
