/* Process 1 of a sandbox: sets it up from inside, starts programs, reaps everything. Once the first
 * program runs it has hardly more rights than that. */
#include "guest/exec.h"
#include "guest/protocol.h"
#include "host/native/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CHILDREN_MAX = 32, SPAWN_FDS = 5, SIGNAL_COUNT = 64 };
enum { INIT_SOCKET = 3 };

/* Descriptors of INIT_SPAWN. */
enum { SPAWN_PLAN, SPAWN_FIRST, SPAWN_SECOND, SPAWN_THIRD, SPAWN_MEMORY };

/* Why a program was not started; errnum 0: it was, or that is not known yet. */
struct failure {
    int errnum;
    bool in_cwd;
};

/* Programs stop one another as they like: nothing here waits for a child. */
struct child {
    pid_t pid; /* 0: free */
    uint32_t serial;
    int status; /* read end, until it has begun: exec closes it, or it says why not */
    struct failure why;
    uint64_t signals; /* those that came before */
};

struct init {
    const struct sandbox_identity *identity;
    int socket;
    int signals;
    int null;
    struct child children[CHILDREN_MAX];
};

/* What the child has in hand between fork and exec. */
struct launch {
    const struct sandbox_identity *identity;
    const struct plan *plan;
    int in;
    int out;
    int err;
    int program; /* of a helper, or -1 */
    int memory;  /* of a helper: what it may read of its memory group */
    int status;  /* write end */
};

static void report(const struct init *in, const struct init_event *event)
{
    if (wire_send(in->socket, event, sizeof(*event), NULL, 0, 0) != 0) {
        _exit(1); /* the shim is gone, and nobody else knows of this sandbox */
    }
}

static _Noreturn void fail(int socket, const struct sandbox_fault *fault)
{
    struct init_event event = {.type = INIT_BROKEN, .errnum = fault->errnum};
    strncpy(event.text, fault->step, sizeof(event.text) - 1);
    (void)wire_send(socket, &event, sizeof(event), NULL, 0, 0);
    _exit(1);
}

/* --- setting up --- */

static int set_up(const struct init_birth *birth, struct sandbox_fault *fault)
{
    if (sandbox_loopback_up(fault) != 0 || sandbox_mounts_enter(birth->mounts, fault) != 0) {
        return -1;
    }
    if (syscall(SYS_sethostname, birth->host_name, strlen(birth->host_name)) != 0) {
        return sandbox_fail(fault, "set the host name");
    }
    return 0;
}

/* The shim has mapped the ids and made the groups, which it comes with. */
static int wait_for_go(int socket, struct sandbox_fault *fault)
{
    struct init_request request;
    int groups[CGROUP_TREES_MAX];
    size_t count = CGROUP_TREES_MAX;
    if (wire_receive(socket, &request, sizeof(request), groups, &count, 0) != 1 ||
        request.type != INIT_GO) {
        errno = EPIPE;
        return sandbox_fail(fault, "be told to go on");
    }
    for (size_t i = 0; i < count; i++) {
        if (write(groups[i], "0", 1) != 1) {
            return sandbox_fail(fault, "go into its cgroups");
        }
        close(groups[i]);
    }
    return 0;
}

static int keep_only(struct init *in)
{
    in->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in->null < 0) {
        return -1;
    }
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (dup2(in->null, fd) < 0) {
            return -1;
        }
    }
    return 0;
}

static int confine(const struct init_birth *birth, struct init *in, struct sandbox_fault *fault)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (sandbox_drop_keeper(birth->identity, fault) != 0 ||
        sandbox_seccomp_install(birth->filter, fault) != 0) {
        return -1;
    }
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* A change of user has cleared it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    umask(022);
    if (dup2(birth->socket, INIT_SOCKET) < 0 || fcntl(INIT_SOCKET, F_SETFD, FD_CLOEXEC) != 0 ||
        syscall(SYS_close_range, INIT_SOCKET + 1, ~0U, 0) != 0 || keep_only(in) != 0) {
        return sandbox_fail(fault, "keep its own descriptors only");
    }
    in->identity = birth->identity;
    in->socket = INIT_SOCKET;
    in->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return in->signals < 0 ? sandbox_fail(fault, "watch its children") : 0;
}

/* --- programs --- */

static _Noreturn void fail_child(const struct launch *l, bool in_cwd)
{
    const struct failure failure = {.errnum = errno, .in_cwd = in_cwd};
    (void)!write(l->status, &failure, sizeof(failure));
    _exit(127);
}

