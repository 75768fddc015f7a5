/* Whole requests into plans: the order of the checks, what a plan holds, restores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/json.h"
#include "base/id.h"
#include "policy/policy.h"

#include <string.h>

#define IMAGE "base@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define RESOURCES                                                                                  \
    "{\"cpus\":0.5,\"memoryBytes\":67108864,\"diskBytes\":1048576,\"pids\":64,\"runtimeMs\":"      \
    "60000,"                                                                                       \
    "\"maxOutputBytes\":1024}"

static const char *const ROOTS[] = {"/srv/repositories", NULL};

static const struct policy_context CONTEXT = {
    .tenant = "default",
    .git_roots = ROOTS,
    .load_timeout_ms = 5000,
};

/* In the order of the rules: a good and a bad value of each. */
static const struct {
    const char *name;
    const char *good;
    const char *bad;
    enum error_code code;
    const char *field;
} PARTS[] = {
    {"image", "\"" IMAGE "\"", "\"latest\"", ERROR_INVALID_REQUEST, "/image"},
    {"workspace",
     "{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\",\"revision\":\"main\"}",
     "{\"kind\":\"other\"}", ERROR_INVALID_REQUEST, "/workspace/kind"},
    {"network", "{\"mode\":\"none\"}", "{\"mode\":\"host\"}", ERROR_NETWORK_POLICY,
     "/network/mode"},
    {"resources", RESOURCES, "{}", ERROR_RESOURCE_LIMIT, "/resources/cpus"},
    {"environment", "{\"CI\":\"1\"}", "{\"A_TOKEN\":\"1\"}", ERROR_INVALID_REQUEST,
     "/environment/A_TOKEN"},
    {"metadata", "{\"purpose\":\"tests\"}", "5", ERROR_INVALID_REQUEST, "/metadata"},
    {"labels", "{\"team\":\"a\"}", "{\"team\":1}", ERROR_INVALID_REQUEST, "/labels/team"},
    {"owner", "{\"ownerId\":\"worker-a\",\"fencingToken\":12}", "{\"ownerId\":\"worker-a\"}",
     ERROR_INVALID_REQUEST, "/owner/fencingToken"},
    {"executionId", "\"job-17\"", "\"job 17\"", ERROR_INVALID_REQUEST, "/executionId"},
};

/* The request with the parts from `first_bad` on bad. Returns owned. */
static char *body_with_bad(size_t first_bad)
{
    struct buf b;

    buf_init(&b, 10000);
    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++) {
        assert_int_equal(buf_addf(&b, "%s\"%s\":%s", i == 0 ? "{" : ",", PARTS[i].name,
                                  i < first_bad ? PARTS[i].good : PARTS[i].bad),
                         0);
    }
    assert_int_equal(buf_add_str(&b, "}"), 0);
    return buf_take(&b, NULL);
}

static int provision(const char *body, const struct policy_context *context,
                     struct host_provision_plan *plan, struct error *err)
{
    struct api_execution_create request;
    int rc;

    *plan = (struct host_provision_plan){0};
    if (api_execution_create_decode(body, strlen(body), &request, err) != 0) {
        fail_msg("%s: %s", body, err->detail);
    }
    rc = policy_provision(&request, context, plan, err);
    api_execution_create_done(&request);
    return rc;
}

static void faults_come_in_the_order_of_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++) {
        _cleanup_free_ char *body = body_with_bad(i);
        struct host_provision_plan plan;
        struct error err = ERROR_INIT;

        assert_int_equal(provision(body, &CONTEXT, &plan, &err), -1);
        assert_int_equal(err.code, PARTS[i].code);
        assert_string_equal(err.field, PARTS[i].field);
        assert_int_equal(err.phase, PHASE_VALIDATE);
        assert_null(plan.image);
    }
}

static void a_good_request_becomes_a_plan(void **state)
{
    _cleanup_free_ char *body = body_with_bad(ARRAY_SIZE(PARTS));
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(provision(body, &CONTEXT, &plan, &err), 0);
    assert_string_equal(plan.tenant, "default");
    assert_string_equal(plan.execution_id, "job-17");
    assert_string_equal(plan.image, IMAGE);
    assert_int_equal(plan.limits.nano_cpus, 500000000);
    assert_int_equal(plan.limits.memory_bytes, 67108864);
    assert_int_equal(plan.limits.disk_bytes, 1048576);
    assert_int_equal(plan.limits.pids, 64);
    assert_int_equal(plan.limits.runtime_ms, 60000);
    assert_int_equal(plan.limits.max_output_bytes, 1024);
    assert_string_equal(plan.environment[0], "CI=1");
    assert_null(plan.environment[1]);
    assert_int_equal(plan.workspace, HOST_WORKSPACE_GIT);
    assert_string_equal(plan.repository_path, "/srv/repositories/p");
    assert_string_equal(plan.repository_root, "/srv/repositories");
    assert_string_equal(plan.revision, "main");
    assert_string_equal(plan.owner_id, "worker-a");
    assert_int_equal(plan.fencing_token, 12);
    assert_int_equal(plan.load_timeout_ms, 5000);
    assert_false(plan.disk_exceeds_memory);
    host_provision_plan_done(&plan);
}

