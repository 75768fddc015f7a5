#include "base/child.h"

#include "base/clock.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CHUNK = 64 * 1024, PIPE_CHUNKS = 16 };

static void close_fd(int *fd)
{
    cleanup_close(fd);
    *fd = -1;
}

/* The caller's own PATH plays no part. */
static int find_program(const char *name, char out[PATH_MAX], struct error *err)
{
    static const char *const DIRS[] = {"/usr/bin", "/bin"};

    if (name[0] == '/') {
        if ((size_t)snprintf(out, PATH_MAX, "%s", name) >= PATH_MAX) {
            return error_set(err, ERROR_INTERNAL, "program path too long");
        }
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++) {
        if ((size_t)snprintf(out, PATH_MAX, "%s/%s", DIRS[i], name) < PATH_MAX &&
            access(out, X_OK) == 0) {
            return 0;
        }
    }
    return error_set(err, ERROR_RUNTIME, "the program %s is not installed", name);
}

/* Returns 0 or an errno, as the posix_spawn family does. */
static int set_actions(posix_spawn_file_actions_t *actions, const char *cwd, int out, int diag)
{
    int rc = cwd == NULL ? 0 : posix_spawn_file_actions_addchdir_np(actions, cwd);

    rc = rc != 0
             ? rc
             : posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(actions, diag, STDERR_FILENO);
    return rc != 0 ? rc : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

/* The service ignores and blocks signals; a child starts with none of that, in a group of its own.
 */
static int set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none;
    sigset_t all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    rc = posix_spawnattr_setsigmask(attr, &none);
    rc = rc != 0 ? rc : posix_spawnattr_setsigdefault(attr, &all);
    rc = rc != 0 ? rc : posix_spawnattr_setpgroup(attr, 0);
    return rc != 0 ? rc
                   : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETPGROUP);
}

static int spawn(const char *program, const struct child_spec *spec, int out, int diag, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int rc = fault_point("child.spawn");

    if (rc != 0) {
        return rc;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    rc = set_actions(&actions, spec->cwd, out, diag);
    rc = rc != 0 ? rc : set_attributes(&attr);
    if (rc == 0) {
        rc = posix_spawn(pid, program, &actions, &attr, (char *const *)spec->argv,
                         (char *const *)spec->envp);
    }
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* dup2() onto itself would keep close-on-exec, so the ends stay clear of the standard descriptors.
 */
static int pipe_above_standard(int ends[2])
{
    int raw[2];

    if (pipe2(raw, O_CLOEXEC) != 0) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        ends[i] = raw[i];
        if (raw[i] <= STDERR_FILENO) {
            ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
            close(raw[i]);
        }
    }
    if (ends[0] < 0 || ends[1] < 0) {
        close_fd(&ends[0]);
        close_fd(&ends[1]);
        return -1;
    }
    return 0;
}

int child_start(struct child *c, const struct child_spec *spec, struct error *err)
{
    char program[PATH_MAX];
    int out[2] = {-1, -1};
    int diag[2] = {-1, -1};
    pid_t pid = -1;
    int rc;

    if (find_program(spec->argv[0], program, err) != 0) {
        return -1;
    }
    if (pipe_above_standard(out) != 0 || pipe_above_standard(diag) != 0) {
        rc = errno;
    } else {
        rc = spawn(program, spec, out[1], diag[1], &pid);
    }
    close_fd(&out[1]);
    close_fd(&diag[1]);
    if (rc != 0) {
        close_fd(&out[0]);
        close_fd(&diag[0]);
        return error_set_errno(err, ERROR_RUNTIME, rc, "cannot start %s", spec->argv[0]);
    }
    (void)fcntl(diag[0], F_SETFL, O_NONBLOCK);
    c->pid = pid;
    c->out_fd = out[0];
    c->err_fd = diag[0];
    return 0;
}

int child_finish(struct child *c, bool kill_first)
{
    int status = -1;
    pid_t done;

    close_fd(&c->out_fd);
    close_fd(&c->err_fd);
    if (c->pid <= 0) {
        return -1;
    }
    if (kill_first) {
        /* Until it is reaped its number, and so its group's, belongs to nobody else. */
        kill(-c->pid, SIGKILL);
        kill(c->pid, SIGKILL);
    }
    do {
        done = waitpid(c->pid, &status, 0);
    } while (done < 0 && errno == EINTR);
    c->pid = -1;
    return done < 0 ? -1 : status;
}

/* 1 when there may be more, 0 at the end or when nothing is there now, -1 on an error. With `cut`
 * what passes the cap is read and forgotten. */
static int pump(int *fd, struct buf *to, bool cut, struct error *err)
{
    char chunk[CHUNK];
    ssize_t n = read(*fd, chunk, sizeof(chunk));
    size_t len;

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return errno == EINTR ? 1 : 0;
    }
    if (n < 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "cannot read a program's output");
    }
    if (n == 0) {
        close_fd(fd);
        return 0;
    }
    len = (size_t)n;
    if (cut && len > to->max - to->len) {
        len = to->max - to->len;
    }
    if (buf_add(to, chunk, len) != 0) {
        return error_set(err, ERROR_RUNTIME, "a program wrote more than %zu bytes", to->max);
    }
    return 1;
}

