#include "ptc/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[] = "/tmp/exechost-ptc-spec-XXXXXX";
static const char *const roots[] = {root, NULL};
static struct ptc_rules rules = {.timeout_default_ms = 120000,
                                 .timeout_max_ms = 600000,
                                 .mode = PTC_READ_ONLY,
                                 .limits = {1 << 30, 256, 60000, 512 << 20, 64 << 20},
                                 .limits_max = {1 << 30, 256, 60000, 512 << 20, 64 << 20}};

static int find(void *ctx, const char *execution_id, struct ptc_execution *out, struct error *err)
{
    (void)ctx;
    if (strcmp(execution_id, "there") != 0) {
        return error_set(err, ERROR_NOT_FOUND, "there is no such execution");
    }
    *out = (struct ptc_execution){.handle = "handle", .memory_bytes = 32 << 20, .pids = 8};
    return 0;
}

static int resolve(const char *members, bool untimed, struct ptc_spec *out, struct error *err)
{
    struct ptc_scope scope = {.find_execution = find, .workspace_roots = roots, .untimed = untimed};
    char text[4096];
    (void)snprintf(text, sizeof(text), "{\"program\":\"return 1\",\"description\":\"d\"%s}",
                   members);
    json_t *request = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(request);
    int result = ptc_resolve(request, &rules, &scope, out, err);
    json_decref(request);
    return result;
}

static void assert_refused(const char *members, const char *field)
{
    struct ptc_spec spec = PTC_SPEC_INIT;
    struct error err = ERROR_INIT;
    if (resolve(members, false, &spec, &err) == 0) {
        fail_msg("%s was taken", members);
    }
    assert_int_equal(err.code, ERROR_PTC_INVALID_REQUEST);
    assert_string_equal(err.field, field);
}

static void assert_taken(const char *members)
{
    struct ptc_spec spec = PTC_SPEC_INIT;
    struct error err = ERROR_INIT;
    if (resolve(members, true, &spec, &err) != 0) {
        fail_msg("%s: %s %s", members, err.field, err.detail);
    }
    ptc_spec_done(&spec);
}

static void test_defaults(void **state)
{
    struct ptc_spec spec = PTC_SPEC_INIT;
    struct ptc_spec again = PTC_SPEC_INIT;
    struct ptc_scope scope = {.find_execution = find, .workspace_roots = roots};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(resolve("", false, &spec, &err), 0);
    assert_int_equal(spec.timeout_ms, 120000);
    assert_string_equal(spec.cwd, "/workspace");
    assert_null(spec.workspace_root);
    assert_int_equal(spec.mode, PTC_READ_ONLY);
    assert_int_equal(ptc_resolve(spec.json, &rules, &scope, &again, &err), 0);
    assert_true(json_equal(spec.json, again.json));
    ptc_spec_done(&spec);
    ptc_spec_done(&again);
}

static int64_t timeout_of(const char *members)
{
    struct ptc_spec spec = PTC_SPEC_INIT;
    struct error err = ERROR_INIT;
    assert_int_equal(resolve(members, true, &spec, &err), 0);
    int64_t timeout = spec.timeout_ms;
    ptc_spec_done(&spec);
    return timeout;
}

static void test_timeouts(void **state)
{
    (void)state;
    assert_int_equal(timeout_of(",\"timeoutMs\":5"), 5);
    assert_int_equal(timeout_of(",\"timeoutMs\":1.5"), 2);
    assert_int_equal(timeout_of(",\"timeoutMs\":600001"), 600000);
    assert_int_equal(timeout_of(",\"timeoutMs\":2147483647"), 600000);
    assert_int_equal(timeout_of(",\"timeoutMs\":null"), -1);
    assert_refused(",\"timeoutMs\":null", "/timeoutMs");
    assert_refused(",\"timeoutMs\":0", "/timeoutMs");
    assert_refused(",\"timeoutMs\":-1", "/timeoutMs");
    assert_refused(",\"timeoutMs\":2147483648", "/timeoutMs");
    assert_refused(",\"timeoutMs\":\"5\"", "/timeoutMs");
    assert_refused(",\"timeoutMs\":1e300", "/timeoutMs");
}

