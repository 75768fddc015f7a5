#include "host/native/native_internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

enum { REQUEST_MS = 15 * 1000 };

static char DEFAULT_PATH[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

_Static_assert(sizeof(struct host_program_end) == sizeof(struct shim_program_end) &&
                   offsetof(struct host_program_end, oom_killed) ==
                       offsetof(struct shim_program_end, oom_killed) &&
                   offsetof(struct host_program_end, cpu_used_up) ==
                       offsetof(struct shim_program_end, cpu_used_up),
               "what a shim says of an end is what the host tells");

static char *path_of(const struct link *k)
{
    static const char name[] = "PATH=";
    char *path = DEFAULT_PATH;
    char *const *environment = link_environment(k);
    for (; environment != NULL && *environment != NULL; environment++) {
        path = strncmp(*environment, name, sizeof(name) - 1) == 0 ? *environment : path;
    }
    return path;
}

static int ask(struct link *k, const struct host_program_plan *plan, int file, int leash,
               struct error *err)
{
    const int fds[SHIM_PROGRAM_FDS] = {
        [SHIM_PROGRAM_PLAN] = file,
        [SHIM_PROGRAM_PROGRAM] = plan->program,
        [SHIM_PROGRAM_STREAMS] = plan->streams[0],
        [SHIM_PROGRAM_STREAMS + 1] = plan->streams[1],
        [SHIM_PROGRAM_STREAMS + 2] = plan->streams[2],
        [SHIM_PROGRAM_STREAMS + 3] = plan->streams[3],
        [SHIM_PROGRAM_LEASH] = leash,
        [SHIM_PROGRAM_LENT] = plan->lent,
        [SHIM_PROGRAM_LENT_FILE] = plan->lent_file,
    };
    const struct link_call call = {
        .request = {.type = SHIM_PROGRAM,
                    .flags = plan->read_only ? SHIM_READ_ONLY : 0,
                    .value = plan->cpu_ms},
        .fds = fds,
        .fd_count = ARRAY_SIZE(fds),
        .timeout_ms = REQUEST_MS,
    };
    struct shim_event reply;
    if (link_request(k, &call, &reply, err) != 0) {
        return -1;
    }
    if (reply.errnum == EAGAIN) {
        return error_set(err, ERROR_OVERLOADED, "too many programs run inside of the execution");
    }
    return reply.errnum == 0 ? 0
                             : error_set_errno(err, ERROR_RUNTIME, reply.errnum,
                                               "starting a program inside of the execution");
}

int native_program(struct native_host *h, const struct host_program_plan *plan, int *leash,
                   struct error *err)
{
    _cleanup_link_ struct link *k = NULL;
    int pair[2];
    if (native_link(h, plan->handle, &k, err) != 0) {
        return -1;
    }
    char *const environment[] = {path_of(k), NULL};
    _cleanup_close_ int file = native_plan_file(plan->argv, environment, "", err);
    if (file < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "making a socket");
    }
    _cleanup_close_ int near = pair[0];
    _cleanup_close_ int far = pair[1];
    if (ask(k, plan, file, far, err) != 0) {
        return -1;
    }
    *leash = TAKE_FD(near);
    return 0;
}
