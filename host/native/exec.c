/* Commands: handed to the shim, which does the rest. */
#include "host/native/native_internal.h"

#include <errno.h>
#include <string.h>

enum { REQUEST_MS = 15 * 1000 };

static void set_command(struct shim_request *request, const char *id)
{
    snprintf(request->command, sizeof(request->command), "%s", id);
}

static int open_input(const struct host_exec_plan *plan, int *out, struct error *err)
{
    if (!plan->has_stdin && !plan->stdin_open) {
        return 0;
    }
    *out =
        native_memory_file("stdin", plan->stdin_data, plan->has_stdin ? plan->stdin_len : 0, err);
    return *out < 0 ? -1 : 0;
}

static int send_command(struct link *k, const struct host_exec_plan *plan,
                        const struct host_exec_events *events, const int fds[2], struct error *err)
{
    const struct link_command command = {
        .id = plan->command_id, .name = plan->argv[0], .cwd = plan->cwd, .events = *events};
    struct link_call call = {
        .request = {.type = SHIM_EXEC,
                    .timeout_ms = plan->timeout_ms,
                    .max_output_bytes = plan->limits.max_output_bytes},
        .fds = fds,
        .fd_count = fds[1] >= 0 ? 2 : 1,
    };
    call.request.flags = fds[1] >= 0 ? SHIM_HAS_STDIN : 0;
    call.request.flags |= plan->stdin_open ? SHIM_STDIN_OPEN : 0;
    set_command(&call.request, plan->command_id);
    return link_command(k, &command, &call, err);
}

int native_exec(struct native_host *h, const struct host_exec_plan *plan,
                const struct host_exec_events *events, struct error *err)
{
    _cleanup_link_ struct link *k = NULL;
    _cleanup_close_ int file = -1;
    _cleanup_close_ int input = -1;
    if (native_link(h, plan->handle, &k, err) != 0) {
        return -1;
    }
    char **environment = native_environment_merge(link_environment(k), plan->environment);
    if (environment == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    file = native_plan_file(plan->argv, environment, plan->cwd, err);
    native_environment_free(environment);
    if (file < 0 || open_input(plan, &input, err) != 0) {
        return -1;
    }
    const int fds[2] = {file, input};
    return send_command(k, plan, events, fds, err);
}

int native_exec_resume(struct native_host *h, const struct host_exec_resume *resume,
                       const struct host_exec_events *events, struct error *err)
{
    _cleanup_link_ struct link *k = NULL;
    const struct link_command command = {
        .id = resume->command.command_id,
        .name = resume->name,
        .cwd = resume->cwd,
        .events = *events,
        .skip = {resume->stdout_bytes, resume->stderr_bytes},
    };
    struct link_call call = {.request = {.type = SHIM_RESUME}};
    set_command(&call.request, resume->command.command_id);
    if (native_link(h, resume->command.handle, &k, err) != 0) {
        return -1;
    }
    return link_command(k, &command, &call, err);
}

/* --- while it runs --- */

static int ask(struct native_host *h, const struct host_exec_ref *command, struct link_call *call,
               int *errnum, struct error *err)
{
    _cleanup_link_ struct link *k = link_find(h->links, command->handle);
    struct shim_event reply;
    if (k == NULL) {
        *errnum = ESRCH;
        return 0;
    }
    call->timeout_ms = REQUEST_MS;
    set_command(&call->request, command->command_id);
    if (link_request(k, call, &reply, err) != 0) {
        return -1;
    }
    *errnum = reply.errnum;
    return 0;
}

static int judge(int errnum, const struct host_exec_ref *command, struct error *err)
{
    switch (errnum) {
    case 0: return 0;
    case ESRCH:
        return error_set(err, ERROR_COMMAND_NOT_FOUND, "command %s is not running",
                         command->command_id);
    case EPIPE:
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the command's standard input is closed already");
    case EBADF:
        return error_set(err, ERROR_INVALID_REQUEST, "the command was started without stdinOpen");
    case EAGAIN:
        return error_set(err, ERROR_OVERLOADED, "too much waits for command %s already",
                         command->command_id);
    default: return error_set_errno(err, ERROR_RUNTIME, errnum, "command %s", command->command_id);
    }
}

int native_exec_input(struct native_host *h, const struct host_exec_ref *command, const void *data,
                      size_t len, bool eof, struct error *err)
{
    _cleanup_close_ int file = -1;
    struct link_call call = {
        .request = {.type = SHIM_INPUT, .value = (int64_t)len, .flags = eof ? SHIM_EOF : 0}};
    int errnum;
    if (len > HOST_INPUT_MAX) {
        return judge(EAGAIN, command, err);
    }
    if (len > 0) {
        file = native_memory_file("stdin", data, len, err);
        if (file < 0) {
            return -1;
        }
        call.fds = &file;
        call.fd_count = 1;
    }
    return ask(h, command, &call, &errnum, err) != 0 ? -1 : judge(errnum, command, err);
}

int native_exec_signal(struct native_host *h, const struct host_exec_ref *command, int signo,
                       struct error *err)
{
    struct link_call call = {.request = {.type = SHIM_SIGNAL, .value = signo}};
    int errnum;
    return ask(h, command, &call, &errnum, err) != 0 ? -1 : judge(errnum, command, err);
}
