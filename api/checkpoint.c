#include "api/checkpoint.h"

#include "api/field.h"
#include "api/json.h"
#include "base/digest.h"
#include "base/id.h"

static const struct api_field CREATE_FIELDS[] = {
    {"metadata", API_ANY, false, offsetof(struct api_checkpoint_create, metadata)},
    {"share", API_BOOLEAN, false, offsetof(struct api_checkpoint_create, share)},
    {"checkpointId", API_STRING, false, offsetof(struct api_checkpoint_create, checkpoint_id)},
};

static const struct api_field_table CREATE_TABLE = {CREATE_FIELDS, ARRAY_SIZE(CREATE_FIELDS),
                                                    ERROR_INVALID_REQUEST};

static const struct api_field RESTORE_FIELDS[] = {
    {"host", API_STRING, false, offsetof(struct api_checkpoint_restore, host)},
    {"labels", API_ANY, false, offsetof(struct api_checkpoint_restore, labels)},
    {"owner", API_ANY, false, offsetof(struct api_checkpoint_restore, owner)},
    {"executionId", API_ANY, false, offsetof(struct api_checkpoint_restore, execution_id)},
};

static const struct api_field_table RESTORE_TABLE = {RESTORE_FIELDS, ARRAY_SIZE(RESTORE_FIELDS),
                                                     ERROR_INVALID_REQUEST};

static const struct api_field IMPORT_FIELDS[] = {
    {"uri", API_STRING, true, offsetof(struct api_checkpoint_import, uri)},
    {"digest", API_STRING, true, offsetof(struct api_checkpoint_import, digest)},
};

static const struct api_field_table IMPORT_TABLE = {IMPORT_FIELDS, ARRAY_SIZE(IMPORT_FIELDS),
                                                    ERROR_INVALID_REQUEST};

static int read_create(struct api_checkpoint_create *request, struct error *err)
{
    if (api_fields_decode(request->root, "", &CREATE_TABLE, request, err) != 0) {
        return -1;
    }
    if (request->checkpoint_id != NULL && !id_is_valid(request->checkpoint_id)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/checkpointId",
                               "checkpointId must match [A-Za-z0-9][A-Za-z0-9_.-]{0,63}");
    }
    return 0;
}

int api_checkpoint_create_decode(const char *body, size_t len, struct api_checkpoint_create *out,
                                 struct error *err)
{
    struct api_checkpoint_create request = {0};

    if (api_json_parse_object(body, len, true, &request.root, err) != 0) {
        return -1;
    }
    if (read_create(&request, err) != 0) {
        api_checkpoint_create_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_checkpoint_create_done(struct api_checkpoint_create *request)
{
    json_decref(request->root);
    *request = (struct api_checkpoint_create){0};
}

int api_checkpoint_restore_decode(const char *body, size_t len, struct api_checkpoint_restore *out,
                                  struct error *err)
{
    struct api_checkpoint_restore request = {0};

    if (api_json_parse_object(body, len, true, &request.root, err) != 0) {
        return -1;
    }
    if (api_fields_decode(request.root, "", &RESTORE_TABLE, &request, err) != 0) {
        api_checkpoint_restore_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_checkpoint_restore_done(struct api_checkpoint_restore *request)
{
    json_decref(request->root);
    *request = (struct api_checkpoint_restore){0};
}

static int read_import(struct api_checkpoint_import *request, struct error *err)
{
    if (api_fields_decode(request->root, "", &IMPORT_TABLE, request, err) != 0) {
        return -1;
    }
    if (request->uri[0] == '\0') {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/uri", "uri must not be empty");
    }
    if (!digest_is_valid(request->digest)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/digest",
                               "digest must be sha256: and 64 lowercase hexadecimal digits");
    }
    return 0;
}

int api_checkpoint_import_decode(const char *body, size_t len, struct api_checkpoint_import *out,
                                 struct error *err)
{
    struct api_checkpoint_import request = {0};

    if (api_json_parse_object(body, len, false, &request.root, err) != 0) {
        return -1;
    }
    if (read_import(&request, err) != 0) {
        api_checkpoint_import_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_checkpoint_import_done(struct api_checkpoint_import *request)
{
    json_decref(request->root);
    *request = (struct api_checkpoint_import){0};
}

json_t *api_checkpoint_encode(const struct api_checkpoint *view)
{
    json_t *metadata = view->metadata != NULL ? json_incref(view->metadata) : json_object();

    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:s?, s:o, s:o, s:s, s:O, s:o, s:s, s:O?}", "checkpointId",
        view->checkpoint_id, "sourceExecutionId", view->source_execution_id, "createdAt",
        api_time_or_null(view->created_at), "sizeBytes", api_count_or_null(view->size_bytes),
        "archiveBytes", api_count_or_null(view->archive_bytes), "archiveDigest",
        view->archive_digest, "entries", api_count_or_null(view->entries), "skipped",
        api_count_or_null(view->skipped), "image", view->image, "resources", view->resources,
        "metadata", metadata, "durability", view->durability, "shared", view->shared);
}

json_t *api_shared_checkpoint_encode(const struct api_shared_checkpoint *view)
{
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:O?}", "uri", view->uri, "digest", view->digest,
                     "uploadedAt", api_time_or_null(view->uploaded_at), "bytesSent",
                     (json_int_t)view->bytes_sent, "bytesTotal", (json_int_t)view->bytes_total,
                     "error", view->error);
}

json_t *api_shared_item_encode(const struct api_shared_item *view)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s?, s:o, s:o, s:s?, s:O?, s:s?}", "checkpointId",
                     view->checkpoint_id, "uri", view->uri, "digest", view->digest, "uploadedAt",
                     api_time_or_null(view->uploaded_at), "createdAt",
                     api_time_or_null(view->created_at), "sourceExecutionId",
                     view->source_execution_id, "sizeBytes", api_count_or_null(view->size_bytes),
                     "archiveBytes", api_count_or_null(view->archive_bytes), "image", view->image,
                     "metadata", view->metadata, "problem", view->problem);
}

json_t *api_verification_encode(const char *const *problems, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, api_string_or_null(problems[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return json_pack("{s:b, s:o}", "ok", count == 0, "problems", list);
}
