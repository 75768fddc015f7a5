#include "ptc/frames.h"
#include "ptc/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* --- frames --- */

static void test_frames(void **state)
{
    static const char stream[] = "\0\0\0\2{}\0\0\0\1"
                                 "1\0\0\0\3"
                                 "ab";
    struct ptc_frames f;
    struct ptc_text body;
    (void)state;
    ptc_frames_init(&f, 16);
    for (size_t i = 0; i < sizeof(stream) - 1; i++) {
        assert_int_equal(ptc_frames_put(&f, &stream[i], 1), 0);
        int result = ptc_frames_next(&f, &body);
        assert_int_equal(result, i == 5 || i == 10);
        if (i == 5) {
            assert_int_equal(body.len, 2);
            assert_memory_equal(body.data, "{}", 2);
        }
    }
    ptc_frames_done(&f);
}

static void assert_bad_length(const char head[4])
{
    struct ptc_frames f;
    struct ptc_text body;
    ptc_frames_init(&f, 16);
    assert_int_equal(ptc_frames_put(&f, head, 4), 0);
    assert_int_equal(ptc_frames_next(&f, &body), -1);
    ptc_frames_done(&f);
}

static void test_lengths(void **state)
{
    (void)state;
    assert_bad_length("\0\0\0\0");
    assert_bad_length("\0\0\0\x11");
    assert_bad_length("\xff\xff\xff\xff");
}

static void test_sending(void **state)
{
    struct ptc_sending s;
    struct ptc_text pieces[] = {{"ab", 2}, {"", 0}, {"c", 1}};
    (void)state;
    ptc_sending_init(&s, 14);
    assert_int_equal(ptc_sending_add(&s, pieces, 3), 0);
    assert_int_equal(ptc_sending_add(&s, pieces, 3), 0);
    assert_int_equal(ptc_sending_add(&s, pieces, 3), -1);
    assert_int_equal(s.queue.len, 14);
    assert_memory_equal(s.queue.data, "\0\0\0\3abc", 7);
    assert_true(ptc_sending_waits(&s));
    ptc_sending_done(&s);
}

static int read_message(const char *text, struct ptc_message *out, struct buf *room)
{
    const char *why = NULL;
    return ptc_message_read((struct ptc_text){text, strlen(text)}, room, out, &why);
}

static void test_messages(void **state)
{
    static const char *const bad[] = {
        "1",
        "[]",
        "{}",
        "{\"type\":\"boot\"}",
        "{\"type\":\"ready\",\"id\":1}",
        "{\"type\":\"log\"}",
        "{\"type\":\"log\",\"text\":1}",
        "{\"type\":\"log\",\"text\":\"a\",\"text\":\"b\"}",
        "{\"type\":\"call\",\"id\":0,\"global\":\"g\",\"function\":\"f\",\"argument\":1}",
        "{\"type\":\"call\",\"id\":1.5,\"global\":\"g\",\"function\":\"f\",\"argument\":1}",
        "{\"type\":\"call\",\"id\":\"1\",\"global\":\"g\",\"function\":\"f\",\"argument\":1}",
        "{\"type\":\"call\",\"id\":1,\"global\":1,\"function\":\"f\",\"argument\":1}",
        "{\"type\":\"call\",\"id\":1,\"global\":\"g\",\"function\":\"f\"}",
        "{\"type\":\"done\"}",
        "{\"type\":\"done\",\"ok\":1}",
        "{\"type\":\"done\",\"ok\":false}",
        "{\"type\":\"done\",\"ok\":true,\"message\":\"m\"}",
        "{\"type\":\"done\",\"ok\":false,\"kind\":\"timeout\",\"message\":\"m\"}",
        "{\"type\":\"done\",\"ok\":false,\"kind\":\"exception\",\"message\":1}",
        "{\"type\":\"done\",\"ok\":false,\"kind\":\"exception\",\"message\":\"m\",\"value\":1}",
        "{\"type\":\"done\",\"ok\":true,\"value\":-0}",
        "{\"type\":\"ready\"",
    };
    struct ptc_message m;
    struct buf room;
    (void)state;
    buf_init(&room, 4096);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        if (read_message(bad[i], &m, &room) == 0) {
            fail_msg("%s was taken", bad[i]);
        }
    }
    assert_int_equal(read_message("{\"type\":\"ready\"}", &m, &room), 0);
    assert_int_equal(m.type, PTC_MESSAGE_READY);
    assert_int_equal(
        read_message("{\"argument\":[1.0],\"id\":7,\"global\":\"g\",\"function\":\"\\u0066\","
                     "\"type\":\"call\"}",
                     &m, &room),
        0);
    assert_int_equal(m.id, 7);
    assert_memory_equal(m.global.data, "g", m.global.len);
    assert_memory_equal(m.function.data, "\"f\"", m.function.len);
    assert_memory_equal(m.argument.data, "[1]", m.argument.len);
    assert_int_equal(read_message("{\"type\":\"done\",\"ok\":true}", &m, &room), 0);
    assert_int_equal(m.value.len, 0);
    buf_done(&room);
}

