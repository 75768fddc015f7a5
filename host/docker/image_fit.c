/* Which images may become executions. */
#include "base/secret.h"
#include "host/docker/images.h"

#include <string.h>

static const json_t *config_of(const json_t *inspection)
{
    return json_object_get(inspection, "Config");
}

const char *image_variable(const json_t *inspection, const char *name)
{
    size_t len = strlen(name);
    size_t i;
    const json_t *variable;

    json_array_foreach(json_object_get(config_of(inspection), "Env"), i, variable)
    {
        const char *text = json_string_value(variable);

        if (text != NULL && strncmp(text, name, len) == 0 && text[len] == '=') {
            return text + len + 1;
        }
    }
    return NULL;
}

static int check_environment(const json_t *inspection, struct error *err)
{
    size_t i;
    const json_t *variable;

    json_array_foreach(json_object_get(config_of(inspection), "Env"), i, variable)
    {
        const char *text = json_string_value(variable);
        size_t len = text != NULL ? strcspn(text, "=") : 0;

        if (secret_name_like(text != NULL ? text : "", len)) {
            error_set_field(err, ERROR_CREDENTIAL, "/image",
                            "the image's own environment carries %.*s, which looks like a secret",
                            (int)(len < 128 ? len : 128), text);
            return error_in_phase(err, PHASE_VALIDATE);
        }
    }
    return 0;
}

static int refuse(struct error *err, const char *reason, const char *what)
{
    error_set_field(err, ERROR_INVALID_REQUEST, "/image", "the image %s: %s", reason, what);
    return error_in_phase(err, PHASE_VALIDATE);
}

int image_check(const json_t *inspection, const char *arch, struct error *err)
{
    json_t *volumes = json_object_get(config_of(inspection), "Volumes");
    const char *os = engine_text(inspection, "Os");
    const char *made_for = engine_text(inspection, "Architecture");

    if (os[0] != '\0' && strcmp(os, "linux") != 0) {
        return refuse(err, "is not made for linux", os);
    }
    if (made_for[0] != '\0' && arch[0] != '\0' && strcmp(made_for, arch) != 0) {
        return refuse(err, "is made for another kind of machine", made_for);
    }
    if (json_object_size(volumes) > 0) {
        return refuse(err, "declares a volume, which would be writable disk",
                      json_object_iter_key(json_object_iter(volumes)));
    }
    return check_environment(inspection, err);
}
