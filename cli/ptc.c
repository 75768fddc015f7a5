#include "base/file.h"
#include "base/id.h"
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/options.h"

#include <string.h>

enum { EXIT_INTERRUPTED = 130, PATH_SIZE = 256, PROGRAM_LIMIT = 1024 * 1024, BODY_LIMIT = 8 << 20 };

static const char USAGE[] =
    "usage: exechost ptc run [OPTION…] FILE\n\n"
    "Runs a program, the body of an async function, and prints the JSON of what it returns; its\n"
    "log goes to standard error as it comes. Ends with 1 where the program failed. \"-\" is\n"
    "standard input.\n\n"
    "  --answers FILE      {\"namespace\": {\"function\": value, …}, …}: what its calls are "
    "answered;\n"
    "                      {\"$error\": \"message\"} makes a call throw\n"
    "  --command COMMAND   answers all other calls: run by /bin/sh with namespace and function as "
    "$1\n"
    "                      and $2 and the argument's JSON on standard input; what it prints is "
    "the\n"
    "                      value (nothing: undefined), a failure throws what it says on standard "
    "error\n"
    "  --function NS.NAME  a function that the command answers; may be given several times\n"
    "  --timeout TIME      like 30s\n" CLI_COMMON_HELP;

struct run {
    struct cli_client *client; /* for answers, while the other one streams */
    const struct cli_answers *answers;
    char path[PATH_SIZE];
    bool failed;
};

/* The members of an event that matter; each empty where it is not there. */
struct event {
    struct ptc_text call_id;
    struct ptc_text global;
    struct ptc_text function;
    struct ptc_text argument;
    struct ptc_text text;
    struct ptc_text result;
    struct ptc_text value;
    struct ptc_text error;
    struct ptc_text kind;
    struct ptc_text message;
};

static int take_member(void *ctx, struct ptc_text key, struct ptc_text value)
{
    struct event *event = ctx;
    const struct {
        const char *name;
        struct ptc_text *place;
    } known[] = {
        {"\"callId\"", &event->call_id},    {"\"global\"", &event->global},
        {"\"function\"", &event->function}, {"\"argument\"", &event->argument},
        {"\"text\"", &event->text},         {"\"result\"", &event->result},
        {"\"value\"", &event->value},       {"\"error\"", &event->error},
        {"\"kind\"", &event->kind},         {"\"message\"", &event->message},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (strlen(known[i].name) == key.len && memcmp(known[i].name, key.data, key.len) == 0) {
            *known[i].place = value;
        }
    }
    return 0;
}

static int take_members(struct event *event, struct ptc_text object)
{
    return object.len == 0 ? 0 : ptc_json_members(object.data, object.len, take_member, event);
}

/* A JSON string for people; what has no UTF-8 stays as it is written. */
static void print_string(FILE *out, struct ptc_text text)
{
    json_t *value = json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    if (json_is_string(value)) {
        fwrite(json_string_value(value), 1, json_string_length(value), out);
    } else {
        fwrite(text.data, 1, text.len, out);
    }
    json_decref(value);
}

static int answer(const struct run *run, const struct event *event, struct error *err)
{
    _cleanup_buf_ struct buf body;
    char path[PATH_SIZE * 2];
    struct cli_request request = {.method = "POST", .path = path};

    buf_init(&body, CLI_ANSWER_MAX);
    snprintf(path, sizeof(path), "%s/calls/%.*s", run->path, (int)event->call_id.len,
             event->call_id.data);
    if (cli_answers_find(run->answers, event->global, event->function, event->argument, &body,
                         err) != 0) {
        return -1;
    }
    request.json = buf_str(&body);
    if (cli_call_safely(run->client, &request, NULL, err) != 0 &&
        err->code != ERROR_PTC_CALL_SETTLED && err->code != ERROR_PTC_RUN_SETTLED) {
        return -1;
    }
    return 0;
}

static void print_result(struct run *run, const struct event *event)
{
    if (event->error.len == 0) {
        printf("%.*s\n", (int)event->value.len, event->value.data);
        return;
    }
    run->failed = true;
    fputs("exechost: ptc: ", stderr);
    print_string(stderr, event->kind);
    fputs(": ", stderr);
    print_string(stderr, event->message);
    fputc('\n', stderr);
}

static int on_event(void *ctx, const char *type, const char *line, size_t len, struct error *err)
{
    _cleanup_buf_ struct buf text;
    struct run *run = ctx;
    struct event event = {.value = {.data = ""}};

    buf_init(&text, CLI_ANSWER_MAX);
    if (ptc_json_write(line, len, &text, err) != 0) {
        return -1;
    }
    if (take_members(&event, (struct ptc_text){.data = text.data, .len = text.len}) != 0) {
        return error_set(err, ERROR_INTERNAL, "an event is no JSON object");
    }
    if (strcmp(type, "log") == 0) {
        print_string(stderr, event.text);
        fputc('\n', stderr);
    } else if (strcmp(type, "call") == 0) {
        return answer(run, &event, err);
    } else if (strcmp(type, "result") == 0) {
        struct ptc_text result = event.result;

        if (take_members(&event, result) != 0 || take_members(&event, event.error) != 0) {
            return error_set(err, ERROR_INTERNAL, "a result is no JSON object");
        }
        print_result(run, &event);
    }
    return 0;
}

/* --- the request --- */

