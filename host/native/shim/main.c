/* The shim: holds one execution. Started by the service, it outlives it: it owns the sandbox's
 * processes, keeps output, sees to limits and deadline, and takes everything away at the end. */
#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>

int64_t shim_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct shim shim = {
    .group = CGROUP_SET_INIT,
    .service = SHIM_FD,
    .init = -1,
    .signals = -1,
    .oom = -1,
    .workspace = -1,
    .init_pidfd = -1,
    .own_pids = -1,
    .command = {.streams = {{.fd = -1}, {.fd = -1}}, .input = -1, .program_in = -1, .spool = -1},
};

int64_t shim_workspace_bytes(const struct shim *s, bool all)
{
    struct statfs fs;
    if (s->workspace < 0 || fstatfs(s->workspace, &fs) != 0) {
        return -1;
    }
    return (int64_t)(all ? fs.f_blocks : fs.f_blocks - fs.f_bfree) * fs.f_bsize;
}

/* --- start --- */

static int receive_start(struct shim *s)
{
    int fds[SHIM_FDS_MAX];
    size_t count = SHIM_FDS_MAX;
    if (wire_receive(SHIM_FD, &s->start, sizeof(s->start), fds, &count, 0) != 1) {
        return -1;
    }
    const struct shim_start *start = &s->start;
    if (start->version != SHIM_VERSION || start->tree_count > CGROUP_TREES_MAX ||
        count != SHIM_START_FDS + start->tree_count) {
        return -1;
    }
    memcpy(s->fds, fds, sizeof(s->fds));
    for (uint32_t i = 0; i < start->tree_count; i++) {
        s->parents.trees[i] = (struct cgroup_tree){.version = start->tree_version[i],
                                                   .uses = start->tree_uses[i],
                                                   .fd = fds[SHIM_START_FDS + i]};
    }
    s->parents.count = start->tree_count;
    s->identity = (struct sandbox_identity){.uid = start->uid,
                                            .gid = start->gid,
                                            .host_uid = start->host_uid,
                                            .host_gid = start->host_gid};
    s->deadline = shim_now_ms() + start->lifetime_ms + SHIM_SLACK_MS;
    return 0;
}

/* Nobody's signals, terminal or core dumps; children are told of by descriptor. */
static int prepare(struct shim *s)
{
    static const struct rlimit none = {0, 0};
    sigset_t all;
    sigset_t child;
    sigfillset(&all);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_NAME, "exechost-shim", 0, 0, 0);
    (void)fcntl(SHIM_FD, F_SETFD, FD_CLOEXEC);
    s->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    s->own_pids = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    return s->signals < 0 || s->own_pids < 0 || fchdir(s->fds[SHIM_START_DIRECTORY]) != 0 ? -1 : 0;
}

static _Noreturn void give_up(struct shim *s, const struct sandbox_fault *fault)
{
    struct shim_event event = {.type = SHIM_FAILED, .errnum = fault->errnum};
    strncpy(event.text, fault->step, sizeof(event.text) - 1);
    if (end_all(s) != 0) {
        /* What could not be removed is the service's to find: the groups have its name. */
        event.flags = SHIM_LOST;
    }
    shim_answer(s, &event);
    _exit(1);
}

/* --- the loop --- */

static void watch(struct shim *s)
{
    s->poll[SLOT_LISTEN] = (struct pollfd){.fd = s->fds[SHIM_START_LISTEN], .events = POLLIN};
    bool news = command_has_news(s) || (s->init_pid == 0 && !s->gone_told);
    s->poll[SLOT_SERVICE] =
        (struct pollfd){.fd = s->service, .events = (short)(news ? POLLIN | POLLOUT : POLLIN)};
    s->poll[SLOT_INIT] = (struct pollfd){.fd = s->init, .events = POLLIN};
    s->poll[SLOT_SIGNAL] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    s->poll[SLOT_OOM] = (struct pollfd){.fd = s->oom, .events = s->oom_events};
    command_watch(s);
    programs_watch(s);
}

static int wait_ms(const struct shim *s)
{
    int64_t at = command_wakes_at(s);
    int64_t program_at = programs_wake_at(s);
    at = at < program_at ? at : program_at;
    at = at < s->deadline ? at : s->deadline;
    int64_t left = at - shim_now_ms();
    return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

static void gone(struct shim *s)
{
    s->init_pid = 0;
    shim_close(&s->init);
    command_signals_settle(s);
    command_lost(s);
}

static void reap(struct shim *s)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(s->signals, &info, sizeof(info)) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->init_pid) {
            gone(s);
        } else {
            helper_ended(s, pid, status);
            program_ended(s, pid, status);
        }
    }
}

static void hear_init(struct shim *s)
{
    struct init_event event;
    size_t none = 0;
    if (wire_receive(s->init, &event, sizeof(event), NULL, &none, MSG_DONTWAIT) != 1) {
        shim_close(&s->init); /* its end as a process is what counts */
        command_signals_settle(s);
        return;
    }
    if ((event.serial & 0x80000000U) != 0) {
        const struct shim_event helped = {.type = SHIM_HELPED,
                                          .serial = event.serial & 0x7fffffffU,
                                          .errnum = event.errnum,
                                          .status = event.status};
        shim_answer(s, &helped);
    } else if (event.type == INIT_SIGNALLED) {
        command_signal_passed(s, event.token);
    } else {
        command_init_event(s, &event);
    }
}

static void hear_oom(struct shim *s)
{
    uint64_t count;
    char text[512];
    (void)!read(s->oom, &count, sizeof(count));
    (void)!pread(s->oom, text, sizeof(text), 0);
    command_out_of_memory(s);
}

static void tell_gone(struct shim *s)
{
    const struct shim_event event = {.type = SHIM_GONE};
    if (s->init_pid == 0 && !s->gone_told) {
        s->gone_told = shim_tell(s, &event);
    }
}

static void serve(struct shim *s)
{
    if (s->poll[SLOT_OOM].revents != 0) {
        hear_oom(s);
    }
    if (s->poll[SLOT_INIT].revents != 0 && s->init >= 0) {
        hear_init(s);
    }
    if (s->poll[SLOT_SIGNAL].revents != 0) {
        reap(s);
    }
    programs_serve(s);
    command_serve(s);
    command_tell(s);
    if ((s->poll[SLOT_SERVICE].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && s->service >= 0) {
        control_receive(s);
    }
    if (s->poll[SLOT_LISTEN].revents != 0) {
        control_accept(s);
    }
    tell_gone(s);
}

int main(void)
{
    struct shim *s = &shim;
    struct sandbox_fault fault = {.step = "prepare the shim", .errnum = EPROTO};
    if (receive_start(s) != 0) {
        return 1;
    }
    if (prepare(s) != 0 || birth(s, &fault) != 0) {
        give_up(s, &fault);
    }
    shim_greet(s);
    while (shim_now_ms() < s->deadline) {
        watch(s);
        if (poll(s->poll, ARRAY_SIZE(s->poll), wait_ms(s)) < 0 && errno != EINTR) {
            break;
        }
        serve(s);
    }
    return end_all(s) == 0 ? 0 : 1;
}
