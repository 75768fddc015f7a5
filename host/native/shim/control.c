#include "host/native/shim/shim.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { FREEZE_WAIT_MS = 10 * 1000, ANSWER_WAIT_MS = 1000, HELPER_FDS = 4 };
enum { REQUEST_FDS = SHIM_PROGRAM_FDS };

bool shim_tell(struct shim *s, const struct shim_event *event)
{
    if (s->service < 0) {
        return false;
    }
    if (wire_send(s->service, event, sizeof(*event), NULL, 0, MSG_DONTWAIT) == 0) {
        return true;
    }
    if (errno != EAGAIN) {
        shim_close(&s->service);
    }
    return false;
}

void shim_answer(struct shim *s, const struct shim_event *event)
{
    struct pollfd room = {.fd = s->service, .events = POLLOUT};
    if (!shim_tell(s, event) && s->service >= 0) {
        (void)poll(&room, 1, ANSWER_WAIT_MS);
        if (!shim_tell(s, event)) {
            shim_close(&s->service);
        }
    }
}

void shim_read_usage(const struct shim *s, struct shim_event *event)
{
    struct cgroup_counters counters;
    cgroup_read_counters(&s->group, &counters);
    event->usage_cpu_ms = counters.cpu_ms;
    event->usage_memory_peak_bytes = counters.memory_peak_bytes;
    event->usage_pids_peak = counters.pids_peak;
    event->usage_workspace_bytes = shim_workspace_bytes(s, false);
}

/* --- the connection --- */

void shim_greet(struct shim *s)
{
    struct shim_event event = {
        .type = SHIM_READY,
        .version = SHIM_VERSION,
        .frozen = cgroup_is_frozen(&s->group),
        .alive = s->init_pid != 0,
        .pid = getpid(),
    };
    struct cgroup_limits limits;
    if (cgroup_read_limits(&s->group, &limits) == 0) {
        event.nano_cpus = limits.nano_cpus;
        event.memory_bytes = limits.memory_bytes;
        event.pids = limits.pids;
    }
    event.workspace_bytes = shim_workspace_bytes(s, true);
    memcpy(event.command, s->command.id, sizeof(event.command));
    shim_answer(s, &event);
}

void control_accept(struct shim *s)
{
    int fd = accept4(s->fds[SHIM_START_LISTEN], NULL, NULL, SOCK_CLOEXEC);
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (fd < 0) {
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
        close(fd);
        return;
    }
    shim_close(&s->service);
    memset(s->signals_asked, 0, sizeof(s->signals_asked));
    s->service = fd;
    s->gone_told = false;
    shim_greet(s);
}

/* --- requests --- */

static void resume(struct shim *s, const struct shim_request *request)
{
    const struct command *c = &s->command;
    if (strncmp(c->id, request->command, sizeof(c->id)) != 0) {
        struct shim_event none = {.type = SHIM_FINISHED, .flags = SHIM_LOST | SHIM_UNHEARD};
        memcpy(none.command, request->command, sizeof(none.command));
        shim_answer(s, &none);
        return;
    }
    command_tell_anew(s);
}

static int freeze(struct shim *s)
{
    command_signals_settle(s); /* whom they are for answers nothing while frozen */
    return cgroup_freeze(&s->group, true, FREEZE_WAIT_MS) == 0 ? 0 : errno;
}

static int obey(struct shim *s, const struct shim_request *request, const int *fds, size_t count)
{
    switch ((enum shim_request_type)request->type) {
    case SHIM_INPUT: return command_input(s, request, count == 1 ? fds[0] : -1);
    case SHIM_SIGNAL: return command_signal(s, request);
    case SHIM_HELPER: return count == HELPER_FDS ? helper_start(s, request, fds) : EPROTO;
    case SHIM_PROGRAM: return count == SHIM_PROGRAM_FDS ? program_start(s, request, fds) : EPROTO;
    case SHIM_EXTEND: s->deadline = shim_now_ms() + request->value + SHIM_SLACK_MS; return 0;
    case SHIM_FREEZE: return freeze(s);
    case SHIM_THAW: return cgroup_freeze(&s->group, false, 0) == 0 ? 0 : errno;
    case SHIM_TERMINATE: return end_all(s) == 0 ? 0 : errno;
    case SHIM_EXEC:
    case SHIM_RESUME: break;
    }
    return ENOSYS;
}

static void exec(struct shim *s, const struct shim_request *request, const int *fds, size_t count)
{
    int result = s->init_pid == 0 ? ESRCH : command_start(s, request, fds, count);
    if (result != 0) {
        struct shim_event refused = {.type = SHIM_FINISHED, .flags = SHIM_LOST, .errnum = result};
        memcpy(refused.command, request->command, sizeof(refused.command));
        shim_answer(s, &refused);
    }
}

static void reply(struct shim *s, const struct shim_request *request, const int *fds, size_t count)
{
    struct shim_event event = {.type = SHIM_REPLY, .serial = request->serial};
    int result = obey(s, request, fds, count);
    if (result == SHIM_LATER) {
        return;
    }
    event.errnum = result;
    shim_answer(s, &event);
    if (request->type == SHIM_TERMINATE && event.errnum == 0) {
        _exit(0);
    }
}

void control_receive(struct shim *s)
{
    struct shim_request request;
    int fds[REQUEST_FDS];
    size_t count = REQUEST_FDS;
    int got = wire_receive(s->service, &request, sizeof(request), fds, &count, MSG_DONTWAIT);
    if (got != 1) {
        if (got == 0 || errno != EAGAIN) {
            shim_close(&s->service);
        }
        return;
    }
    request.command[SHIM_ID_SIZE - 1] = '\0';
    if (request.type == SHIM_EXEC) {
        exec(s, &request, fds, count);
    } else if (request.type == SHIM_RESUME) {
        resume(s, &request);
    } else {
        reply(s, &request, fds, count);
    }
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}
