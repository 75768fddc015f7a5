#include "server/commands/commands.h"

#include "base/log.h"

#include <inttypes.h>
#include <string.h>

static const char USAGE[] =
    "usage: exechost image import --name NAME FILE [--config FILE] [--data DIR]\n"
    "       exechost image list [--config FILE] [--data DIR]\n\n"
    "FILE is a tar of a root file system, a docker save archive or an OCI layout.\n";

static int import(struct host *host, const char *name, const char *file)
{
    struct host_image image = {0};
    struct error err = ERROR_INIT;

    if (host->ops->image_import(host, name, file, &image, &err) != 0) {
        return command_fail("image import", &err);
    }
    printf("%s\n", image.reference);
    free(image.reference);
    free(image.digests);
    return 0;
}

static int list(struct host *host)
{
    struct host_image_list images = {0};
    struct error err = ERROR_INIT;

    if (host->ops->image_list(host, &images, &err) != 0) {
        return command_fail("image list", &err);
    }
    for (size_t i = 0; i < images.count; i++) {
        printf("%s %" PRId64 "\n", images.items[i].reference, images.items[i].size_bytes);
    }
    host_image_list_done(&images);
    return 0;
}

static int with_host(const struct command_options *options, const char *file)
{
    struct config config;
    struct host *host = NULL;
    struct error err = ERROR_INIT;
    int status;

    if (config_load(&options->flags, &config, &err) != 0) {
        return command_fail("configuration", &err);
    }
    log_set_level(LOG_LEVEL_ERROR);
    if (command_host_open(&config, &host, &err) != 0) {
        status = command_fail("docker", &err);
    } else {
        status = file != NULL ? import(host, options->name, file) : list(host);
        command_host_close(host);
    }
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
        return with_host(&options, argv[first + 1]);
    }
    if (strcmp(verb, "list") == 0 && first + 1 == argc && options.name == NULL) {
        return with_host(&options, NULL);
    }
    fputs(USAGE, stderr);
    return EXIT_USAGE;
}
