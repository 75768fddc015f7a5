#include "host/docker/process_result.h"

#include "host/result.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

void process_result_from_exit(struct host_exec_result *out, const struct guest_exit *exit,
                              const char *command, const char *cwd)
{
    *out = host_exec_result_unknown();
    out->oom = (exit->flags & GUEST_EXIT_OOM) != 0;
    out->cpu_ms = exit->cpu_ms;
    out->memory_peak_bytes = exit->execution_memory_peak_bytes;
    out->usage = (struct host_usage){.cpu_ms = exit->execution_cpu_ms,
                                     .memory_peak_bytes = exit->execution_memory_peak_bytes,
                                     .pids_peak = exit->execution_pids_peak,
                                     .workspace_bytes = exit->execution_workspace_bytes};
    if (exit->flags & GUEST_EXIT_NOT_STARTED) {
        bool in_cwd = (exit->flags & GUEST_EXIT_CWD) != 0;
        host_exec_result_not_started(out, (int)exit->errnum, in_cwd, in_cwd ? cwd : command);
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
    *out = host_exec_result_unknown();
    if (end->held) {
        out->exit_code = NOT_EXECUTABLE;
        host_exec_result_say(out, "a program inside stopped the command before it had started");
        return;
    }
    out->exit_code = end->exit_code;
    if (has_text && (end->exit_code == NOT_EXECUTABLE || end->exit_code == NOT_FOUND)) {
        host_exec_result_say(out, "%s", text);
        return;
    }
    out->started = true;
    out->runner_killed = true;
    host_exec_result_say(out, "the command's runner was killed from inside%s%s",
                         has_text ? ": " : "", text);
}

void process_result_lost(struct host_exec_result *out, const char *why, const char *more)
{
    *out = host_exec_result_unknown();
    out->lost = true;
    host_exec_result_say(out, "%s%s%s", why, more[0] != '\0' ? ": " : "", more);
}
