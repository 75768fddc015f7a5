#include "ptc/bindings.h"

#include "ptc/names.h"
#include "ptc/spec.h"

#include <stdarg.h>
#include <string.h>

struct reading {
    json_t *names; /* object: the names in use */
    size_t functions;
    struct error *err;
};

static int refuse(struct reading *r, const char *why, const char *pointer, ...) PRINTF_LIKE(3, 4);

static int refuse(struct reading *r, const char *why, const char *pointer, ...)
{
    char field[ERROR_FIELD_MAX];
    va_list ap;
    va_start(ap, pointer);
    (void)vsnprintf(field, sizeof(field), pointer, ap);
    va_end(ap);
    return error_set_field(r->err, ERROR_PTC_INVALID_REQUEST, field, "%s", why);
}

/* Only the keys of the list. Returns the first that is not, or NULL. */
static const char *find_unknown(json_t *object, const char *const *known, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(known[i], key) != 0) {
            i++;
        }
        if (i == count) {
            return key;
        }
    }
    return NULL;
}

static int take_name(struct reading *r, json_t *name, const char *pointer)
{
    if (!json_is_string(name)) {
        return refuse(r, "must be a string", "%s", pointer);
    }
    const char *fault = ptc_name_fault(json_string_value(name), json_string_length(name));
    if (fault != NULL) {
        return refuse(r, fault, "%s", pointer);
    }
    if (json_object_get(r->names, json_string_value(name)) != NULL) {
        return refuse(r, "is there twice", "%s", pointer);
    }
    if (json_object_set_new(r->names, json_string_value(name), json_true()) != 0) {
        return error_set(r->err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

static bool is_same_text(json_t *a, json_t *b)
{
    return json_string_length(a) == json_string_length(b) &&
           memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
}

static int check_functions(struct reading *r, json_t *functions, size_t index)
{
    size_t i;
    json_t *name;
    if (!json_is_array(functions)) {
        return refuse(r, "must be an array of strings", "/bindings/%zu/functions", index);
    }
    r->functions += json_array_size(functions);
    if (r->functions > PTC_FUNCTIONS_MAX) {
        return refuse(r, "all bindings together may have 4096 functions", "/bindings/%zu/functions",
                      index);
    }
    json_array_foreach(functions, i, name)
    {
        if (!json_is_string(name)) {
            return refuse(r, "must be a string", "/bindings/%zu/functions/%zu", index, i);
        }
        for (size_t before = 0; before < i; before++) {
            if (is_same_text(json_array_get(functions, before), name)) {
                return refuse(r, "is there twice", "/bindings/%zu/functions/%zu", index, i);
            }
        }
    }
    return 0;
}

static int check_error_class(struct reading *r, json_t *wanted, size_t index)
{
    static const char *const keys[] = {"name", "memberNameProperty"};
    char pointer[ERROR_FIELD_MAX];
    if (!json_is_object(wanted)) {
        return refuse(r, "must be an object", "/bindings/%zu/errorClass", index);
    }
    const char *unknown = find_unknown(wanted, keys, ARRAY_SIZE(keys));
    if (unknown != NULL) {
        return refuse(r, "is not known", "/bindings/%zu/errorClass/%s", index, unknown);
    }
    (void)snprintf(pointer, sizeof(pointer), "/bindings/%zu/errorClass/name", index);
    if (take_name(r, json_object_get(wanted, "name"), pointer) != 0) {
        return -1;
    }
    json_t *property = json_object_get(wanted, "memberNameProperty");
    const char *fault =
        !json_is_string(property)
            ? "must be a string"
            : ptc_member_property_fault(json_string_value(property), json_string_length(property));
    return fault == NULL ? 0
                         : refuse(r, fault, "/bindings/%zu/errorClass/memberNameProperty", index);
}

static json_t *resolve_one(struct reading *r, json_t *binding, size_t index)
{
    static const char *const keys[] = {"global", "functions", "errorClass"};
    char pointer[ERROR_FIELD_MAX];
    if (!json_is_object(binding)) {
        (void)refuse(r, "must be an object", "/bindings/%zu", index);
        return NULL;
    }
    const char *unknown = find_unknown(binding, keys, ARRAY_SIZE(keys));
    if (unknown != NULL) {
        (void)refuse(r, "is not known", "/bindings/%zu/%s", index, unknown);
        return NULL;
    }
    json_t *global = json_object_get(binding, "global");
    json_t *functions = json_object_get(binding, "functions");
    json_t *error_class = json_object_get(binding, "errorClass");
    (void)snprintf(pointer, sizeof(pointer), "/bindings/%zu/global", index);
    if (take_name(r, global, pointer) != 0 || check_functions(r, functions, index) != 0) {
        return NULL;
    }
    if (json_is_null(error_class)) {
        error_class = NULL;
    }
    if (error_class != NULL && check_error_class(r, error_class, index) != 0) {
        return NULL;
    }
    return json_pack("{s:O, s:O, s:O*}", "global", global, "functions", functions, "errorClass",
                     error_class);
}

static json_t *resolve_each(struct reading *r, json_t *bindings)
{
    json_t *out = json_array();
    size_t i;
    json_t *binding;
    json_array_foreach(bindings, i, binding)
    {
        json_t *one = resolve_one(r, binding, i);
        if (one == NULL || json_array_append_new(out, one) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

json_t *ptc_bindings_resolve(json_t *bindings, struct error *err)
{
    struct reading r = {.names = json_object(), .err = err};
    json_t *out = NULL;
    if (!json_is_array(bindings)) {
        (void)refuse(&r, "must be an array", "/bindings");
    } else if (json_array_size(bindings) > PTC_BINDINGS_MAX) {
        (void)refuse(&r, "must have at most 128 items", "/bindings");
    } else {
        out = resolve_each(&r, bindings);
    }
    json_decref(r.names);
    return out;
}
