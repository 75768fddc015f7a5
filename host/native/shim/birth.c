#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int make_birth_group(struct shim *s, struct sandbox_fault *fault)
{
    if (cgroup_make_birth(&s->parents, s->start.cgroup, &s->group) != 0) {
        return sandbox_fail(fault, "make the cgroups");
    }
    return 0;
}

static int make_other_groups(struct shim *s, struct sandbox_fault *fault)
{
    if (cgroup_make_others(&s->parents, s->start.cgroup, &s->group) != 0) {
        return sandbox_fail(fault, "make the cgroups");
    }
    return 0;
}

static int limit_groups(struct shim *s, struct sandbox_fault *fault)
{
    const struct cgroup_limits limits = {.nano_cpus = s->start.nano_cpus,
                                         .memory_bytes = s->start.memory_bytes,
                                         .pids = s->start.pids};
    if (cgroup_limit(&s->group, &limits, fault) != 0) {
        return -1;
    }
    s->oom = cgroup_watch_oom(&s->group, &s->oom_events);
    return 0;
}

static int make_mounts(struct shim *s, struct sandbox_mounts *mounts, struct sandbox_fault *fault)
{
    const struct sandbox_disk disk = {.workspace_bytes = s->start.workspace_bytes,
                                      .workspace_inodes = s->start.workspace_inodes,
                                      .tmp_bytes = s->start.tmp_bytes,
                                      .shm_bytes = s->start.shm_bytes};
    return sandbox_mounts_make(mounts, s->fds[SHIM_START_IMAGE], &disk, &s->identity, fault);
}

static int fork_init(struct shim *s, const struct sandbox_mounts *mounts,
                     struct sandbox_fault *fault)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return sandbox_fail(fault, "make a socket for process 1");
    }
    s->init = pair[0];
    pid_t pid = sandbox_clone(cgroup_birth_fd(&s->group), &s->init_pidfd);
    if (pid == 0) {
        const struct init_birth birth = {.mounts = mounts,
                                         .identity = &s->identity,
                                         .host_name = s->start.host_name,
                                         .filter = s->fds[SHIM_START_FILTER],
                                         .socket = pair[1]};
        close(pair[0]);
        init_main(&birth);
    }
    int result = pid < 0 ? sandbox_fail(fault, "make the namespaces") : 0;
    close(pair[1]);
    s->init_pid = pid < 0 ? 0 : pid;
    return result;
}

static int wait_for_init(struct shim *s, struct sandbox_fault *fault)
{
    static struct init_event event;
    size_t none = 0;
    if (wire_receive(s->init, &event, sizeof(event), NULL, &none, 0) != 1) {
        errno = ECHILD;
        return sandbox_fail(fault, "wait for process 1");
    }
    if (event.type != INIT_UP) {
        *fault = (struct sandbox_fault){.step = event.text, .errnum = event.errnum};
        return -1;
    }
    return 0;
}

/* It moves itself. Where it is gone already it has said why. */
static int let_go(struct shim *s, struct sandbox_fault *fault)
{
    const struct init_request go = {.type = INIT_GO};
    int fds[CGROUP_TREES_MAX];
    size_t count;
    if (cgroup_open_entries(&s->group, fds, &count) != 0) {
        return sandbox_fail(fault, "put process 1 into its cgroups");
    }
    (void)wire_send(s->init, &go, sizeof(go), fds, count, 0);
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
    return 0;
}

static int raise_init(struct shim *s, const struct sandbox_mounts *mounts,
                      struct sandbox_fault *fault)
{
    /* It works at its mounts while groups are made, and goes into them. */
    if (fork_init(s, mounts, fault) != 0) {
        return -1;
    }
    if (sandbox_map_identity(s->init_pid, &s->identity, fault) != 0 ||
        make_other_groups(s, fault) != 0 || limit_groups(s, fault) != 0 || let_go(s, fault) != 0) {
        return -1;
    }
    return wait_for_init(s, fault);
}

int birth(struct shim *s, struct sandbox_fault *fault)
{
    struct sandbox_mounts mounts = SANDBOX_MOUNTS_INIT;
    int result = make_mounts(s, &mounts, fault);
    if (result == 0) {
        result = make_birth_group(s, fault);
    }
    if (result == 0) {
        result = raise_init(s, &mounts, fault);
    }
    s->workspace = mounts.workspace;
    mounts.workspace = -1;
    sandbox_mounts_close(&mounts);
    return result;
}
