/* The decoder of the engine's stream and the guest's frames, and what ends mean. */
#include "host/docker/process_frames.h"
#include "host/docker/process_result.h"

#include "base/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STREAM_MAX = 1 << 20 };

struct fixture {
    struct frames frames;
    struct buf guest;  /* frames to send */
    struct buf stream; /* the engine's bytes */
    struct buf out;
    struct buf err;
    unsigned controls;
    enum guest_frame_type last;
    uint8_t payload[FRAMES_CONTROL_MAX];
    size_t payload_len;
};

static void on_output(void *ctx, enum guest_frame_type type, const void *data, size_t len)
{
    struct fixture *f = ctx;
    assert_true(len > 0);
    assert_int_equal(buf_add(type == GUEST_STDOUT ? &f->out : &f->err, data, len), 0);
}

static void on_control(void *ctx, enum guest_frame_type type, const uint8_t *payload, size_t len)
{
    struct fixture *f = ctx;
    f->controls++;
    f->last = type;
    memcpy(f->payload, payload, len);
    f->payload_len = len;
}

static void reset(struct fixture *f)
{
    struct frames_events events = {.output = on_output, .control = on_control, .ctx = f};
    frames_init(&f->frames, &events);
    buf_reset(&f->guest);
    buf_reset(&f->stream);
    buf_reset(&f->out);
    buf_reset(&f->err);
    f->controls = 0;
    f->last = 0;
}

static void frame(struct fixture *f, uint8_t type, const void *payload, size_t len)
{
    uint8_t head[GUEST_FRAME_HEADER] = {type};
    guest_put_u32(head + 1, (uint32_t)len);
    assert_int_equal(buf_add(&f->guest, head, sizeof(head)), 0);
    assert_int_equal(buf_add(&f->guest, payload, len), 0);
}

static void mux(struct fixture *f, uint8_t stream, const void *data, size_t len)
{
    uint8_t head[FRAMES_MUX_HEADER] = {stream};
    guest_put_u32(head + 4, (uint32_t)len);
    assert_int_equal(buf_add(&f->stream, head, sizeof(head)), 0);
    assert_int_equal(buf_add(&f->stream, data, len), 0);
}

static int feed(struct fixture *f, size_t piece)
{
    for (size_t at = 0; at < f->stream.len; at += piece) {
        size_t left = f->stream.len - at;
        if (frames_feed(&f->frames, f->stream.data + at, left < piece ? left : piece) != 0) {
            return -1;
        }
    }
    return 0;
}

static void put_exit(uint8_t p[GUEST_EXIT_SIZE], uint32_t flags, uint32_t status, uint32_t errnum)
{
    memset(p, 0, GUEST_EXIT_SIZE);
    guest_put_u32(p, flags);
    guest_put_u32(p + 4, status);
    guest_put_u32(p + 8, errnum);
    for (int i = 0; i < 6; i++) {
        guest_put_i64(p + 12 + 8 * i, 100 + i);
    }
    guest_put_i64(p + 44, -1);
}

static void test_any_pieces(void **state)
{
    struct fixture *f = *state;
    uint8_t exit[GUEST_EXIT_SIZE];
    put_exit(exit, 0, 3, 0);
    for (size_t piece = 1; piece < 200; piece += piece < 20 ? 1 : 37) {
        reset(f);
        frame(f, GUEST_STARTED, "\0\0\0\7", 4);
        frame(f, GUEST_STDOUT, "hello ", 6);
        frame(f, GUEST_STDERR, "oops", 4);
        frame(f, GUEST_STDOUT, "", 0);
        frame(f, GUEST_STDOUT, "world", 5);
        frame(f, GUEST_EXIT, exit, sizeof(exit));
        for (size_t at = 0; at < f->guest.len; at += 11) {
            mux(f, 1, f->guest.data + at, f->guest.len - at < 11 ? f->guest.len - at : 11);
            mux(f, 1, "", 0);
        }
        mux(f, 1, "after the end", 13);
        assert_int_equal(feed(f, piece), 0);
        assert_string_equal(buf_str(&f->out), "hello world");
        assert_string_equal(buf_str(&f->err), "oops");
        assert_int_equal(f->controls, 2);
        assert_int_equal(f->last, GUEST_EXIT);
        assert_true(f->frames.last);
        assert_memory_equal(f->payload, exit, sizeof(exit));
        assert_string_equal(frames_text(&f->frames), "");
    }
}

