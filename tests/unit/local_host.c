#include "local_host.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 8 };

struct child {
    pid_t pid;
    int in;
    int out;
};

static int over(void *ctx, struct error *err)
{
    (void)ctx;
    return error_set(err, ERROR_RUNTIME, "the helper ended without an answer");
}

static void close_child(void *ctx)
{
    struct child *c = ctx;
    close(c->in);
    close(c->out);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    free(c);
}

static void become_helper(const struct host_guest_call *call, int in, int out)
{
    const char *argv[ARGUMENTS_MAX + 2] = {EXECHOST_GUEST_FILE};
    for (int i = 0; i < ARGUMENTS_MAX && call->argv[i] != NULL; i++) {
        argv[i + 1] = call->argv[i];
    }
    if (chdir(call->handle) == 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) {
        execv(argv[0], (char *const *)argv);
    }
    _exit(99);
}

static int op_guest(struct host *h, const struct host_guest_call *call, struct host_guest **out,
                    struct error *err)
{
    int in[2];
    int answers[2];
    struct child *c = malloc(sizeof(*c));
    (void)h;
    if (c == NULL || pipe2(in, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
        free(c);
        return error_set(err, ERROR_INTERNAL, "no pipe");
    }
    c->pid = fork();
    if (c->pid == 0) {
        become_helper(call, in[0], answers[1]);
    }
    close(in[0]);
    close(answers[1]);
    c->in = in[1];
    c->out = answers[0];
    (void)fcntl(c->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->out, F_SETFL, O_NONBLOCK);
    const struct host_guest_ends ends = {
        .in = c->in, .out = c->out, .over = over, .close = close_child, .ctx = c};
    return host_guest_new(call, &ends, out, err);
}

struct host *local_host(void)
{
    static const struct host_ops ops = {.name = "local", .guest = op_guest};
    static struct host host = {.ops = &ops};
    return &host;
}

struct host_files local_files(const char *dir)
{
    return (struct host_files){.host = local_host(),
                               .id = {"tenant", "execution", 1},
                               .handle = dir,
                               .deadline_mono_ms = clock_mono_ms() + 60000};
}
