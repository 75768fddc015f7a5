/* The documents of an image: configuration, manifest, `docker save` manifest, index; the first byte
 * chooses. What is accepted keeps what its structure promises. */
#include "tests/fuzz/fuzz.h"

#include "host/native/images_internal.h"

#include <string.h>

static void require_refused(const struct error *err)
{
    fuzz_require(err->code == ERROR_INVALID_REQUEST || err->code == ERROR_CREDENTIAL);
    fuzz_require(err->detail[0] != '\0');
}

static void try_config(const char *text, size_t len)
{
    struct native_image_config config;
    struct error err = ERROR_INIT;
    char **environment;

    if (native_image_config_decode(text, len, &config, &err) < 0) {
        require_refused(&err);
        return;
    }
    environment = native_image_config_environment(&config);
    for (char **v = environment; *v != NULL; v++) {
        fuzz_require(strchr(*v, '=') != NULL && (*v)[0] != '=');
    }
    native_image_environment_free(environment);
    if (native_image_config_fit(&config, &err) < 0) {
        require_refused(&err);
    } else {
        fuzz_require(config.volume == NULL);
    }
    native_image_config_done(&config);
}

static void check_manifest(struct native_image_manifest *m, bool saved)
{
    fuzz_require(m->layer_count > 0 && m->layer_count <= NATIVE_IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct native_image_blob *layer = &m->layers[i];

        fuzz_require(saved ? layer->member != NULL
                           : digest_is_valid(layer->digest) && layer->size >= 0);
    }
    native_image_manifest_done(m);
}

static void try_manifest(const char *text, size_t len, bool saved)
{
    struct native_image_manifest manifest;
    struct error err = ERROR_INIT;
    int result = saved ? native_image_manifest_decode_saved(text, len, &manifest, &err)
                       : native_image_manifest_decode(text, len, &manifest, &err);

    if (result < 0) {
        require_refused(&err);
    } else {
        check_manifest(&manifest, saved);
    }
}

static void try_index(const char *text, size_t len)
{
    struct native_image_blob blob = {0};
    struct error err = ERROR_INIT;
    int result = native_image_index_choose(text, len, &blob, &err);

    if (result < 0) {
        require_refused(&err);
    } else if (result > 0) {
        fuzz_require(digest_is_valid(blob.digest) && blob.size >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0) {
        return 0;
    }
    text = fuzz_copy(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0: try_config(text, size - 1); break;
    case 1: try_manifest(text, size - 1, false); break;
    case 2: try_manifest(text, size - 1, true); break;
    default: try_index(text, size - 1); break;
    }
    free(text);
    return 0;
}
