/* Child processes of the service (git, skopeo): posix_spawn, never a shell, an environment given in
 * full, every other descriptor closed. The caller's environment never reaches them. Any thread. */
#ifndef EXECHOST_BASE_CHILD_H
#define EXECHOST_BASE_CHILD_H

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    int out_fd; /* read end of its standard output, or -1; owned */
    int err_fd; /* read end of its standard error (nonblocking); owned */
};

struct child_spec {
    const char *const *argv; /* argv[0] is an absolute path or searched in /usr/bin:/bin */
    const char *const *envp; /* NULL-ended, complete */
    const char *cwd;         /* or NULL */
};

/* Starts it with standard input /dev/null and standard output and error as pipes. */
int child_start(struct child *c, const struct child_spec *spec, struct error *err) WARN_UNUSED;
/* Closes the pipes, kills it and its process group (SIGKILL) if `kill_first`, reaps. Returns the
 * wait status, -1 when there was nothing left to reap. Idempotent. */
int child_finish(struct child *c, bool kill_first);

/* Runs to the end: output into `out` (over its cap: killed, error), error text into `diag` (cut),
 * exit status 0..255 or 128+signal into `status`. Killed at `deadline_mono_ms` or when `cancel`
 * fires. */
struct child_run {
    struct child_spec spec;
    int64_t deadline_mono_ms;
    struct cancel *cancel; /* borrows; may be NULL */
    struct buf *out;
    struct buf *diag;
    int status; /* set on success */
};
int child_run(struct child_run *run, struct error *err) WARN_UNUSED;

#endif