/* When memory is out the kernel is to take programs, not what starts and reaps them. Still as a
 * user whom no program can touch: a process that is not dumpable owns none of its files. */
static void go_first(void)
{
    static const char most[] = "1000";
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, most, sizeof(most) - 1);
        close(fd);
    }
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static _Noreturn void child_main(const struct launch *l)
{
    sigset_t none;
    go_first();
    (void)setsid();
    if (dup2(l->in, STDIN_FILENO) < 0 || dup2(l->out, STDOUT_FILENO) < 0 ||
        dup2(l->err, STDERR_FILENO) < 0 || sandbox_become_user(l->identity) != 0) {
        fail_child(l, false);
    }
    if (chdir("/workspace") != 0 || (l->plan->cwd[0] != '\0' && chdir(l->plan->cwd) != 0)) {
        fail_child(l, true);
    }
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (l->program >= 0 && dup2(l->memory, GUEST_MEMORY_FD) >= 0) {
        (void)syscall(SYS_execveat, l->program, "", l->plan->argv, l->plan->envp, AT_EMPTY_PATH);
    } else if (l->program < 0) {
        errno = guest_exec(l->plan->argv, l->plan->envp);
    }
    fail_child(l, false);
}

static struct child *find_child(struct init *in, pid_t pid)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (in->children[i].pid == pid) {
            return &in->children[i];
        }
    }
    return NULL;
}

static void refuse(const struct init *in, uint32_t serial, const struct failure *why)
{
    const struct init_event event = {
        .type = INIT_REFUSED, .serial = serial, .errnum = why->errnum, .in_cwd = why->in_cwd};
    report(in, &event);
}

static void set_ends(struct launch *l, const struct init *in, const struct init_request *r,
                     const int *fds)
{
    bool helper = (r->flags & INIT_HELPER) != 0;
    bool has_stdin = (r->flags & INIT_HAS_STDIN) != 0;
    *l = (struct launch){
        .identity = in->identity,
        .in = helper      ? fds[SPAWN_FIRST]
              : has_stdin ? fds[SPAWN_THIRD]
                          : in->null,
        .out = helper ? fds[SPAWN_SECOND] : fds[SPAWN_FIRST],
        .err = helper ? in->null : fds[SPAWN_SECOND],
        .program = helper ? fds[SPAWN_THIRD] : -1,
        .memory = helper ? fds[SPAWN_MEMORY] : -1,
    };
}

/* 0 or errno. */
static int start(struct child *child, struct launch *l)
{
    int status[2];
    if (pipe2(status, O_CLOEXEC | O_NONBLOCK) != 0) {
        return errno;
    }
    l->status = status[1];
    pid_t pid = fork();
    if (pid == 0) {
        child_main(l);
    }
    int result = pid < 0 ? errno : 0;
    close(status[1]);
    if (pid < 0) {
        close(status[0]);
    } else {
        *child = (struct child){.pid = pid, .serial = child->serial, .status = status[0]};
    }
    return result;
}

static void spawn(struct init *in, const struct init_request *r, const int *fds, size_t count)
{
    bool helper = (r->flags & INIT_HELPER) != 0;
    size_t needed = helper ? SPAWN_MEMORY + 1U : (r->flags & INIT_HAS_STDIN) != 0 ? 4 : 3;
    struct plan plan;
    struct launch l;
    struct child *child = find_child(in, 0);
    struct failure why = {.errnum = count != needed ? EPROTO : child == NULL ? EAGAIN : 0};
    if (why.errnum == 0 && plan_open(fds[SPAWN_PLAN], &plan) != 0) {
        why.errnum = errno;
    }
    if (why.errnum == 0) {
        set_ends(&l, in, r, fds);
        l.plan = &plan;
        child->serial = r->serial;
        why.errnum = start(child, &l);
        plan_close(&plan);
    }
    if (why.errnum != 0) {
        refuse(in, r->serial, &why);
    }
}

/* A leader in a group of its own making still gets it, and only once. */
static void send_signal(const struct child *child, int number)
{
    if (kill(-child->pid, number) != 0 || getpgid(child->pid) != child->pid) {
        (void)kill(child->pid, number);
    }
}

