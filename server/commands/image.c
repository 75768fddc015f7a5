#include "server/commands/commands.h"

#include "base/log.h"
#include "host/native/images.h"

#include <inttypes.h>
#include <string.h>

static const char USAGE[] =
    "usage: exechost image import --name NAME FILE [--host HOST] [--config FILE] [--data DIR]\n"
    "       exechost image list [--host HOST] [--config FILE] [--data DIR]\n\n"
    "FILE is a tar of a root file system, a docker save archive or an OCI layout. HOST is native\n"
    "(images are kept in the data directory) or docker (the engine keeps them); left out, it is "
    "the\n"
    "one that executions get by default.\n";

/* Images of one host: only one of the two is set. */
struct images {
    struct host *docker;
    struct native_images *native;
};

static int open_images(const struct config *config, const char *host, struct images *out,
                       struct error *err)
{
    if (host == NULL) {
        host = command_default_host(config);
    }
    if (strcmp(host, "docker") == 0) {
        return command_host_open(config, &out->docker, err);
    }
    if (strcmp(host, "native") == 0) {
        const struct native_images_config native = {.directory = config->native_images};

        return native_images_open(&native, &out->native, err);
    }
    return error_set(err, ERROR_INVALID_REQUEST, "there is no host \"%.64s\"", host);
}

static void close_images(struct images *images)
{
    if (images->docker != NULL) {
        command_host_close(images->docker);
    }
    native_images_close(images->native);
}

static int import(const struct images *images, const char *name, const char *file)
{
    struct host_image image = {0};
    struct error err = ERROR_INIT;
    int result = images->native != NULL
                     ? native_images_import(images->native, name, file, &image, &err)
                     : images->docker->ops->image_import(images->docker, name, file, &image, &err);

    if (result != 0) {
        return command_fail("image import", &err);
    }
    printf("%s\n", image.reference);
    free(image.reference);
    free(image.digests);
    return 0;
}

static int list(const struct images *images)
{
    struct host_image_list items = {0};
    struct error err = ERROR_INIT;
    int result = images->native != NULL
                     ? native_images_list(images->native, &items, &err)
                     : images->docker->ops->image_list(images->docker, &items, &err);

    if (result != 0) {
        return command_fail("image list", &err);
    }
    for (size_t i = 0; i < items.count; i++) {
        printf("%s %" PRId64 "\n", items.items[i].reference, items.items[i].size_bytes);
    }
    host_image_list_done(&items);
    return 0;
}

static int with_images(const struct command_options *options, const char *file)
{
    struct config config;
    struct images images = {0};
    struct error err = ERROR_INIT;
    int status;

    if (config_load(&options->flags, &config, &err) != 0) {
        return command_fail("configuration", &err);
    }
    log_set_level(LOG_LEVEL_ERROR);
    if (open_images(&config, options->host, &images, &err) != 0) {
        status = command_fail("images", &err);
    } else {
        status = file != NULL ? import(&images, options->name, file) : list(&images);
    }
    close_images(&images);
    config_done(&config);
    return status;
}

int command_image(int argc, char **argv)
{
    struct command_options options;
    int first = command_options(argc, argv, true, &options);
    const char *verb = first >= 0 && first < argc ? argv[first] : "";
    bool importing = strcmp(verb, "import") == 0;

    if (first >= 0 && options.help) {
        fputs(USAGE, stdout);
        return 0;
    }
    if (importing && first + 2 == argc && options.name != NULL) {
        return with_images(&options, argv[first + 1]);
    }
    if (strcmp(verb, "list") == 0 && first + 1 == argc && options.name == NULL) {
        return with_images(&options, NULL);
    }
    fputs(USAGE, stderr);
    return EXIT_USAGE;
}
