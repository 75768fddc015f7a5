#include "api/execution.h"

#include "api/field.h"
#include "api/json.h"
#include "base/clock.h"
#include "base/id.h"

#include <string.h>

static const int64_t FENCING_TOKEN_MAX = 9007199254740991;

static const struct api_field CREATE_FIELDS[] = {
    {"host", API_STRING, false, offsetof(struct api_execution_create, host)},
    {"image", API_ANY, false, offsetof(struct api_execution_create, image)},
    {"workspace", API_ANY, false, offsetof(struct api_execution_create, workspace)},
    {"network", API_ANY, false, offsetof(struct api_execution_create, network)},
    {"resources", API_ANY, false, offsetof(struct api_execution_create, resources)},
    {"environment", API_ANY, false, offsetof(struct api_execution_create, environment)},
    {"metadata", API_ANY, false, offsetof(struct api_execution_create, metadata)},
    {"labels", API_ANY, false, offsetof(struct api_execution_create, labels)},
    {"owner", API_ANY, false, offsetof(struct api_execution_create, owner)},
    {"executionId", API_ANY, false, offsetof(struct api_execution_create, execution_id)},
};

static const struct api_field_table CREATE_TABLE = {CREATE_FIELDS, ARRAY_SIZE(CREATE_FIELDS),
                                                    ERROR_INVALID_REQUEST};

int api_execution_create_decode(const char *body, size_t len, struct api_execution_create *out,
                                struct error *err)
{
    struct api_execution_create request = {0};

    if (api_json_parse_object(body, len, false, &request.root, err) != 0) {
        return -1;
    }
    if (api_fields_decode(request.root, "", &CREATE_TABLE, &request, err) != 0) {
        api_execution_create_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_execution_create_done(struct api_execution_create *request)
{
    json_decref(request->root);
    *request = (struct api_execution_create){0};
}

/* --- patch --- */

struct patch_fields {
    json_t *labels;
    json_t *metadata;
    const char *expires_at;
};

static const struct api_field PATCH_FIELDS[] = {
    {"labels", API_ANY, false, offsetof(struct patch_fields, labels)},
    {"metadata", API_ANY, false, offsetof(struct patch_fields, metadata)},
    {"expiresAt", API_STRING, false, offsetof(struct patch_fields, expires_at)},
};

static const struct api_field_table PATCH_TABLE = {PATCH_FIELDS, ARRAY_SIZE(PATCH_FIELDS),
                                                   ERROR_INVALID_REQUEST};

static int read_patch(struct api_execution_patch *request, struct error *err)
{
    struct patch_fields fields = {0};

    if (api_fields_decode(request->root, "", &PATCH_TABLE, &fields, err) != 0) {
        return -1;
    }
    if (json_object_size(request->root) == 0) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "at least one of labels, metadata and expiresAt must be given");
    }
    request->labels = fields.labels;
    request->metadata = fields.metadata;
    request->expires_at = -1;
    if (fields.expires_at != NULL && clock_parse(fields.expires_at, &request->expires_at) != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/expiresAt",
                               "expiresAt must be an RFC 3339 time");
    }
    return 0;
}

int api_execution_patch_decode(const char *body, size_t len, struct api_execution_patch *out,
                               struct error *err)
{
    struct api_execution_patch request = {0};