/* Whether it has begun or never will, as far as it is known by now. */
static void look_at_start(struct child *child)
{
    ssize_t n = child->status < 0 ? -1 : read(child->status, &child->why, sizeof(child->why));
    if (child->status >= 0 && (n >= 0 || errno != EAGAIN)) {
        shim_close(&child->status);
    }
}

static void send_waiting(struct child *child)
{
    look_at_start(child);
    for (int number = 1; child->status < 0 && number < SIGNAL_COUNT; number++) {
        if ((child->signals >> number & 1) != 0) {
            send_signal(child, number);
        }
    }
    child->signals = child->status < 0 ? 0 : child->signals;
}

/* What can't be caught need not wait. */
static void pass_signal_to(struct child *child, int number)
{
    look_at_start(child);
    if (child->status < 0 || number == SIGKILL || number == SIGCONT || number == SIGSTOP) {
        send_signal(child, number);
    } else if (number > 0 && number < SIGNAL_COUNT) {
        child->signals |= UINT64_C(1) << number;
    }
}

static void pass_signal(struct init *in, const struct init_request *r)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (in->children[i].pid != 0 && in->children[i].serial == r->serial) {
            pass_signal_to(&in->children[i], r->signal);
        }
    }
    const struct init_event passed = {
        .type = INIT_SIGNALLED, .serial = r->serial, .token = r->token};
    report(in, &passed);
}

static int64_t timeval_ms(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_usec / 1000;
}

static void tell_end(const struct init *in, struct child *child, int status,
                     const struct rusage *usage)
{
    look_at_start(child);
    if (child->why.errnum != 0) {
        refuse(in, child->serial, &child->why);
    } else {
        const struct init_event event = {
            .type = INIT_EXITED,
            .serial = child->serial,
            .status = status,
            .cpu_ms = timeval_ms(&usage->ru_utime) + timeval_ms(&usage->ru_stime),
        };
        report(in, &event);
    }
    shim_close(&child->status);
    child->pid = 0;
}

static void reap(struct init *in)
{
    struct signalfd_siginfo info;
    struct rusage usage;
    int status;
    pid_t pid;
    while (read(in->signals, &info, sizeof(info)) > 0) {
    }
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        struct child *child = find_child(in, pid);
        if (child != NULL) {
            tell_end(in, child, status, &usage);
        }
    }
}

/* --- the whole --- */

enum { SLOT_SHIM, SLOT_CHILDREN, SLOT_STARTS };

static void watch(const struct init *in, struct pollfd ready[SLOT_STARTS + CHILDREN_MAX])
{
    ready[SLOT_SHIM] = (struct pollfd){.fd = in->socket, .events = POLLIN};
    ready[SLOT_CHILDREN] = (struct pollfd){.fd = in->signals, .events = POLLIN};
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        const struct child *child = &in->children[i];
        bool waits = child->pid != 0 && child->signals != 0;
        ready[SLOT_STARTS + i] =
            (struct pollfd){.fd = waits ? child->status : -1, .events = POLLIN};
    }
}

static void serve(struct init *in)
{
    struct init_request request;
    int fds[SPAWN_FDS];
    size_t count = SPAWN_FDS;
    if (wire_receive(in->socket, &request, sizeof(request), fds, &count, 0) != 1) {
        _exit(1);
    }
    if (request.type == INIT_SPAWN) {
        spawn(in, &request, fds, count);
    } else if (request.type == INIT_SIGNAL) {
        pass_signal(in, &request);
    }
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

_Noreturn void init_main(const struct init_birth *birth)
{
    static struct init in;
    static struct pollfd ready[SLOT_STARTS + CHILDREN_MAX];
    struct sandbox_fault fault = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (set_up(birth, &fault) != 0 || wait_for_go(birth->socket, &fault) != 0 ||
        confine(birth, &in, &fault) != 0) {
        fail(birth->socket, &fault);
    }
    const struct init_event up = {.type = INIT_UP};
    report(&in, &up);
    for (;;) {
        watch(&in, ready);
        if (poll(ready, ARRAY_SIZE(ready), -1) < 0 && errno != EINTR) {
            _exit(1);
        }
        for (size_t i = 0; i < CHILDREN_MAX; i++) {
            if (ready[SLOT_STARTS + i].revents != 0) {
                send_waiting(&in.children[i]);
            }
        }
        if (ready[SLOT_CHILDREN].revents != 0) {
            reap(&in);
        }
        if (ready[SLOT_SHIM].revents != 0) {
            serve(&in);
        }
    }
}
