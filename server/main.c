#include "cli/cli.h"
#include "server/commands/commands.h"

#include <string.h>

static const char USAGE[] =
    "usage: exechost COMMAND [OPTION…]\n\n"
    "  serve    run the service             exechost serve --help lists the configuration\n"
    "  doctor   check the machine and say what to fix\n"
    "  image    import or list images\n"
    "  token    make a token for the configuration\n"
    "  version  print the version\n\n"
    "of a running service (COMMAND --help says more):\n\n"
    "  run         run a command in an execution of its own\n"
    "  ps          list executions\n"
    "  logs        print or follow the output of a command\n"
    "  cp          copy files out of a workspace or into it\n"
    "  checkpoint  keep the content of a workspace\n"
    "  restore     provision an execution from a checkpoint\n"
    "  share       publish a checkpoint to the shared store\n"
    "  ptc run     run a program of a model\n";

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
    {"serve", command_serve},
    {"doctor", command_doctor},
    {"image", command_image},
    {"token", command_token},
    {"version", command_version},
    {"--version", command_version},
    {"run", cli_run},
    {"ps", cli_ps},
    {"logs", cli_logs},
    {"cp", cli_cp},
    {"checkpoint", cli_checkpoint},
    {"restore", cli_restore},
    {"share", cli_share},
    {"ptc", cli_ptc},
    {"help", command_help},
    {"--help", command_help},
    {"-h", command_help},
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
