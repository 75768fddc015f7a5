#include "host/docker/process_result.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <string.h>

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static const struct host_exec_result unknown = {
    .exit_code = -1,
    .cpu_ms = -1,
    .memory_peak_bytes = -1,
    .usage = {.cpu_ms = -1, .memory_peak_bytes = -1, .pids_peak = -1, .workspace_bytes = -1},
};

static void set_detail(struct host_exec_result *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void set_detail(struct host_exec_result *out, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t len = utf8_cut(text, strlen(text), sizeof(out->detail) - 1);
    memcpy(out->detail, text, len);
    out->detail[len] = '\0';
}

static const char *describe(int errnum)
{
    const char *text = strerrordesc_np(errnum);
    return text != NULL ? text : "unknown error";
}

static void set_not_started(struct host_exec_result *out, const struct guest_exit *exit,
                            const char *command, const char *cwd)
{
    out->exit_code = (int)exit->status;
    bool in_cwd = (exit->flags & GUEST_EXIT_CWD) != 0;
    set_detail(out, "%s%.180s: %s", in_cwd ? "working directory " : "", in_cwd ? cwd : command,
               describe((int)exit->errnum));
}

void process_result_from_exit(struct host_exec_result *out, const struct guest_exit *exit,
                              const char *command, const char *cwd)
{
    *out = unknown;
    out->oom = (exit->flags & GUEST_EXIT_OOM) != 0;
    out->cpu_ms = exit->cpu_ms;
    out->memory_peak_bytes = exit->execution_memory_peak_bytes;
    out->usage = (struct host_usage){.cpu_ms = exit->execution_cpu_ms,
                                     .memory_peak_bytes = exit->execution_memory_peak_bytes,
                                     .pids_peak = exit->execution_pids_peak,
                                     .workspace_bytes = exit->execution_workspace_bytes};
    if (exit->flags & GUEST_EXIT_NOT_STARTED) {
        set_not_started(out, exit, command, cwd);
        return;
    }
    out->started = true;
    if (exit->flags & GUEST_EXIT_SIGNALED) {
        out->signal = (int)exit->status;
    } else {
        out->exit_code = (int)exit->status;
    }
}

void process_result_from_end(struct host_exec_result *out, const struct docker_exec_end *end,
                             const char *text)
{
    bool has_text = text[0] != '\0';
    if (!end->known) {
        process_result_lost(
            out, end->container_lives ? "the engine lost the command" : "the container has ended",
            text);
        return;
    }
    *out = unknown;
    out->exit_code = end->exit_code;
    if (has_text && (end->exit_code == NOT_EXECUTABLE || end->exit_code == NOT_FOUND)) {
        set_detail(out, "%s", text);
        return;
    }
    out->started = true;
    out->runner_killed = true;
    set_detail(out, "the command's runner was killed from inside%s%s", has_text ? ": " : "", text);
}

void process_result_lost(struct host_exec_result *out, const char *why, const char *more)
{
    *out = unknown;
    out->lost = true;
    set_detail(out, "%s%s%s", why, more[0] != '\0' ? ": " : "", more);
}
