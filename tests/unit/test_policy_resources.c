/* The six limits: bounds, a host's own ranges, cpus as whole numbers. */
#include "policy_fixture.h"

#include "policy/policy.h"

#include <string.h>

static const char ALL[] = "{\"cpus\":2,\"memoryBytes\":67108864,\"diskBytes\":1048576,\"pids\":64,"
                          "\"runtimeMs\":60000,\"maxOutputBytes\":1024}";

/* All six with one replaced by `text`; left out when NULL. Returns owned. */
static json_t *resources_with(const char *name, const char *text)
{
    json_t *resources = json_of(ALL);

    json_object_del(resources, name);
    if (text != NULL) {
        json_object_set_new(resources, name, json_of(text));
    }
    return resources;
}

static void resource_bounds(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        bool ok;
    } CASES[] = {
        {"cpus", "0", false},
        {"cpus", "-1", false},
        {"cpus", "0.000000001", true},
        {"cpus", "0.0000000001", false},
        {"cpus", "128", true},
        {"cpus", "128.0", true},
        {"cpus", "128.000001", false},
        {"cpus", "1e999", false},
        {"cpus", "99999999999999999999", false},
        {"cpus", "\"2\"", false},
        {"cpus", "true", false},
        {"cpus", NULL, false},
        {"cpus", "null", false},
        {"memoryBytes", "4194304", true},
        {"memoryBytes", "4194303", false},
        {"memoryBytes", "549755813888", true},
        {"memoryBytes", "549755813889", false},
        {"memoryBytes", "67108864.0", true},
        {"memoryBytes", "67108864.5", false},
        {"memoryBytes", "1e999", false},
        {"memoryBytes", "9223372036854775808", false},
        {"memoryBytes", NULL, false},
        {"diskBytes", "65536", true},
        {"diskBytes", "65535", false},
        {"diskBytes", "1099511627776", true},
        {"diskBytes", "1099511627777", false},
        {"diskBytes", NULL, false},
        {"pids", "1", true},
        {"pids", "0", false},
        {"pids", "32768", true},
        {"pids", "32769", false},
        {"pids", NULL, false},
        {"runtimeMs", "1", true},
        {"runtimeMs", "0", false},
        {"runtimeMs", "86400000", true},
        {"runtimeMs", "86400001", false},
        {"runtimeMs", NULL, false},
        {"maxOutputBytes", "1", true},
        {"maxOutputBytes", "0", false},
        {"maxOutputBytes", "67108864", true},
        {"maxOutputBytes", "67108865", false},
        {"maxOutputBytes", "-1", false},
        {"maxOutputBytes", NULL, false},
        {"gpus", "1", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_json_ json_t *resources = resources_with(CASES[i].name, CASES[i].text);
        struct host_limits limits = {0};
        struct error err = ERROR_INIT;
        char field[64];
        int rc = policy_resources(resources, "/resources", NULL, &limits, &err);

        if (rc != (CASES[i].ok ? 0 : -1)) {
            fail_msg("%s %s: %s", CASES[i].name, CASES[i].text, err.detail);
        }
        if (rc != 0) {
            snprintf(field, sizeof(field), "/resources/%s", CASES[i].name);
            assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
            assert_string_equal(err.field, field);
            assert_int_equal(err.phase, PHASE_VALIDATE);
            assert_int_equal(limits.pids, 0);
        }
    }
}

static void resources_must_be_an_object(void **state)
{
    _cleanup_json_ json_t *array = json_array();
    struct host_limits limits;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(policy_resources(NULL, "/resources", NULL, &limits, &err), -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    assert_string_equal(err.field, "/resources");
    assert_int_equal(policy_resources(array, "/resources", NULL, &limits, &err), -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    assert_string_equal(err.field, "/resources");
}

static void a_host_narrows_the_ranges(void **state)
{
    struct host_limit_ranges ranges = *policy_general_ranges();
    _cleanup_json_ json_t *most = resources_with("cpus", "2");
    _cleanup_json_ json_t *more = resources_with("cpus", "2.001");
    _cleanup_json_ json_t *memory = resources_with("memoryBytes", "6291455");
    _cleanup_json_ json_t *pids = resources_with("pids", "3");
    struct host_limits limits;
    struct error err = ERROR_INIT;

    (void)state;
    ranges.nano_cpus = (struct host_range){10000000, 2000000000};
    ranges.memory_bytes.min = 6291456;
    ranges.pids.min = 4;
    assert_int_equal(policy_resources(most, "/resources", &ranges, &limits, &err), 0);
    assert_int_equal(policy_resources(more, "/resources", &ranges, &limits, &err), -1);
    assert_string_equal(err.field, "/resources/cpus");
    assert_string_equal(err.detail, "/resources/cpus must be from 0.01 to 2 on this host");
    assert_int_equal(policy_resources(memory, "/resources", &ranges, &limits, &err), -1);
    assert_string_equal(err.detail,
                        "/resources/memoryBytes must be from 6291456 to 549755813888 on this host");
    assert_int_equal(policy_resources(pids, "/resources", &ranges, &limits, &err), -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
}

static void cpus_become_nano_cpus_exactly(void **state)
{
    static const struct {
        const char *text;
        int64_t nano;
        const char *shown;
    } CASES[] = {
        {"0.333", 333000000, "0.333"},
        {"0.1", 100000000, "0.1"},
        {"2", 2000000000, "2"},
        {"4.0", 4000000000, "4"},
        {"0.29", 290000000, "0.29"},
        {"1.1", 1100000000, "1.1"},
        {"127.999999999", 127999999999, "127.999999999"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_json_ json_t *resources = resources_with("cpus", CASES[i].text);
        _cleanup_json_ json_t *encoded = NULL;
        _cleanup_free_ char *shown = NULL;
        struct host_limits limits;
        struct error err = ERROR_INIT;

        assert_int_equal(policy_resources(resources, "/resources", NULL, &limits, &err), 0);
        assert_int_equal(limits.nano_cpus, CASES[i].nano);
        encoded = policy_resources_encode(&limits);
        shown = api_json_text(json_object_get(encoded, "cpus"), 100);
        assert_string_equal(shown, CASES[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resource_bounds),
        cmocka_unit_test(resources_must_be_an_object),
        cmocka_unit_test(a_host_narrows_the_ranges),
        cmocka_unit_test(cpus_become_nano_cpus_exactly),
    };

    return cmocka_run_group_tests_name("policy resources", tests, NULL, NULL);
}
