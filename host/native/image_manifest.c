/* The documents that lead to an image's configuration and layers. */
#include "host/native/images_internal.h"

#include <string.h>

static int broken(struct error *err, const char *what)
{
    return error_set(err, ERROR_INVALID_REQUEST, "the image's manifest: %s", what);
}

void native_image_manifest_done(struct native_image_manifest *m)
{
    for (size_t i = 0; i < m->layer_count; i++) {
        free(m->layers[i].member);
    }
    free(m->layers);
    free(m->config.member);
    *m = (struct native_image_manifest){0};
}

static json_t *load(const char *text, size_t len, struct error *err)
{
    json_error_t fault;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);

    if (root == NULL) {
        broken(err, fault.text);
    }
    return root;
}

static int decode_blob(const json_t *descriptor, struct native_image_blob *out, struct error *err)
{
    const char *digest = json_string_value(json_object_get(descriptor, "digest"));
    const json_t *size = json_object_get(descriptor, "size");

    if (digest == NULL || !digest_is_valid(digest)) {
        return broken(err, "a part of it has no SHA-256 digest");
    }
    if (!json_is_integer(size) || json_integer_value(size) < 0) {
        return broken(err, "a part of it has no size");
    }
    memcpy(out->digest, digest, DIGEST_TEXT_SIZE);
    out->size = json_integer_value(size);
    return 0;
}

static int make_layers(struct native_image_manifest *m, const json_t *layers, struct error *err)
{
    size_t count = json_array_size(layers);

    if (!json_is_array(layers) || count == 0 || count > NATIVE_IMAGE_LAYERS_MAX) {
        return broken(err, "it has no list of 1 to 256 layers");
    }
    m->layers = calloc(count, sizeof(*m->layers));
    if (m->layers == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    m->layer_count = count;
    return 0;
}

static int decode(const json_t *root, struct native_image_manifest *m, struct error *err)
{
    const json_t *layers = json_object_get(root, "layers");
    const json_t *version = json_object_get(root, "schemaVersion");

    if (json_integer_value(version) != 2) {
        return broken(err, "its schemaVersion is not 2");
    }
    if (decode_blob(json_object_get(root, "config"), &m->config, err) < 0 ||
        make_layers(m, layers, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < m->layer_count; i++) {
        if (decode_blob(json_array_get(layers, i), &m->layers[i], err) < 0) {
            return -1;
        }
    }
    return 0;
}

int native_image_manifest_decode(const char *text, size_t len, struct native_image_manifest *out,
                                 struct error *err)
{
    _cleanup_native_json_ json_t *root = load(text, len, err);
    struct native_image_manifest manifest = {0};

    if (root == NULL) {
        return -1;
    }
    if (decode(root, &manifest, err) < 0) {
        native_image_manifest_done(&manifest);
        return -1;
    }
    *out = manifest;
    return 0;
}

/* --- what `docker save` writes --- */

static int saved_blob(const json_t *path, struct native_image_blob *out, struct error *err)
{
    if (!json_is_string(path) || json_string_length(path) == 0) {
        return broken(err, "a part of it has no path");
    }
    out->size = -1;
    out->member = strdup(json_string_value(path));
    return out->member != NULL ? 0 : error_set(err, ERROR_INTERNAL, "out of memory");
}

static int decode_saved(const json_t *image, struct native_image_manifest *m, struct error *err)
{
    const json_t *layers = json_object_get(image, "Layers");

    if (saved_blob(json_object_get(image, "Config"), &m->config, err) < 0 ||
        make_layers(m, layers, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < m->layer_count; i++) {
        if (saved_blob(json_array_get(layers, i), &m->layers[i], err) < 0) {
            return -1;
        }
    }
    return 0;
}

int native_image_manifest_decode_saved(const char *text, size_t len,
                                       struct native_image_manifest *out, struct error *err)
{
    _cleanup_native_json_ json_t *root = load(text, len, err);
    struct native_image_manifest manifest = {0};

    if (root == NULL) {
        return -1;
    }
    if (!json_is_array(root) || json_array_size(root) != 1) {
        return broken(err, "the archive has to hold one image");
    }
    if (decode_saved(json_array_get(root, 0), &manifest, err) < 0) {
        native_image_manifest_done(&manifest);
        return -1;
    }
    *out = manifest;
    return 0;
}

/* --- indexes --- */

/* An entry that does not tell a platform is for every one. */
static bool is_for_this_machine(const json_t *entry)
{
    const json_t *platform = json_object_get(entry, "platform");
    const char *os = json_string_value(json_object_get(platform, "os"));
    const char *architecture = json_string_value(json_object_get(platform, "architecture"));

    return (os == NULL || strcmp(os, "linux") == 0) &&
           (architecture == NULL || strcmp(architecture, native_image_machine()) == 0);
}

int native_image_index_choose(const char *text, size_t len, struct native_image_blob *out,
                              struct error *err)
{
    _cleanup_native_json_ json_t *root = load(text, len, err);
    const json_t *entries;
    const json_t *chosen = NULL;
    size_t i;
    const json_t *entry;

    if (root == NULL) {
        return -1;
    }
    entries = json_object_get(root, "manifests");
    if (entries == NULL) {
        return 0;
    }
    json_array_foreach(entries, i, entry)
    {
        if (!is_for_this_machine(entry)) {
            continue;
        }
        if (chosen != NULL) {
            return broken(err, "the index has several images for this machine");
        }
        chosen = entry;
    }
    if (chosen == NULL) {
        return broken(err, "the index has no image for this machine");
    }
    return decode_blob(chosen, out, err) < 0 ? -1 : 1;
}
