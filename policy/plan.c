#include "policy/policy.h"
#include "policy/rules.h"

#include "base/id.h"

#include <string.h>

static int out_of_memory(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "out of memory");
}

static int set_image(const json_t *image, bool allow_unpinned, struct host_provision_plan *plan,
                     struct error *err)
{
    if (image == NULL) {
        return policy_refuse(err, "/image", "is missing");
    }
    if (!json_is_string(image)) {
        return policy_refuse(err, "/image", "must be a string");
    }
    if (policy_image_reference(json_string_value(image), allow_unpinned, "/image", err) != 0) {
        return -1;
    }
    plan->image = strdup(json_string_value(image));
    return plan->image == NULL ? out_of_memory(err) : 0;
}

static int set_owner(json_t *value, struct host_provision_plan *plan, struct error *err)
{
    struct api_owner owner;

    if (value == NULL) {
        return 0;
    }
    if (api_owner_read(value, "/owner", &owner, err) != 0) {
        return error_in_phase(err, PHASE_VALIDATE);
    }
    plan->owner_id = strdup(owner.owner_id);
    plan->fencing_token = owner.fencing_token;
    return plan->owner_id == NULL ? out_of_memory(err) : 0;
}

static int set_execution_id(const json_t *id, struct host_provision_plan *plan, struct error *err)
{
    char generated[ID_SIZE];

    if (id != NULL) {
        if (policy_execution_id(id, "/executionId", err) != 0) {
            return -1;
        }
        plan->execution_id = strdup(json_string_value(id));
    } else {
        id_generate("exec", generated);
        plan->execution_id = strdup(generated);
    }
    return plan->execution_id == NULL ? out_of_memory(err) : 0;
}

static int set_limits(json_t *resources, const struct policy_context *context,
                      struct host_provision_plan *plan, struct error *err)
{
    if (policy_resources(resources, "/resources", context->ranges, &plan->limits, err) != 0) {
        return -1;
    }
    plan->disk_exceeds_memory = plan->limits.disk_bytes > plan->limits.memory_bytes;
    return 0;
}

static int begin_plan(const struct policy_context *context, struct host_provision_plan *plan,
                      struct error *err)
{
    plan->tenant = strdup(context->tenant);
    plan->load_timeout_ms = context->load_timeout_ms;
    return plan->tenant == NULL ? out_of_memory(err) : 0;
}

static int fill_provision(struct api_execution_create *request,
                          const struct policy_context *context, struct host_provision_plan *plan,
                          struct error *err)
{
    if (begin_plan(context, plan, err) != 0 ||
        set_image(request->image, context->allow_unpinned_images, plan, err) != 0 ||
        policy_workspace(request->workspace, context->git_roots, plan, err) != 0 ||
        policy_network(request->network, "/network", err) != 0 ||
        set_limits(request->resources, context, plan, err) != 0 ||
        policy_environment(request->environment, "/environment", &plan->environment, err) != 0 ||
        policy_metadata(request->metadata, "/metadata", err) != 0 ||
        policy_labels(request->labels, "/labels", err) != 0) {
        return -1;
    }
    if (set_owner(request->owner, plan, err) != 0) {
        return -1;
    }
    return set_execution_id(request->execution_id, plan, err);
}

int policy_provision(struct api_execution_create *request, const struct policy_context *context,
                     struct host_provision_plan *plan, struct error *err)
{
    struct host_provision_plan filled = {0};

    if (fill_provision(request, context, &filled, err) != 0) {
        host_provision_plan_done(&filled);
        return -1;
    }
    *plan = filled;
    return 0;
}

/* --- restore --- */

static int fill_from_manifest(const struct policy_manifest *manifest,
                              const struct policy_context *context,
                              struct host_provision_plan *plan, struct error *err)
{
    if (policy_image_reference(manifest->image, context->allow_unpinned_images, "/image", err) !=
            0 ||
        policy_network(manifest->network, "/network", err) != 0 ||
        set_limits(manifest->resources, context, plan, err) != 0 ||
        policy_environment(manifest->environment, "/environment", &plan->environment, err) != 0 ||
        policy_metadata(manifest->metadata, "/metadata", err) != 0) {
        return -1;
    }
    plan->image = strdup(manifest->image);
    return plan->image == NULL ? out_of_memory(err) : 0;
}

/* The caller did not write the field that is at fault, so the detail says where it stands. */
static void blame_manifest(struct error *err)
{
    char detail[ERROR_DETAIL_MAX];

    if (err->field[0] == '\0') {
        return;
    }
    memcpy(detail, err->detail, sizeof(detail));
    (void)error_set_field(err, err->code, err->field, "in the checkpoint's manifest: %s", detail);
    (void)error_in_phase(err, PHASE_VALIDATE);
}

static int fill_restore(struct api_checkpoint_restore *request,
                        const struct policy_manifest *manifest,
                        const struct policy_context *context, struct host_provision_plan *plan,
                        struct error *err)
{
    if (begin_plan(context, plan, err) != 0) {
        return -1;
    }
    if (fill_from_manifest(manifest, context, plan, err) != 0) {
        blame_manifest(err);
        return -1;
    }
    plan->workspace = HOST_WORKSPACE_EMPTY;
    if (policy_labels(request->labels, "/labels", err) != 0 ||
        set_owner(request->owner, plan, err) != 0) {
        return -1;
    }
    return set_execution_id(request->execution_id, plan, err);
}

int policy_restore(struct api_checkpoint_restore *request, const struct policy_manifest *manifest,
                   const struct policy_context *context, struct host_provision_plan *plan,
                   struct error *err)
{
    struct host_provision_plan filled = {0};

    if (fill_restore(request, manifest, context, &filled, err) != 0) {
        host_provision_plan_done(&filled);
        return -1;
    }
    *plan = filled;
    return 0;
}

json_t *policy_warnings_encode(const struct host_provision_plan *plan)
{
    return plan->disk_exceeds_memory ? json_pack("[s]", "DISK_EXCEEDS_MEMORY") : json_array();
}
