/* Requests through decoder and rules: "p" and a body for a provision, "r" and a manifest's facts, a
 * newline and a body for a restore, "c" and a path for a command's cwd. A plan that comes out holds
 * what the rules promise; a refusal names a field. */
#include "tests/fuzz/fuzz.h"

#include "base/id.h"
#include "base/secret.h"
#include "policy/policy.h"

#include <string.h>

static const char *const ROOTS[] = {"/srv/repositories", NULL};

static bool in_range(int64_t value, const struct host_range *range)
{
    return value >= range->min && value <= range->max;
}

static void check_plan(const struct host_provision_plan *plan)
{
    const struct host_limit_ranges *ranges = policy_general_ranges();
    const struct host_limits *limits = &plan->limits;

    fuzz_require(id_is_valid(plan->execution_id));
    fuzz_require(strstr(plan->image, "@sha256:") != NULL);
    fuzz_require(in_range(limits->nano_cpus, &ranges->nano_cpus));
    fuzz_require(in_range(limits->memory_bytes, &ranges->memory_bytes));
    fuzz_require(in_range(limits->disk_bytes, &ranges->disk_bytes));
    fuzz_require(in_range(limits->pids, &ranges->pids));
    fuzz_require(in_range(limits->runtime_ms, &ranges->runtime_ms));
    fuzz_require(in_range(limits->max_output_bytes, &ranges->max_output_bytes));
    for (char **variable = plan->environment; variable != NULL && *variable != NULL; variable++) {
        size_t name = strcspn(*variable, "=");

        fuzz_require(name > 0 && (*variable)[name] == '=' && !secret_name_like(*variable, name));
    }
    if (plan->workspace == HOST_WORKSPACE_GIT) {
        fuzz_require(strstr(plan->repository_path, "/..") == NULL ||
                     strstr(plan->repository_path, "/../") == NULL);
        fuzz_require(plan->revision[0] != '-' && plan->revision[0] != '\0');
    }
}

static void try_provision(const char *body, size_t len)
{
    const struct policy_context context = {.tenant = "t", .git_roots = ROOTS};
    struct api_execution_create request;
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;

    if (api_execution_create_decode(body, len, &request, &err) != 0) {
        return;
    }
    if (policy_provision(&request, &context, &plan, &err) == 0) {
        check_plan(&plan);
        host_provision_plan_done(&plan);
    } else {
        fuzz_require(err.code != ERROR_INTERNAL && err.field[0] == '/');
        fuzz_require(err.phase == PHASE_VALIDATE);
    }
    api_execution_create_done(&request);
}

/* The members of the first line are what a manifest holds, in whatever shape somebody gave it. */
static void try_restore(const char *text, size_t len)
{
    const struct policy_context context = {.tenant = "t", .git_roots = ROOTS};
    const char *newline = memchr(text, '\n', len);
    struct api_checkpoint_restore request;
    struct host_provision_plan plan;
    struct error err = ERROR_INIT;
    json_t *facts;

    if (newline == NULL ||
        api_checkpoint_restore_decode(newline + 1, len - (size_t)(newline + 1 - text), &request,
                                      &err) != 0) {
        return;
    }
    facts = json_loadb(text, (size_t)(newline - text), 0, NULL);
    const struct policy_manifest manifest = {
        .image = json_string_value(json_object_get(facts, "image")),
        .resources = json_object_get(facts, "resources"),
        .network = json_object_get(facts, "network"),
        .environment = json_object_get(facts, "environment"),
        .metadata = json_object_get(facts, "metadata"),
    };
    if (manifest.image != NULL) {
        if (policy_restore(&request, &manifest, &context, &plan, &err) == 0) {
            check_plan(&plan);
            fuzz_require(plan.workspace == HOST_WORKSPACE_EMPTY);
            host_provision_plan_done(&plan);
        } else {
            fuzz_require(err.code != ERROR_INTERNAL && err.field[0] == '/');
            fuzz_require(err.phase == PHASE_VALIDATE);
        }
    }
    json_decref(facts);
    api_checkpoint_restore_done(&request);
}

/* A path that comes out is relative, clean, and comes out of itself. */
static void try_cwd(const char *path)
{
    struct error err = ERROR_INIT;
    char *clean = NULL;
    char *again = NULL;

    if (policy_cwd(path, &clean, &err) != 0) {
        return;
    }
    fuzz_require(clean[0] != '/' && strstr(clean, "//") == NULL && strstr(clean, "/../") == NULL);
    fuzz_require(strncmp(clean, "../", 3) != 0 && strcmp(clean, "..") != 0);
    fuzz_require(policy_cwd(clean, &again, &err) == 0 && strcmp(clean, again) == 0);
    free(clean);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0) {
        return 0;
    }
    text = fuzz_text(data, size);
    if (data[0] == 'c') {
        try_cwd(text);
    } else if (data[0] == 'r') {
        try_restore(text, size - 1);
    } else {
        try_provision(text, size - 1);
    }
    free(text);
    return 0;
}
