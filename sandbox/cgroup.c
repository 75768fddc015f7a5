#include "sandbox/cgroup.h"

#include "sandbox/cgroup_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = CGROUP_TEXT_MAX };
enum { PERIOD_US = 100000, NANO_PER_US = 1000, NANO_CPUS = 1000000000, QUOTA_STEP_US = 10 };
enum { FREEZE_LOOK_MS = 10 };

/* --- small files --- */

static int write_number(int dir, const char *file, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    return cgroup_write_text(dir, file, text);
}

/* Decimal digits; "max" and anything else is `other`. */
static int64_t parse_number(const char *text, int64_t other)
{
    uint64_t value = 0;
    if (*text < '0' || *text > '9') {
        return other;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > (uint64_t)INT64_MAX / 16) {
            return INT64_MAX;
        }
    }
    return (int64_t)value;
}

/* The number behind "key " at the start of a line, or the first one when key is NULL; -1. */
static int64_t read_number(int dir, const char *file, const char *key)
{
    char text[TEXT_MAX];
    if (cgroup_read_text(dir, file, text) != 0) {
        return -1;
    }
    if (key == NULL) {
        return parse_number(text, -1);
    }
    size_t len = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            return parse_number(line + len + 1, -1);
        }
    }
    return -1;
}

static const struct cgroup_tree *tree_of(const struct cgroup_set *set, enum cgroup_use use)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if ((set->trees[i].uses & (uint32_t)use) != 0) {
            return &set->trees[i];
        }
    }
    return NULL;
}

void cgroup_set_close(struct cgroup_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->trees[i].fd >= 0) {
            close(set->trees[i].fd);
        }
    }
    set->count = 0;
}

/* --- groups --- */

int cgroup_below(const struct cgroup_set *parents, const char *name, bool make,
                 struct cgroup_set *out)
{
    *out = (struct cgroup_set)CGROUP_SET_INIT;
    for (uint32_t i = 0; i < parents->count; i++) {
        const struct cgroup_tree *parent = &parents->trees[i];
        if (make && mkdirat(parent->fd, name, 0755) != 0 && errno != EEXIST) {
            return -1;
        }
        int fd = openat(parent->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && (make || errno != ENOENT)) {
            return -1;
        }
        if (fd >= 0) {
            out->trees[out->count++] =
                (struct cgroup_tree){.version = parent->version, .uses = parent->uses, .fd = fd};
        }
    }
    return 0;
}

