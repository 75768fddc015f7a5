/* JSON text, base64 and field tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/base64.h"
#include "api/field.h"
#include "api/json.h"

#include <float.h>
#include <string.h>

static void expect_round_trip(const char *text, const char *expected)
{
    _cleanup_json_ json_t *value = NULL;
    _cleanup_free_ char *back = NULL;
    struct error err = ERROR_INIT;

    if (api_json_parse(text, strlen(text), &value, &err) != 0) {
        fail_msg("%s: %s", text, err.detail);
    }
    back = api_json_text(value, 100000);
    assert_non_null(back);
    assert_string_equal(back, expected);
}

static void values_survive_the_way(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } CASES[] = {
        {"0.1", "0.1"},
        {"4.0", "4.0"},
        {"-0.0", "-0.0"},
        {"100.0", "100.0"},
        {"0.333", "0.333"},
        {"1e2", "100.0"},
        {"1.5e300", "1.5e+300"},
        {"5e-324", "5e-324"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"0.00001", "0.00001"},
        {"0.000001", "1e-06"},
        {"123456789.125", "123456789.125"},
        {"9007199254740993", "9007199254740993"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9.223372036854776e+18"},
        {"[9223372036854775808,1e999,-1e999,2]",
         "[9.223372036854776e+18,1.7976931348623157e+308,-1.7976931348623157e+308,2]"},
        {" { \"b\" : [ true , false , null ] , \"a\" : { } } ",
         "{\"b\":[true,false,null],\"a\":{}}"},
        {"\"\\u0001\\n\\\"\\\\\\/\\u20ac\\ud83d\\ude00\"",
         "\"\\u0001\\n\\\"\\\\/\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {"[\"1e999\",\"[[\\\"\",12]", "[\"1e999\",\"[[\\\"\",12]"},
        {"[]", "[]"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        expect_round_trip(CASES[i].text, CASES[i].expected);
    }
}

static void an_integer_of_any_length_is_a_number(void **state)
{
    static char text[2000];
    _cleanup_json_ json_t *value = NULL;
    struct error err = ERROR_INIT;

    (void)state;
    memset(text, '9', sizeof(text) - 1);
    assert_int_equal(api_json_parse(text, sizeof(text) - 1, &value, &err), 0);
    assert_true(json_is_real(value));
    assert_true(json_real_value(value) == DBL_MAX);
}

struct raw {
    const char *data;
    size_t len;
};

static void bad_text_is_refused(void **state)
{
#define RAW(text)                                                                                  \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
    static const struct raw BAD[] = {
        RAW(""),
        RAW(" "),
        RAW("{"),
        RAW("[1,]"),
        RAW("{\"a\":1,}"),
        RAW("{a:1}"),
        RAW("01"),
        RAW("0999999999999999999999"),
        RAW("1."),
        RAW("1.e5"),
        RAW("-"),
        RAW("+1"),
        RAW(".5"),
        RAW("1e"),
        RAW("NaN"),
        RAW("Infinity"),
        RAW("nul"),
        RAW("{} {}"),
        RAW("{}x"),
        RAW("'a'"),
        RAW("{\"a\":1,\"a\":2}"),
        RAW("{\"a\":1,\"\\u0061\":2}"),
        RAW("{\"x\":{\"a\":1,\"a\":1}}"),
        RAW("\"\xFF\""),
        RAW("\"\xC0\x80\""),
        RAW("\"\xED\xA0\x80\""),
        RAW("\"\\ud800\""),
        RAW("\"\\udc00\\ud800\""),
        RAW("\"\\u0000\""),
        RAW("{\"\\u0000\":1}"),
        RAW("\"a\0b\""),
        RAW("{}\0"),
        RAW("\xEF\xBB\xBF{}"),
        RAW("\"a\nb\""),
        RAW("\"\\x41\""),
        RAW("[1] // c"),
        RAW("\"abc"),
        RAW("\"abc\\"),
        RAW("1e5e5"),
        RAW("--1"),
    };
#undef RAW

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        json_t *value = NULL;
        struct error err = ERROR_INIT;

        if (api_json_parse(BAD[i].data, BAD[i].len, &value, &err) == 0) {
            fail_msg("accepted: %s", BAD[i].data);
        }
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
        assert_string_equal(err.field, "");
        assert_true(strlen(err.detail) > 0);
        assert_null(value);
    }
}

static void nesting_is_bounded(void **state)
{
    char text[300];

    (void)state;
    for (int depth = 60; depth <= 70; depth++) {
        json_t *value = NULL;
        struct error err = ERROR_INIT;
        size_t len = 0;
        int rc;

        for (int i = 0; i < depth; i++) {
            text[len++] = '[';
        }
        for (int i = 0; i < depth; i++) {
            text[len++] = ']';
        }
        rc = api_json_parse(text, len, &value, &err);
        assert_int_equal(rc, depth <= 64 ? 0 : -1);
        if (rc != 0) {
            assert_non_null(strstr(err.detail, "nested deeper than 64"));
        }
        json_decref(value);
    }
}

static void a_body_is_an_object(void **state)
{
    json_t *value = NULL;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_json_parse_object("[1]", 3, true, &value, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_int_equal(api_json_parse_object("", 0, false, &value, &err), -1);
    assert_int_equal(api_json_parse_object(NULL, 0, true, &value, &err), 0);
    assert_int_equal(json_object_size(value), 0);
    json_decref(value);
}

static void dump_has_a_cap_and_a_depth(void **state)
{
    _cleanup_json_ json_t *deep = json_array();
    _cleanup_json_ json_t *text = json_string("0123456789");
    json_t *at = deep;

    (void)state;
    assert_null(api_json_text(text, 11));
    for (int i = 0; i < 200; i++) {
        json_t *next = json_array();

        json_array_append_new(at, next);
        at = next;
    }
    assert_null(api_json_text(deep, 100000));
}

static void stored_text_is_trusted_but_checked(void **state)
{
    _cleanup_json_ json_t *value = NULL;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(api_json_load_stored("{\"a\":1}", &value, &err), 0);
    assert_int_equal(json_object_size(value), 1);
    assert_int_equal(api_json_load_stored("{", &value, &err), -1);
    assert_int_equal(err.code, ERROR_INTERNAL);
}

/* --- base64 --- */

