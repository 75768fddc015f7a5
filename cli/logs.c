#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"

#include <string.h>

enum { PATH_SIZE = 1024 };

static const char USAGE[] =
    "usage: exechost logs [-f] EXECUTION [COMMAND]\n\n"
    "Prints what a command has written, on standard output and standard error; without COMMAND\n"
    "that of the newest command. Also long after the execution has ended.\n\n"
    "  -f, --follow        go on until the command has ended\n" CLI_COMMON_HELP;

/* The id of the newest command, escaped; returns owned. */
static char *newest_command(struct cli_client *client, const char *execution, struct error *err)
{
    char path[PATH_SIZE];
    struct cli_request request = {.method = "GET", .path = path};
    json_t *page = NULL;
    const char *id;
    char *escaped;

    snprintf(path, sizeof(path), "/v1/executions/%s/commands?limit=1", execution);
    if (cli_call_json(client, &request, &page, err) != 0) {
        return NULL;
    }
    id = json_string_value(
        json_object_get(json_array_get(json_object_get(page, "items"), 0), "commandId"));
    escaped = id == NULL ? NULL : cli_escape(id);
    if (escaped == NULL) {
        error_set(err, ERROR_COMMAND_NOT_FOUND, "there was no command in it");
    }
    json_decref(page);
    return escaped;
}

static int show(const char *server, const char *execution_id, const char *command_id, bool follow)
{
    struct error err = ERROR_INIT;
    struct cli_output output = {0};
    char events[PATH_SIZE];
    struct cli_stream stream = {.events_path = events,
                                .last = "exit",
                                .present = !follow,
                                .on_event = cli_output_event,
                                .ctx = &output};
    _cleanup_client_ struct cli_client *client = cli_client_new(server, &err);
    _cleanup_free_ char *execution = cli_escape(execution_id);
    _cleanup_free_ char *command = NULL;

    if (client == NULL || execution == NULL) {
        return cli_fail("logs", &err);
    }
    command = command_id != NULL ? cli_escape(command_id) : newest_command(client, execution, &err);
    if (command == NULL) {
        return cli_fail("logs", &err);
    }
    snprintf(events, sizeof(events), "/v1/executions/%s/commands/%s/events", execution, command);
    return cli_follow(client, &stream, &err) == 0 ? 0 : cli_fail("logs", &err);
}

int cli_logs(int argc, char **argv)
{
    static const struct option options[] = {{"follow", no_argument, NULL, 'f'}, CLI_COMMON_OPTIONS};
    const char *server = NULL;
    bool follow = false;
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "fh", options, NULL)) != -1) {
        switch (option) {
        case 'f': follow = true; break;
        case 'S': server = optarg; break;
        case 'h': fputs(USAGE, stdout); return 0;
        default: return CLI_USAGE;
        }
    }
    if (argc - optind < 1 || argc - optind > 2) {
        return cli_misused("logs", "of which execution?");
    }
    return show(server, argv[optind], argc - optind == 2 ? argv[optind + 1] : NULL, follow);
}