static int make_group(const struct cgroup_tree *parent, const char *name, struct cgroup_set *out)
{
    if (mkdirat(parent->fd, name, 0755) != 0 && errno != EEXIST) {
        return -1;
    }
    int fd = openat(parent->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    out->trees[out->count++] =
        (struct cgroup_tree){.version = parent->version, .uses = parent->uses, .fd = fd};
    return 0;
}

int cgroup_make_birth(const struct cgroup_set *parents, const char *name, struct cgroup_set *out)
{
    int birth = cgroup_birth_fd(parents);
    *out = (struct cgroup_set)CGROUP_SET_INIT;
    for (uint32_t i = 0; i < parents->count; i++) {
        if (parents->trees[i].fd == birth) {
            return make_group(&parents->trees[i], name, out);
        }
    }
    return 0;
}

int cgroup_make_others(const struct cgroup_set *parents, const char *name, struct cgroup_set *out)
{
    int birth = cgroup_birth_fd(parents);
    for (uint32_t i = 0; i < parents->count; i++) {
        if (parents->trees[i].fd != birth && make_group(&parents->trees[i], name, out) != 0) {
            return -1;
        }
    }
    return 0;
}

int cgroup_remove(const struct cgroup_set *parents, const char *name)
{
    int errnum = 0;
    for (uint32_t i = 0; i < parents->count; i++) {
        if (unlinkat(parents->trees[i].fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
            errnum = errno;
        }
    }
    errno = errnum;
    return errnum == 0 ? 0 : -1;
}

/* Those in which something lives stay. */
static void remove_below(int parent, const char *name)
{
    char entries[4096];
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t len;
    while (fd >= 0 && (len = getdents64(fd, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
                (void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
            }
            at += entry->d_reclen;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

int cgroup_remove_tree(const struct cgroup_set *parents, const char *name)
{
    for (uint32_t i = 0; i < parents->count; i++) {
        remove_below(parents->trees[i].fd, name);
    }
    return cgroup_remove(parents, name);
}

bool cgroup_exists(const struct cgroup_set *parents, const char *name)
{
    for (uint32_t i = 0; i < parents->count; i++) {
        if (faccessat(parents->trees[i].fd, name, F_OK, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* --- limits --- */

static int64_t quota_us(int64_t nano_cpus)
{
    int64_t us = nano_cpus / NANO_PER_US * (PERIOD_US / 1000) / 1000;
    return us < 1000 ? 1000 : us;
}

static int limit_cpu(const struct cgroup_tree *tree, int64_t nano_cpus)
{
    char text[48];
    if (tree->version == 2) {
        snprintf(text, sizeof(text), "%" PRId64 " %d", quota_us(nano_cpus), PERIOD_US);
        return cgroup_write_text(tree->fd, "cpu.max", text);
    }
    if (write_number(tree->fd, "cpu.cfs_period_us", PERIOD_US) != 0) {
        return -1;
    }
    return write_number(tree->fd, "cpu.cfs_quota_us", quota_us(nano_cpus));
}

/* Where the machine counts swap it may use none; where it does not, version 1 is told not to. */
static int limit_memory(const struct cgroup_tree *tree, int64_t bytes)
{
    if (tree->version == 2) {
        if (write_number(tree->fd, "memory.max", bytes) != 0) {
            return -1;
        }
        return write_number(tree->fd, "memory.swap.max", 0) == 0 || errno == ENOENT ? 0 : -1;
    }
    if (write_number(tree->fd, "memory.limit_in_bytes", bytes) != 0) {
        return -1;
    }
    if (write_number(tree->fd, "memory.memsw.limit_in_bytes", bytes) == 0) {
        return 0;
    }
    return errno == ENOENT ? write_number(tree->fd, "memory.swappiness", 0) : -1;
}

int cgroup_limit(const struct cgroup_set *set, const struct cgroup_limits *limits,
                 struct sandbox_fault *fault)
{
    const struct cgroup_tree *cpu = tree_of(set, CGROUP_CPU);
    const struct cgroup_tree *memory = tree_of(set, CGROUP_MEMORY);
    const struct cgroup_tree *pids = tree_of(set, CGROUP_PIDS);
    if (cpu == NULL || limit_cpu(cpu, limits->nano_cpus) != 0) {
        return sandbox_fail(fault, "limit the cpu");
    }
    if (memory == NULL || limit_memory(memory, limits->memory_bytes) != 0) {
        return sandbox_fail(fault, "limit the memory");
    }
    if (pids == NULL || write_number(pids->fd, "pids.max", limits->pids) != 0) {
        return sandbox_fail(fault, "limit the processes");
    }
    return 0;
}

static int64_t read_nano_cpus(const struct cgroup_tree *tree)
{
    char text[TEXT_MAX];
    const char *file = tree->version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
    if (cgroup_read_text(tree->fd, file, text) != 0) {
        return -1;
    }
    int64_t us = parse_number(text, INT64_MAX);
    return us == INT64_MAX ? us : us * (NANO_CPUS / PERIOD_US);
}

int cgroup_read_limits(const struct cgroup_set *set, struct cgroup_limits *out)
{
    const struct cgroup_tree *cpu = tree_of(set, CGROUP_CPU);
    const struct cgroup_tree *memory = tree_of(set, CGROUP_MEMORY);
    const struct cgroup_tree *pids = tree_of(set, CGROUP_PIDS);
    if (cpu == NULL || memory == NULL || pids == NULL) {
        errno = ENODEV;
        return -1;
    }
    const char *memory_file = memory->version == 2 ? "memory.max" : "memory.limit_in_bytes";
    *out = (struct cgroup_limits){
        .nano_cpus = read_nano_cpus(cpu),
        .memory_bytes = read_number(memory->fd, memory_file, NULL),
        .pids = read_number(pids->fd, "pids.max", NULL),
    };
    return 0;
}

bool cgroup_limits_match(const struct cgroup_limits *asked, const struct cgroup_limits *applied)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    return applied->nano_cpus == quota_us(asked->nano_cpus) * (NANO_CPUS / PERIOD_US) &&
           applied->memory_bytes == asked->memory_bytes / page * page &&
           applied->pids == asked->pids;
}

/* --- members --- */

int cgroup_directory(const struct cgroup_set *set, enum cgroup_use use)
{
    const struct cgroup_tree *tree = tree_of(set, use);
    return tree == NULL ? -1 : tree->fd;
}

int cgroup_birth_fd(const struct cgroup_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->trees[i].version == 2) {
            return set->trees[i].fd;
        }
    }
    return -1;
}

int cgroup_open_entry(const struct cgroup_tree *tree)
{
    return openat(tree->fd, tree->version == 1 ? "tasks" : "cgroup.procs", O_WRONLY | O_CLOEXEC);
}

int cgroup_open_entries(const struct cgroup_set *set, int fds[CGROUP_TREES_MAX], size_t *count)
{
    int born = cgroup_birth_fd(set);
    *count = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->trees[i].fd == born) {
            continue;
        }
        fds[*count] = cgroup_open_entry(&set->trees[i]);
        if (fds[*count] < 0) {
            int errnum = errno;
            while (*count > 0) {
                close(fds[--*count]);
            }
            errno = errnum;
            return -1;
        }
        ++*count;
    }
    return 0;
}

int cgroup_kill(const struct cgroup_set *set)
{
    const struct cgroup_tree *tree = tree_of(set, CGROUP_CONTROL);
    if (tree == NULL || tree->version != 2) {
        errno = ENOTSUP;
        return -1;
    }
    if (cgroup_write_text(tree->fd, "cgroup.kill", "1") != 0) {
        errno = errno == ENOENT ? ENOTSUP : errno;
        return -1;
    }
    return 0;
}

void cgroup_kill_each(const struct cgroup_set *set)
{
    char pids[4096];
    int fd = set->count == 0
                 ? -1
                 : openat(set->trees[0].fd, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t len = fd < 0 ? -1 : read(fd, pids, sizeof(pids) - 1);
    pids[len < 0 ? 0 : len] = '\0';
    /* A number that the end of the buffer cuts is left for the next call. */
    for (const char *at = pids, *end = NULL; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        pid_t pid = (pid_t)parse_number(at, 0);
        if (pid > 0) {
            (void)kill(pid, SIGKILL);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* `fd` is of the file that tells: what was read is what the next POLLPRI is about. */
static bool is_frozen(const struct cgroup_tree *tree, int fd)
{
    char text[TEXT_MAX];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n < 0) {
        return false;
    }
    text[n] = '\0';
    return tree->version == 2 ? strstr(text, "frozen 1") != NULL : strncmp(text, "FROZEN", 6) == 0;
}

/* Version 1 only tells when asked again. */
static int wait_frozen(const struct cgroup_tree *tree, int timeout_ms)
{
    int64_t until = now_ms() + timeout_ms;
    const char *file = tree->version == 2 ? "cgroup.events" : "freezer.state";
    int fd = openat(tree->fd, file, O_RDONLY | O_CLOEXEC);
    struct pollfd change = {.fd = tree->version == 2 ? fd : -1, .events = POLLPRI};
    int result = fd < 0 ? -1 : 0;
    while (result == 0 && !is_frozen(tree, fd)) {
        if (now_ms() >= until) {
            errno = ETIMEDOUT;
            result = -1;
        } else {
            (void)poll(&change, 1, tree->version == 2 ? FREEZE_LOOK_MS : 1);
        }
    }
    int errnum = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = errnum;
    return result;
}

int cgroup_freeze(const struct cgroup_set *set, bool freeze, int timeout_ms)
{
    const struct cgroup_tree *tree = tree_of(set, CGROUP_CONTROL);
    if (tree == NULL) {
        errno = ENODEV;
        return -1;
    }
    int result = tree->version == 2
                     ? cgroup_write_text(tree->fd, "cgroup.freeze", freeze ? "1" : "0")
                     : cgroup_write_text(tree->fd, "freezer.state", freeze ? "FROZEN" : "THAWED");
    return result == 0 && freeze ? wait_frozen(tree, timeout_ms) : result;
}

bool cgroup_is_frozen(const struct cgroup_set *set)
{
    const struct cgroup_tree *tree = tree_of(set, CGROUP_CONTROL);
    if (tree != NULL && tree->version == 2) {
        return read_number(tree->fd, "cgroup.freeze", NULL) == 1;
    }
    char text[TEXT_MAX];
    return tree != NULL && cgroup_read_text(tree->fd, "freezer.state", text) == 0 &&
           strncmp(text, "THAWED", 6) != 0;
}

bool cgroup_populated(const struct cgroup_set *set)
{
    const struct cgroup_tree *tree = tree_of(set, CGROUP_CONTROL);
    char text[TEXT_MAX];
    if (tree == NULL) {
        return false;
    }
    if (tree->version == 2) {
        return read_number(tree->fd, "cgroup.events", "populated") == 1;
    }
    return cgroup_read_text(tree->fd, "cgroup.procs", text) == 0 && text[0] != '\0';
}
