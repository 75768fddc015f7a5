#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CGROUP "/sys/fs/cgroup/"

enum { COUNTER_FILE_MAX = 1024 };

/* The whole of a small file, read from its start each time. */
static int read_text(int fd, char text[COUNTER_FILE_MAX])
{
    ssize_t n = pread(fd, text, COUNTER_FILE_MAX - 1, 0);
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    return 0;
}

static int64_t parse_number(const char *text)
{
    if (*text < '0' || *text > '9') {
        return -1;
    }
    return (int64_t)strtoll(text, NULL, 10);
}

/* The number behind "key " at the start of a line, or the only number when key is NULL. */
static int64_t find_number(const char *text, const char *key)
{
    if (key == NULL) {
        return parse_number(text);
    }
    size_t len = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            return parse_number(line + len + 1);
        }
    }
    return -1;
}

static int64_t read_number_at(int dir, const char *path, const char *key)
{
    char text[COUNTER_FILE_MAX];
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    int read = read_text(fd, text);
    close(fd);
    return read == 0 ? find_number(text, key) : -1;
}

static int64_t read_number(const char *path, const char *key)
{
    return read_number_at(AT_FDCWD, path, key);
}

void cgroup_read_usage(struct cgroup_usage *out)
{
    int64_t cpu_us = read_number(CGROUP "cpu.stat", "usage_usec");
    if (cpu_us < 0) {
        int64_t cpu_ns = read_number(CGROUP "cpuacct/cpuacct.usage", NULL);
        cpu_us = cpu_ns < 0 ? -1 : cpu_ns / 1000;
    }
    out->cpu_ms = cpu_us < 0 ? -1 : cpu_us / 1000;
    out->memory_peak_bytes = read_number(CGROUP "memory.peak", NULL);
    if (out->memory_peak_bytes < 0) {
        out->memory_peak_bytes = read_number(CGROUP "memory/memory.max_usage_in_bytes", NULL);
    }
    out->pids_peak = read_number(CGROUP "pids.peak", NULL);
    if (out->pids_peak < 0) {
        out->pids_peak = read_number(CGROUP "pids/pids.peak", NULL);
    }
}

int cgroup_open_oom(void)
{
    int fd = open(CGROUP "memory.events", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fd = open(CGROUP "memory/memory.oom_control", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    return fd;
}

int64_t cgroup_oom_kills(int fd)
{
    char text[COUNTER_FILE_MAX];
    if (fd < 0 || read_text(fd, text) != 0) {
        return -1;
    }
    return find_number(text, "oom_kill");
}

/* --- room --- */

enum { STAT_FILE_MAX = 16 * 1024, ROOM_STEP = 1024 * 1024 };
enum { RESERVE_MIN = 5 * 1024 * 1024, RESERVE_MAX = 16 * 1024 * 1024 };

static int64_t read_stat(int dir, const char *path, const char *inactive, const char *active)
{
    static char text[STAT_FILE_MAX];
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    int64_t first = find_number(text, inactive);
    int64_t second = find_number(text, active);
    return (first > 0 ? first : 0) + (second > 0 ? second : 0);
}

/* What the workspace holds, which is the least that is used; -1 when unknown. */
static int64_t workspace_used(void)
{
    struct statvfs fs;
    if (statvfs(".", &fs) != 0) {
        return -1;
    }
    return (int64_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize);
}

int64_t room_limit(const char *text)
{
    int64_t limit = parse_number(text);
    return limit > 0 ? limit : 0;
}

/* Where a kind of control group tells of memory. */
struct memory_files {
    const char *limit;
    const char *used;
    const char *stat;
    const char *inactive;
    const char *active;
};
static const struct memory_files mounted[] = {
    {CGROUP "memory.max", CGROUP "memory.current", CGROUP "memory.stat", "inactive_file",
     "active_file"},
    {CGROUP "memory/memory.limit_in_bytes", CGROUP "memory/memory.usage_in_bytes",
     CGROUP "memory/memory.stat", "total_inactive_file", "total_active_file"},
};
static const struct memory_files given[] = {
    {"memory.max", "memory.current", "memory.stat", "inactive_file", "active_file"},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file",
     "total_active_file"},
};

/* What is left below the limit but for what is kept back; INT64_MAX when there is none or the
 * kernel does not tell. */
static int64_t memory_left(int64_t known_limit)
{
    bool is_given = getenv(GUEST_MEMORY_VARIABLE) != NULL;
    int dir = is_given ? GUEST_MEMORY_FD : AT_FDCWD;
    const struct memory_files *files = is_given ? given : mounted;
    if (read_number_at(dir, files->used, NULL) < 0) {
        files++;
    }
    int64_t limit = read_number_at(dir, files->limit, NULL);
    int64_t used = read_number_at(dir, files->used, NULL);
    int64_t cached = read_stat(dir, files->stat, files->inactive, files->active);
    if (limit < 0 || used < 0) {
        limit = known_limit;
        used = workspace_used();
    }
    if (limit <= 0 || used < 0) {
        return INT64_MAX;
    }
    int64_t reserve = limit / 8 < RESERVE_MIN ? RESERVE_MIN : limit / 8;
    reserve = reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
    reserve = reserve > limit / 2 ? limit / 2 : reserve;
    return limit - used + cached - reserve;
}

int room_take(struct room *room, int64_t bytes)
{
    if (bytes <= room->granted) {
        room->granted -= bytes;
        return 0;
    }
    int64_t left = memory_left(room->limit);
    if (left < bytes) {
        errno = ENOSPC;
        return -1;
    }
    room->granted = left - bytes < ROOM_STEP ? 0 : ROOM_STEP;
    return 0;
}

void oom_go_first(void)
{
    static const char most[] = "1000";
    /* The files of a process that is not dumpable are root's. */
    (void)prctl(PR_SET_DUMPABLE, 1);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, most, sizeof(most) - 1);
        close(fd);
    }
    (void)prctl(PR_SET_DUMPABLE, 0);
}
