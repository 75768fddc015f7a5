/* Programs of the service's beside the commands: in the same namespaces and under the same limits,
 * each in a control group of its own below the sandbox's, with a mount namespace that shows it what
 * it is lent. Nothing here waits for one. */
#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
    STREAMS = SHIM_PROGRAM_LEASH - SHIM_PROGRAM_STREAMS,
    MOVED_FROM = 64,
    LOOK_MS = 2,
    CPU_LOOK_MS = 100
};
enum { NAME_SIZE = 24 };

static void name_of(const struct program *p, char out[NAME_SIZE])
{
    (void)snprintf(out, NAME_SIZE, "program-%u", (unsigned)p->number);
}

/* --- counting --- */

/* Version 1 counts by group; version 2 has no counter where memory is not delegated, and counts in
 * the sandbox's. */
static int64_t own_oom_kills(const struct program *p)
{
    int64_t kills = p->used ? cgroup_oom_kills(&p->group) : 0;
    return kills > 0 ? kills : 0;
}

int64_t shim_oom_kills(const struct shim *s)
{
    int64_t kills = cgroup_oom_kills(&s->group);
    for (size_t i = 0; kills >= 0 && i < PROGRAMS_MAX; i++) {
        kills += own_oom_kills(&s->programs[i]);
    }
    return kills < 0 ? kills : kills + s->program_oom_kills;
}

/* --- between fork and exec --- */

static _Noreturn void fail(int err, const char *step)
{
    (void)dprintf(err, SHIM_PROGRAM_FAULT "%s: %s\n", step, strerror(errno));
    _exit(126);
}

/* When memory is out the kernel is to take programs, not what starts and reaps them. */
static void go_first(void)
{
    static const char most[] = "1000";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, most, sizeof(most) - 1);
        close(fd);
    }
}

/* While that is frozen it waits there. */
static int join_group(const struct cgroup_set *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        int fd = cgroup_open_entry(&group->trees[i]);
        ssize_t n = fd < 0 ? -1 : write(fd, "0", 1);
        if (fd >= 0) {
            close(fd);
        }
        if (n != 1) {
            return -1;
        }
    }
    return 0;
}

/* Out of the way of the numbers that the streams are to have. */
static int move_away(const int *fds, int *moved)
{
    for (int i = 0; i < SHIM_PROGRAM_FDS; i++) {
        moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, MOVED_FROM);
        if (moved[i] < 0) {
            return -1;
        }
    }
    return 0;
}

static int place_streams(const int *moved)
{
    for (int i = 0; i < STREAMS; i++) {
        if (dup2(moved[SHIM_PROGRAM_STREAMS + i], i) < 0) {
            return -1;
        }
    }
    return (int)syscall(SYS_close_range, STREAMS, ~0U, CLOSE_RANGE_CLOEXEC);
}

static int confine(const struct shim *s, const int *moved, bool read_only,
                   struct sandbox_fault *fault)
{
    const struct sandbox_loan loan = {.directory = moved[SHIM_PROGRAM_LENT],
                                      .file = moved[SHIM_PROGRAM_LENT_FILE],
                                      .file_name = SHIM_LENT_FILE,
                                      .read_only = read_only};
    if (sandbox_join(s->init_pidfd, fault) != 0 || sandbox_borrow(&loan, fault) != 0 ||
        sandbox_drop_user(&s->identity, fault) != 0 ||
        sandbox_seccomp_install(s->fds[SHIM_START_FILTER], fault) != 0) {
        return -1;
    }
    return chdir("/workspace") != 0 ? sandbox_fail(fault, "go to the workspace") : 0;
}

/* In the pid namespace already; everything else is still to be joined. */
static _Noreturn void program_main(const struct shim *s, const struct program *p,
                                   const struct plan *plan, const int *fds, bool read_only)
{
    struct sandbox_fault fault;
    int moved[SHIM_PROGRAM_FDS];
    int err = fds[SHIM_PROGRAM_STREAMS + STDERR_FILENO];
    sigset_t none;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    go_first();
    if (move_away(fds, moved) != 0) {
        fail(err, "move its descriptors");
    }
    err = moved[SHIM_PROGRAM_STREAMS + STDERR_FILENO];
    if (join_group(&p->group) != 0) {
        fail(err, "join its control group");
    }
    if (confine(s, moved, read_only, &fault) != 0) {
        errno = fault.errnum;
        fail(err, fault.step);
    }
    /* A change of user has cleared it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)setsid();
    umask(022);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (place_streams(moved) != 0) {
        fail(err, "place its descriptors");
    }
    (void)syscall(SYS_execveat, moved[SHIM_PROGRAM_PROGRAM], "", plan->argv, plan->envp,
                  AT_EMPTY_PATH);
    fail(err, "start the program");
}

/* --- starting --- */

static struct program *find_free(struct shim *s)
{
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        if (!s->programs[i].used) {
            return &s->programs[i];
        }
    }
    return NULL;
}

