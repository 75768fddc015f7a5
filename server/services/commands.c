#include "server/services/commands_private.h"

#include "api/json.h"
#include "base/clock.h"
#include "base/log.h"
#include "policy/policy.h"
#include "server/services/admission.h"
#include "server/services/ending.h"

#include <string.h>

enum { JSON_TEXT_MAX = 8 * 1024 * 1024, LARGE_BYTES = 64 * 1024 };

static const struct admission_share one_command = {.commands = 1};

int command_admit(struct command *c, const struct live_execution *x, const struct quotas *quotas,
                  struct error *err)
{
    if (admission_take(x->service->admission, x->tenant, &one_command, quotas, err) != 0) {
        return -1;
    }
    c->admitted = true;
    return 0;
}

void command_give_back(struct command *c)
{
    if (c->admitted) {
        c->admitted = false;
        admission_give(c->service->admission, c->row.tenant, &one_command);
    }
}

void command_free(struct command *c)
{
    if (c == NULL) {
        return;
    }
    command_give_back(c);
    store_command_done(&c->row);
    for (char **arg = c->argv; arg != NULL && *arg != NULL; arg++) {
        free(*arg);
    }
    free(c->argv);
    free(c->cwd);
    policy_environment_free(c->environment);
    free(c->stdin_data);
    command_input_done(&c->input);
    store_transcript_close(c->transcript);
    free(c);
}

struct store_transcript_name command_transcript_name(struct service *s,
                                                     const struct store_command *row)
{
    return (struct store_transcript_name){
        .directory = s->config->data_dir,
        .tenant = row->tenant,
        .execution_row = row->execution_row,
        .command_id = row->command_id,
    };
}

/* --- create --- */

static char **copy_argv(const struct api_command_create *request)
{
    char **argv = calloc(request->arg_count + 2, sizeof(char *));
    if (argv == NULL) {
        return NULL;
    }
    argv[0] = strdup(request->command);
    for (size_t i = 0; i < request->arg_count; i++) {
        argv[i + 1] = strdup(request->args[i]);
    }
    return argv;
}

static int fill_row(struct store_command *row, const struct live_execution *x,
                    const struct api_command_create *request)
{
    char id[ID_SIZE];
    id_generate("cmd", id);
    row->execution_row = x->row;
    row->tenant = strdup(x->tenant);
    row->execution_id = strdup(x->execution_id);
    row->incarnation = x->incarnation;
    row->command_id = strdup(request->command_id != NULL ? request->command_id : id);
    row->state = STORE_COMMAND_QUEUED;
    row->command = strdup(request->command);
    row->args = request->args_json == NULL ? strdup("[]")
                                           : api_json_text(request->args_json, JSON_TEXT_MAX);
    row->cwd = request->cwd == NULL ? NULL : strdup(request->cwd);
    row->environment = request->environment == NULL
                           ? strdup("{}")
                           : api_json_text(request->environment, JSON_TEXT_MAX);
    row->timeout_ms = request->timeout_ms;
    row->queued_at = clock_wall_ms();
    row->claim = request->claim;
    row->exit_code = -1;
    row->usage_cpu_ms = -1;
    row->usage_memory_peak_bytes = -1;
    row->usage_wall_ms = -1;
    bool complete = row->tenant != NULL && row->execution_id != NULL && row->command_id != NULL &&
                    row->command != NULL && row->args != NULL && row->environment != NULL;
    return complete ? 0 : -1;
}

static int fill(struct command *c, const struct live_execution *x,
                const struct api_command_create *request, struct error *err)
{
    if (policy_cwd(request->cwd, &c->cwd, err) != 0 ||
        policy_environment(request->environment, "/environment", &c->environment, err) != 0) {
        return -1;
    }
    c->argv = copy_argv(request);
    c->has_stdin = request->has_stdin;
    c->stdin_open = request->stdin_open;
    c->stdin_len = request->stdin_len;
    if (request->stdin_len > 0) {
        c->stdin_data = malloc(request->stdin_len);
        if (c->stdin_data != NULL) {
            memcpy(c->stdin_data, request->stdin_data, request->stdin_len);
        }
    }
    bool complete = c->argv != NULL && (c->stdin_len == 0 || c->stdin_data != NULL);
    if (!complete || fill_row(&c->row, x, request) != 0) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    return 0;
}

/* The row first, so that its id is taken and a restart knows it; a lane that refuses it takes it
 * back. */
static int queue(struct command *c, struct live_execution *x, uint64_t *serial, struct error *err)
{
    struct service *s = x->service;
    if (store_command_insert(s->store, &c->row, err) != 0) {
        return -1;
    }
    int64_t row = c->row.row;
    if (live_push_quick(x, &c->item, serial, err) != 0) {
        struct error ignored = ERROR_INIT;
        if (store_command_delete(s->store, row, &ignored) != 0) {
            log_failure(LOG_LEVEL_WARN, &ignored, "a refused command stays recorded", "command",
                        c->row.command_id, NULL);
        }
        return -1;
    }
    return 0;
}

int commands_create(struct live_execution *x, const struct quotas *quotas,
                    const struct api_command_create *request, int64_t fencing_token,
                    struct commands_made *out, struct error *err)
{
    if (admission_storing(x->service, x->tenant, quotas, 0, err) != 0) {
        return -1;
    }
    struct command *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    c->item.ops = &command_ops;
    c->service = x->service;
    c->item.is_command = true;
    c->item.checkpoint_at_limit = request->on_limit_checkpoint;
    c->item.stored_max = quotas->stored_bytes;
    c->item.fencing_token = fencing_token;
    command_input_init(&c->input, request->stdin_open, request->stdin_len);
    if (fill(c, x, request, err) != 0 || command_admit(c, x, quotas, err) != 0) {
        command_free(c);
        return -1;
    }
    struct commands_made made; /* the command may be over and gone before queue() returns */
    snprintf(made.command_id, sizeof(made.command_id), "%s", c->row.command_id);
    if (queue(c, x, &made.serial, err) != 0) {
        command_free(c);
        return -1;
    }
    *out = made;
    return 0;
}

