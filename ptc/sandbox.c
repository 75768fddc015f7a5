#include "base/clock.h"
#include "base/fault.h"
#include "ptc/internal.h"
#include "ptc/launch/protocol.h"
#include "ptc/places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { ARGS_MAX = 320, OWNED_MAX = 160, MOVED_FROM = 100, MIB = 1024 * 1024, NANO = 1000000000 };
enum { LAUNCH_MS = 10000 };

/* Where bubblewrap shows the parts of the stage. */
#define INSIDE_NODE "/opt/ptc/node"
#define INSIDE_BOOTSTRAP "/opt/ptc/bootstrap"

struct args {
    const char *list[ARGS_MAX];
    size_t count;
    char *owned[OWNED_MAX];
    size_t owned_count;
    bool failed;
};

static void add(struct args *a, const char *arg)
{
    if (a->count + 1 >= ARGS_MAX) {
        a->failed = true;
        return;
    }
    a->list[a->count++] = arg;
    a->list[a->count] = NULL;
}

static void add2(struct args *a, const char *first, const char *second)
{
    add(a, first);
    add(a, second);
}

static void add3(struct args *a, const char *first, const char *second, const char *third)
{
    add2(a, first, second);
    add(a, third);
}

static void args_done(struct args *a)
{
    for (size_t i = 0; i < a->owned_count; i++) {
        free(a->owned[i]);
    }
}

static const char *format(struct args *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

static const char *format(struct args *a, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0 || a->owned_count == OWNED_MAX) {
        if (len >= 0) {
            free(text);
        }
        a->failed = true;
        return "";
    }
    a->owned[a->owned_count++] = text;
    return text;
}

/* --- what is seen inside --- */

static void add_system(struct args *a)
{
    static const char *const places[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    add3(a, "--ro-bind", "/usr", "/usr");
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char target[PATH_MAX];
        struct stat st;
        ssize_t len = readlink(places[i], target, sizeof(target) - 1);
        if (len > 0) {
            target[len] = '\0';
            add3(a, "--symlink", format(a, "%s", target), places[i]);
        } else if (stat(places[i], &st) == 0) {
            add3(a, "--ro-bind", places[i], places[i]);
        }
    }
}

static void add_workspace(struct args *a, const struct ptc_kind *kind)
{
    bool writes = kind->mode != PTC_READ_ONLY;
    if (kind->workspace_root != NULL) {
        add3(a, writes ? "--bind" : "--ro-bind", LAUNCH_PLACE "/workspace", kind->workspace_root);
        return;
    }
    add2(a, "--tmpfs", PTC_PRIVATE_WORKSPACE);
    if (!writes) {
        add2(a, "--remount-ro", PTC_PRIVATE_WORKSPACE);
    }
}

static void add_confined_tree(struct args *a, const struct ptc_kind *kind)
{
    add_system(a);
    add3(a, "--ro-bind", kind->network_host ? LAUNCH_PLACE "/etc-host" : LAUNCH_PLACE "/etc",
         "/etc");
    add2(a, "--proc", "/proc");
    add2(a, "--dev", "/dev");
    add2(a, "--remount-ro", "/dev");
    if (kind->mode == PTC_WORKSPACE_WRITE) {
        add2(a, "--tmpfs", "/tmp");
    }
    add_workspace(a, kind);
}

static void add_entry(struct args *a, const char *name)
{
    char target[PATH_MAX];
    const char *path = format(a, "/%s", name);
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    if (len > 0) {
        target[len] = '\0';
        add3(a, "--symlink", format(a, "%s", target), path);
    } else {
        add3(a, "--bind", path, path);
    }
}

/* Everything that the run's identity may see and change, but for the service's own directory. Entry
 * by entry, so that the private workspace has a place among them. */
static void add_open_tree(struct args *a, const struct ptc_engine *e, const struct ptc_kind *kind)
{
    struct dirent *entry;
    DIR *root = opendir("/");
    while (root != NULL && (entry = readdir(root)) != NULL) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "proc") != 0 &&
            strcmp(entry->d_name, "dev") != 0) {
            add_entry(a, entry->d_name);
        }
    }
    if (root != NULL) {
        closedir(root);
    }
    add3(a, "--dev-bind", "/dev", "/dev");
    add2(a, "--proc", "/proc");
    add2(a, "--tmpfs", e->hidden);
    add_workspace(a, kind);
}

static void add_namespaces(struct args *a, const struct ptc_kind *kind)
{
    add(a, "--unshare-all");
    add(a, "--unshare-user");
    if (kind->network_host) {
        add(a, "--share-net");
    }
    add(a, "--disable-userns");
    add2(a, "--cap-drop", "ALL");
    add2(a, "--uid", "1000");
    add2(a, "--gid", "1000");
    add2(a, "--hostname", "program");
    add(a, "--die-with-parent");
    add(a, "--new-session");
    add2(a, "--info-fd", format(a, "%d", LAUNCH_INFO));
    add2(a, "--seccomp", format(a, "%d", LAUNCH_SECCOMP));
    add(a, "--clearenv");
    add3(a, "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin");
}

