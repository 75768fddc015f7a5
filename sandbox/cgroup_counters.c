#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TEXT_MAX = 2048, US_PER_MS = 1000, NS_PER_US = 1000 };

/* The number behind "key " at the start of a line, or the only one when key is NULL; -1. */
static int64_t read_counter(int dir, const char *file, const char *key)
{
    char text[TEXT_MAX];
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    const char *at = text;
    size_t len = key == NULL ? 0 : strlen(key);
    while (key != NULL && at != NULL && (strncmp(at, key, len) != 0 || at[len] != ' ')) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    at = at == NULL || key == NULL ? at : at + len + 1;
    return at == NULL || *at < '0' || *at > '9' ? -1 : (int64_t)strtoll(at, NULL, 10);
}

static int dir_of(const struct cgroup_set *set, enum cgroup_use use, unsigned *version)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if ((set->trees[i].uses & (uint32_t)use) != 0) {
            *version = set->trees[i].version;
            return set->trees[i].fd;
        }
    }
    *version = 0;
    return -1;
}

int64_t cgroup_oom_kills(const struct cgroup_set *set)
{
    unsigned version;
    int dir = dir_of(set, CGROUP_MEMORY, &version);
    if (version == 0) {
        return -1;
    }
    return read_counter(dir, version == 2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

/* Version 2 counts the time of every group, with the cpu controller or without. */
static int64_t read_cpu_ms(const struct cgroup_set *set)
{
    unsigned version;
    int dir = dir_of(set, CGROUP_CONTROL, &version);
    if (version == 2) {
        int64_t us = read_counter(dir, "cpu.stat", "usage_usec");
        return us < 0 ? -1 : us / US_PER_MS;
    }
    dir = dir_of(set, CGROUP_CPU, &version);
    int64_t ns = version == 0 ? -1 : read_counter(dir, "cpuacct.usage", NULL);
    return ns < 0 ? -1 : ns / NS_PER_US / US_PER_MS;
}

void cgroup_read_counters(const struct cgroup_set *set, struct cgroup_counters *out)
{
    unsigned version;
    out->cpu_ms = read_cpu_ms(set);
    int dir = dir_of(set, CGROUP_MEMORY, &version);
    out->memory_peak_bytes =
        version == 0
            ? -1
            : read_counter(dir, version == 2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
    dir = dir_of(set, CGROUP_PIDS, &version);
    out->pids_peak = version == 0 ? -1 : read_counter(dir, "pids.peak", NULL);
    out->oom_kills = cgroup_oom_kills(set);
}

static int watch_version1(int dir)
{
    int result = -1;
    char text[48];
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int counter = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
    int control = openat(dir, "cgroup.event_control", O_WRONLY | O_CLOEXEC);
    if (event >= 0 && counter >= 0 && control >= 0) {
        int len = snprintf(text, sizeof(text), "%d %d", event, counter);
        result = write(control, text, (size_t)len) == len ? 0 : -1;
    }
    if (counter >= 0) {
        close(counter);
    }
    if (control >= 0) {
        close(control);
    }
    if (result != 0 && event >= 0) {
        close(event);
        event = -1;
    }
    return event;
}

int cgroup_watch_oom(const struct cgroup_set *set, short *events)
{
    unsigned version;
    int dir = dir_of(set, CGROUP_MEMORY, &version);
    /* Files of groups are always readable. */
    *events = version == 2 ? POLLPRI : POLLIN;
    if (version == 2) {
        return openat(dir, "memory.events", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    return version == 1 ? watch_version1(dir) : -1;
}
