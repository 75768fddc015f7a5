#include "cli/cli.h"
#include "cli/client.h"
#include "cli/options.h"

#include <string.h>

enum { PATH_SIZE = 1024 };

static const char USAGE[] = "usage: exechost ps [-a]\n\n"
                            "Lists executions, newest first.\n\n"
                            "  -a, --all           ended ones too\n" CLI_COMMON_HELP;

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "-" : text;
}

/* "2026-11-29T15:00:00.000Z" as "2026-11-29 15:00:00". */
static const char *time_text(const char *stamp, char out[32])
{
    snprintf(out, 32, "%.10s%s%.8s", stamp, strlen(stamp) > 19 ? " " : "",
             strlen(stamp) > 19 ? stamp + 11 : "");
    return out;
}

static void print_execution(const json_t *item)
{
    const json_t *resources = json_object_get(item, "resources");
    const json_t *termination = json_object_get(item, "termination");
    const char *image = text_at(item, "image");
    char memory[PROGRESS_SIZE_TEXT];
    char expires[32];

    progress_size_text(json_integer_value(json_object_get(resources, "memoryBytes")), memory);
    printf("%-34s %-13s %-7s %-16.*s %5g %10s  %s\n", text_at(item, "executionId"),
           text_at(json_is_object(termination) ? termination : item,
                   json_is_object(termination) ? "reason" : "state"),
           text_at(item, "host"), (int)strcspn(image, "@"), image,
           json_number_value(json_object_get(resources, "cpus")), memory,
           time_text(text_at(item, "expiresAt"), expires));
}

static int is_wanted(const json_t *item, int all)
{
    const char *state = text_at(item, "state");

    return all || strcmp(state, "provisioned") == 0 || strcmp(state, "provisioning") == 0 ||
           strcmp(state, "terminating") == 0;
}

/* Prints a page; `cursor` is that of the next one then, "" at the end. */
static int print_page(struct cli_client *client, int all, char cursor[PATH_SIZE], struct error *err)
{
    char path[PATH_SIZE + 64];
    struct cli_request request = {.method = "GET", .path = path};
    json_t *page = NULL;
    const json_t *item;
    const char *next;
    size_t i;

    snprintf(path, sizeof(path), "/v1/executions?limit=200%s%s",
             cursor[0] != '\0' ? "&cursor=" : "", cursor);
    if (cli_call_json(client, &request, &page, err) != 0) {
        return -1;
    }
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        if (is_wanted(item, all)) {
            print_execution(item);
        }
    }
    next = json_string_value(json_object_get(page, "nextCursor"));
    snprintf(cursor, PATH_SIZE, "%s", next == NULL ? "" : next);
    json_decref(page);
    return 0;
}

static int print_all(const char *server, int all)
{
    struct error err = ERROR_INIT;
    _cleanup_client_ struct cli_client *client = cli_client_new(server, &err);
    char cursor[PATH_SIZE] = "";

    if (client == NULL) {
        return cli_fail("ps", &err);
    }
    printf("%-34s %-13s %-7s %-16s %5s %10s  %s\n", "EXECUTION", "STATE", "HOST", "IMAGE", "CPUS",
           "MEMORY", "EXPIRES (UTC)");
    do {
        if (print_page(client, all, cursor, &err) != 0) {
            return cli_fail("ps", &err);
        }
    } while (cursor[0] != '\0');
    return 0;
}

int cli_ps(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'}, CLI_COMMON_OPTIONS};
    const char *server = NULL;
    int all = 0;
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "ah", options, NULL)) != -1) {
        switch (option) {
        case 'a': all = 1; break;
        case 'S': server = optarg; break;
        case 'h': fputs(USAGE, stdout); return 0;
        default: return CLI_USAGE;
        }
    }
    if (optind != argc) {
        return cli_misused("ps", "%s is one too many", argv[optind]);
    }
    return print_all(server, all);
}