static void test_words_of_the_runtime(void **state)
{
    struct fixture *f = *state;
    static const char words[] = "OCI runtime exec failed: \xc3\xa4\r\n";
    reset(f);
    mux(f, 1, words, sizeof(words) - 1);
    assert_int_equal(feed(f, 3), 0);
    assert_string_equal(frames_text(&f->frames), "OCI runtime exec failed: ??  ");
    assert_int_equal(f->out.len, 0);
    reset(f);
    mux(f, 2, "on stderr", 9);
    assert_int_equal(feed(f, 100), 0);
    assert_string_equal(frames_text(&f->frames), "on stderr");
    reset(f);
    assert_int_equal(buf_add_str(&f->stream, "cannot exec in a stopped container"), 0);
    assert_int_equal(feed(f, 5), 0);
    assert_string_equal(frames_text(&f->frames), "cannot exec in a stopped container");
    reset(f);
    char *flood = calloc(1, 100000);
    assert_non_null(flood);
    mux(f, 2, flood, 100000);
    free(flood);
    assert_int_equal(feed(f, 4096), 0);
    assert_int_equal(strlen(frames_text(&f->frames)), FRAMES_TEXT_MAX);
}

static void test_faults(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint8_t type;
        uint32_t len;
    } rows[] = {{0, 0},
                {GUEST_STDIN_TAKEN, 3},
                {GUEST_STDIN_TAKEN + 1, 0},
                {255, 1},
                {GUEST_STDOUT, GUEST_FRAME_MAX + 1},
                {GUEST_STDERR, UINT32_MAX},
                {GUEST_STARTED, 5},
                {GUEST_EXIT, GUEST_EXIT_SIZE - 1},
                {GUEST_FAILED, 3},
                {GUEST_FAILED, FRAMES_CONTROL_MAX + 1},
                {GUEST_DONE, 1}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint8_t head[GUEST_FRAME_HEADER] = {rows[i].type};
        guest_put_u32(head + 1, rows[i].len);
        reset(f);
        frame(f, GUEST_STDOUT, "x", 1);
        assert_int_equal(buf_add(&f->guest, head, sizeof(head)), 0);
        mux(f, 1, f->guest.data, f->guest.len);
        assert_int_equal(feed(f, 1000), -1);
        assert_non_null(f->frames.fault);
        assert_int_equal(frames_feed(&f->frames, "more", 4), -1);
        assert_string_equal(buf_str(&f->out), "x");
    }
    reset(f);
    mux(f, 1, "\1\0\0\0\1x", 6);
    assert_int_equal(buf_add(&f->stream, "\5\0\0\0\0\0\0\1x", 9), 0);
    assert_int_equal(feed(f, 1000), -1);
}

static int decode(uint32_t flags, uint32_t status, uint32_t errnum, struct guest_exit *out)
{
    uint8_t p[GUEST_EXIT_SIZE];
    put_exit(p, flags, status, errnum);
    return frames_decode_exit(p, out);
}

