#include "policy/rules.h"

#include "api/field.h"
#include "api/json.h"
#include "base/id.h"
#include "policy/policy.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    METADATA_DEPTH_MAX = 32,
    METADATA_BYTES_MAX = 64 * 1024,
    LABELS_MAX = 64,
    LABEL_KEY_MAX = 63,
    LABEL_VALUE_MAX = 256,
};

int policy_refuse(struct error *err, const char *field, const char *rule)
{
    (void)error_set_field(err, ERROR_INVALID_REQUEST, field, "%s %s", field, rule);
    return error_in_phase(err, PHASE_VALIDATE);
}

int policy_execution_id(const json_t *id, const char *pointer, struct error *err)
{
    if (!json_is_string(id) || !id_is_valid(json_string_value(id))) {
        return policy_refuse(err, pointer,
                             "must be a string that matches [A-Za-z0-9][A-Za-z0-9_.-]{0,63}");
    }
    return 0;
}

/* --- metadata --- */

static int check_metadata_value(const json_t *value, const char *pointer, int depth,
                                struct error *err);

static int check_metadata_members(const json_t *object, const char *pointer, int depth,
                                  struct error *err)
{
    /* The iteration changes nothing, but jansson's functions take no const object. */
    json_t *members = (json_t *)object;
    const char *key;
    json_t *value;

    json_object_foreach(members, key, value)
    {
        char name[ERROR_FIELD_MAX];

        api_pointer_join(pointer, key, name);
        if (check_metadata_value(value, name, depth + 1, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int check_metadata_items(const json_t *array, const char *pointer, int depth,
                                struct error *err)
{
    size_t index;
    const json_t *value;

    json_array_foreach(array, index, value)
    {
        char name[ERROR_FIELD_MAX];

        api_pointer_index(pointer, index, name);
        if (check_metadata_value(value, name, depth + 1, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int check_metadata_value(const json_t *value, const char *pointer, int depth,
                                struct error *err)
{
    /* The reader hands on what no double can hold as the largest one; kept, it would come back
     * altered. */
    if (json_is_real(value) && fabs(json_real_value(value)) >= DBL_MAX) {
        return policy_refuse(err, pointer, "is a number out of range");
    }
    if (!json_is_object(value) && !json_is_array(value)) {
        return 0;
    }
    if (depth > METADATA_DEPTH_MAX) {
        return policy_refuse(err, pointer, "is nested deeper than 32");
    }
    if (json_is_object(value)) {
        return check_metadata_members(value, pointer, depth, err);
    }
    return check_metadata_items(value, pointer, depth, err);
}

int policy_metadata(const json_t *metadata, const char *pointer, struct error *err)
{
    _cleanup_free_ char *text = NULL;

    if (metadata == NULL) {
        return 0;
    }
    if (!json_is_object(metadata)) {
        return policy_refuse(err, pointer, "must be an object");
    }
    if (check_metadata_value(metadata, pointer, 1, err) != 0) {
        return -1;
    }
    text = api_json_text(metadata, METADATA_BYTES_MAX);
    if (text == NULL) {
        return policy_refuse(err, pointer, "must have at most 65536 bytes as JSON");
    }
    return 0;
}

/* --- labels --- */

static bool label_key_is_valid(const char *key)
{
    static const char REST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
    size_t len = strnlen(key, LABEL_KEY_MAX + 1);

    return len >= 1 && len <= LABEL_KEY_MAX && strchr("._/-", key[0]) == NULL &&
           strspn(key, REST) == len;
}

int policy_labels(json_t *labels, const char *pointer, struct error *err)
{
    const char *key;
    json_t *value;

    if (labels == NULL) {
        return 0;
    }
    if (!json_is_object(labels)) {
        return policy_refuse(err, pointer, "must be an object");
    }
    api_drop_nulls(labels);
    if (json_object_size(labels) > LABELS_MAX) {
        return policy_refuse(err, pointer, "must have at most 64 members");
    }
    json_object_foreach(labels, key, value)
    {
        char name[ERROR_FIELD_MAX];

        api_pointer_join(pointer, key, name);
        if (!label_key_is_valid(key)) {
            return policy_refuse(err, name,
                                 "has a key that does not match "
                                 "[A-Za-z0-9][A-Za-z0-9._/-]{0,62}");
        }
        if (!json_is_string(value) || json_string_length(value) > LABEL_VALUE_MAX) {
            return policy_refuse(err, name, "must be a string of at most 256 bytes");
        }
    }
    return 0;
}

/* --- network --- */

int policy_network(json_t *network, const char *pointer, struct error *err)
{
    static const struct api_field FIELDS[] = {{"mode", API_STRING, true, 0}};
    static const struct api_field_table TABLE = {FIELDS, ARRAY_SIZE(FIELDS), ERROR_NETWORK_POLICY};
    const char *mode = NULL;
    char name[ERROR_FIELD_MAX];

    if (network == NULL) {
        (void)error_set_field(err, ERROR_NETWORK_POLICY, pointer, "%s is missing", pointer);
        return error_in_phase(err, PHASE_VALIDATE);
    }
    if (api_fields_decode(network, pointer, &TABLE, &mode, err) != 0) {
        return error_in_phase(err, PHASE_VALIDATE);
    }
    if (strcmp(mode, "none") != 0) {
        api_pointer_join(pointer, "mode", name);
        (void)error_set_field(err, ERROR_NETWORK_POLICY, name, "%s must be \"none\"", name);
        return error_in_phase(err, PHASE_VALIDATE);
    }
    return 0;
}
