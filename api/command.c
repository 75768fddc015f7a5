#include "api/command.h"

#include "api/base64.h"
#include "api/field.h"
#include "api/json.h"
#include "base/id.h"
#include "base/utf8.h"

#include <string.h>

struct create_fields {
    const char *command_id;
    const char *command;
    json_t *args;
    const char *cwd;
    json_t *environment;
    json_t *stdin_text;
    const char *stdin_base64;
    bool stdin_open;
    int64_t timeout_ms;
    json_t *on_limit;
};

static const struct api_field CREATE_FIELDS[] = {
    {"command", API_STRING, true, offsetof(struct create_fields, command)},
    {"args", API_ARRAY, false, offsetof(struct create_fields, args)},
    {"cwd", API_STRING, false, offsetof(struct create_fields, cwd)},
    {"environment", API_ANY, false, offsetof(struct create_fields, environment)},
    {"stdin", API_ANY, false, offsetof(struct create_fields, stdin_text)},
    {"stdinBase64", API_STRING, false, offsetof(struct create_fields, stdin_base64)},
    {"stdinOpen", API_BOOLEAN, false, offsetof(struct create_fields, stdin_open)},
    {"timeoutMs", API_INTEGER, false, offsetof(struct create_fields, timeout_ms)},
    {"onLimit", API_ANY, false, offsetof(struct create_fields, on_limit)},
    {"commandId", API_STRING, false, offsetof(struct create_fields, command_id)},
};

static const struct api_field_table CREATE_TABLE = {CREATE_FIELDS, ARRAY_SIZE(CREATE_FIELDS),
                                                    ERROR_INVALID_REQUEST};

struct limit_fields {
    bool checkpoint;
};

static const struct api_field LIMIT_FIELDS[] = {
    {"checkpoint", API_BOOLEAN, false, offsetof(struct limit_fields, checkpoint)},
};

static const struct api_field_table LIMIT_TABLE = {LIMIT_FIELDS, ARRAY_SIZE(LIMIT_FIELDS),
                                                   ERROR_INVALID_REQUEST};

static int read_args(const struct create_fields *fields, struct api_command_create *request,
                     struct error *err)
{
    size_t count = json_array_size(fields->args);
    size_t bytes = strlen(fields->command) + 1;

    if (count > API_ARGS_COUNT_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/args",
                               "/args must have at most %d members", API_ARGS_COUNT_MAX);
    }
    request->args = calloc(count + 1, sizeof(*request->args));
    if (request->args == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *arg = json_array_get(fields->args, i);

        if (!json_is_string(arg)) {
            char name[ERROR_FIELD_MAX];

            api_pointer_index("/args", i, name);
            return error_set_field(err, ERROR_INVALID_REQUEST, name, "%s must be a string", name);
        }
        request->args[i] = json_string_value(arg);
        bytes += json_string_length(arg) + 1;
    }
    if (bytes > API_ARGS_BYTES_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/args",
                               "command and args must have at most %d bytes together",
                               API_ARGS_BYTES_MAX);
    }
    request->arg_count = count;
    request->args_json = fields->args;
    return 0;
}

static int read_stdin_text(const json_t *text, struct api_command_create *request,
                           struct error *err)
{
    if (!json_is_string(text)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/stdin", "/stdin must be a string");
    }
    request->stdin_len = json_string_length(text);
    request->stdin_data = malloc(request->stdin_len + 1);
    if (request->stdin_data == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    memcpy(request->stdin_data, json_string_value(text), request->stdin_len + 1);
    request->has_stdin = true;
    return 0;
}

static int read_stdin(const struct create_fields *fields, struct api_command_create *request,
                      struct error *err)
{
    const char *base64 = fields->stdin_base64;

    if (fields->stdin_text != NULL && base64 != NULL) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/stdinBase64",
                               "stdin and stdinBase64 must not be given together");
    }
    request->stdin_open = fields->stdin_open;
    if (fields->stdin_text != NULL) {
        return read_stdin_text(fields->stdin_text, request, err);
    }
    if (base64 == NULL) {
        return 0;
    }
    if (base64_decode(base64, strlen(base64), &request->stdin_data, &request->stdin_len) != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/stdinBase64",
                               "stdinBase64 is not valid base64");
    }
    request->has_stdin = true;
    return 0;
}

static int read_on_limit(json_t *value, struct api_command_create *request, struct error *err)
{
    struct limit_fields fields = {0};

    if (value != NULL && api_fields_decode(value, "/onLimit", &LIMIT_TABLE, &fields, err) != 0) {
        return -1;
    }
    request->on_limit_checkpoint = fields.checkpoint;
    return 0;
}

static int check_command(const struct create_fields *fields, struct error *err)
{
    size_t len = strlen(fields->command);

    if (len == 0 || len > API_COMMAND_BYTES_MAX) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/command",
                               "/command must have 1 to %d bytes", API_COMMAND_BYTES_MAX);
    }
    if (fields->command_id != NULL && !id_is_valid(fields->command_id)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/commandId",
                               "commandId must match [A-Za-z0-9][A-Za-z0-9_.-]{0,63}");
    }
    return 0;
}

