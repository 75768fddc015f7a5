/* Engine calls that a program inside holds up. For a moment the runtime that starts something in a
 * container runs there as the programs' own user: one that is stopped then never becomes what it
 * was to start, and the engine, which waits for it, neither pauses nor kills nor removes the
 * container. Who waits for the engine says so here; what has waited for long is helped by looking
 * at the container's processes from outside, where this machine's are the engine's.
 *
 * Owns one thread. Any thread may call; nothing blocks for longer than one look at /proc. Only
 * processes whose control group bears the container's id are touched, through descriptors that
 * can't come to mean another process. Where there are none to be seen, nothing happens. */
#ifndef EXECHOST_HOST_DOCKER_STUCK_H
#define EXECHOST_HOST_DOCKER_STUCK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stuck;

/* What is waited for, and so what may be done for it. */
enum stuck_want {
    STUCK_LIFE = 1, /* the container is to live: a stopped runtime is killed */
    STUCK_THAW = 2, /* the same, and what is frozen is thawed */
    STUCK_END = 4,  /* the container is to go: all of it is thawed and killed */
};

/* Helps what has waited for `delay_ms`, and again later and later. Starts the thread. */
int stuck_new(int64_t delay_ms, struct stuck **out, struct error *err) WARN_UNUSED;
void stuck_free(struct stuck *s); /* after all waits have ended; NULL is fine */

/* A wait for the engine about the container of this full id. NULL, which is fine, when `s` is NULL,
 * `container` no full id, or memory is out. Ended by stuck_wait_end alone. */
struct stuck_wait;
struct stuck_wait *stuck_wait_begin(struct stuck *s, const char *container, enum stuck_want want);
/* Sets it to NULL. True when something was killed for it. */
bool stuck_wait_end(struct stuck_wait **wait);

static inline void stuck_wait_done(struct stuck_wait **wait)
{
    (void)stuck_wait_end(wait);
}
#define _cleanup_stuck_wait_ _cleanup_(stuck_wait_done) __attribute__((unused))

/* --- stuck_processes.c: the machine's processes --- */

/* Does what the `wants` (or'ed) allow; returns how many processes were killed. */
unsigned stuck_release(const char *container, unsigned wants);

/* Of the text of /proc/<pid>/cgroup, pure: a group of it is named "<id>" or "<runtime>-<id>.scope",
 * or is below such a one. */
bool stuck_cgroup_names(const char *text, const char *container);
/* The path of its version 1 freezer group, from below where that is mounted; -1: it has none. */
int stuck_cgroup_freezer(const char *text, char *path, size_t size) WARN_UNUSED;
/* Of the text of /proc/<pid>/stat, pure: the runtime on its way in, and stopped. */
bool stuck_stat_is_held(const char *text);

#endif