static void add_program(struct args *a, const struct ptc_engine *e, const struct ptc_kind *kind)
{
    bool open = kind->mode == PTC_DANGER;
    if (e->electron) {
        add3(a, "--setenv", "ELECTRON_RUN_AS_NODE", "1");
    }
    add2(a, "--chdir", "/");
    add(a, "--");
    add(a, open ? LAUNCH_PLACE "/node" : INSIDE_NODE);
    add(a, "--no-warnings");
    add(a, format(a, "--max-old-space-size=%lld", (long long)(kind->heap_bytes / MIB)));
    add(a, open ? LAUNCH_PLACE "/bootstrap/main.mjs" : INSIDE_BOOTSTRAP "/main.mjs");
}

static void build_args(struct args *a, const struct ptc_worker *w, const struct stat *workspace,
                       int groups)
{
    const struct ptc_engine *e = w->engine;
    unsigned id = e->config.first_uid + (unsigned)w->slot;
    unsigned uid = id;
    unsigned gid = id;
    if (workspace != NULL && workspace->st_uid != 0) {
        uid = workspace->st_uid;
        gid = workspace->st_gid != 0 ? workspace->st_gid : id;
    }
    add(a, "launch");
    add(a, format(a, "%u", uid));
    add(a, format(a, "%u", gid));
    add(a, format(a, "%d", groups));
    add(a, "bwrap");
    add_namespaces(a, &w->kind);
    if (w->kind.mode == PTC_DANGER) {
        add_open_tree(a, e, &w->kind);
    } else {
        add_confined_tree(a, &w->kind);
        add3(a, "--ro-bind", LAUNCH_PLACE "/node", INSIDE_NODE);
        add3(a, "--ro-bind", LAUNCH_PLACE "/bootstrap", INSIDE_BOOTSTRAP);
        add2(a, "--remount-ro", "/");
    }
    add_program(a, e, &w->kind);
}

/* --- descriptors --- */

enum { MOVES_MAX = LAUNCH_GROUPS + CGROUP_TREES_MAX };

/* Descriptors for the launcher, by their number there. All are owned and lie above its numbers, so
 * that none is overwritten before it is moved. */
struct moves {
    int fds[MOVES_MAX];
    int count; /* of groups */
};

static void moves_init(struct moves *m)
{
    for (size_t i = 0; i < MOVES_MAX; i++) {
        m->fds[i] = -1;
    }
    m->count = 0;
}

static void moves_done(struct moves *m)
{
    for (size_t i = 0; i < MOVES_MAX; i++) {
        cleanup_close(&m->fds[i]);
    }
}

/* Takes `fd`. */
static int move(struct moves *m, int place, int fd)
{
    if (fd < 0) {
        return -1;
    }
    m->fds[place] = fcntl(fd, F_DUPFD_CLOEXEC, MOVED_FROM);
    int errnum = errno;
    close(fd);
    errno = errnum;
    return m->fds[place] < 0 ? -1 : 0;
}

static int copy(struct moves *m, int place, int fd)
{
    m->fds[place] = fcntl(fd, F_DUPFD_CLOEXEC, MOVED_FROM);
    return m->fds[place] < 0 ? -1 : 0;
}

/* A position of its own: bubblewrap reads to the end. */
static int reopen(struct moves *m, int place, int fd)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return move(m, place, open(path, O_RDONLY | O_CLOEXEC));
}

static int open_pipe(struct moves *m, int place, struct ptc_watch *watch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    watch->fd = ends[0];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ? (close(ends[1]), -1)
                                                    : move(m, place, ends[1]);
}

static int open_control(struct moves *m, struct ptc_watch *watch)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    watch->fd = ends[0];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ? (close(ends[1]), -1)
                                                    : move(m, LAUNCH_CONTROL, ends[1]);
}

static int open_channels(struct moves *m, struct ptc_worker *w)
{
    const struct ptc_engine *e = w->engine;
    return move(m, STDIN_FILENO, open("/dev/null", O_RDONLY | O_CLOEXEC)) != 0 ||
                   open_pipe(m, STDOUT_FILENO, &w->watch[PTC_WATCH_OUT]) != 0 ||
                   open_pipe(m, STDERR_FILENO, &w->watch[PTC_WATCH_ERR]) != 0 ||
                   open_pipe(m, LAUNCH_INFO, &w->watch[PTC_WATCH_INFO]) != 0 ||
                   open_control(m, &w->watch[PTC_WATCH_CONTROL]) != 0 ||
                   reopen(m, LAUNCH_SECCOMP, e->seccomp_fd) != 0 ||
                   copy(m, LAUNCH_BWRAP, e->bwrap_fd) != 0 ||
                   copy(m, LAUNCH_STAGE, e->stage_fd) != 0 || copy(m, LAUNCH_NODE, e->node_fd) != 0
               ? -1
               : 0;
}