static void base64_round_trips(void **state)
{
    static const char *const TEXTS[] = {
        "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy", "//79", "+/+/"};
    char all[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
        _cleanup_free_ char *data = NULL;
        _cleanup_free_ char *again = NULL;
        size_t len;

        assert_int_equal(base64_decode(TEXTS[i], strlen(TEXTS[i]), &data, &len), 0);
        again = base64_encode(data, len, NULL);
        assert_string_equal(again, TEXTS[i]);
    }
    for (size_t i = 0; i < sizeof(all); i++) {
        all[i] = (char)i;
    }
    for (size_t n = 0; n <= sizeof(all); n++) {
        _cleanup_free_ char *text = NULL;
        _cleanup_free_ char *data = NULL;
        size_t text_len;
        size_t len;

        text = base64_encode(all, n, &text_len);
        assert_int_equal(base64_decode(text, text_len, &data, &len), 0);
        assert_int_equal(len, n);
        assert_memory_equal(data, all, n);
    }
}

static void base64_is_strict(void **state)
{
    static const char *const BAD[] = {
        "Z",    "Zg",       "Zg=",    "Zg===", "Zh==", "Zm9=",     "=AAA",
        "Z===", "Zg==Zg==", "Zm9v\n", " Zm9v", "Zm-_", "Zm9v====", "A=AA"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        char *data = NULL;
        size_t len;

        assert_int_equal(base64_decode(BAD[i], strlen(BAD[i]), &data, &len), -1);
        assert_null(data);
    }
}

/* --- fields --- */

struct sample {
    const char *text;
    int64_t integer;
    double number;
    bool boolean;
    json_t *object;
    json_t *array;
};

static const struct api_field SAMPLE_FIELDS[] = {
    {"text", API_STRING, true, offsetof(struct sample, text)},
    {"integer", API_INTEGER, false, offsetof(struct sample, integer)},
    {"number", API_NUMBER, false, offsetof(struct sample, number)},
    {"boolean", API_BOOLEAN, false, offsetof(struct sample, boolean)},
    {"object", API_OBJECT, false, offsetof(struct sample, object)},
    {"array", API_ARRAY, false, offsetof(struct sample, array)},
};

