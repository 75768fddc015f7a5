/* Each rule by itself, as a table. */
#include "policy_fixture.h"

#include "policy/policy.h"

#include <string.h>

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* `count` times `c`, into a static buffer. */
static const char *repeat(char c, size_t count)
{
    static char text[70000];

    memset(text, c, count);
    text[count] = '\0';
    return text;
}

static void image_references(void **state)
{
    static const struct {
        const char *reference;
        bool pinned;
        bool unpinned;
    } CASES[] = {
        {"base@sha256:" HEX64, true, true},
        {"registry.example:5000/a/b_c-d:tag@sha256:" HEX64, true, true},
        {"9@sha256:" HEX64, true, true},
        {"base", false, true},
        {"base:latest", false, true},
        {"", false, false},
        {"@sha256:" HEX64, false, false},
        {"-a@sha256:" HEX64, false, false},
        {"base@sha256:" HEX64 "0", false, false},
        {"base@sha256:0123", false, false},
        {"base@sha512:" HEX64, false, false},
        {"base@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", false,
         false},
        {"base@sha256:" HEX64 "@x", false, false},
        {"base name@sha256:" HEX64, false, false},
        {"b\xC3\xA4se@sha256:" HEX64, false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct error err = ERROR_INIT;

        assert_int_equal(policy_image_reference(CASES[i].reference, false, "/image", &err),
                         CASES[i].pinned ? 0 : -1);
        if (!CASES[i].pinned) {
            assert_int_equal(err.code, ERROR_INVALID_REQUEST);
            assert_string_equal(err.field, "/image");
            assert_int_equal(err.phase, PHASE_VALIDATE);
        }
        assert_int_equal(policy_image_reference(CASES[i].reference, true, "/image", &err),
                         CASES[i].unpinned ? 0 : -1);
    }
}

static void image_references_are_bounded(void **state)
{
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(policy_image_reference(repeat('a', 1024), true, "/image", &err), 0);
    assert_int_equal(policy_image_reference(repeat('a', 1025), true, "/image", &err), -1);
}

/* --- environment --- */

static void environment_becomes_a_list(void **state)
{
    _cleanup_json_ json_t *object =
        json_of("{\"CI\":\"1\",\"_x9\":\"a=b\",\"GONE\":null,\"E\":\"\"}");
    struct error err = ERROR_INIT;
    char **list = NULL;

    (void)state;
    assert_int_equal(policy_environment(object, "/environment", &list, &err), 0);
    assert_string_equal(list[0], "CI=1");
    assert_string_equal(list[1], "_x9=a=b");
    assert_string_equal(list[2], "E=");
    assert_null(list[3]);
    policy_environment_free(list);
    assert_null(json_object_get(object, "GONE"));
    list = (char **)1;
    assert_int_equal(policy_environment(NULL, "/environment", &list, &err), 0);
    assert_null(list);
    policy_environment_free(NULL);
}

static void environment_faults(void **state)
{
    static const struct {
        const char *text;
        const char *field;
    } CASES[] = {
        {"[]", "/environment"},
        {"\"A=B\"", "/environment"},
        {"{\"A\":1}", "/environment/A"},
        {"{\"A\":[\"x\"]}", "/environment/A"},
        {"{\"\":\"x\"}", "/environment/"},
        {"{\"9A\":\"x\"}", "/environment/9A"},
        {"{\"A-B\":\"x\"}", "/environment/A-B"},
        {"{\"A=B\":\"x\"}", "/environment/A=B"},
        {"{\"A\":\"x\",\"GITHUB_TOKEN\":\"x\"}", "/environment/GITHUB_TOKEN"},
        {"{\"api__key\":\"x\"}", "/environment/api__key"},
        {"{\"PASS_WORD\":\"x\"}", "/environment/PASS_WORD"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_json_ json_t *object = json_of(CASES[i].text);
        struct error err = ERROR_INIT;
        char **list = NULL;

        assert_int_equal(policy_environment(object, "/environment", &list, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
        assert_string_equal(err.field, CASES[i].field);
        assert_null(list);
    }
}

static void environment_values_are_bounded(void **state)
{
    _cleanup_json_ json_t *most = json_pack("{s:s}", "A", repeat('x', 32768));
    _cleanup_json_ json_t *more = json_pack("{s:s}", "A", repeat('x', 32769));
    struct error err = ERROR_INIT;
    char **list = NULL;

    (void)state;
    assert_int_equal(policy_environment(most, "/environment", &list, &err), 0);
    assert_int_equal(strlen(list[0]), 32770);
    policy_environment_free(list);
    assert_int_equal(policy_environment(more, "/environment", &list, &err), -1);
    assert_string_equal(err.field, "/environment/A");
}

/* --- cwd --- */

static void cwd_is_normalised(void **state)
{
    static const struct {
        const char *cwd;
        const char *expected; /* NULL: refused */
    } CASES[] = {
        {NULL, ""},
        {"", ""},
        {".", ""},
        {"./", ""},
        {"a", "a"},
        {"a/", "a"},
        {"a//b", "a/b"},
        {"./a/./b/.", "a/b"},
        {"a/..", ""},
        {"a/../b", "b"},
        {"a/b/../../c", "c"},
        {"..a/b..", "..a/b.."},
        {"...", "..."},
        {"/", NULL},
        {"/workspace", NULL},
        {"..", NULL},
        {"../a", NULL},
        {"a/../..", NULL},
        {"./..", NULL},
        {"a/b/../../../c", NULL},
        {"//a", NULL},
        {"\xC3\xA4 b", "\xC3\xA4 b"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_free_ char *out = NULL;
        struct error err = ERROR_INIT;
        int rc = policy_cwd(CASES[i].cwd, &out, &err);

        if (CASES[i].expected == NULL) {
            assert_int_equal(rc, -1);
            assert_int_equal(err.code, ERROR_INVALID_REQUEST);
            assert_string_equal(err.field, "/cwd");
        } else {
            assert_int_equal(rc, 0);
            assert_string_equal(out, CASES[i].expected);
        }
    }
}

static void cwd_is_bounded(void **state)
{
    _cleanup_free_ char *out = NULL;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(policy_cwd(repeat('a', 4097), &out, &err), -1);
    assert_int_equal(policy_cwd(repeat('a', 4096), &out, &err), 0);
}

/* --- metadata, labels, network --- */

/* {"a":{"a":…}} `depth` deep. Returns owned. */
static json_t *nested(int depth)
{
    json_t *value = json_object();

    for (int i = 1; i < depth; i++) {
        value = json_pack("{s:o}", "a", value);
    }
    return value;
}

static void metadata(void **state)
{
    _cleanup_json_ json_t *plain = json_of("{\"a\":null,\"b\":[1,2.5,{}],\"c\":\"x\"}");
    _cleanup_json_ json_t *array = json_of("[]");
    _cleanup_json_ json_t *huge = json_of("{\"a\":[0,1e999]}");
    _cleanup_json_ json_t *deepest = nested(32);
    _cleanup_json_ json_t *deeper = nested(33);
    _cleanup_json_ json_t *most = json_pack("{s:s}", "a", repeat('x', 65536 - 8));
    _cleanup_json_ json_t *more = json_pack("{s:s}", "a", repeat('x', 65536 - 7));
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(policy_metadata(NULL, "/metadata", &err), 0);
    assert_int_equal(policy_metadata(plain, "/metadata", &err), 0);
    assert_int_equal(json_object_size(plain), 3);
    assert_int_equal(policy_metadata(deepest, "/metadata", &err), 0);
    assert_int_equal(policy_metadata(most, "/metadata", &err), 0);
    assert_int_equal(policy_metadata(array, "/metadata", &err), -1);
    assert_string_equal(err.field, "/metadata");
    assert_int_equal(policy_metadata(deeper, "/metadata", &err), -1);
    assert_int_equal(policy_metadata(more, "/metadata", &err), -1);
    assert_int_equal(policy_metadata(huge, "/metadata", &err), -1);
    assert_string_equal(err.field, "/metadata/a/1");
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
}

static void label_rules(void **state)
{
    static const struct {
        const char *text;
        const char *field; /* NULL: fine */
    } CASES[] = {
        {"{}", NULL},
        {"{\"team\":\"a\",\"a.b/c_d-9\":\"\"}", NULL},
        {"{\"x\":null}", NULL},
        {"[]", "/labels"},
        {"{\"\":\"x\"}", "/labels/"},
        {"{\"-a\":\"x\"}", "/labels/-a"},
        {"{\"/a\":\"x\"}", "/labels/~1a"},
        {"{\"a b\":\"x\"}", "/labels/a b"},
        {"{\"a\":1}", "/labels/a"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_json_ json_t *labels = json_of(CASES[i].text);
        struct error err = ERROR_INIT;
        int rc = policy_labels(labels, "/labels", &err);

        assert_int_equal(rc, CASES[i].field == NULL ? 0 : -1);
        assert_string_equal(err.field, CASES[i].field == NULL ? "" : CASES[i].field);
    }
}

static void labels_are_bounded(void **state)
{
    _cleanup_json_ json_t *labels = json_object();
    _cleanup_json_ json_t *long_key = json_pack("{s:s}", repeat('k', 63), "v");
    _cleanup_json_ json_t *longer_key = json_pack("{s:s}", repeat('k', 64), "v");
    _cleanup_json_ json_t *long_value = json_pack("{s:s}", "k", repeat('v', 256));
    _cleanup_json_ json_t *longer_value = json_pack("{s:s}", "k", repeat('v', 257));
    struct error err = ERROR_INIT;

    (void)state;
    for (int i = 0; i < 64; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%d", i);
        json_object_set_new(labels, key, json_string("v"));
    }
    assert_int_equal(policy_labels(NULL, "/labels", &err), 0);
    assert_int_equal(policy_labels(labels, "/labels", &err), 0);
    json_object_set_new(labels, "one-more", json_string("v"));
    assert_int_equal(policy_labels(labels, "/labels", &err), -1);
    assert_string_equal(err.field, "/labels");
    assert_int_equal(policy_labels(long_key, "/labels", &err), 0);
    assert_int_equal(policy_labels(longer_key, "/labels", &err), -1);
    assert_int_equal(policy_labels(long_value, "/labels", &err), 0);
    assert_int_equal(policy_labels(longer_value, "/labels", &err), -1);
}

static void network_is_none(void **state)
{
    static const struct {
        const char *text;
        const char *field; /* NULL: fine */
    } CASES[] = {
        {"{\"mode\":\"none\"}", NULL},
        {"{}", "/network/mode"},
        {"{\"mode\":null}", "/network/mode"},
        {"{\"mode\":\"None\"}", "/network/mode"},
        {"{\"mode\":\"host\"}", "/network/mode"},
        {"{\"mode\":[]}", "/network/mode"},
        {"{\"mode\":\"none\",\"dns\":[]}", "/network/dns"},
        {"\"none\"", "/network"},
        {"false", "/network"},
    };
    struct error missing = ERROR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_json_ json_t *network = json_of(CASES[i].text);
        struct error err = ERROR_INIT;
        int rc = policy_network(network, "/network", &err);

        assert_int_equal(rc, CASES[i].field == NULL ? 0 : -1);
        if (rc != 0) {
            assert_int_equal(err.code, ERROR_NETWORK_POLICY);
            assert_string_equal(err.field, CASES[i].field);
        }
    }
    assert_int_equal(policy_network(NULL, "/network", &missing), -1);
    assert_int_equal(missing.code, ERROR_NETWORK_POLICY);
    assert_string_equal(missing.field, "/network");
}

/* --- git roots --- */

static void git_roots(void **state)
{
    static const char *const ROOTS[] = {"/srv/repositories", "/home/git/", NULL};
    static const struct {
        const char *path;
        int root; /* -1: none */
    } CASES[] = {
        {"/srv/repositories/project", 0},
        {"/srv/repositories", 0},
        {"/srv//repositories/a/b/", 0},
        {"/home/git/x", 1},
        {"/srv/repositories-2/x", -1},
        {"/srv/repositor", -1},
        {"/srv/repositories/../x", -1},
        {"/srv/repositories/./x", -1},
        {"/srv/repositories/x/..", -1},
        {"srv/repositories/x", -1},
        {"/", -1},
        {"", -1},
        {"/etc", -1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        const char *root = policy_git_root(CASES[i].path, ROOTS);

        if (CASES[i].root < 0) {
            assert_null(root);
        } else {
            assert_ptr_equal(root, ROOTS[CASES[i].root]);
        }
    }
    assert_null(policy_git_root("/srv/repositories/x", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(image_references),
        cmocka_unit_test(image_references_are_bounded),
        cmocka_unit_test(environment_becomes_a_list),
        cmocka_unit_test(environment_faults),
        cmocka_unit_test(environment_values_are_bounded),
        cmocka_unit_test(cwd_is_normalised),
        cmocka_unit_test(cwd_is_bounded),
        cmocka_unit_test(metadata),
        cmocka_unit_test(label_rules),
        cmocka_unit_test(labels_are_bounded),
        cmocka_unit_test(network_is_none),
        cmocka_unit_test(git_roots),
    };

    return cmocka_run_group_tests_name("policy rules", tests, NULL, NULL);
}