/* What is in the pipe now, `rounds` chunks at most: a fast writer must not keep us from the
 * deadline. */
static int drain(int *fd, struct buf *to, bool cut, int rounds, struct error *err)
{
    int more = 1;

    for (int i = 0; i < rounds && *fd >= 0 && more == 1; i++) {
        more = pump(fd, to, cut, err);
    }
    return more;
}

/* Waits for something to happen; sets *ended when the process is over. */
static int wait_event(struct child *c, int pid_fd, const struct child_run *run, bool *ended,
                      struct error *err)
{
    struct pollfd fds[] = {
        {.fd = pid_fd, .events = POLLIN},
        {.fd = c->out_fd, .events = POLLIN},
        {.fd = c->err_fd, .events = POLLIN},
        {.fd = cancel_fd(run->cancel), .events = POLLIN},
    };
    int64_t left = run->deadline_mono_ms - clock_mono_ms();

    if (left <= 0) {
        return error_set(err, ERROR_TIMEOUT, "%s took too long", run->spec.argv[0]);
    }
    if (poll(fds, ARRAY_SIZE(fds), left > INT_MAX ? INT_MAX : (int)left) < 0 && errno != EINTR) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "poll");
    }
    if (cancel_fired(run->cancel)) {
        return error_set(err, ERROR_RUNTIME, "%s was interrupted", run->spec.argv[0]);
    }
    *ended = fds[0].revents != 0;
    return 0;
}

static int collect(struct child *c, int pid_fd, const struct child_run *run, struct error *err)
{
    bool ended = false;

    while (!ended) {
        int rounds;

        if (wait_event(c, pid_fd, run, &ended, err) != 0) {
            return -1;
        }
        /* After the end too: what it wrote is in the pipes by then. Who inherited them is not
         * waited for. */
        rounds = ended ? PIPE_CHUNKS : 1;
        if (drain(&c->out_fd, run->out, false, rounds, err) < 0 ||
            drain(&c->err_fd, run->diag, true, rounds, err) < 0) {
            return -1;
        }
    }
    return 0;
}

int child_run(struct child_run *run, struct error *err)
{
    _cleanup_close_ int pid_fd = -1;
    struct child c;
    int status;
    int rc;

    if (child_start(&c, &run->spec, err) != 0) {
        return -1;
    }
    (void)fcntl(c.out_fd, F_SETFL, O_NONBLOCK);
    pid_fd = (int)syscall(SYS_pidfd_open, c.pid, 0);
    if (pid_fd < 0) {
        rc = error_set_errno(err, ERROR_RUNTIME, errno, "pidfd_open");
    } else {
        rc = collect(&c, pid_fd, run, err);
    }
    status = child_finish(&c, true);
    if (rc != 0) {
        return -1;
    }
    run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return 0;
}