static void what_may_be_left_out_is_resolved(void **state)
{
    static const char BODY[] =
        "{\"image\":\"" IMAGE "\",\"workspace\":{\"kind\":\"empty\",\"revision\":null},"
        "\"network\":{\"mode\":\"none\"},\"resources\":" RESOURCES ",\"executionId\":null,"
        "\"environment\":null,\"metadata\":null,\"labels\":null,\"owner\":null,\"host\":null}";
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(provision(BODY, &CONTEXT, &plan, &err), 0);
    assert_true(id_is_valid(plan.execution_id));
    assert_memory_equal(plan.execution_id, "exec-", 5);
    assert_null(plan.environment);
    assert_null(plan.owner_id);
    assert_int_equal(plan.workspace, HOST_WORKSPACE_EMPTY);
    assert_null(plan.repository_path);
    host_provision_plan_done(&plan);
}

/* --- workspace --- */

static void workspace_faults(void **state)
{
    static const struct {
        const char *text;
        const char *field; /* NULL: fine */
    } CASES[] = {
        {"{\"kind\":\"empty\"}", NULL},
        {"{\"kind\":\"archive\"}", NULL},
        {"null", "/workspace"},
        {"\"empty\"", "/workspace"},
        {"[]", "/workspace"},
        {"{}", "/workspace/kind"},
        {"{\"kind\":5}", "/workspace/kind"},
        {"{\"kind\":\"Empty\"}", "/workspace/kind"},
        {"{\"kind\":\"empty\",\"revision\":\"main\"}", "/workspace/revision"},
        {"{\"kind\":\"archive\",\"path\":\"x\"}", "/workspace/path"},
        {"{\"kind\":\"git-worktree\"}", "/workspace/repositoryPath"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\"}",
         "/workspace/revision"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":5,\"revision\":\"m\"}",
         "/workspace/repositoryPath"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/etc\",\"revision\":\"m\"}",
         "/workspace/repositoryPath"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/../p\",\"revision\":"
         "\"m\"}",
         "/workspace/repositoryPath"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\",\"revision\":"
         "\"-m\"}",
         "/workspace/revision"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\",\"revision\":"
         "\"a b\"}",
         "/workspace/revision"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\",\"revision\":\"\"}",
         "/workspace/revision"},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\",\"revision\":"
         "\"HEAD~2^{tree}:a/b@{1}+x\"}",
         NULL},
        {"{\"kind\":\"git-worktree\",\"repositoryPath\":\"/srv/repositories/p\",\"revision\":\"m\","
         "\"depth\":1}",
         "/workspace/depth"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        _cleanup_buf_ struct buf body;
        struct host_provision_plan plan;
        struct error err = ERROR_INIT;
        int rc;

        buf_init(&body, 10000);
        assert_int_equal(buf_addf(&body,
                                  "{\"image\":\"" IMAGE "\",\"workspace\":%s,\"network\":{\"mode\":"
                                  "\"none\"},\"resources\":" RESOURCES "}",
                                  CASES[i].text),
                         0);
        rc = provision(buf_str(&body), &CONTEXT, &plan, &err);
        if (rc != (CASES[i].field == NULL ? 0 : -1)) {
            fail_msg("%s: %s", CASES[i].text, err.detail);
        }
        assert_string_equal(err.field, CASES[i].field == NULL ? "" : CASES[i].field);
        host_provision_plan_done(&plan);
    }
}

static void without_roots_there_is_no_git(void **state)
{
    _cleanup_free_ char *body = body_with_bad(ARRAY_SIZE(PARTS));
    struct policy_context context = CONTEXT;
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;

    (void)state;
    context.git_roots = NULL;
    assert_int_equal(provision(body, &context, &plan, &err), -1);
    assert_string_equal(err.field, "/workspace/repositoryPath");
}