struct wish {
    const char *server;
    const char *answers;
    const char *command;
    const char *file;
    const char *functions[256];
    size_t function_count;
    int64_t timeout; /* 0: the service's default */
};

static int build_body(const struct wish *wish, const struct cli_answers *answers,
                      const char *run_id, struct buf *out, struct error *err)
{
    _cleanup_buf_ struct buf program;
    struct ptc_text name = {.data = wish->file, .len = strlen(wish->file)};

    buf_init(&program, PROGRAM_LIMIT);
    if (file_read(strcmp(wish->file, "-") == 0 ? "/dev/stdin" : wish->file, &program, err) != 0) {
        return -1;
    }
    if (buf_addf(out, "{\"runId\":\"%s\",\"description\":", run_id) != 0 ||
        ptc_json_quote(name, out) != 0 || buf_add_str(out, ",\"program\":") != 0 ||
        ptc_json_quote((struct ptc_text){.data = buf_str(&program), .len = program.len}, out) !=
            0 ||
        (wish->timeout > 0 &&
         buf_addf(out, ",\"timeoutMs\":%lld", (long long)wish->timeout) != 0) ||
        buf_add_str(out, ",\"bindings\":") != 0) {
        return error_set(err, ERROR_INVALID_REQUEST, "the program is too long");
    }
    if (cli_answers_bindings(answers, out, err) != 0) {
        return -1;
    }
    return buf_add_char(out, '}') == 0 ? 0 : error_set(err, ERROR_INTERNAL, "no memory");
}

/* Whatever went wrong here, nobody answers its calls any more. */
static void abort_run(struct run *run)
{
    char path[PATH_SIZE * 2];
    struct cli_request request = {.method = "DELETE", .path = path};
    struct error err = ERROR_INIT;

    cli_interrupt_forget();
    snprintf(path, sizeof(path), "%s?reason=interrupted", run->path);
    (void)(cli_call_safely(run->client, &request, NULL, &err) == 0);
}

static int run_program(const struct wish *wish, struct cli_answers *answers,
                       struct cli_client *client, struct cli_client *second)
{
    _cleanup_buf_ struct buf body;
    struct error err = ERROR_INIT;
    struct run run = {.client = second, .answers = answers};
    char id[ID_SIZE];
    char events[PATH_SIZE + 16];
    struct cli_stream stream = {.post_path = "/v1/ptc/runs",
                                .events_path = events,
                                .last = "result",
                                .on_event = on_event,
                                .ctx = &run};
    bool interrupted;

    buf_init(&body, BODY_LIMIT);
    id_generate("run", id);
    snprintf(run.path, sizeof(run.path), "/v1/ptc/runs/%s", id);
    snprintf(events, sizeof(events), "%s/events", run.path);
    for (size_t i = 0; i < wish->function_count; i++) {
        if (cli_answers_declare(answers, wish->functions[i], &err) != 0) {
            return cli_fail("ptc", &err);
        }
    }
    if (build_body(wish, answers, id, &body, &err) != 0) {
        return cli_fail("ptc", &err);
    }
    stream.post_json = buf_str(&body);
    cli_interrupt_watch();
    if (cli_follow(client, &stream, &err) == 0) {
        return run.failed ? CLI_FAULT : 0;
    }
    interrupted = cli_interrupted();
    if (cli_client_has_answered(client) || interrupted) {
        abort_run(&run);
    }
    (void)cli_fail("ptc", &err);
    return interrupted ? EXIT_INTERRUPTED : CLI_FAULT;
}

static int start(const struct wish *wish)
{
    struct error err = ERROR_INIT;
    _cleanup_client_ struct cli_client *client = cli_client_new(wish->server, &err);
    _cleanup_client_ struct cli_client *second = cli_client_new(wish->server, &err);
    struct cli_answers *answers;
    int status;

    if (client == NULL || second == NULL) {
        return cli_fail("ptc", &err);
    }
    answers = cli_answers_new(wish->answers, wish->command, &err);
    if (answers == NULL) {
        return cli_fail("ptc", &err);
    }
    status = run_program(wish, answers, client, second);
    cli_answers_free(answers);
    return status;
}

int cli_ptc(int argc, char **argv)
{
    static const struct option options[] = {{"answers", required_argument, NULL, 'a'},
                                            {"command", required_argument, NULL, 'c'},
                                            {"function", required_argument, NULL, 'f'},
                                            {"timeout", required_argument, NULL, 't'},
                                            CLI_COMMON_OPTIONS};
    struct wish wish = {0};
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'S': wish.server = optarg; break;
        case 'a': wish.answers = optarg; break;
        case 'c': wish.command = optarg; break;
        case 'f':
            if (wish.function_count == ARRAY_SIZE(wish.functions)) {
                return cli_misused("ptc", "too many functions");
            }
            wish.functions[wish.function_count++] = optarg;
            break;
        case 't':
            if (cli_parse_duration(optarg, &wish.timeout) != 0 || wish.timeout == 0) {
                return cli_misused("ptc", "%s is no time", optarg);
            }
            break;
        case 'h': fputs(USAGE, stdout); return 0;
        default: return CLI_USAGE;
        }
    }
    if (argc - optind != 2 || strcmp(argv[optind], "run") != 0) {
        return cli_misused("ptc", "which program is to be run?");
    }
    wish.file = argv[optind + 1];
    return start(&wish);
}
