#include "base/id.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"

#include <string.h>

enum { EXIT_INTERRUPTED = 130, PATH_SIZE = 512, ENVIRONMENT_MAX = 256 };

static const char USAGE[] =
    "usage: exechost run [OPTION…] [--] COMMAND [ARGUMENT…]\n\n"
    "Provisions an execution, runs the command in it with its output as it comes, terminates the\n"
    "execution, and ends with the command's exit status (128 and its number after a signal; 125\n"
    "where a limit ended it). Ctrl-C destroys the execution.\n\n"
    "  --image REFERENCE   NAME@sha256:…; may be left out where the host has one image alone\n"
    "  --host HOST         docker or native\n"
    "  --cpus N            1; fractions are allowed\n"
    "  --memory SIZE       256M, without swap\n"
    "  --disk SIZE         64M, of the workspace\n"
    "  --pids N            128\n"
    "  --output SIZE       16M, of standard output and standard error together\n"
    "  --timeout TIME      1h, like 500ms, 30s, 10m\n"
    "  --env NAME=VALUE    may be given several times\n"
    "  --cwd DIRECTORY     below the workspace\n"
    "  --name ID           of the execution\n"
    "  -i, --interactive   pass standard input on\n"
    "  --keep              leave the execution there, and say its id\n" CLI_COMMON_HELP;

struct wish {
    const char *server;
    const char *image;
    const char *host;
    const char *cwd;
    const char *name;
    double cpus;
    int64_t memory;
    int64_t disk;
    int64_t pids;
    int64_t output;
    int64_t timeout;
    json_t *environment;
    bool interactive;
    bool keep;
    char **argv;
    int argc;
};

/* --- the command line --- */

static int take_environment(struct wish *wish, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[ENVIRONMENT_MAX];

    if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof(name)) {
        return -1;
    }
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    return json_object_set_new(wish->environment, name, json_string(equals + 1));
}

/* 0, or -1 when the value is none for this option. */
static int take_option(struct wish *wish, int option, const char *value)
{
    switch (option) {
    case 'S': wish->server = value; return 0;
    case 'm': return cli_parse_size(value, &wish->memory);
    case 'd': return cli_parse_size(value, &wish->disk);
    case 'o': return cli_parse_size(value, &wish->output);
    case 't': return cli_parse_duration(value, &wish->timeout);
    case 'p': return cli_parse_count(value, &wish->pids);
    case 'c': return cli_parse_cpus(value, &wish->cpus);
    case 'e': return take_environment(wish, value);
    case 'I': wish->image = value; return 0;
    case 'H': wish->host = value; return 0;
    case 'w': wish->cwd = value; return 0;
    case 'n': wish->name = value; return 0;
    case 'i': wish->interactive = true; return 0;
    default: wish->keep = true; return 0;
    }
}

/* 0: go on; else the exit status and one. */
static int parse(int argc, char **argv, struct wish *wish)
{
    static const struct option options[] = {
        {"image", required_argument, NULL, 'I'},  {"host", required_argument, NULL, 'H'},
        {"cpus", required_argument, NULL, 'c'},   {"memory", required_argument, NULL, 'm'},
        {"disk", required_argument, NULL, 'd'},   {"pids", required_argument, NULL, 'p'},
        {"output", required_argument, NULL, 'o'}, {"timeout", required_argument, NULL, 't'},
        {"env", required_argument, NULL, 'e'},    {"cwd", required_argument, NULL, 'w'},
        {"name", required_argument, NULL, 'n'},   {"interactive", no_argument, NULL, 'i'},
        {"keep", no_argument, NULL, 'k'},         CLI_COMMON_OPTIONS};
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "+hi", options, NULL)) != -1) {
        if (option == '?') {
            return CLI_USAGE + 1;
        }
        if (option == 'h') {
            fputs(USAGE, stdout);
            return 1;
        }
        if (take_option(wish, option, optarg) != 0) {
            return cli_misused("run", "%s is no value for that option", optarg) + 1;
        }
    }
    wish->argc = argc - optind;
    wish->argv = argv + optind;
    return wish->argc > 0 ? 0 : cli_misused("run", "which command?") + 1;
}

/* --- what goes over --- */

/* The only image there is; returns owned. */
static char *only_image(struct cli_client *client, const char *host, struct error *err)
{
    struct cli_request request = {.method = "GET", .path = "/v1/images"};
    json_t *answer = NULL;
    const json_t *item;
    const char *found = NULL;
    char *copy = NULL;
    size_t count = 0;
    size_t i;

    if (cli_call_json(client, &request, &answer, err) != 0) {
        return NULL;
    }
    json_array_foreach(json_object_get(answer, "items"), i, item)
    {
        const char *on = json_string_value(json_object_get(item, "host"));

        if (host == NULL || (on != NULL && strcmp(on, host) == 0)) {
            found = json_string_value(json_object_get(item, "reference"));
            count++;
        }
    }
    if (count == 1 && found != NULL) {
        copy = strdup(found);
    } else {
        error_set(err, ERROR_INVALID_REQUEST, "there are %zu images: name one by --image", count);
    }
    json_decref(answer);
    return copy;
}

static int provision(struct cli_client *client, const struct wish *wish, const char *id,
                     struct error *err)
{
    _cleanup_free_ char *found = wish->image == NULL ? only_image(client, wish->host, err) : NULL;
    const char *image = wish->image != NULL ? wish->image : found;
    _cleanup_free_ char *text = NULL;
    char key[ID_SIZE];
    json_t *body;
    struct cli_request request = {.method = "POST", .path = "/v1/executions", .key = key};