static const struct api_field_table SAMPLE_TABLE = {SAMPLE_FIELDS, ARRAY_SIZE(SAMPLE_FIELDS),
                                                    ERROR_RESOURCE_LIMIT};

static int decode_sample(const char *text, json_t **root, struct sample *out, struct error *err)
{
    *root = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(*root);
    return api_fields_decode(*root, "/in/here", &SAMPLE_TABLE, out, err);
}

static void fields_are_filled(void **state)
{
    _cleanup_json_ json_t *root = NULL;
    struct sample s = {.integer = 9, .boolean = true};
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(decode_sample("{\"text\":\"x\",\"integer\":4.0,\"number\":2,\"boolean\":false,"
                                   "\"object\":{},\"array\":null}",
                                   &root, &s, &err),
                     0);
    assert_string_equal(s.text, "x");
    assert_int_equal(s.integer, 4);
    assert_true(s.number == 2.0);
    assert_false(s.boolean);
    assert_non_null(s.object);
    assert_null(s.array);
    assert_null(json_object_get(root, "array"));
}

static void left_out_fields_keep_their_defaults(void **state)
{
    _cleanup_json_ json_t *root = NULL;
    struct sample s = {.integer = 9, .boolean = true};
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(decode_sample("{\"text\":\"x\",\"integer\":null}", &root, &s, &err), 0);
    assert_int_equal(s.integer, 9);
    assert_true(s.boolean);
}

static void faults_name_the_field(void **state)
{
    static const struct {
        const char *text;
        const char *field;
    } CASES[] = {
        {"5", "/in/here"},
        {"[]", "/in/here"},
        {"null", "/in/here"},
        {"{}", "/in/here/text"},
        {"{\"text\":null}", "/in/here/text"},
        {"{\"text\":5}", "/in/here/text"},
        {"{\"text\":\"x\",\"integer\":1.5}", "/in/here/integer"},
        {"{\"text\":\"x\",\"integer\":\"1\"}", "/in/here/integer"},
        {"{\"text\":\"x\",\"integer\":true}", "/in/here/integer"},
        {"{\"text\":\"x\",\"integer\":9007199254740992}", "/in/here/integer"},
        {"{\"text\":\"x\",\"integer\":1e300}", "/in/here/integer"},
        {"{\"text\":\"x\",\"number\":\"1\"}", "/in/here/number"},
        {"{\"text\":\"x\",\"boolean\":0}", "/in/here/boolean"},
        {"{\"text\":\"x\",\"object\":[]}", "/in/here/object"},
        {"{\"text\":\"x\",\"array\":{}}", "/in/here/array"},
        {"{\"text\":5,\"a/b~c\":1}", "/in/here/a~1b~0c"},
        {"{\"text\":\"x\",\"unknown\":null}", "/in/here/unknown"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_json_ json_t *root = NULL;
        struct sample s = {0};
        struct error err = ERROR_INIT;

        assert_int_equal(decode_sample(CASES[i].text, &root, &s, &err), -1);
        assert_string_equal(err.field, CASES[i].field);
        assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    }
}

static void a_long_pointer_is_cut(void **state)
{
    char name[1000];
    char out[ERROR_FIELD_MAX];

    (void)state;
    memset(name, '~', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    api_pointer_join("", name, out);
    assert_int_equal(strlen(out), ERROR_FIELD_MAX - 1);
    api_pointer_join(name, name, out);
    assert_int_equal(strlen(out), ERROR_FIELD_MAX - 1);
    api_pointer_index("/args", 12, out);
    assert_string_equal(out, "/args/12");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_survive_the_way),
        cmocka_unit_test(an_integer_of_any_length_is_a_number),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(a_body_is_an_object),
        cmocka_unit_test(dump_has_a_cap_and_a_depth),
        cmocka_unit_test(stored_text_is_trusted_but_checked),
        cmocka_unit_test(base64_round_trips),
        cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(fields_are_filled),
        cmocka_unit_test(left_out_fields_keep_their_defaults),
        cmocka_unit_test(faults_name_the_field),
        cmocka_unit_test(a_long_pointer_is_cut),
    };

    return cmocka_run_group_tests_name("api json and fields", tests, NULL, NULL);
}