/* The directory that was resolved, still without a link in its way. */
static int open_workspace(struct moves *m, const char *root, struct stat *st)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, root, &how, sizeof(how));
    if (fd < 0 || fstat(fd, st) != 0) {
        int errnum = errno;
        cleanup_close(&fd);
        errno = errnum;
        return -1;
    }
    return move(m, LAUNCH_WORKSPACE, fd);
}

static int open_groups(struct moves *m, const struct ptc_worker *w)
{
    int born = cgroup_birth_fd(&w->group);
    if (born >= 0 && copy(m, LAUNCH_BIRTH, born) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < w->group.count; i++) {
        if (w->group.trees[i].fd == born) {
            continue;
        }
        int fd = cgroup_open_entry(&w->group.trees[i]);
        if (move(m, LAUNCH_GROUPS + m->count, fd) != 0) {
            return -1;
        }
        m->count++;
    }
    return 0;
}

/* --- the process --- */

static int start(struct ptc_worker *w, const struct moves *m, const struct args *a)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigset_t none;
    char path[64];
    char *const envp[] = {NULL};
    int result = 0;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < MOVES_MAX; i++) {
        if (m->fds[i] >= 0) {
            result |= posix_spawn_file_actions_adddup2(&actions, m->fds[i], i);
        } else {
            result |= posix_spawn_file_actions_addclose(&actions, i);
        }
    }
    result |= posix_spawnattr_setsigdefault(&attributes, &all);
    result |= posix_spawnattr_setsigmask(&attributes, &none);
    result |= posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETSIGMASK);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", w->engine->launch_fd);
    result = result != 0 ? result : fault_point("ptc.spawn");
    if (result == 0) {
        result = posix_spawn(&w->pid, path, &actions, &attributes, (char *const *)a->list, envp);
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    errno = result;
    return result == 0 ? 0 : -1;
}

/* Who goes on, and the one who does not is reaped. Without a word it is the launcher, which then
 * tells on standard error what was wrong. */
static void learn_pid(struct ptc_worker *w)
{
    struct pollfd said = {.fd = w->watch[PTC_WATCH_INFO].fd, .events = POLLIN};
    pid_t pid;
    while (poll(&said, 1, LAUNCH_MS) < 0 && errno == EINTR) {
    }
    if (read(said.fd, &pid, sizeof(pid)) == (ssize_t)sizeof(pid) && pid != w->pid) {
        (void)waitpid(w->pid, NULL, 0);
        w->pid = pid;
    }
}

static int make_group(struct ptc_worker *w, struct error *err)
{
    struct ptc_engine *e = w->engine;
    if (!e->grouped) {
        return 0;
    }
    (void)snprintf(w->group_name, sizeof(w->group_name), "r%lld", (long long)w->slot);
    int fault = fault_point("ptc.group");
    if (fault != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, fault, "making a control group");
    }
    if (cgroup_below(&e->groups, w->group_name, true, &w->group) != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "making a control group");
    }
    return ptc_sandbox_limit(w, &e->config.rules.limits, err);
}

int ptc_sandbox_limit(struct ptc_worker *w, const struct ptc_limits *limits, struct error *err)
{
    struct sandbox_fault fault = {NULL, 0};
    struct cgroup_limits wanted = {.nano_cpus = sysconf(_SC_NPROCESSORS_ONLN) * NANO,
                                   .memory_bytes = limits->memory_bytes,
                                   .pids = limits->pids};
    if (w->group.count == 0 || cgroup_limit(&w->group, &wanted, &fault) == 0) {
        return 0;
    }
    return error_set_errno(err, ERROR_HOST_UNAVAILABLE, fault.errnum,
                           "limits of a control group: %s", fault.step == NULL ? "" : fault.step);
}

int ptc_sandbox_spawn(struct ptc_worker *w, struct error *err)
{
    struct args a = {.count = 0};
    struct moves m;
    struct stat st;
    bool named = w->kind.workspace_root != NULL;
    int result = -1;
    moves_init(&m);
    if (make_group(w, err) != 0) {
        return -1;
    }
    if (open_channels(&m, w) != 0 || open_groups(&m, w) != 0) {
        (void)error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "descriptors for a process");
    } else if (named && open_workspace(&m, w->kind.workspace_root, &st) != 0) {
        (void)error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "opening the workspace");
    } else {
        build_args(&a, w, named ? &st : NULL, m.count);
        result = a.failed ? error_set(err, ERROR_INTERNAL, "out of memory") : start(w, &m, &a);
        if (result != 0 && !a.failed) {
            (void)error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "starting the launcher");
        }
        args_done(&a);
    }
    moves_done(&m);
    if (result != 0) {
        return -1;
    }
    if (named) {
        w->place_device = st.st_dev;
        w->place_inode = st.st_ino;
        w->place_owner = st.st_uid;
    }
    w->spawned = true;
    learn_pid(w);
    w->watch[PTC_WATCH_EXIT].fd = pidfd_open(w->pid, 0);
    return w->watch[PTC_WATCH_EXIT].fd >= 0
               ? 0
               : error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "watching a process");
}
