#include "base/id.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/options.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 16 * 1024 };

static const char USAGE[] =
    "usage: exechost cp [--archive] EXECUTION:PATH FILE\n"
    "       exechost cp [--archive] FILE EXECUTION:PATH\n\n"
    "Copies a file out of a living execution's workspace or into it; \"-\" is standard output or\n"
    "input. A file comes whole or not at all.\n\n"
    "  --archive           PATH is a directory, FILE a tar of what is in it (coming in, plain or\n"
    "                      compressed by gzip or zstd)\n" CLI_COMMON_HELP;

/* The part behind the colon of EXECUTION:PATH, which is cut there; NULL when it is a file here. */
static char *split_remote(char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL || memchr(text, '/', (size_t)(colon - text)) != NULL) {
        return NULL;
    }
    *colon = '\0';
    return id_is_valid(text) ? colon + 1 : NULL;
}

static int remote_path(const char *execution, const char *path, bool archive, char out[PATH_SIZE],
                       struct error *err)
{
    _cleanup_free_ char *escaped = cli_escape(path);
    int len = snprintf(out, PATH_SIZE, "/v1/executions/%s/%s%s%s", execution,
                       archive ? "archive" : "files/content", path[0] != '\0' ? "?path=" : "",
                       escaped == NULL ? "" : escaped);

    if (escaped == NULL || len >= PATH_SIZE) {
        return error_set(err, ERROR_INVALID_REQUEST, "the path is too long");
    }
    return 0;
}

static int write_to_file(void *ctx, const char *data, size_t len)
{
    return fwrite(data, 1, len, ctx) == len ? 0 : -1;
}

/* The file is whole where it has its name: it is written beside first. */
static int download(struct cli_client *client, const char *path, const char *file,
                    struct error *err)
{
    char partial[PATH_SIZE];
    struct progress progress;
    bool is_stdout = strcmp(file, "-") == 0;
    struct cli_request request = {
        .method = "GET", .path = path, .sink = write_to_file, .progress = &progress};
    FILE *out;
    int result;

    snprintf(partial, sizeof(partial), "%s.partial", file);
    out = is_stdout ? stdout : fopen(partial, "we");
    if (out == NULL) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "%s", partial);
    }
    progress_init(&progress, "receiving");
    request.sink_ctx = out;
    result = cli_call(client, &request, NULL, err);
    if (result == 0 && (ferror(out) != 0 || fflush(out) != 0)) {
        result = error_set_errno(err, ERROR_INTERNAL, errno, "%s", file);
    }
    if (is_stdout) {
        return result;
    }
    fclose(out);
    if (result == 0 && rename(partial, file) != 0) {
        result = error_set_errno(err, ERROR_INTERNAL, errno, "%s", file);
    }
    if (result != 0) {
        (void)unlink(partial);
    }
    return result;
}

static int upload(struct cli_client *client, const char *path, const char *file, bool archive,
                  struct error *err)
{
    struct progress progress;
    struct stat info = {0};
    bool is_stdin = strcmp(file, "-") == 0;
    _cleanup_fclose_ FILE *opened = is_stdin ? NULL : fopen(file, "re");
    FILE *in = is_stdin ? stdin : opened;
    char with_mode[PATH_SIZE + 16];
    struct cli_request request = {.method = "PUT", .path = with_mode, .progress = &progress};

    if (in == NULL || fstat(fileno(in), &info) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "%s", file);
    }
    if (S_ISDIR(info.st_mode)) {
        return error_set(err, ERROR_INVALID_REQUEST, "%s is a directory: send a tar with --archive",
                         file);
    }
    snprintf(with_mode, sizeof(with_mode), "%s", path);
    if (!archive && S_ISREG(info.st_mode)) {
        snprintf(with_mode, sizeof(with_mode), "%s&mode=%04o", path, info.st_mode & 0777);
    }
    progress_init(&progress, "sending");
    request.upload = in;
    request.upload_len = S_ISREG(info.st_mode) ? info.st_size : -1;
    return cli_call(client, &request, NULL, err);
}

static int copy(const char *server, char *from, char *to, bool archive)
{
    struct error err = ERROR_INIT;
    char path[PATH_SIZE];
    char *from_path = split_remote(from);
    char *to_path = from_path == NULL ? split_remote(to) : NULL;
    _cleanup_client_ struct cli_client *client = NULL;
    int result;

    if (from_path == NULL && to_path == NULL) {
        return cli_misused("cp", "one of both has to be EXECUTION:PATH");
    }
    if (!archive && (from_path != NULL ? from_path : to_path)[0] == '\0') {
        return cli_misused("cp", "which file of the workspace?");
    }
    client = cli_client_new(server, &err);
    if (client == NULL ||
        remote_path(from_path != NULL ? from : to, from_path != NULL ? from_path : to_path, archive,
                    path, &err) != 0) {
        return cli_fail("cp", &err);
    }
    result = from_path != NULL ? download(client, path, to, &err)
                               : upload(client, path, from, archive, &err);
    return result == 0 ? 0 : cli_fail("cp", &err);
}

int cli_cp(int argc, char **argv)
{
    static const struct option options[] = {{"archive", no_argument, NULL, 'a'},
                                            CLI_COMMON_OPTIONS};
    const char *server = NULL;
    bool archive = false;
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'a': archive = true; break;
        case 'S': server = optarg; break;
        case 'h': fputs(USAGE, stdout); return 0;
        default: return CLI_USAGE;
        }
    }
    if (argc - optind != 2) {
        return cli_misused("cp", "from where to where?");
    }
    return copy(server, argv[optind], argv[optind + 1], archive);
}
