#include "server/commands/commands.h"

#include <string.h>

static const char USAGE[] =
    "usage: exechost COMMAND [OPTION…]\n\n"
    "  serve    run the service             exechost serve --help lists the configuration\n"
    "  doctor   check the machine and say what to fix\n"
    "  image    import or list images\n"
    "  token    make a token for the configuration\n"
    "  version  print the version\n";

static int command_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("exechost %s\n", EXECHOST_VERSION);
    return 0;
}

static int command_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs(USAGE, stdout);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", command_serve}, {"doctor", command_doctor},   {"image", command_image},
    {"token", command_token}, {"version", command_version}, {"--version", command_version},
    {"help", command_help},   {"--help", command_help},     {"-h", command_help},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fputs(USAGE, stderr);
    return EXIT_USAGE;
}
