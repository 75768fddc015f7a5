#include "base/clock.h"
#include "base/fault.h"
#include "host/native/native_internal.h"
#include "host/native/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { BACKLOG = 8, INODE_BYTES = 4096, INODES_MIN = 1024, INODES_MAX = 1 << 20 };
static const int64_t TMP_LEAST = INT64_C(1) << 20;
static const int64_t TMP_MOST = INT64_C(16) << 20;
static const int64_t SHM_LEAST = INT64_C(64) << 10;

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Everything a shim is given but the cgroups, in the order of the protocol. */
struct gifts {
    int fds[SHIM_START_FDS];
    uint32_t host_uid;
};

static void gifts_done(struct gifts *g)
{
    /* The others are lent. */
    if (g->fds[SHIM_START_DIRECTORY] >= 0) {
        close(g->fds[SHIM_START_DIRECTORY]);
    }
    if (g->fds[SHIM_START_UID] >= 0) {
        close(g->fds[SHIM_START_UID]);
    }
    if (g->fds[SHIM_START_LISTEN] >= 0) {
        close(g->fds[SHIM_START_LISTEN]);
    }
}

/* An address without a file, machine-wide, that goes with the last process that holds it: no two
 * living sandboxes have one id, whichever services made them. Two ids each: programs, process 1. */
static int reserve_uid(struct native_host *h, uint32_t *uid)
{
    uint32_t pairs = h->host_uid_count / 2;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (uint32_t i = 0; fd >= 0 && i < pairs; i++) {
        uint32_t next = atomic_fetch_add(&h->next_uid, 1) % pairs * 2;
        int len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "exechost-uid-%u",
                           h->host_uid_first + next);
        if (bind(fd, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0) {
            *uid = h->host_uid_first + next;
            return TAKE_FD(fd);
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return -1;
}

static int listen_in(int dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SHIM_SOCKET, dir);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, BACKLOG) != 0) {
        return -1;
    }
    return TAKE_FD(fd);
}

static int collect(struct native_host *h, const struct native_spawn *spawn, struct gifts *g,
                   struct error *err)
{
    *g = (struct gifts){.fds = {-1, -1, -1, -1, -1, -1}};
    g->fds[SHIM_START_IMAGE] = spawn->image->root_fd;
    g->fds[SHIM_START_HOLD] = spawn->image->lock_fd;
    g->fds[SHIM_START_FILTER] = h->filter_fd;
    int dir = openat(h->run_fd, spawn->key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g->fds[SHIM_START_DIRECTORY] = dir;
    if (dir < 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "opening the execution's directory");
    }
    g->fds[SHIM_START_LISTEN] = listen_in(dir);
    if (g->fds[SHIM_START_LISTEN] < 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "making the execution's socket");
    }
    g->fds[SHIM_START_UID] = reserve_uid(h, &g->host_uid);
    if (g->fds[SHIM_START_UID] < 0) {
        return error_set(err, ERROR_OVERLOADED,
                         "all %u user ids of the configured range are in use", h->host_uid_count);
    }
    return 0;
}

static void describe(struct native_host *h, const struct native_spawn *spawn, uint32_t host_uid,
                     struct shim_start *out)
{
    const struct host_limits *limits = spawn->limits;
    *out = (struct shim_start){
        .version = SHIM_VERSION,
        .uid = h->uid,
        .gid = h->gid,
        .host_uid = host_uid,
        .host_gid = host_uid,
        .tree_count = h->parents.count,
        .nano_cpus = limits->nano_cpus,
        .memory_bytes = limits->memory_bytes,
        .pids = limits->pids,
        .workspace_bytes = limits->disk_bytes,
        .workspace_inodes = clamp(limits->disk_bytes / INODE_BYTES, INODES_MIN, INODES_MAX),
        .tmp_bytes = clamp(limits->memory_bytes / 4, TMP_LEAST, TMP_MOST),
        .shm_bytes = clamp(limits->memory_bytes / 4, SHM_LEAST, h->shm_bytes_max),
        .lifetime_ms = spawn->lifetime_ms,
    };
    for (uint32_t i = 0; i < h->parents.count; i++) {
        out->tree_version[i] = h->parents.trees[i].version;
        out->tree_uses[i] = h->parents.trees[i].uses;
    }
    snprintf(out->cgroup, sizeof(out->cgroup), "%s", spawn->key);
    snprintf(out->host_name, sizeof(out->host_name), "%.63s", spawn->host_name);
}

/* --- the process --- */