bool commands_is_unrecorded(struct live_execution *x, const char *command_id, struct error *err)
{
    struct store_command row = {0};
    struct error ignored = ERROR_INIT;
    live_lock(x->service->live);
    bool any = x->unrecorded_row != 0;
    live_unlock(x->service->live);
    if (!any || store_command_get(x->service->store, x->row, command_id, &row, &ignored) != 0) {
        return false;
    }
    live_lock(x->service->live);
    bool unrecorded = !commands_is_final(&row) && x->unrecorded_row == row.row;
    if (unrecorded) {
        *err = x->unrecorded;
    }
    live_unlock(x->service->live);
    store_command_done(&row);
    return unrecorded;
}

/* --- show --- */

bool commands_is_final(const struct store_command *row)
{
    return store_command_is_final(row);
}

static const char *const state_names[] = {
    [STORE_COMMAND_QUEUED] = "queued",
    [STORE_COMMAND_RUNNING] = "running",
    [STORE_COMMAND_EXITED] = "exited",
    [STORE_COMMAND_FAILED] = "failed",
};

const char *commands_state_name(enum store_command_state state)
{
    return state_names[state];
}

/* `args` is borrowed by the view. */
static struct api_command view_of(const struct store_command *row, json_t *args)
{
    return (struct api_command){
        .command_id = row->command_id,
        .execution_id = row->execution_id,
        .state = commands_state_name(row->state),
        .command = row->command,
        .args = args,
        .cwd = row->cwd,
        .started_at = row->started_at == 0 ? -1 : row->started_at,
        .completed_at = row->completed_at == 0 ? -1 : row->completed_at,
        .exit_code = row->exit_code,
        .signal = row->signal,
        .stdout_bytes = row->stdout_bytes,
        .stderr_bytes = row->stderr_bytes,
        .truncated = row->truncated,
        .cpu_ms = row->usage_cpu_ms,
        .memory_peak_bytes = row->usage_memory_peak_bytes,
        .wall_ms = row->usage_wall_ms,
        .termination_reason = row->termination_reason,
        .termination_code = row->termination_code,
        .termination_detail = row->termination_detail,
        .termination_checkpoint_id = row->termination_checkpoint_id,
    };
}

json_t *commands_encode(const struct store_command *row)
{
    struct error err = ERROR_INIT;
    _cleanup_json_ json_t *args = NULL;
    if (api_json_load_stored(row->args, &args, &err) != 0) {
        return NULL;
    }
    struct api_command view = view_of(row, args);
    return api_command_encode(&view);
}

int commands_transcript_gone(const struct store_command *row, struct error *err)
{
    return error_set(err, ERROR_TRANSCRIPT_GONE,
                     "the transcript of command %s was removed by retention", row->command_id);
}

/* What a command has written so far, as far as an answer can show it. */
static int read_output(struct service *s, struct store_command *row, struct buf *out,
                       struct buf *errout, struct error *err)
{
    struct store_transcript_totals totals = {0};
    struct store_transcript_name name = command_transcript_name(s, row);
    if (row->started_at == 0) {
        return 0;
    }
    /* Nothing to be read but whether retention has been there. */
    if (commands_is_final(row) && row->stdout_bytes + row->stderr_bytes == 0 &&
        store_transcript_file_size(&name) > 0) {
        return 0;
    }
    if (store_transcript_read_output(&name, out, errout, &totals, err) != 0) {
        return err->code == ERROR_NOT_FOUND ? commands_transcript_gone(row, err) : -1;
    }
    if (!commands_is_final(row)) {
        row->stdout_bytes = totals.stdout_bytes;
        row->stderr_bytes = totals.stderr_bytes;
    }
    /* A power loss took the end of the file. */
    row->truncated = row->truncated || totals.stdout_bytes < row->stdout_bytes ||
                     totals.stderr_bytes < row->stderr_bytes;
    return 0;
}

bool commands_is_large_row(const struct store_command *row)
{
    return row->transcript_bytes > LARGE_BYTES;
}

bool commands_is_large(struct service *s, const char *tenant, int64_t execution_row,
                       const char *command_id)
{
    const struct store_transcript_name name = {
        .directory = s->config->data_dir,
        .tenant = tenant,
        .execution_row = execution_row,
        .command_id = command_id,
    };
    return store_transcript_file_size(&name) > LARGE_BYTES;
}

int commands_view(struct service *s, struct store_command *row, json_t **out, struct error *err)
{
    _cleanup_buf_ struct buf stdout_data;
    _cleanup_buf_ struct buf stderr_data;
    _cleanup_json_ json_t *args = NULL;
    buf_init(&stdout_data, API_INLINE_READ_MAX);
    buf_init(&stderr_data, API_INLINE_READ_MAX);
    if (read_output(s, row, &stdout_data, &stderr_data, err) != 0 ||
        api_json_load_stored(row->args, &args, err) != 0) {
        return -1;
    }
    struct api_command view = view_of(row, args);
    struct api_command_output output = {
        .stdout_data = buf_str(&stdout_data),
        .stdout_len = stdout_data.len,
        .stderr_data = buf_str(&stderr_data),
        .stderr_len = stderr_data.len,
    };
    *out = api_command_encode_output(&view, &output);
    return *out != NULL ? 0 : error_set(err, ERROR_INTERNAL, "the command can't be shown");
}