    if (image == NULL) {
        return -1;
    }
    id_generate("key", key);
    body = json_pack(
        "{s:s, s:s, s:s*, s:{s:s}, s:{s:f, s:I, s:I, s:I, s:I, s:I}, s:{s:s}, s:O}", "executionId",
        id, "image", image, "host", wish->host, "workspace", "kind", "empty", "resources", "cpus",
        wish->cpus, "memoryBytes", (json_int_t)wish->memory, "diskBytes", (json_int_t)wish->disk,
        "pids", (json_int_t)wish->pids, "runtimeMs", (json_int_t)wish->timeout, "maxOutputBytes",
        (json_int_t)wish->output, "network", "mode", "none", "environment", wish->environment);
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (text == NULL) {
        return error_set(err, ERROR_INVALID_REQUEST, "an argument is not UTF-8");
    }
    request.json = text;
    return cli_call_safely(client, &request, NULL, err);
}

/* Returns owned text, NULL when an argument is not UTF-8. */
static char *command_body(const struct wish *wish, const char *command_id)
{
    json_t *args = json_array();
    json_t *body;
    char *text = NULL;
    int failed = 0;

    for (int i = 1; i < wish->argc; i++) {
        failed |= json_array_append_new(args, json_string(wish->argv[i]));
    }
    body =
        json_pack("{s:s, s:s, s:s*, s:o, s:b}", "commandId", command_id, "command", wish->argv[0],
                  "cwd", wish->cwd, "args", args, "stdinOpen", wish->interactive ? 1 : 0);
    if (failed == 0 && body != NULL) {
        text = json_dumps(body, JSON_COMPACT);
    }
    json_decref(body);
    return text;
}

static int terminate(struct cli_client *client, const char *path)
{
    struct error err = ERROR_INIT;
    struct cli_request request = {.method = "DELETE", .path = path};

    return cli_call_safely(client, &request, NULL, &err) == 0 ? 0 : cli_fail("run", &err);
}

/* --- the run --- */

static int execute(struct cli_client *client, const struct wish *wish, const char *execution_path,
                   struct cli_output *output, struct error *err)
{
    char command_id[ID_SIZE];
    char commands[PATH_SIZE + 16];
    char command[PATH_SIZE * 2];
    char events[PATH_SIZE * 2 + 32];
    _cleanup_free_ char *body = NULL;
    struct cli_input *input = NULL;
    struct cli_stream stream = {.post_path = commands,
                                .events_path = events,
                                .last = "exit",
                                .on_event = cli_output_event,
                                .ctx = output};
    int result;

    id_generate("cmd", command_id);
    snprintf(commands, sizeof(commands), "%s/commands", execution_path);
    snprintf(command, sizeof(command), "%s/%s", commands, command_id);
    snprintf(events, sizeof(events), "%s/events", command);
    body = command_body(wish, command_id);
    if (body == NULL) {
        return error_set(err, ERROR_INVALID_REQUEST, "an argument is not UTF-8");
    }
    stream.post_json = body;
    if (wish->interactive) {
        input = cli_input_start(wish->server, command, err);
        if (input == NULL) {
            return -1;
        }
    }
    result = cli_follow(client, &stream, err);
    cli_input_stop(input);
    return result;
}

/* What is said of an end that is not the program's own. */
static int told(const struct cli_output *output)
{
    if (strcmp(output->reason, "exited") != 0 && strcmp(output->reason, "signaled") != 0) {
        fprintf(stderr, "exechost: run: %s%s%s\n", output->reason,
                output->detail[0] != '\0' ? ": " : "", output->detail);
    }
    return output->exit_code;
}

static int run(struct cli_client *client, const struct wish *wish)
{
    struct error err = ERROR_INIT;
    struct cli_output output = {0};
    char id[ID_SIZE];
    char path[PATH_SIZE];
    bool provisioned;
    int status;

    id_generate("exec", id);
    if (wish->name != NULL) {
        if (!id_is_valid(wish->name)) {
            return cli_misused("run", "%s is no id", wish->name);
        }
        snprintf(id, sizeof(id), "%s", wish->name);
    }
    snprintf(path, sizeof(path), "/v1/executions/%s", id);
    cli_interrupt_watch();
    provisioned = provision(client, wish, id, &err) == 0;
    if (!provisioned || execute(client, wish, path, &output, &err) != 0) {
        status = cli_fail("run", &err);
    } else {
        status = told(&output);
    }
    if (cli_interrupted()) {
        cli_interrupt_forget();
        status = EXIT_INTERRUPTED;
    } else if (err.code == ERROR_ALREADY_EXISTS || !cli_client_has_answered(client)) {
        return status; /* somebody else's, or nobody's */
    } else if (wish->keep && provisioned) {
        fprintf(stderr, "exechost: run: kept as %s\n", id);
        return status;
    }
    return terminate(client, path) == 0 || status != 0 ? status : CLI_FAULT;
}

int cli_run(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct wish wish = {.cpus = 1,
                        .memory = INT64_C(256) << 20,
                        .disk = INT64_C(64) << 20,
                        .pids = 128,
                        .output = INT64_C(16) << 20,
                        .timeout = 3600000,
                        .environment = json_object()};
    int status = parse(argc, argv, &wish);

    if (status == 0) {
        _cleanup_client_ struct cli_client *client = cli_client_new(wish.server, &err);

        status = (client == NULL ? cli_fail("run", &err) : run(client, &wish)) + 1;
    }
    json_decref(wish.environment);
    return status - 1;
}