static void test_exit_ranges(void **state)
{
    (void)state;
    struct guest_exit e;
    assert_int_equal(decode(0, 255, 0, &e), 0);
    assert_int_equal(e.status, 255);
    assert_int_equal(e.execution_workspace_bytes, 105);
    assert_int_equal(e.execution_pids_peak, -1);
    assert_int_equal(decode(0, 256, 0, &e), -1);
    assert_int_equal(decode(GUEST_EXIT_SIGNALED, 64, 0, &e), 0);
    assert_int_equal(decode(GUEST_EXIT_SIGNALED, 0, 0, &e), -1);
    assert_int_equal(decode(GUEST_EXIT_SIGNALED, 65, 0, &e), -1);
    assert_int_equal(decode(GUEST_EXIT_NOT_STARTED, 127, ENOENT, &e), 0);
    assert_int_equal(decode(GUEST_EXIT_NOT_STARTED, 1, ENOENT, &e), -1);
    assert_int_equal(decode(GUEST_EXIT_NOT_STARTED, 126, 5000, &e), -1);
    uint8_t p[GUEST_EXIT_SIZE];
    put_exit(p, 0, 0, 0);
    guest_put_i64(p + 36, -2);
    assert_int_equal(frames_decode_exit(p, &e), -1);
    char text[8];
    assert_int_equal(
        frames_decode_failed((const uint8_t *)"\0\0\0\x1cspace\n\xff long", 16, text, sizeof(text)),
        ENOSPC);
    assert_string_equal(text, "space ?");
}

static void test_results(void **state)
{
    (void)state;
    struct host_exec_result r;
    struct guest_exit e;
    assert_int_equal(decode(GUEST_EXIT_OOM | GUEST_EXIT_SIGNALED, 9, 0, &e), 0);
    process_result_from_exit(&r, &e, "sh", "");
    assert_true(r.started && r.oom && !r.lost && r.signal == 9 && r.exit_code == -1);
    assert_int_equal(r.cpu_ms, 100);
    assert_int_equal(r.usage.cpu_ms, 102);
    assert_int_equal(r.memory_peak_bytes, 103);
    assert_int_equal(decode(GUEST_EXIT_NOT_STARTED, 127, ENOENT, &e), 0);
    process_result_from_exit(&r, &e, "no-such", "dir");
    assert_true(!r.started && r.exit_code == 127);
    assert_string_equal(r.detail, "no-such: No such file or directory");
    e.flags |= GUEST_EXIT_CWD;
    process_result_from_exit(&r, &e, "no-such", "dir");
    assert_string_equal(r.detail, "working directory dir: No such file or directory");

    struct docker_exec_end end = {.known = true, .exit_code = 137, .container_lives = true};
    process_result_from_end(&r, &end, "");
    assert_true(r.started && !r.lost && r.exit_code == 137);
    assert_string_equal(r.detail, "the command's runner was killed from inside");
    end.exit_code = 126;
    process_result_from_end(&r, &end, "OCI runtime exec failed");
    assert_true(!r.started && !r.lost && r.exit_code == 126);
    assert_string_equal(r.detail, "OCI runtime exec failed");
    end = (struct docker_exec_end){.container_lives = false};
    process_result_from_end(&r, &end, "");
    assert_true(r.lost && r.exit_code == -1 && r.cpu_ms == -1);
    assert_string_equal(r.detail, "the container has ended");
    char long_text[FRAMES_TEXT_MAX + 1];
    memset(long_text, 'x', FRAMES_TEXT_MAX);
    long_text[FRAMES_TEXT_MAX] = '\0';
    process_result_lost(&r, "why", long_text);
    assert_int_equal(strlen(r.detail), sizeof(r.detail) - 1);
}

static int setup(void **state)
{
    static struct fixture f;
    buf_init(&f.guest, STREAM_MAX);
    buf_init(&f.stream, STREAM_MAX);
    buf_init(&f.out, STREAM_MAX);
    buf_init(&f.err, STREAM_MAX);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    buf_done(&f->guest);
    buf_done(&f->stream);
    buf_done(&f->out);
    buf_done(&f->err);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_pieces), cmocka_unit_test(test_words_of_the_runtime),
        cmocka_unit_test(test_faults),     cmocka_unit_test(test_exit_ranges),
        cmocka_unit_test(test_results),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
