#include "api/field.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

static const int64_t INTEGER_MAX = 9007199254740991; /* 2⁵³-1: what every JSON reader can hold */

void api_pointer_join(const char *pointer, const char *name, char out[ERROR_FIELD_MAX])
{
    char text[ERROR_FIELD_MAX + 4];
    size_t room = sizeof(text) - 3;
    size_t len = strnlen(pointer, room);

    memcpy(text, pointer, len);
    if (len < room) {
        text[len++] = '/';
    }
    for (; *name != '\0' && len < room; name++) {
        if (*name == '~' || *name == '/') {
            text[len++] = '~';
            text[len++] = *name == '~' ? '0' : '1';
        } else {
            text[len++] = *name;
        }
    }
    len = utf8_cut(text, len, ERROR_FIELD_MAX - 1);
    memcpy(out, text, len);
    out[len] = '\0';
}

void api_pointer_index(const char *pointer, size_t index, char out[ERROR_FIELD_MAX])
{
    char name[24];

    snprintf(name, sizeof(name), "%zu", index);
    api_pointer_join(pointer, name, out);
}

void api_drop_nulls(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(object, next, key, value)
    {
        if (json_is_null(value)) {
            json_object_del(object, key);
        }
    }
}

bool api_integer_value(const json_t *value, int64_t *out)
{
    int64_t integer;

    if (json_is_integer(value)) {
        integer = json_integer_value(value);
    } else if (json_is_real(value)) {
        double real = json_real_value(value);

        if (real != trunc(real) || fabs(real) > (double)INTEGER_MAX) {
            return false;
        }
        integer = (int64_t)real;
    } else {
        return false;
    }
    if (integer > INTEGER_MAX || integer < -INTEGER_MAX) {
        return false;
    }
    *out = integer;
    return true;
}

static const char *type_name(enum api_field_type type)
{
    switch (type) {
    case API_STRING: return "a string";
    case API_INTEGER: return "an integer";
    case API_NUMBER: return "a number";
    case API_BOOLEAN: return "true or false";
    case API_OBJECT: return "an object";
    case API_ARRAY: return "an array";
    case API_ANY: break;
    }
    return "a value";
}

/* Writes the value to `to` when it has the type. */
static bool take_value(json_t *value, enum api_field_type type, void *to)
{
    switch (type) {
    case API_STRING:
        if (json_is_string(value)) {
            *(const char **)to = json_string_value(value);
            return true;
        }
        return false;
    case API_INTEGER: return api_integer_value(value, to);
    case API_NUMBER:
        if (json_is_number(value)) {
            *(double *)to = json_number_value(value);
            return true;
        }
        return false;
    case API_BOOLEAN:
        if (json_is_boolean(value)) {
            *(bool *)to = json_boolean_value(value);
            return true;
        }
        return false;
    case API_OBJECT:
    case API_ARRAY:
        if (type == API_OBJECT ? !json_is_object(value) : !json_is_array(value)) {
            return false;
        }
        *(json_t **)to = value;
        return true;
    case API_ANY: *(json_t **)to = value; return true;
    }
    return false;
}

static bool is_known(const struct api_field_table *table, const char *key)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->fields[i].name, key) == 0) {
            return true;
        }
    }
    return false;
}

static int decode_one(json_t *object, const char *pointer, const struct api_field_table *table,
                      const struct api_field *field, void *out, struct error *err)
{
    char name[ERROR_FIELD_MAX];
    json_t *value = json_object_get(object, field->name);

    api_pointer_join(pointer, field->name, name);
    if (value == NULL) {
        if (field->required) {
            return error_set_field(err, table->code, name, "%s is missing", name);
        }
        return 0;
    }
    if (!take_value(value, field->type, (char *)out + field->offset)) {
        return error_set_field(err, table->code, name, "%s must be %s", name,
                               type_name(field->type));
    }
    return 0;
}

int api_fields_decode(json_t *object, const char *pointer, const struct api_field_table *table,
                      void *out, struct error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return error_set_field(err, table->code, pointer, "%s must be an object",
                               *pointer == '\0' ? "the body" : pointer);
    }
    json_object_foreach(object, key, value)
    {
        if (!is_known(table, key)) {
            char name[ERROR_FIELD_MAX];

            api_pointer_join(pointer, key, name);
            return error_set_field(err, table->code, name, "%s is not known here", name);
        }
    }
    api_drop_nulls(object);
    for (size_t i = 0; i < table->count; i++) {
        if (decode_one(object, pointer, table, &table->fields[i], out, err) != 0) {
            return -1;
        }
    }
    return 0;
}

json_t *api_string_or_null(const char *text)
{
    _cleanup_free_ char *repaired = NULL;
    size_t len;

    if (text == NULL) {
        return json_null();
    }
    len = strlen(text);
    if (utf8_is_valid(text, len)) {
        return json_string(text);
    }
    repaired = strdup(text);
    if (repaired == NULL) {
        return NULL;
    }
    utf8_repair(repaired, len);
    return json_string(repaired);
}

json_t *api_count_or_null(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

json_t *api_time_or_null(int64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];

    if (wall_ms < 0) {
        return json_null();
    }
    clock_format(wall_ms, text);
    return json_string(text);
}