static int read_create(struct api_command_create *request, struct error *err)
{
    struct create_fields fields = {.timeout_ms = -1};

    if (api_fields_decode(request->root, "", &CREATE_TABLE, &fields, err) != 0 ||
        check_command(&fields, err) != 0 || read_args(&fields, request, err) != 0 ||
        read_stdin(&fields, request, err) != 0) {
        return -1;
    }
    if (json_object_get(request->root, "timeoutMs") != NULL &&
        (fields.timeout_ms < 1 || fields.timeout_ms > API_TIMEOUT_MS_MAX)) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "/timeoutMs",
                               "/timeoutMs must be from 1 to %lld", (long long)API_TIMEOUT_MS_MAX);
    }
    request->command_id = fields.command_id;
    request->command = fields.command;
    request->cwd = fields.cwd;
    request->environment = fields.environment;
    request->timeout_ms = fields.timeout_ms;
    return read_on_limit(fields.on_limit, request, err);
}

int api_command_create_decode(const char *body, size_t len, struct api_command_create *out,
                              struct error *err)
{
    struct api_command_create request = {0};

    if (api_json_parse_object(body, len, false, &request.root, err) != 0) {
        return -1;
    }
    if (read_create(&request, err) != 0) {
        api_command_create_done(&request);
        return -1;
    }
    *out = request;
    return 0;
}

void api_command_create_done(struct api_command_create *request)
{
    free(request->args);
    free(request->stdin_data);
    json_decref(request->root);
    *request = (struct api_command_create){0};
}

/* --- view --- */

static json_t *encode_usage(const struct api_command *view)
{
    return json_pack("{s:o, s:o, s:o}", "cpuMs", api_count_or_null(view->cpu_ms), "memoryPeakBytes",
                     api_count_or_null(view->memory_peak_bytes), "wallMs",
                     api_count_or_null(view->wall_ms));
}

static json_t *encode_termination(const struct api_command *view)
{
    if (view->termination_reason == NULL) {
        return json_null();
    }
    return json_pack("{s:s, s:s?, s:o, s:s*}", "reason", view->termination_reason, "code",
                     view->termination_code, "detail", api_string_or_null(view->termination_detail),
                     "checkpointId", view->termination_checkpoint_id);
}

/* Everything before the streams, and everything after them. */
static json_t *encode_head(const struct api_command *view)
{
    json_t *args = view->args != NULL ? json_incref(view->args) : json_array();
    const char *cwd = view->cwd == NULL || view->cwd[0] == '\0' ? "." : view->cwd;

    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:s?}", "commandId",
                     view->command_id, "executionId", view->execution_id, "state", view->state,
                     "command", view->command, "args", args, "cwd", cwd, "startedAt",
                     api_time_or_null(view->started_at), "completedAt",
                     api_time_or_null(view->completed_at), "exitCode",
                     api_count_or_null(view->exit_code), "signal", view->signal);
}

static json_t *encode_tail(const struct api_command *view)
{
    return json_pack("{s:I, s:I, s:b, s:o, s:o}", "stdoutBytes", (json_int_t)view->stdout_bytes,
                     "stderrBytes", (json_int_t)view->stderr_bytes, "truncated", view->truncated,
                     "usage", encode_usage(view), "termination", encode_termination(view));
}

/* *Takes* all three; any may be NULL for want of memory, `streams` also because there are none. */
static json_t *join(json_t *head, json_t *streams, json_t *tail)
{
    bool ok = head != NULL && tail != NULL;

    ok = ok && (streams == NULL || json_object_update(head, streams) == 0);
    ok = ok && json_object_update(head, tail) == 0;
    json_decref(streams);
    json_decref(tail);
    if (!ok) {
        json_decref(head);
        return NULL;
    }
    return head;
}

json_t *api_command_encode(const struct api_command *view)
{
    return join(encode_head(view), NULL, encode_tail(view));
}

static json_t *encode_stream(const char *data, size_t len, bool text)
{
    _cleanup_free_ char *base64 = NULL;

    if (text) {
        return json_stringn_nocheck(len == 0 ? "" : data, len);
    }
    base64 = base64_encode(data, len, NULL);
    return base64 == NULL ? NULL : json_string_nocheck(base64);
}

json_t *api_command_encode_output(const struct api_command *view,
                                  const struct api_command_output *output)
{
    size_t out_len = utf8_cut(output->stdout_data, output->stdout_len, API_INLINE_MAX);
    size_t err_len = utf8_cut(output->stderr_data, output->stderr_len, API_INLINE_MAX);
    bool cut = out_len < output->stdout_len || err_len < output->stderr_len;
    bool text =
        utf8_is_valid(output->stdout_data, out_len) && utf8_is_valid(output->stderr_data, err_len);
    json_t *streams = json_pack("{s:o, s:o, s:s, s:b}", "stdout",
                                encode_stream(output->stdout_data, out_len, text), "stderr",
                                encode_stream(output->stderr_data, err_len, text), "encoding",
                                text ? "utf-8" : "base64", "inlineTruncated", cut);

    if (streams == NULL) {
        return NULL;
    }
    return join(encode_head(view), streams, encode_tail(view));
}
