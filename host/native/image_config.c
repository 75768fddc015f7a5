/* An image's configuration: what of it matters to an execution, and whether it may become one. */
#include "host/native/images_internal.h"

#include "base/secret.h"

#include <string.h>
#include <sys/utsname.h>

const char *native_image_machine(void)
{
    static const struct {
        const char *kernel;
        const char *image;
    } NAMES[] = {
        {"x86_64", "amd64"},    {"aarch64", "arm64"}, {"armv7l", "arm"},
        {"ppc64le", "ppc64le"}, {"s390x", "s390x"},   {"riscv64", "riscv64"},
    };
    static __thread struct utsname name;

    if (uname(&name) != 0) {
        return "";
    }
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
        if (strcmp(name.machine, NAMES[i].kernel) == 0) {
            return NAMES[i].image;
        }
    }
    return name.machine;
}

static int broken(struct error *err, const char *what)
{
    return error_set(err, ERROR_INVALID_REQUEST, "the image's configuration: %s", what);
}

static bool all_digests(const json_t *list)
{
    size_t i;
    const json_t *item;

    if (!json_is_array(list) || json_array_size(list) > NATIVE_IMAGE_LAYERS_MAX) {
        return false;
    }
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || !digest_is_valid(json_string_value(item))) {
            return false;
        }
    }
    return true;
}

static bool all_texts(const json_t *list)
{
    size_t i;
    const json_t *item;

    if (list == NULL || json_is_null(list)) {
        return true;
    }
    if (!json_is_array(list)) {
        return false;
    }
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item)) {
            return false;
        }
    }
    return true;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

static int decode(struct native_image_config *c, struct error *err)
{
    const json_t *run = json_object_get(c->root, "config");
    json_t *volumes = json_object_get(run, "Volumes");

    c->os = text_of(c->root, "os");
    c->architecture = text_of(c->root, "architecture");
    c->environment = json_object_get(run, "Env");
    c->diff_ids = json_object_get(json_object_get(c->root, "rootfs"), "diff_ids");
    c->volume = json_object_iter_key(json_object_iter(volumes));
    if (run != NULL && !json_is_object(run) && !json_is_null(run)) {
        return broken(err, "\"config\" is no object");
    }
    if (volumes != NULL && !json_is_object(volumes) && !json_is_null(volumes)) {
        return broken(err, "\"Volumes\" is no object");
    }
    if (!all_texts(c->environment)) {
        return broken(err, "\"Env\" is no list of texts");
    }
    if (!all_digests(c->diff_ids)) {
        return broken(err, "\"rootfs\" has no list of at most 256 SHA-256 \"diff_ids\"");
    }
    return 0;
}

int native_image_config_decode(const char *text, size_t len, struct native_image_config *out,
                               struct error *err)
{
    struct native_image_config config = {0};
    json_error_t fault;

    config.root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(config.root)) {
        json_decref(config.root);
        return broken(err, config.root == NULL ? fault.text : "it is no object");
    }
    if (decode(&config, err) < 0) {
        json_decref(config.root);
        return -1;
    }
    *out = config;
    return 0;
}

void native_image_config_done(struct native_image_config *config)
{
    json_decref(config->root);
    *config = (struct native_image_config){0};
}

/* --- fitness --- */

static int refuse(struct error *err, const char *reason, const char *what)
{
    error_set_field(err, ERROR_INVALID_REQUEST, "/image", "the image %s: %.128s", reason, what);
    return error_in_phase(err, PHASE_VALIDATE);
}

static int check_environment(const json_t *environment, struct error *err)
{
    size_t i;
    const json_t *variable;

    json_array_foreach(environment, i, variable)
    {
        const char *text = json_string_value(variable);
        size_t len = strcspn(text, "=");

        if (secret_name_like(text, len)) {
            error_set_field(err, ERROR_CREDENTIAL, "/image",
                            "the image's own environment carries %.*s, which looks like a secret",
                            (int)(len < 128 ? len : 128), text);
            return error_in_phase(err, PHASE_VALIDATE);
        }
    }
    return 0;
}

int native_image_config_fit(const struct native_image_config *config, struct error *err)
{
    if (config->os[0] != '\0' && strcmp(config->os, "linux") != 0) {
        return refuse(err, "is not made for linux", config->os);
    }
    if (config->architecture[0] != '\0' &&
        strcmp(config->architecture, native_image_machine()) != 0) {
        return refuse(err, "is made for another kind of machine", config->architecture);
    }
    if (config->volume != NULL) {
        return refuse(err, "declares a volume, which would be writable disk", config->volume);
    }
    return check_environment(config->environment, err);
}

/* --- environment --- */

void native_image_environment_free(char **environment)
{
    for (char **variable = environment; variable != NULL && *variable != NULL; variable++) {
        free(*variable);
    }
    free(environment);
}

char **native_image_config_environment(const struct native_image_config *config)
{
    char **list = calloc(json_array_size(config->environment) + 1, sizeof(*list));
    size_t count = 0;
    size_t i;
    const json_t *variable;

    json_array_foreach(config->environment, i, variable)
    {
        const char *text = json_string_value(variable);

        /* A name without a value sets nothing. */
        if (list == NULL || text[0] == '=' || strchr(text, '=') == NULL) {
            continue;
        }
        list[count] = strdup(text);
        if (list[count++] == NULL) {
            native_image_environment_free(list);
            return NULL;
        }
    }
    return list;
}

int native_image_config_make(const char *diff_id, struct buf *out, struct error *err)
{
    if (buf_addf(out,
                 "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{},\"rootfs\":{\"type\":"
                 "\"layers\",\"diff_ids\":[\"%s\"]}}",
                 native_image_machine(), diff_id) < 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}
