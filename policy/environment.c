#include "policy/policy.h"
#include "policy/rules.h"

#include "api/field.h"
#include "base/secret.h"

#include <string.h>

enum { VALUE_MAX = 32768 };

static bool name_is_valid(const char *name)
{
    static const char REST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

    return name[0] != '\0' && strchr("0123456789", name[0]) == NULL &&
           name[strspn(name, REST)] == '\0';
}

static int check_variable(const char *name, const json_t *value, const char *field,
                          struct error *err)
{
    if (!name_is_valid(name)) {
        return policy_refuse(err, field, "has a name that does not match [A-Za-z_][A-Za-z0-9_]*");
    }
    if (secret_name_like(name, strlen(name))) {
        return policy_refuse(err, field,
                             "has a secret-like name; secrets are not accepted as environment");
    }
    if (!json_is_string(value) || json_string_length(value) > VALUE_MAX) {
        return policy_refuse(err, field, "must be a string of at most 32768 bytes");
    }
    return 0;
}

static char *join(const char *name, const json_t *value)
{
    size_t name_len = strlen(name);
    size_t value_len = json_string_length(value);
    char *text = malloc(name_len + value_len + 2);

    if (text == NULL) {
        return NULL;
    }
    memcpy(text, name, name_len);
    text[name_len] = '=';
    memcpy(text + name_len + 1, json_string_value(value), value_len);
    text[name_len + 1 + value_len] = '\0';
    return text;
}

static void cleanup_environment(char ***environment)
{
    policy_environment_free(*environment);
}

int policy_environment(json_t *environment, const char *pointer, char ***out, struct error *err)
{
    _cleanup_(cleanup_environment) char **list = NULL;
    size_t count = 0;
    const char *name;
    json_t *value;

    if (environment != NULL && !json_is_object(environment)) {
        return policy_refuse(err, pointer, "must be an object");
    }
    api_drop_nulls(environment);
    if (json_object_size(environment) == 0) {
        *out = NULL;
        return 0;
    }
    list = calloc(json_object_size(environment) + 1, sizeof(*list));
    json_object_foreach(environment, name, value)
    {
        char field[ERROR_FIELD_MAX];

        api_pointer_join(pointer, name, field);
        if (check_variable(name, value, field, err) != 0) {
            return -1;
        }
        if (list == NULL || (list[count] = join(name, value)) == NULL) {
            return error_set(err, ERROR_INTERNAL, "out of memory");
        }
        count++;
    }
    *out = TAKE_PTR(list);
    return 0;
}

void policy_environment_free(char **environment)
{
    for (char **variable = environment; variable != NULL && *variable != NULL; variable++) {
        free(*variable);
    }
    free(environment);
}
