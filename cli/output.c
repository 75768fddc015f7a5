#include "cli/output.h"

#include "api/base64.h"
#include "base/file.h"

#include <signal.h>
#include <string.h>

/* What a shell says of a command that a signal ended. */
enum { EXIT_SIGNAL = 128, EXIT_LOST = 125 };

static int signal_number(const char *name)
{
    for (int i = 1; name != NULL && i < NSIG; i++) {
        const char *known = sigabbrev_np(i);

        if (known != NULL && strncmp(name, "SIG", 3) == 0 && strcmp(name + 3, known) == 0) {
            return i;
        }
    }
    return 0;
}

static int write_piece(int fd, const json_t *event, struct error *err)
{
    const json_t *data = json_object_get(event, "data");
    const char *encoded = json_string_value(json_object_get(event, "dataBase64"));
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;

    if (data != NULL) {
        return file_write_all(fd, json_string_value(data), json_string_length(data), err);
    }
    if (encoded == NULL || base64_decode(encoded, strlen(encoded), &bytes, &len) != 0) {
        return error_set(err, ERROR_INTERNAL, "an event of output has no data");
    }
    return file_write_all(fd, bytes, len, err);
}

static void take_exit(struct cli_output *output, const json_t *event)
{
    const json_t *command = json_object_get(event, "command");
    const json_t *termination = json_object_get(command, "termination");
    const json_t *code = json_object_get(command, "exitCode");
    const char *reason = json_string_value(json_object_get(termination, "reason"));
    const char *detail = json_string_value(json_object_get(termination, "detail"));
    const char *name = json_string_value(json_object_get(command, "signal"));

    output->ended = true;
    snprintf(output->reason, sizeof(output->reason), "%s", reason == NULL ? "unknown" : reason);
    snprintf(output->detail, sizeof(output->detail), "%s", detail == NULL ? "" : detail);
    if (json_is_integer(code)) {
        output->exit_code = (int)json_integer_value(code);
    } else if (signal_number(name) != 0) {
        output->exit_code = EXIT_SIGNAL + signal_number(name);
    } else {
        output->exit_code = EXIT_LOST;
    }
}

int cli_output_event(void *ctx, const char *type, const char *line, size_t len, struct error *err)
{
    struct cli_output *output = ctx;
    json_t *event = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    int result = 0;

    if (event == NULL) {
        return error_set(err, ERROR_INTERNAL, "an event is no JSON");
    }
    if (strcmp(type, "stdout") == 0) {
        result = write_piece(STDOUT_FILENO, event, err);
    } else if (strcmp(type, "stderr") == 0) {
        result = write_piece(STDERR_FILENO, event, err);
    } else if (strcmp(type, "exit") == 0) {
        take_exit(output, event);
    }
    json_decref(event);
    return result;
}
