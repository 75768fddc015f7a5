#include "base/id.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/options.h"

#include <string.h>

enum { PATH_SIZE = 1024 };

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
    if ((wish->name != NULL && !id_is_valid(wish->name)) ||
        (wish->host != NULL && !id_is_valid(wish->host))) {
        return cli_misused(wish->verb, "that is no name") + 1;
    }
    wish->about = argv[optind];
    return 0;
}

/* POST of `body` (taken; NULL: none) to PREFIX/ABOUT/SUFFIX. Returns owned. */
static json_t *post(struct cli_client *client, const struct wish *wish, const char *prefix,
                    const char *suffix, json_t *body, struct error *err)
{
    _cleanup_free_ char *about = cli_escape(wish->about);
    _cleanup_free_ char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
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

/* How far it has come, looked at beside the request that waits for its end. */
struct watch {
    struct cli_client *client;
    struct progress progress;
    char path[PATH_SIZE];
};

static void look(void *ctx)
{
    struct watch *watch = ctx;
    struct cli_request request = {.method = "GET", .path = watch->path};
    struct error err = ERROR_INIT;
    json_t *checkpoint = NULL;
    const json_t *shared;

    if (!progress_is_due(&watch->progress) ||
        cli_call_json(watch->client, &request, &checkpoint, &err) != 0) {
        return;
    }
    shared = json_object_get(checkpoint, "shared");
    progress_show(&watch->progress, json_integer_value(json_object_get(shared, "bytesSent")),
                  json_integer_value(json_object_get(shared, "bytesTotal")));
    json_decref(checkpoint);
}

static int share(struct cli_client *client, const char *server, const char *about,
                 struct error *err)
{
    _cleanup_client_ struct cli_client *second = cli_client_new(server, err);
    _cleanup_free_ char *id = cli_escape(about);
    struct watch watch = {.client = second};
    char path[PATH_SIZE];
    char key[ID_SIZE];
    struct cli_request request = {
        .method = "POST", .path = path, .key = key, .tick = look, .tick_ctx = &watch};
    json_t *checkpoint = NULL;
    const json_t *shared;
    int result;

    if (second == NULL || id == NULL || strlen(id) > ID_SIZE * 3) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s is no id", about);
    }
    id_generate("key", key);
    snprintf(watch.path, sizeof(watch.path), "/v1/checkpoints/%s", id);
    snprintf(path, sizeof(path), "/v1/checkpoints/%s/share", id);
    progress_init(&watch.progress, "publishing");
    result = cli_call_json(client, &request, &checkpoint, err);
    progress_end(&watch.progress);
    if (result == 0) {
        shared = json_object_get(checkpoint, "shared");
        printf("%s %s\n", text_at(shared, "uri"), text_at(shared, "digest"));
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
    if (client == NULL || share(client, wish.server, wish.about, &err) != 0) {
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
    return share(client, wish->server, id, err);
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
