#include "base/id.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/options.h"

#include <string.h>
#include <time.h>

enum { PATH_SIZE = 1024, LOOK_MS = 200 };

static const char CHECKPOINT_USAGE[] =
    "usage: exechost checkpoint [--name ID] [--share] EXECUTION\n\n"
    "Keeps the content of an execution's workspace and prints the checkpoint's id; with --share\n"
    "publishes it too, as `exechost share` does.\n" CLI_COMMON_HELP;

static const char RESTORE_USAGE[] =
    "usage: exechost restore [--name ID] [--host HOST] CHECKPOINT\n\n"
    "Provisions an execution from a checkpoint and prints its id.\n" CLI_COMMON_HELP;

static const char SHARE_USAGE[] =
    "usage: exechost share CHECKPOINT\n\n"
    "Publishes a checkpoint to the shared store; when it is durable there prints the reference\n"
    "that other services can import: its URI and its digest.\n" CLI_COMMON_HELP;

struct wish {
    const char *verb;
    const char *usage;
    const char *server;
    const char *name;
    const char *host;
    bool share;
    const char *about;
};

/* 0: go on; else the exit status and one. */
static int parse(int argc, char **argv, const struct option *options, struct wish *wish)
{
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'S': wish->server = optarg; break;
        case 'n': wish->name = optarg; break;
        case 'H': wish->host = optarg; break;
        case 's': wish->share = true; break;
        case 'h': fputs(wish->usage, stdout); return 1;
        default: return CLI_USAGE + 1;
        }
    }
    if (argc - optind != 1) {
        return cli_misused(wish->verb, "of what?") + 1;
    }
    wish->about = argv[optind];
    return 0;
}

/* POST of `body` (taken) to PREFIX/ABOUT/SUFFIX. Returns owned. */
static json_t *post(struct cli_client *client, const struct wish *wish, const char *prefix,
                    const char *suffix, json_t *body, struct error *err)
{
    _cleanup_free_ char *about = cli_escape(wish->about);
    _cleanup_free_ char *text = json_dumps(body, JSON_COMPACT);
    char path[PATH_SIZE];
    char key[ID_SIZE];
    struct cli_request request = {.method = "POST", .path = path, .json = text, .key = key};
    json_t *answer = NULL;

    json_decref(body);
    id_generate("key", key);
    if (about == NULL ||
        snprintf(path, sizeof(path), "%s/%s/%s", prefix, about, suffix) >= (int)sizeof(path)) {
        error_set(err, ERROR_INVALID_REQUEST, "%s is no id", wish->about);
        return NULL;
    }
    return cli_call_json(client, &request, &answer, err) == 0 ? answer : NULL;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

/* --- share --- */

/* True when there is nothing more to wait for; prints the reference. */
static bool share_has_ended(const json_t *checkpoint, struct progress *progress, int *result,
                            struct error *err)
{
    const json_t *shared = json_object_get(checkpoint, "shared");
    const char *durability = text_at(checkpoint, "durability");

    if (strcmp(durability, "durable") == 0) {
        progress_end(progress);
        printf("%s %s\n", text_at(shared, "uri"), text_at(shared, "digest"));
        *result = 0;
        return true;
    }
    if (strcmp(durability, "uploading") != 0) {
        progress_end(progress);
        *result = error_set(err, ERROR_UPLOAD_FAILED, "%s",
                            text_at(shared, "error")[0] != '\0' ? text_at(shared, "error")
                                                                : "it was not published");
        return true;
    }
    progress_show(progress, json_integer_value(json_object_get(shared, "bytesSent")),
                  json_integer_value(json_object_get(shared, "bytesTotal")));
    return false;
}

static int share(struct cli_client *client, const char *id, struct error *err)
{
    const struct wish wish = {.about = id};
    json_t *checkpoint =
        post(client, &wish, "/v1/checkpoints", "share?wait=false", json_object(), err);
    char path[PATH_SIZE];
    struct cli_request request = {.method = "GET", .path = path};
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    struct progress progress;
    int result = -1;

    snprintf(path, sizeof(path), "/v1/checkpoints/%s", text_at(checkpoint, "checkpointId"));
    progress_init(&progress, "publishing");
    while (checkpoint != NULL && !share_has_ended(checkpoint, &progress, &result, err)) {
        nanosleep(&pause, NULL);
        json_decref(checkpoint);
        checkpoint = NULL;
        result = cli_call_json(client, &request, &checkpoint, err);
    }
    json_decref(checkpoint);
    return result;
}

int cli_share(int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS};
    struct error err = ERROR_INIT;
    struct wish wish = {.verb = "share", .usage = SHARE_USAGE};
    int status = parse(argc, argv, options, &wish);
    _cleanup_client_ struct cli_client *client = NULL;

    if (status != 0) {
        return status - 1;
    }
    client = cli_client_new(wish.server, &err);
    if (client == NULL || share(client, wish.about, &err) != 0) {
        return cli_fail("share", &err);
    }
    return 0;
}

/* --- checkpoint --- */

static int checkpoint(struct cli_client *client, const struct wish *wish, struct error *err)
{
    json_t *made = post(client, wish, "/v1/executions", "checkpoints",
                        json_pack("{s:s*}", "checkpointId", wish->name), err);
    char id[ID_SIZE];

    if (made == NULL) {
        return -1;
    }
    snprintf(id, sizeof(id), "%s", text_at(made, "checkpointId"));
    json_decref(made);
    printf("%s\n", id);
    if (!wish->share) {
        return 0;
    }
    fflush(stdout);
    return share(client, id, err);
}

int cli_checkpoint(int argc, char **argv)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"share", no_argument, NULL, 's'},
                                            CLI_COMMON_OPTIONS};
    struct error err = ERROR_INIT;
    struct wish wish = {.verb = "checkpoint", .usage = CHECKPOINT_USAGE};
    int status = parse(argc, argv, options, &wish);
    _cleanup_client_ struct cli_client *client = NULL;

    if (status != 0) {
        return status - 1;
    }
    client = cli_client_new(wish.server, &err);
    if (client == NULL || checkpoint(client, &wish, &err) != 0) {
        return cli_fail("checkpoint", &err);
    }
    return 0;
}

/* --- restore --- */

int cli_restore(int argc, char **argv)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"host", required_argument, NULL, 'H'},
                                            CLI_COMMON_OPTIONS};
    struct error err = ERROR_INIT;
    struct wish wish = {.verb = "restore", .usage = RESTORE_USAGE};
    int status = parse(argc, argv, options, &wish);
    _cleanup_client_ struct cli_client *client = NULL;
    json_t *made = NULL;

    if (status != 0) {
        return status - 1;
    }
    client = cli_client_new(wish.server, &err);
    if (client != NULL) {
        made = post(client, &wish, "/v1/checkpoints", "restore",
                    json_pack("{s:s*, s:s*}", "executionId", wish.name, "host", wish.host), &err);
    }
    if (made == NULL) {
        return cli_fail("restore", &err);
    }
    printf("%s\n", text_at(made, "executionId"));
    json_decref(made);
    return 0;
}