/* --- ledger --- */

static struct ptc_text text_of(const char *text)
{
    return (struct ptc_text){text, strlen(text)};
}

static void assert_text(struct ptc_text text, const char *expected)
{
    if (text.len != strlen(expected) || memcmp(text.data, expected, text.len) != 0) {
        fail_msg("%.*s is not %s", (int)text.len, text.data, expected);
    }
}

static void test_exact_fits(void **state)
{
    struct ptc_ledger l;
    (void)state;
    ptc_ledger_init(&l, 12);
    assert_int_equal(ptc_ledger_size(&l), 2);
    assert_true(ptc_ledger_fits(&l, 10));
    assert_false(ptc_ledger_fits(&l, 11));
    assert_int_equal(ptc_ledger_log(&l, text_of("\"ab\"")), 0);
    assert_int_equal(ptc_ledger_size(&l), 6);
    assert_int_equal(ptc_ledger_log(&l, text_of("\"abc\"")), 0);
    assert_int_equal(ptc_ledger_size(&l), 12);
    assert_true(ptc_ledger_fits(&l, 0));
    assert_false(ptc_ledger_fits(&l, 1));
    assert_text(ptc_ledger_close(&l), "[\"ab\",\"abc\"]");
    ptc_ledger_done(&l);
}

static void assert_overflow(int64_t max, const char *const entries[], const char *logs,
                            const char *message)
{
    struct ptc_ledger l;
    struct buf text;
    ptc_ledger_init(&l, max);
    buf_init(&text, 256);
    assert_int_equal(buf_addf(&text, "\"outer output exceeded %d bytes\"", (int)max), 0);
    for (size_t i = 0; entries[i] != NULL; i++) {
        (void)!ptc_ledger_log(&l, text_of(entries[i]));
    }
    struct ptc_text left = ptc_ledger_overflow(&l, &text);
    assert_text(left, logs);
    assert_string_equal(buf_str(&text), message);
    assert_true(left.len + text.len <= (size_t)max);
    buf_done(&text);
    ptc_ledger_done(&l);
}

static void test_overflows(void **state)
{
    static const char *const one[] = {
        "\"abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuv\"", NULL};
    static const char *const escapes[] = {
        "\"a\\n\\u0001\xc3\xa9\xf0\x9f\x98\x80\\ud800zzzzzzzzzzzz\"", "\"b\"", NULL};
    static const char *const several[] = {"\"0123456789\"",
                                          "\"0123456789\"",
                                          "\"0123456789\"",
                                          "\"0123456789\"",
                                          "\"0123456789\"",
                                          "\"0123456789\"",
                                          NULL};
    (void)state;
    assert_overflow(4, one, "[]", "\"\"");
    assert_overflow(8, one, "[]", "\"oute\"");
    assert_overflow(40, one, "[\"abcd\"]", "\"outer output exceeded 40 bytes\"");
    assert_overflow(40, escapes, "[\"a\\n\"]", "\"outer output exceeded 40 bytes\"");
    assert_overflow(53, escapes, "[\"a\\n\\u0001\xc3\xa9\xf0\x9f\x98\x80\"]",
                    "\"outer output exceeded 53 bytes\"");
    assert_overflow(80, several, "[\"0123456789\",\"0123456789\",\"0123456789\",\"01234\"]",
                    "\"outer output exceeded 80 bytes\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),     cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_sending),    cmocka_unit_test(test_messages),
        cmocka_unit_test(test_exact_fits), cmocka_unit_test(test_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
