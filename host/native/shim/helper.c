/* Our own program inside: like a command for process 1, or started from outside so that freezing
 * the execution does not stop it. */
#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { HELPER_PLAN, HELPER_PROGRAM, HELPER_STDIN, HELPER_STDOUT, HELPER_FDS };

static int start_by_init(struct shim *s, const struct shim_request *request, const int *fds)
{
    const struct init_request spawn = {
        .type = INIT_SPAWN, .serial = request->serial | 0x80000000U, .flags = INIT_HELPER};
    const int order[] = {fds[HELPER_PLAN], fds[HELPER_STDIN], fds[HELPER_STDOUT],
                         fds[HELPER_PROGRAM], cgroup_directory(&s->group, CGROUP_MEMORY)};
    return wire_send(s->init, &spawn, sizeof(spawn), order, ARRAY_SIZE(order), MSG_DONTWAIT) == 0
               ? 0
               : errno;
}

/* In the pid namespace already; everything else is still to be joined. */
static _Noreturn void helper_main(const struct shim *s, const struct plan *plan, const int *fds)
{
    struct sandbox_fault fault;
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (null < 0 || sandbox_join(s->init_pidfd, &fault) != 0 ||
        sandbox_drop_reader(&s->identity, &fault) != 0 ||
        sandbox_seccomp_install(s->fds[SHIM_START_FILTER], &fault) != 0) {
        _exit(126);
    }
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)setsid();
    umask(022);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir("/workspace") != 0 || dup2(fds[HELPER_STDIN], STDIN_FILENO) < 0 ||
        dup2(fds[HELPER_STDOUT], STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0) {
        _exit(126);
    }
    (void)syscall(SYS_execveat, fds[HELPER_PROGRAM], "", plan->argv, plan->envp, AT_EMPTY_PATH);
    _exit(126);
}

static size_t free_slot(const struct shim *s)
{
    size_t slot = 0;
    while (slot < ARRAY_SIZE(s->helper_pids) && s->helper_pids[slot] != 0) {
        slot++;
    }
    return slot;
}

static int start_outside(struct shim *s, const struct shim_request *request, const int *fds)
{
    size_t slot = free_slot(s);
    struct plan plan;
    if (slot == ARRAY_SIZE(s->helper_pids)) {
        return EAGAIN;
    }
    if (plan_open(fds[HELPER_PLAN], &plan) != 0) {
        return errno;
    }
    /* What forks next is born inside; the shim itself stays where it is. */
    int result = setns(s->init_pidfd, CLONE_NEWPID) == 0 ? 0 : errno;
    if (result == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            helper_main(s, &plan, fds);
        }
        result = pid < 0 ? errno : 0;
        s->helper_pids[slot] = pid < 0 ? 0 : pid;
        s->helper_serials[slot] = request->serial;
        (void)setns(s->own_pids, CLONE_NEWPID);
    }
    plan_close(&plan);
    return result;
}

int helper_start(struct shim *s, const struct shim_request *request, const int *fds)
{
    if ((request->flags & SHIM_OUTSIDE) != 0) {
        return start_outside(s, request, fds);
    }
    return start_by_init(s, request, fds);
}

void helper_ended(struct shim *s, pid_t pid, int status)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->helper_pids); i++) {
        if (s->helper_pids[i] == pid) {
            const struct shim_event event = {
                .type = SHIM_HELPED, .serial = s->helper_serials[i], .status = status};
            s->helper_pids[i] = 0;
            shim_answer(s, &event);
        }
    }
}