static void more_disk_than_memory_is_a_warning(void **state)
{
    static const char BODY[] =
        "{\"image\":\"" IMAGE "\",\"workspace\":{\"kind\":\"empty\"},\"network\":{\"mode\":"
        "\"none\"},\"resources\":{\"cpus\":1,\"memoryBytes\":67108864,\"diskBytes\":67108865,"
        "\"pids\":64,\"runtimeMs\":60000,\"maxOutputBytes\":1024}}";
    _cleanup_free_ char *body = body_with_bad(ARRAY_SIZE(PARTS));
    _cleanup_json_ json_t *warnings = NULL;
    _cleanup_json_ json_t *none = NULL;
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(provision(BODY, &CONTEXT, &plan, &err), 0);
    assert_true(plan.disk_exceeds_memory);
    warnings = policy_warnings_encode(&plan);
    assert_int_equal(json_array_size(warnings), 1);
    assert_string_equal(json_string_value(json_array_get(warnings, 0)), "DISK_EXCEEDS_MEMORY");
    host_provision_plan_done(&plan);
    assert_int_equal(provision(body, &CONTEXT, &plan, &err), 0);
    none = policy_warnings_encode(&plan);
    assert_int_equal(json_array_size(none), 0);
    host_provision_plan_done(&plan);
}

/* --- restore --- */

struct restore_case {
    const char *image;
    const char *resources;
    const char *network;
    const char *environment;
    const char *metadata;
    const char *body;
};

static const struct restore_case GOOD_RESTORE = {
    .image = IMAGE,
    .resources = RESOURCES,
    .network = "{\"mode\":\"none\"}",
    .environment = "{\"CI\":\"1\"}",
    .metadata = "{}",
    .body = "{\"executionId\":\"again\",\"owner\":{\"ownerId\":\"w\",\"fencingToken\":3},"
            "\"labels\":{\"a\":\"b\"}}",
};

static int restore(const struct restore_case *c, struct host_provision_plan *plan,
                   struct error *err)
{
    _cleanup_json_ json_t *resources = json_loads(c->resources, 0, NULL);
    _cleanup_json_ json_t *network = json_loads(c->network, 0, NULL);
    _cleanup_json_ json_t *environment = json_loads(c->environment, 0, NULL);
    _cleanup_json_ json_t *metadata = json_loads(c->metadata, 0, NULL);
    const struct policy_manifest manifest = {
        .image = c->image,
        .resources = resources,
        .network = network,
        .environment = environment,
        .metadata = metadata,
    };
    struct api_checkpoint_restore request;
    int rc;

    *plan = (struct host_provision_plan){0};
    assert_int_equal(api_checkpoint_restore_decode(c->body, strlen(c->body), &request, err), 0);
    rc = policy_restore(&request, &manifest, &CONTEXT, plan, err);
    api_checkpoint_restore_done(&request);
    return rc;
}

static void a_restore_takes_the_manifest_and_the_request(void **state)
{
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(restore(&GOOD_RESTORE, &plan, &err), 0);
    assert_string_equal(plan.execution_id, "again");
    assert_string_equal(plan.image, IMAGE);
    assert_string_equal(plan.environment[0], "CI=1");
    assert_int_equal(plan.limits.runtime_ms, 60000);
    assert_int_equal(plan.workspace, HOST_WORKSPACE_EMPTY);
    assert_string_equal(plan.owner_id, "w");
    assert_int_equal(plan.fencing_token, 3);
    host_provision_plan_done(&plan);
}

static void a_manifest_obeys_the_rules_of_today(void **state)
{
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;
    struct restore_case c = GOOD_RESTORE;

    (void)state;
    c.environment = "{\"MY_SECRET\":\"x\"}";
    assert_int_equal(restore(&c, &plan, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_string_equal(err.field, "/environment/MY_SECRET");
    assert_non_null(strstr(err.detail, "in the checkpoint's manifest"));
    c = GOOD_RESTORE;
    c.resources = "{\"cpus\":1}";
    assert_int_equal(restore(&c, &plan, &err), -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    assert_int_equal(err.phase, PHASE_VALIDATE);
    c = GOOD_RESTORE;
    c.image = "latest";
    assert_int_equal(restore(&c, &plan, &err), -1);
    assert_string_equal(err.field, "/image");
    c = GOOD_RESTORE;
    c.body = "{\"executionId\":\"\"}";
    assert_int_equal(restore(&c, &plan, &err), -1);
    assert_string_equal(err.field, "/executionId");
    assert_null(strstr(err.detail, "manifest"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_come_in_the_order_of_the_rules),
        cmocka_unit_test(a_good_request_becomes_a_plan),
        cmocka_unit_test(what_may_be_left_out_is_resolved),
        cmocka_unit_test(workspace_faults),
        cmocka_unit_test(without_roots_there_is_no_git),
        cmocka_unit_test(more_disk_than_memory_is_a_warning),
        cmocka_unit_test(a_restore_takes_the_manifest_and_the_request),
        cmocka_unit_test(a_manifest_obeys_the_rules_of_today),
    };

    return cmocka_run_group_tests_name("policy plans", tests, NULL, NULL);
}
