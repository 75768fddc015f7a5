/* Control groups, version 2 and version 1 and both at once, behind one table: which hierarchies
 * there are, one group in each of them for one sandbox, its limits, counters and end. A set holds a
 * directory of each hierarchy; everything below goes by descriptor, so that a set may be handed to
 * another process. Links to libc only, allocates nothing; 0 or -1 with errno. One thread at a time
 * per set, but reading counters and killing any thread may do. */
#ifndef EXECHOST_SANDBOX_CGROUP_H
#define EXECHOST_SANDBOX_CGROUP_H

#include "sandbox/sandbox.h"

enum cgroup_use {
    CGROUP_CPU = 1,
    CGROUP_MEMORY = 2,
    CGROUP_PIDS = 4,
    CGROUP_CONTROL = 8, /* freezing, and killing where it is version 2 */
};

enum { CGROUP_TREES_MAX = 5, CGROUP_NAME_MAX = 200 };

struct cgroup_tree {
    uint32_t version; /* 1 or 2 */
    uint32_t uses;    /* enum cgroup_use */
    int fd;           /* a directory */
};

struct cgroup_set {
    uint32_t count;
    struct cgroup_tree trees[CGROUP_TREES_MAX];
};
#define CGROUP_SET_INIT                                                                            \
    {                                                                                              \
        .count = 0                                                                                 \
    }
void cgroup_set_close(struct cgroup_set *set);

/* The roots of the hierarchies that this machine has mounted. Each use is served by version 2 where
 * that has the controller. ENODEV: a controller is missing, named by `fault`. */
int cgroup_find(struct cgroup_set *roots, struct sandbox_fault *fault) WARN_UNUSED;
/* A group directly below another in each hierarchy; made where it is missing with `make`, else
 * hierarchies that lack it are left out of `out`. */
int cgroup_below(const struct cgroup_set *parents, const char *name, bool make,
                 struct cgroup_set *out) WARN_UNUSED;
/* The same, made, in two steps: the one group that is to be there before a process is born in it
 * (cgroup_birth_fd), then the others. On failure what was made stays in `out`. */
int cgroup_make_birth(const struct cgroup_set *parents, const char *name,
                      struct cgroup_set *out) WARN_UNUSED;
int cgroup_make_others(const struct cgroup_set *parents, const char *name,
                       struct cgroup_set *out) WARN_UNUSED;
/* Lets groups below have controllers of their own; nothing to do in version 1. */
int cgroup_delegate(const struct cgroup_set *set) WARN_UNUSED;
/* Removes the group of that name everywhere. EBUSY while something lives in it. */
int cgroup_remove(const struct cgroup_set *parents, const char *name) WARN_UNUSED;
/* The same with the groups directly below it. */
int cgroup_remove_tree(const struct cgroup_set *parents, const char *name) WARN_UNUSED;
/* Whether any hierarchy still has it. */
bool cgroup_exists(const struct cgroup_set *parents, const char *name);

struct cgroup_limits {
    int64_t nano_cpus;
    int64_t memory_bytes; /* no swap beyond it */
    int64_t pids;
};
/* CPU in steps of 10 µs of each 100 ms, memory in whole pages downward. */
int cgroup_limit(const struct cgroup_set *set, const struct cgroup_limits *limits,
                 struct sandbox_fault *fault) WARN_UNUSED;
/* What is in force, as the kernel tells it. */
int cgroup_read_limits(const struct cgroup_set *set, struct cgroup_limits *out) WARN_UNUSED;
/* Whether `applied` is what cgroup_limit makes of `asked`. */
bool cgroup_limits_match(const struct cgroup_limits *asked, const struct cgroup_limits *applied);

/* The directory that serves a use, or -1; borrowed. */
int cgroup_directory(const struct cgroup_set *set, enum cgroup_use use);
/* The directory to be born in, or -1. */
int cgroup_birth_fd(const struct cgroup_set *set);
/* Opens the file by which a process of one thread moves itself into the group, by writing "0"; -1
 * with errno. Moving another, or through cgroup.procs of version 1, waits for all processors: 8 to
 * 18 ms where nothing has moved for a while. */
int cgroup_open_entry(const struct cgroup_tree *tree) WARN_UNUSED;
/* Those of every group but the one to be born in; returns owned. */
int cgroup_open_entries(const struct cgroup_set *set, int fds[CGROUP_TREES_MAX],
                        size_t *count) WARN_UNUSED;

/* Kills everything in it, frozen or not. ENOTSUP where the kernel has no such thing: then killing
 * process 1 and thawing does it. */
int cgroup_kill(const struct cgroup_set *set) WARN_UNUSED;
/* Where that is missing: kills what is found in it; what forks meanwhile needs another call. */
void cgroup_kill_each(const struct cgroup_set *set);
/* Freezes and waits until it is, or thaws. ETIMEDOUT: not within `timeout_ms`. */
int cgroup_freeze(const struct cgroup_set *set, bool freeze, int timeout_ms) WARN_UNUSED;
bool cgroup_is_frozen(const struct cgroup_set *set);
/* Whether any process is in it (0 when unknown). */
bool cgroup_populated(const struct cgroup_set *set);

/* Each -1 where the kernel does not tell. */
struct cgroup_counters {
    int64_t cpu_ms;
    int64_t memory_peak_bytes;
    int64_t pids_peak;
    int64_t oom_kills;
};
void cgroup_read_counters(const struct cgroup_set *set, struct cgroup_counters *out);
int64_t cgroup_oom_kills(const struct cgroup_set *set);
/* A descriptor that poll(2) tells of by `events` when memory runs out, or -1; read it from its
 * start before looking at the counter. */
int cgroup_watch_oom(const struct cgroup_set *set, short *events);

#endif