static void test_execution(void **state)
{
    struct ptc_spec spec = PTC_SPEC_INIT;
    struct ptc_spec again = PTC_SPEC_INIT;
    struct ptc_scope scope = {.find_execution = find};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(resolve(",\"executionId\":\"gone\"", false, &spec, &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_int_equal(
        resolve(",\"executionId\":\"there\",\"cwd\":\"/workspace/a/../b\"", false, &spec, &err), 0);
    assert_string_equal(spec.execution.handle, "handle");
    assert_string_equal(spec.cwd, "/workspace/b");
    assert_int_equal(spec.limits.memory_bytes, 32 << 20);
    assert_int_equal(spec.limits.pids, 8);
    assert_int_equal(ptc_resolve(spec.json, &rules, &scope, &again, &err), 0);
    assert_true(json_equal(spec.json, again.json));
    ptc_spec_done(&spec);
    ptc_spec_done(&again);
    assert_refused(",\"executionId\":\"there\",\"limits\":{\"pids\":7}", "/limits/pids");
    assert_refused(",\"executionId\":\"there\",\"limits\":{\"memoryBytes\":4096}",
                   "/limits/memoryBytes");
    assert_refused(",\"executionId\":\"there\",\"cwd\":\"/usr\"", "/cwd");
    assert_refused(",\"executionId\":\"there\",\"sandboxPolicy\":{\"mode\":\"danger-full-access\"}",
                   "/sandboxPolicy/mode");
    assert_refused(",\"executionId\":\"there\",\"sandboxPolicy\":{\"network\":\"host\"}",
                   "/sandboxPolicy/network");
    assert_refused(",\"executionId\":\"there\",\"sandboxPolicy\":{\"workspaceRoot\":\"/tmp\"}",
                   "/sandboxPolicy/workspaceRoot");
}

static void test_members(void **state)
{
    (void)state;
    assert_refused(",\"unknown\":1", "/unknown");
    assert_refused(",\"session\":{}", "/session");
    assert_refused(",\"description\":\" \\n\"", "/description");
    assert_refused(",\"program\":1", "/program");
    assert_refused(",\"executionId\":7", "/executionId");
    assert_refused(",\"executionId\":\"a/b\"", "/executionId");
    assert_refused(",\"executionId\":\"there\\u0000\"", "/executionId");
    assert_refused(",\"runId\":\"-\"", "/runId");
    assert_refused(",\"labels\":{\"a\":1}", "/labels");
    assert_refused(",\"metadata\":[]", "/metadata");
    assert_refused(",\"limits\":{\"pids\":0}", "/limits/pids");
    assert_refused(",\"limits\":{\"maxOutputBytes\":3}", "/limits/maxOutputBytes");
    assert_refused(",\"limits\":{\"x\":3}", "/limits/x");
    assert_taken(",\"limits\":{\"maxOutputBytes\":4,\"memoryBytes\":9007199254740991}");
    assert_taken(",\"metadata\":{\"a\":[1]},\"labels\":{\"a\":\"b\"},\"runId\":\"r.1\"");
}

static void test_policies(void **state)
{
    char members[256];
    char path[128];
    (void)state;
    assert_refused(",\"sandboxPolicy\":{\"mode\":\"none\"}", "/sandboxPolicy/mode");
    assert_refused(",\"sandboxPolicy\":{\"mode\":\"danger-full-access\"}", "/sandboxPolicy/mode");
    assert_refused(",\"sandboxPolicy\":{\"network\":\"host\"}", "/sandboxPolicy/network");
    assert_refused(",\"sandboxPolicy\":{\"x\":1}", "/sandboxPolicy/x");
    assert_refused(",\"sandboxPolicy\":{\"workspaceRoot\":\"relative\"}",
                   "/sandboxPolicy/workspaceRoot");
    assert_refused(",\"sandboxPolicy\":{\"workspaceRoot\":\"/usr\"}",
                   "/sandboxPolicy/workspaceRoot");
    assert_refused(",\"sandboxPolicy\":{\"workspaceRoot\":\"/nowhere\"}",
                   "/sandboxPolicy/workspaceRoot");
    assert_taken(",\"sandboxPolicy\":{\"mode\":\"workspace-write\",\"network\":\"none\"}");
    assert_refused(",\"cwd\":\"relative\"", "/cwd");
    assert_refused(",\"cwd\":\"/etc\"", "/cwd");
    assert_refused(",\"cwd\":\"/workspace/../root\"", "/cwd");
    assert_refused(",\"cwd\":\"/tmp\"", "/cwd");
    assert_taken(",\"cwd\":\"/usr/lib\"");
    assert_taken(",\"cwd\":\"/tmp\",\"sandboxPolicy\":{\"mode\":\"workspace-write\"}");
    (void)snprintf(path, sizeof(path), "%s/sub", root);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(members, sizeof(members),
                   ",\"cwd\":\"%s\",\"sandboxPolicy\":{\"workspaceRoot\":\"%s\"}", path, root);
    assert_taken(members);
    (void)snprintf(members, sizeof(members),
                   ",\"cwd\":\"/workspace\",\"sandboxPolicy\":{\"workspaceRoot\":\"%s\"}", root);
    assert_refused(members, "/cwd");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/usr", path), 0);
    (void)snprintf(members, sizeof(members), ",\"sandboxPolicy\":{\"workspaceRoot\":\"%s\"}", path);
    assert_refused(members, "/sandboxPolicy/workspaceRoot");
    assert_int_equal(unlink(path), 0);
}

static void refuse_global(const char *name)
{
    char members[256];
    (void)snprintf(members, sizeof(members), ",\"bindings\":[{\"global\":\"%s\",\"functions\":[]}]",
                   name);
    assert_refused(members, "/bindings/0/global");
}

static void test_names(void **state)
{
    static const char *const names[] = {
        "",         "1a",        "a-b",       "a b",          "\\u00e9",
        "async",    "let",       "arguments", "eval",         "match",
        "type",     "_",         "console",   "None",         "lambda",
        "await",    "yield",     "static",    "__dsh_main__", "__builtins__",
        "__name__", "__debug__", "a\\u0000",  "class",        "from",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        refuse_global(names[i]);
    }
    assert_taken(",\"bindings\":[{\"global\":\"__x\",\"functions\":[\"\",\"__proto__\",\"a b\"]}]");
    assert_refused(",\"bindings\":{}", "/bindings");
    assert_refused(",\"bindings\":[1]", "/bindings/0");
    assert_refused(",\"bindings\":[{\"global\":\"a\"}]", "/bindings/0/functions");
    assert_refused(",\"bindings\":[{\"global\":\"a\",\"functions\":[1]}]",
                   "/bindings/0/functions/0");
    assert_refused(",\"bindings\":[{\"global\":\"a\",\"functions\":[\"x\",\"x\"]}]",
                   "/bindings/0/functions/1");
    assert_refused(",\"bindings\":[{\"global\":\"a\",\"functions\":[],\"x\":1}]", "/bindings/0/x");
    assert_refused(",\"bindings\":[{\"global\":\"a\",\"functions\":[]},"
                   "{\"global\":\"a\",\"functions\":[]}]",
                   "/bindings/1/global");
}

static void refuse_property(const char *name)
{
    char members[256];
    (void)snprintf(members, sizeof(members),
                   ",\"bindings\":[{\"global\":\"a\",\"functions\":[],\"errorClass\":"
                   "{\"name\":\"E\",\"memberNameProperty\":\"%s\"}}]",
                   name);
    assert_refused(members, "/bindings/0/errorClass/memberNameProperty");
}

static void test_error_classes(void **state)
{
    static const char *const names[] = {
        "", "name", "message", "stack", "args", "with_traceback", "add_note", "__x__", "____"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        refuse_property(names[i]);
    }
    assert_refused(",\"bindings\":[{\"global\":\"a\",\"functions\":[],\"errorClass\":"
                   "{\"name\":\"a\",\"memberNameProperty\":\"t\"}}]",
                   "/bindings/0/errorClass/name");
    assert_taken(",\"bindings\":[{\"global\":\"a\",\"functions\":[],\"errorClass\":"
                 "{\"name\":\"E\",\"memberNameProperty\":\"__proto\"}}]");
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    (void)state;
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_execution),     cmocka_unit_test(test_members),
        cmocka_unit_test(test_policies),      cmocka_unit_test(test_names),
        cmocka_unit_test(test_error_classes),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
