#include "ptc/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { DEEP = 100000 };

static void assert_form(const char *text, const char *form)
{
    struct error err = ERROR_INIT;
    struct buf out;
    buf_init(&out, 4096);
    if (ptc_json_write(text, strlen(text), &out, &err) != 0) {
        fail_msg("%s: %s", text, err.detail);
    }
    assert_string_equal(buf_str(&out), form);
    assert_int_equal(ptc_json_check(text, strlen(text), &err), 0);
    buf_done(&out);
}

static void assert_refused(const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    if (ptc_json_check(text, len, &err) == 0) {
        fail_msg("%s was taken", text);
    }
    assert_int_equal(err.code, ERROR_PTC_INVALID_REQUEST);
}

static void test_forms(void **state)
{
    (void)state;
    assert_form(" [ 1 , true,null ,\"a\" ] ", "[1,true,null,\"a\"]");
    assert_form("{\"a\" : {} , \"__proto__\":[]}", "{\"a\":{},\"__proto__\":[]}");
    assert_form("\"\\u0041\\u00e9\\/\\u2028\"", "\"A\xc3\xa9/\xe2\x80\xa8\"");
    assert_form("\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"");
    assert_form("\"\\uD800x\\uDFFF\"", "\"\\ud800x\\udfff\"");
    assert_form("\"\\u0000\\u001F\\b\\n\"", "\"\\u0000\\u001f\\b\\n\"");
    assert_form("\"\\ud800\\ud83d\\ude00\"", "\"\\ud800\xf0\x9f\x98\x80\"");
}

static void test_numbers(void **state)
{
    (void)state;
    assert_form("0", "0");
    assert_form("-1", "-1");
    assert_form("0.1", "0.1");
    assert_form("1.0", "1");
    assert_form("1e21", "1e+21");
    assert_form("1e20", "100000000000000000000");
    assert_form("123456789012345678901", "123456789012345680000");
    assert_form("9007199254740993", "9007199254740992");
    assert_form("1e-6", "0.000001");
    assert_form("1E-7", "1e-7");
    assert_form("-1.5e-10", "-1.5e-10");
    assert_form("5e-324", "5e-324");
    assert_form("1.7976931348623157e308", "1.7976931348623157e+308");
    assert_form("0.30000000000000004", "0.30000000000000004");
    assert_form("1e-400", "0");
    assert_form("100.25", "100.25");
}

static void test_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "-0",
        "-0.0",
        "-0e5",
        "[-0]",
        "1e999",
        "-1e999",
        "-1e-400",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "--1",
        "nul",
        "tru",
        "NaN",
        "[",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{a:1}",
        "{\"a\":1,}",
        "[1 2]",
        "1 2",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\t\"",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "]",
        "{]",
        "[}",
        "undefined",
        "\"\\",
        "{\"a\":}",
        "{,}",
        "'a'",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        assert_refused(texts[i], strlen(texts[i]));
    }
    assert_refused("1\0", 2);
}

static void test_deep(void **state)
{
    struct error err = ERROR_INIT;
    struct buf text;
    struct buf out;
    (void)state;
    buf_init(&text, 8UL * DEEP);
    buf_init(&out, 8UL * DEEP);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(buf_add_str(&text, i % 2 == 0 ? "[" : "{\"a\":"), 0);
    }
    assert_int_equal(buf_add_str(&text, "1"), 0);
    for (int i = DEEP; i-- > 0;) {
        assert_int_equal(buf_add_char(&text, i % 2 == 0 ? ']' : '}'), 0);
    }
    assert_int_equal(ptc_json_write(text.data, text.len, &out, &err), 0);
    assert_string_equal(out.data, text.data);
    buf_done(&text);
    buf_done(&out);
}

static void test_full(void **state)
{
    struct error err = ERROR_INIT;
    struct buf out;
    (void)state;
    buf_init(&out, 6);
    assert_int_equal(buf_add_str(&out, "ab"), 0);
    assert_int_equal(ptc_json_write("[1,2,3]", 7, &out, &err), -1);
    assert_int_equal(err.code, ERROR_OUTPUT_LIMIT);
    assert_string_equal(buf_str(&out), "ab");
    buf_done(&out);
}

static void assert_answer(const char *text, bool ok, const char *payload)
{
    struct error err = ERROR_INIT;
    struct ptc_answer answer;
    if (ptc_json_answer(text, strlen(text), &answer, &err) != 0) {
        fail_msg("%s: %s %s", text, err.field, err.detail);
    }
    assert_int_equal(answer.ok, ok);
    assert_int_equal(answer.payload.len, strlen(payload));
    assert_memory_equal(answer.payload.data == NULL ? "" : answer.payload.data, payload,
                        strlen(payload));
}

static void assert_no_answer(const char *text, const char *field)
{
    struct error err = ERROR_INIT;
    struct ptc_answer answer;
    assert_int_equal(ptc_json_answer(text, strlen(text), &answer, &err), -1);
    assert_int_equal(err.code, ERROR_PTC_INVALID_REQUEST);
    assert_string_equal(err.field, field);
}

static void test_answers(void **state)
{
    (void)state;
    assert_answer("{\"ok\":true}", true, "");
    assert_answer(" { \"value\" : [1, {}] , \"ok\" : true } ", true, "[1, {}]");
    assert_answer("{\"ok\":false,\"message\":\"no\"}", false, "\"no\"");
    assert_no_answer("{\"ok\":1}", "/ok");
    assert_no_answer("{}", "/ok");
    assert_no_answer("[]", "");
    assert_no_answer("{\"ok\":true,\"extra\":1}", "/extra");
    assert_no_answer("{\"ok\":true,\"ok\":true}", "/ok");
    assert_no_answer("{\"ok\":true,\"message\":\"a\"}", "/message");
    assert_no_answer("{\"ok\":false}", "/message");
    assert_no_answer("{\"ok\":false,\"message\":1}", "/message");
    assert_no_answer("{\"ok\":false,\"message\":\"a\",\"value\":1}", "/value");
}

static void test_quote(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 256);
    assert_int_equal(ptc_json_quote((struct ptc_text){"a\"\\\n\x01\xc3\xa9\xff", 8}, &out), 0);
    assert_string_equal(buf_str(&out), "\"a\\\"\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\"");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_deep),
        cmocka_unit_test(test_full),    cmocka_unit_test(test_answers),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
