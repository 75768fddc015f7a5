#include "host/result.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

struct host_exec_result host_exec_result_unknown(void)
{
    return (struct host_exec_result){
        .exit_code = -1,
        .cpu_ms = -1,
        .memory_peak_bytes = -1,
        .usage = {.cpu_ms = -1, .memory_peak_bytes = -1, .pids_peak = -1, .workspace_bytes = -1},
    };
}

void host_exec_result_say(struct host_exec_result *out, const char *fmt, ...)
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

void host_exec_result_not_started(struct host_exec_result *out, int errnum, bool in_cwd,
                                  const char *name)
{
    out->exit_code = errnum == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
    host_exec_result_say(out, "%s%.180s: %s", in_cwd ? "working directory " : "", name,
                         error_errno_text(errnum));
}

int host_still_frozen(struct error *err, const struct error *first, const struct error *thawing)
{
    error_set(err, ERROR_RUNTIME, "the execution could not be thawed");
    error_in_phase(err, PHASE_CLEANUP);
    if (first->code != ERROR_NONE) {
        error_add_cause(err, first);
    }
    error_add_cause(err, thawing);
    return -1;
}
