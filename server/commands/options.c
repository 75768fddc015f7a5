#include "server/commands/commands.h"

#include <getopt.h>

int command_options(int argc, char **argv, bool for_images, struct command_options *out)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"listen", required_argument, NULL, 'l'},
        {"data", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {"name", required_argument, NULL, 'n'},
        {"host", required_argument, NULL, 'H'},
        {NULL, 0, NULL, 0},
    };
    int option;

    *out = (struct command_options){0};
    optind = 1;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'c': out->flags.file = optarg; break;
        case 'l': out->flags.listen = optarg; break;
        case 'd': out->flags.data = optarg; break;
        case 'h': out->help = true; break;
        case 'n': out->name = optarg; break;
        case 'H': out->host = optarg; break;
        default: return -1; /* getopt has complained */
        }
    }
    if ((out->name != NULL || out->host != NULL) && !for_images) {
        fprintf(stderr, "exechost: --name and --host are for images\n");
        return -1;
    }
    return optind;
}

int command_fail(const char *what, const struct error *err)
{
    fprintf(stderr, "exechost: %s: %s\n", what, err->detail);
    return EXIT_FAULT;
}