/* 0 or errno. */
static int fork_program(struct shim *s, struct program *p, const int *fds, bool read_only)
{
    struct plan plan;
    if (plan_open(fds[SHIM_PROGRAM_PLAN], &plan) != 0) {
        return errno;
    }
    /* What forks next is born inside; the shim itself stays where it is. */
    int result = setns(s->init_pidfd, CLONE_NEWPID) == 0 ? 0 : errno;
    if (result == 0) {
        p->pid = fork();
        if (p->pid == 0) {
            program_main(s, p, &plan, fds, read_only);
        }
        result = p->pid < 0 ? errno : 0;
        (void)setns(s->own_pids, CLONE_NEWPID);
    }
    plan_close(&plan);
    return result;
}

int program_start(struct shim *s, const struct shim_request *request, const int *fds)
{
    char name[NAME_SIZE];
    struct program *p = find_free(s);
    if (s->init_pid == 0 || p == NULL) {
        return s->init_pid == 0 ? ESRCH : EAGAIN;
    }
    *p = (struct program){.number = ++s->programs_started,
                          .oom_before = shim_oom_kills(s),
                          .cpu_ms = request->value,
                          .look_at = shim_now_ms() + CPU_LOOK_MS};
    name_of(p, name);
    int result = cgroup_below(&s->group, name, true, &p->group) == 0 ? 0 : errno;
    if (result == 0) {
        p->leash = fcntl(fds[SHIM_PROGRAM_LEASH], F_DUPFD_CLOEXEC, MOVED_FROM);
        result = p->leash < 0 ? errno : 0;
    }
    if (result == 0) {
        result = fork_program(s, p, fds, (request->flags & SHIM_READ_ONLY) != 0);
        if (result != 0) {
            shim_close(&p->leash);
        }
    }
    if (result != 0) {
        cgroup_set_close(&p->group);
        (void)!cgroup_remove(&s->group, name);
        return result;
    }
    p->used = true;
    return 0;
}

/* --- ending --- */

void program_ended(struct shim *s, pid_t pid, int status)
{
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        struct program *p = &s->programs[i];
        if (p->used && p->pid == pid) {
            p->pid = 0;
            p->status = status;
            p->ending = true;
            p->look_at = 0;
        }
    }
}

static void finish(struct shim *s, struct program *p, bool oom_killed)
{
    const struct shim_program_end end = {
        .status = p->status, .oom_killed = oom_killed, .cpu_used_up = p->cpu_used_up};
    if (s->init_pid != 0) {
        (void)wire_send(p->leash, &end, sizeof(end), NULL, 0, MSG_DONTWAIT);
    }
    shim_close(&p->leash);
    p->used = false;
}

/* That its group can be removed is the proof that nothing of it is left. */
static void end(struct shim *s, struct program *p)
{
    char name[NAME_SIZE];
    int64_t own = own_oom_kills(p);
    bool oom_killed = shim_oom_kills(s) > p->oom_before;
    name_of(p, name);
    if (cgroup_kill(&p->group) != 0) {
        cgroup_kill_each(&p->group);
    }
    if (p->pid > 0) {
        (void)kill(p->pid, SIGKILL); /* it may be on its way into the group */
    }
    if (p->pid > 0 || cgroup_remove(&s->group, name) != 0) {
        p->look_at = shim_now_ms() + LOOK_MS;
        return;
    }
    cgroup_set_close(&p->group);
    s->program_oom_kills += own;
    finish(s, p, oom_killed);
}

void programs_drop(struct shim *s)
{
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        struct program *p = &s->programs[i];
        if (p->used) {
            cgroup_set_close(&p->group);
            finish(s, p, false);
        }
    }
}

/* --- the loop --- */

static void look(struct program *p, bool let_go, int64_t now)
{
    struct cgroup_counters counters;
    if (!let_go && now < p->look_at) {
        return;
    }
    cgroup_read_counters(&p->group, &counters);
    p->cpu_used_up = !let_go && counters.cpu_ms >= p->cpu_ms;
    p->ending = let_go || p->cpu_used_up;
    p->look_at = p->ending ? 0 : now + CPU_LOOK_MS;
}

void programs_watch(struct shim *s)
{
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        const struct program *p = &s->programs[i];
        s->poll[SLOT_COUNT + i] =
            (struct pollfd){.fd = p->used && !p->ending ? p->leash : -1, .events = POLLIN};
    }
}

int64_t programs_wake_at(const struct shim *s)
{
    int64_t at = INT64_MAX;
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        const struct program *p = &s->programs[i];
        if (p->used && p->look_at < at) {
            at = p->look_at;
        }
    }
    return at;
}

void programs_serve(struct shim *s)
{
    int64_t now = shim_now_ms();
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        struct program *p = &s->programs[i];
        if (p->used && !p->ending) {
            look(p, s->poll[SLOT_COUNT + i].revents != 0, now);
        }
        if (p->used && p->ending && now >= p->look_at) {
            end(s, p);
        }
    }
}
