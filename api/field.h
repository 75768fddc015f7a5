/* Field tables: what an object may hold and where each value goes. A table refuses unknown keys and
 * wrong types, naming the member by JSON pointer; null equals left out (such members are removed
 * from the tree, so that what is echoed never holds them); 4.0 is an integer. Pure; any thread. */
#ifndef EXECHOST_API_FIELD_H
#define EXECHOST_API_FIELD_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum api_field_type {
    API_STRING,  /* const char *, borrowed from the tree */
    API_INTEGER, /* int64_t */
    API_NUMBER,  /* double */
    API_BOOLEAN, /* bool */
    API_OBJECT,  /* json_t *, borrowed */
    API_ARRAY,   /* json_t *, borrowed */
    API_ANY,     /* json_t *, borrowed; whoever knows the field's rule checks the type */
};

struct api_field {
    const char *name;
    enum api_field_type type;
    bool required;
    size_t offset; /* of the member in the struct that is filled */
};

struct api_field_table {
    const struct api_field *fields;
    size_t count;
    enum error_code code; /* of every fault in this object */
};

/* A member that is left out leaves what `out` has there: set defaults first. `pointer` is the
 * object's own ("" for the body). Anything but an object is a fault of `pointer` itself. Unknown
 * keys are found first, then the fields are taken in the table's order. */
int api_fields_decode(json_t *object, const char *pointer, const struct api_field_table *table,
                      void *out, struct error *err) WARN_UNUSED;

/* True and the value when it is an integer within ±(2⁵³-1), written as one or as a whole real. */
bool api_integer_value(const json_t *value, int64_t *out);

/* pointer + "/" + name, with ~ and / escaped; cut to the buffer. */
void api_pointer_join(const char *pointer, const char *name, char out[ERROR_FIELD_MAX]);
void api_pointer_index(const char *pointer, size_t index, char out[ERROR_FIELD_MAX]);

/* Removes the members that are null. */
void api_drop_nulls(json_t *object);

/* A string, or null for NULL; an integer, or null for -1; an RFC 3339 time, or null for -1. Returns
 * owned; NULL only when memory is out, which the encoders pass on. */
json_t *api_string_or_null(const char *text); /* bytes that are no UTF-8 become '?' */
json_t *api_count_or_null(int64_t value);
json_t *api_time_or_null(int64_t wall_ms);

#endif