/* Its own session, no signals, nothing open but the socket; everything else is close-on-exec. */
static int start_process(int program, int socket, pid_t *pid)
{
    char path[32];
    char name[] = "exechost-shim";
    char *argv[] = {name, NULL};
    char *envp[] = {NULL};
    sigset_t all;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int result = posix_spawn_file_actions_adddup2(&actions, socket, SHIM_FD);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        result |= posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    }
    result |= posix_spawnattr_setsigdefault(&attributes, &all);
    result |= posix_spawnattr_setsigmask(&attributes, &all);
    result |= posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETSIGMASK);
    if (result == 0) {
        result = posix_spawn(pid, path, &actions, &attributes, argv, envp);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

static int send_start(struct native_host *h, const struct native_spawn *spawn,
                      const struct gifts *g, int fd, struct error *err)
{
    struct shim_start start;
    int fds[SHIM_FDS_MAX];
    size_t count = SHIM_START_FDS;
    describe(h, spawn, g->host_uid, &start);
    memcpy(fds, g->fds, sizeof(g->fds));
    for (uint32_t i = 0; i < h->parents.count; i++) {
        fds[count++] = h->parents.trees[i].fd;
    }
    if (wire_send(fd, &start, sizeof(start), fds, count, 0) != 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "speaking to a new shim");
    }
    return 0;
}

/* 0: it has spoken; -1 with `err`. */
static int wait_for(const struct native_spawn *spawn, int fd, struct error *err)
{
    struct pollfd ready[2] = {
        {.fd = fd, .events = POLLIN},
        {.fd = cancel_fd(spawn->cancel), .events = POLLIN},
    };
    for (;;) {
        int64_t left = spawn->deadline_mono_ms - clock_mono_ms();
        int got = poll(ready, 2, left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left);
        if (ready[1].revents != 0 && got > 0) {
            return error_set(err, ERROR_RUNTIME, "interrupted");
        }
        if (got > 0) {
            return 0;
        }
        if (left <= 0) {
            return error_set(err, ERROR_TIMEOUT, "starting the sandbox took too long");
        }
    }
}

static int greet(const struct native_spawn *spawn, int fd, struct shim_event *out,
                 struct error *err)
{
    size_t none = 0;
    if (wait_for(spawn, fd, err) != 0) {
        return -1;
    }
    if (wire_receive(fd, out, sizeof(*out), NULL, &none, MSG_DONTWAIT) != 1) {
        return error_set(err, ERROR_RUNTIME, "the shim ended at once");
    }
    if (out->type == SHIM_FAILED) {
        out->text[SHIM_TEXT_SIZE - 1] = '\0';
        return error_set_errno(err, ERROR_RUNTIME, out->errnum, "the sandbox: can't %s", out->text);
    }
    return out->type == SHIM_READY ? 0
                                   : error_set(err, ERROR_RUNTIME, "the shim speaks out of turn");
}

int native_shim_start(struct native_host *h, struct native_shim *out, struct error *err)
{
    int pair[2];
    pid_t pid;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set_errno(err, ERROR_RUNTIME, errno, "making a socket");
    }
    int result = start_process(h->shim_fd, pair[1], &pid);
    close(pair[1]);
    if (result != 0) {
        close(pair[0]);
        return error_set_errno(err, ERROR_RUNTIME, result, "starting the shim");
    }
    *out = (struct native_shim){.pid = pid, .fd = pair[0]};
    return 0;
}

void native_shim_done(struct native_shim *shim)
{
    if (shim->pid > 0) {
        (void)kill(shim->pid, SIGKILL);
        while (waitpid(shim->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        shim->pid = 0;
    }
    cleanup_close(&shim->fd);
    shim->fd = -1;
}

static int pass_fault(const char *point, struct error *err)
{
    int fault = fault_point(point);
    return fault == 0 ? 0 : error_set_errno(err, ERROR_RUNTIME, fault, "starting the shim");
}

int native_spawn(struct native_host *h, const struct native_spawn *spawn, struct native_shim *shim,
                 struct link_start *out, struct error *err)
{
    _cleanup_(gifts_done) struct gifts g;
    struct shim_event greeting;
    if (collect(h, spawn, &g, err) != 0 || pass_fault("native.spawn", err) != 0 ||
        send_start(h, spawn, &g, shim->fd, err) != 0 || pass_fault("native.started", err) != 0 ||
        greet(spawn, shim->fd, &greeting, err) != 0) {
        native_shim_done(shim);
        return -1;
    }
    *out = (struct link_start){.child = shim->pid, .greeting = greeting};
    out->fd = TAKE_FD(shim->fd);
    shim->pid = 0;
    return 0;
}
