/* The helper inside as the other end of a conversation: a socket that the shim hands on. */
#include "host/guest.h"

#include "host/native/native_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { REQUEST_MS = 15 * 1000, STATUS_MS = 2000, ARGUMENTS_MAX = 8 };

struct talk {
    struct link *link;
    int socket;
    uint32_t serial;
    bool started;
    bool alone;
};

static int report_over(void *ctx, struct error *err)
{
    struct talk *t = ctx;
    int status = link_helper_status(t->link, t->serial, STATUS_MS);
    if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && link_alive(t->link)) {
        return error_set(err, ERROR_RESOURCE_LIMIT, "%s",
                         t->alone ? "the content does not fit into the memory limit"
                                  : "the helper inside was killed: for memory, or by a program");
    }
    return error_set(err, ERROR_RUNTIME, "%s",
                     link_alive(t->link) ? "the helper inside ended without an answer"
                                         : "the execution has ended meanwhile");
}

static void talk_free(void *ctx)
{
    struct talk *t = ctx;
    if (t->socket >= 0) {
        close(t->socket);
    }
    if (t->started) {
        /* What it had begun is undone before anybody looks. */
        (void)!link_helper_status(t->link, t->serial, STATUS_MS);
    }
    link_unref(t->link);
    free(t);
}

static int plan_of(const struct host_guest_call *call, bool outside, struct error *err)
{
    static char memory[] = GUEST_MEMORY_VARIABLE "=1";
    static char *const inside[] = {memory, NULL};
    static char *const none[] = {NULL};
    const char *argv[ARGUMENTS_MAX + 2] = {"guest"};
    size_t count = 1;
    for (const char *const *word = call->argv; *word != NULL && count <= ARGUMENTS_MAX; word++) {
        argv[count++] = *word;
    }
    return native_plan_file(argv, outside ? none : inside, "", err);
}

/* Sends the far end of a new socket in. */
static int start(struct native_host *h, struct talk *t, const struct host_guest_call *call,
                 bool outside, struct error *err)
{
    int pair[2];
    struct shim_event reply;
    _cleanup_close_ int plan = plan_of(call, outside, err);
    if (plan < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "making a socket");
    }
    t->socket = pair[0];
    _cleanup_close_ int far = pair[1];
    const int fds[] = {plan, h->guest_fd, far, far};
    const struct link_call request = {
        .request = {.type = SHIM_HELPER, .flags = outside ? SHIM_OUTSIDE : 0},
        .fds = fds,
        .fd_count = ARRAY_SIZE(fds),
        .timeout_ms = REQUEST_MS,
    };
    if (fcntl(t->socket, F_SETFL, O_NONBLOCK) != 0 ||
        link_request(t->link, &request, &reply, err) != 0) {
        return -1;
    }
    t->serial = reply.serial;
    if (reply.errnum != 0) {
        return error_set_errno(err, ERROR_RUNTIME, reply.errnum, "starting the helper inside");
    }
    t->started = true;
    return 0;
}

int native_guest(struct native_host *h, const struct host_guest_call *call, bool outside,
                 struct host_guest **out, struct error *err)
{
    struct talk *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    t->socket = -1;
    t->alone = call->alone;
    if (native_link(h, call->handle, &t->link, err) != 0 || start(h, t, call, outside, err) != 0) {
        talk_free(t);
        return -1;
    }
    const struct host_guest_ends ends = {
        .in = t->socket, .out = t->socket, .over = report_over, .close = talk_free, .ctx = t};
    return host_guest_new(call, &ends, out, err);
}