    if (api_json_parse_object(body, len, false, &request.root, err) != 0) {
        return -1;
    }
    if (read_patch(&request, err) != 0) {
        api_execution_patch_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_execution_patch_done(struct api_execution_patch *request)
{
    json_decref(request->root);
    *request = (struct api_execution_patch){0};
}

/* --- owner --- */

struct owner_fields {
    const char *owner_id;
    int64_t fencing_token;
};

static const struct api_field OWNER_FIELDS[] = {
    {"ownerId", API_STRING, true, offsetof(struct owner_fields, owner_id)},
    {"fencingToken", API_INTEGER, true, offsetof(struct owner_fields, fencing_token)},
};

static const struct api_field_table OWNER_TABLE = {OWNER_FIELDS, ARRAY_SIZE(OWNER_FIELDS),
                                                   ERROR_INVALID_REQUEST};

int api_owner_read(json_t *value, const char *pointer, struct api_owner *out, struct error *err)
{
    struct owner_fields fields = {0};
    char name[ERROR_FIELD_MAX];

    if (api_fields_decode(value, pointer, &OWNER_TABLE, &fields, err) != 0) {
        return -1;
    }
    if (!id_is_valid(fields.owner_id)) {
        api_pointer_join(pointer, "ownerId", name);
        return error_set_field(err, ERROR_INVALID_REQUEST, name,
                               "%s must match [A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name);
    }
    if (fields.fencing_token < 0) {
        api_pointer_join(pointer, "fencingToken", name);
        return error_set_field(err, ERROR_INVALID_REQUEST, name, "%s must not be negative", name);
    }
    memcpy(out->owner_id, fields.owner_id, strlen(fields.owner_id) + 1);
    out->fencing_token = fields.fencing_token;
    return 0;
}

int api_owner_decode(const char *body, size_t len, struct api_owner *out, struct error *err)
{
    _cleanup_json_ json_t *root = NULL;

    if (api_json_parse_object(body, len, false, &root, err) != 0) {
        return -1;
    }
    return api_owner_read(root, "", out, err);
}

int api_fencing_token_decode(const char *text, int64_t *out, struct error *err)
{
    size_t digits = strspn(text, "0123456789");
    int64_t value = -1;

    if (digits >= 1 && digits <= 16 && text[digits] == '\0') {
        value = strtoll(text, NULL, 10);
    }
    if (value < 0 || value > FENCING_TOKEN_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "Fencing-Token",
                               "Fencing-Token must be an integer from 0 to %lld",
                               (long long)FENCING_TOKEN_MAX);
    }
    *out = value;
    return 0;
}

/* --- view --- */

static json_t *encode_owner(const struct api_execution *view)
{
    if (view->owner_id == NULL) {
        return json_null();
    }
    return json_pack("{s:s, s:I}", "ownerId", view->owner_id, "fencingToken",
                     (json_int_t)view->fencing_token);
}

static json_t *encode_usage(const struct api_execution *view)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "cpuMs", api_count_or_null(view->cpu_ms),
                     "memoryPeakBytes", api_count_or_null(view->memory_peak_bytes), "pidsPeak",
                     api_count_or_null(view->pids_peak), "workspaceBytes",
                     api_count_or_null(view->workspace_bytes));
}

static json_t *encode_termination(const struct api_execution *view)
{
    if (view->termination_reason == NULL) {
        return json_null();
    }
    return json_pack("{s:s, s:s?, s:o, s:o}", "reason", view->termination_reason, "code",
                     view->termination_code, "detail", api_string_or_null(view->termination_detail),
                     "at", api_time_or_null(view->termination_at));
}

json_t *api_execution_encode(const struct api_execution *view)
{
    json_t *warnings = view->warnings != NULL ? json_incref(view->warnings) : json_array();
    json_t *first = json_pack(
        "{s:s, s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "executionId", view->execution_id,
        "incarnation", (json_int_t)view->incarnation, "state", view->state, "host", view->host,
        "image", view->image, "requestedAt", api_time_or_null(view->requested_at), "createdAt",
        api_time_or_null(view->created_at), "expiresAt", api_time_or_null(view->expires_at),
        "terminatedAt", api_time_or_null(view->terminated_at));
    _cleanup_json_ json_t *rest = json_pack(
        "{s:O, s:O, s:O, s:O, s:O, s:O, s:o, s:s?, s:o, s:o, s:o}", "resources", view->resources,
        "network", view->network, "workspace", view->workspace, "environment", view->environment,
        "metadata", view->metadata, "labels", view->labels, "owner", encode_owner(view),
        "restoredFrom", view->restored_from, "usage", encode_usage(view), "termination",
        encode_termination(view), "warnings", warnings);

    if (first == NULL || rest == NULL || json_object_update(first, rest) != 0) {
        json_decref(first);
        return NULL;
    }
    return first;
}
