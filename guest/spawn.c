#include "guest/exec.h"
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

struct pipe_pair {
    int read;
    int write;
};

/* What the child has in hand between fork and exec. */
struct child_end {
    const struct spawn_spec *spec;
    pid_t parent;
    int in;
    int out;
    int err;
    int status; /* closed by a successful exec, else it carries a struct spawn_failure */
};

static int pipe_new(struct pipe_pair *pair)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    pair->read = fds[0];
    pair->write = fds[1];
    return 0;
}

static void pipe_close(struct pipe_pair *pair)
{
    guest_close(&pair->read);
    guest_close(&pair->write);
}

static void reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &standard, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_fail(const struct child_end *end, bool in_cwd, int errnum)
{
    struct spawn_failure failure = {.in_cwd = in_cwd, .errnum = errnum};
    (void)!write(end->status, &failure, sizeof(failure));
    _exit(127);
}

static _Noreturn void child_main(const struct child_end *end)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != end->parent) {
        _exit(127);
    }
    (void)setsid();
    if (dup2(end->in, STDIN_FILENO) < 0 || dup2(end->out, STDOUT_FILENO) < 0 ||
        dup2(end->err, STDERR_FILENO) < 0) {
        child_fail(end, false, errno);
    }
    const char *cwd = end->spec->cwd;
    if (cwd[0] != '\0' && chdir(cwd) != 0) {
        child_fail(end, true, errno);
    }
    reset_signals();
    /* What this process has left open by now is the program's own. */
    oom_go_first();
    child_fail(end, false, guest_exec(end->spec->argv, environ));
}

/* True when the child has told that it could not start. */
static bool read_failure(int status, struct spawn_failure *failure)
{
    ssize_t n;
    do {
        n = read(status, failure, sizeof(*failure));
    } while (n < 0 && errno == EINTR);
    return n == sizeof(*failure);
}

struct pipes {
    struct pipe_pair in;
    struct pipe_pair out;
    struct pipe_pair err;
    struct pipe_pair status;
};

static int pipes_open(struct pipes *p, bool has_stdin)
{
    if (pipe_new(&p->out) != 0 || pipe_new(&p->err) != 0 || pipe_new(&p->status) != 0) {
        return -1;
    }
    if (has_stdin) {
        return pipe_new(&p->in);
    }
    p->in.read = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return p->in.read < 0 ? -1 : 0;
}

static void pipes_close(struct pipes *p)
{
    pipe_close(&p->in);
    pipe_close(&p->out);
    pipe_close(&p->err);
    pipe_close(&p->status);
}

static int take_nonblocking(int *fd)
{
    int taken = *fd;
    *fd = -1;
    if (taken >= 0) {
        (void)fcntl(taken, F_SETFL, O_NONBLOCK);
    }
    return taken;
}

static enum spawn_outcome start(const struct spawn_spec *spec, struct pipes *p, struct spawned *out,
                                struct spawn_failure *failure)
{
    struct child_end end = {.spec = spec,
                            .parent = getpid(),
                            .in = p->in.read,
                            .out = p->out.write,
                            .err = p->err.write,
                            .status = p->status.write};
    pid_t pid = fork();
    if (pid < 0) {
        *failure = (struct spawn_failure){.errnum = errno};
        return SPAWN_NOT_STARTED;
    }
    if (pid == 0) {
        child_main(&end);
    }
    guest_close(&p->status.write);
    if (read_failure(p->status.read, failure)) {
        return SPAWN_NOT_STARTED;
    }
    *out = (struct spawned){.pid = pid,
                            .in = take_nonblocking(&p->in.write),
                            .out = take_nonblocking(&p->out.read),
                            .err = take_nonblocking(&p->err.read)};
    return SPAWN_STARTED;
}

enum spawn_outcome spawn(const struct spawn_spec *spec, struct spawned *out,
                         struct spawn_failure *failure)
{
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    enum spawn_outcome outcome = SPAWN_BROKEN;
    int errnum = 0;
    if (pipes_open(&p, spec->has_stdin) == 0) {
        outcome = start(spec, &p, out, failure);
    } else {
        errnum = errno;
    }
    pipes_close(&p);
    errno = errnum;
    return outcome;
}
