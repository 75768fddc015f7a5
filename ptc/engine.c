#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "ptc/files.h"
#include "ptc/internal.h"
#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

enum { LAUNCH_FD_LEAST = 100, BITS = 8, PROBE_MS = 20000, MILLI = 1000, NANO_PER_MILLI = 1000000 };

/* --- making --- */

static int open_program(const struct ptc_file *file, int *out, struct error *err)
{
    _cleanup_close_ int made = memfd_create(file->name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "a memory file");
    }
    if (file_write_all(made, file->start, (size_t)(file->end - file->start), err) != 0) {
        return -1;
    }
    /* A file that is open for writing can't be executed. */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", made);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "a memory file");
    }
    /* Above the numbers that a launcher's own descriptors have, or it would go before its start. */
    *out = fcntl(fd, F_DUPFD_CLOEXEC, LAUNCH_FD_LEAST);
    return *out >= 0 ? 0 : error_set_errno(err, ERROR_INTERNAL, errno, "a memory file");
}

static int open_tool(const char *path, const char *what, int *fd, struct error *err)
{
    if (path == NULL) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "there is no %s", what);
    }
    *fd = open(path, O_PATH | O_CLOEXEC);
    return *fd >= 0 ? 0 : error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "%s", path);
}

/* One parent for each data directory: services beside each other keep apart, and one that comes
 * again finds what it left. */
static void name_groups(struct ptc_engine *e)
{
    uint64_t hash = 14695981039346656037U;
    for (const char *at = e->hidden; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    }
    (void)snprintf(e->groups_name, sizeof(e->groups_name), "exechost-ptc-%016llx",
                   (unsigned long long)hash);
}

static void open_groups(struct ptc_engine *e)
{
    struct sandbox_fault fault = {NULL, 0};
    name_groups(e);
    if (cgroup_find(&e->group_roots, &fault) == 0 &&
        cgroup_below(&e->group_roots, e->groups_name, true, &e->groups) == 0 &&
        cgroup_delegate(&e->groups) == 0) {
        e->grouped = true;
        ptc_helper_sweep(e);
        return;
    }
    e->enforcement = PTC_ENFORCEMENT_PARTIAL;
    (void)snprintf(e->reason, sizeof(e->reason),
                   "no control groups: limits of memory, processes and CPU time do not hold (%s)",
                   fault.step != NULL ? fault.step : strerror(errno));
}

static int open_confinement(struct ptc_engine *e, struct error *err)
{
    if (geteuid() != 0) {
        return error_set(err, ERROR_HOST_UNAVAILABLE, "confining programs needs root");
    }
    if (open_tool(e->node, "Node", &e->node_fd, err) != 0 ||
        ptc_node_probe(e->node, &e->electron, err) != 0 ||
        open_tool(e->config.bwrap, "bubblewrap", &e->bwrap_fd, err) != 0 ||
        sandbox_seccomp_build(&e->seccomp_fd, err) != 0 ||
        open_program(&ptc_launch_file, &e->launch_fd, err) != 0 ||
        open_program(&ptc_inside_file, &e->inside_fd, err) != 0 || ptc_stage_make(e, err) != 0) {
        return -1;
    }
    open_groups(e);
    return 0;
}

static int allocate(struct ptc_engine *e, const struct ptc_engine_config *config)
{
    e->config = *config;
    e->node = config->node == NULL ? NULL : strdup(config->node);
    e->hidden = strdup(config->hidden);
    e->slots = calloc(config->uid_count / BITS + 1, 1);
    struct ptc_kind kind = {.mode = config->rules.mode,
                            .heap_bytes = config->rules.limits.heap_bytes};
    e->recent[0].kind = kind;
    e->recent_count = 1;
    buf_init(&e->room, (size_t)config->message_max * 2);
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    e->node_fd = e->bwrap_fd = e->launch_fd = e->inside_fd = e->stage_fd = e->lent_fd =
        e->seccomp_fd = -1;
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    e->wake =
        (struct ptc_watch){.what = PTC_WATCH_WAKE, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    return (config->node != NULL && e->node == NULL) || e->hidden == NULL || e->slots == NULL ||
                   e->epoll < 0 || e->wake.fd < 0 || ptc_loop_watch(e, &e->wake, EPOLLIN) != 0
               ? -1
               : 0;
}

static void release(struct ptc_engine *e)
{
    int *const fds[] = {&e->node_fd, &e->bwrap_fd,   &e->launch_fd, &e->inside_fd, &e->stage_fd,
                        &e->lent_fd, &e->seccomp_fd, &e->epoll,     &e->wake.fd};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        cleanup_close(fds[i]);
    }
    for (size_t i = 0; i < e->empty_count; i++) {
        close(e->to_empty[i]);
    }
    for (size_t i = 0; i < e->recent_count; i++) {
        ptc_kind_done(&e->recent[i].kind);
    }
    cgroup_set_close(&e->groups);
    if (e->grouped) {
        (void)!cgroup_remove(&e->group_roots, e->groups_name);
    }
    cgroup_set_close(&e->group_roots);
    ptc_stage_remove(e);
    buf_done(&e->room);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e->node);
    free(e->hidden);
    free(e->slots);
    free(e->stop_reason);
    free(e);
}

static int start_threads(struct ptc_engine *e)
{
    if (pthread_create(&e->helper_thread, NULL, ptc_helper_main, e) != 0) {
        return -1;
    }
    if (pthread_create(&e->loop_thread, NULL, ptc_loop_main, e) != 0) {
        pthread_mutex_lock(&e->lock);
        e->helper_ends = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->helper_thread, NULL);
        return -1;
    }
    return 0;
}

/* The first process shows whether confinement works. */
static void await_probe(struct ptc_engine *e)
{
    int64_t at = clock_mono_ms() + PROBE_MS;
    struct timespec until = {.tv_sec = at / MILLI, .tv_nsec = at % MILLI * NANO_PER_MILLI};
    pthread_mutex_lock(&e->lock);
    int result = 0;
    while (!e->probed && result == 0) {
        result = pthread_cond_timedwait(&e->changed, &e->lock, &until);
    }
    if (!e->probed) {
        e->enforcement = PTC_ENFORCEMENT_NONE;
        (void)snprintf(e->reason, sizeof(e->reason), "no process became ready in time");
        e->probed = true;
    }
    pthread_mutex_unlock(&e->lock);
}

int ptc_engine_new(const struct ptc_engine_config *config, struct ptc_engine **out,
                   struct error *err)
{
    struct ptc_engine *e = calloc(1, sizeof(*e));
    struct error missing = ERROR_INIT;
    if (e == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (allocate(e, config) != 0) {
        release(e);
        return error_set(err, ERROR_INTERNAL, "out of memory or descriptors");
    }
    if (open_confinement(e, &missing) != 0) {
        e->enforcement = PTC_ENFORCEMENT_NONE;
        (void)snprintf(e->reason, sizeof(e->reason), "%s", missing.detail);
        e->config.pool_size = 0;
        e->probed = true;
    } else {
        (void)ptc_pool_start(e, &e->recent[0].kind);
    }
    if (start_threads(e) != 0) {
        release(e);
        return error_set(err, ERROR_INTERNAL, "no thread could be started");
    }
    await_probe(e);
    *out = e;
    return 0;
}

/* --- the end --- */

void ptc_engine_stop(struct ptc_engine *e, const char *reason)
{
    pthread_mutex_lock(&e->lock);
    bool first = !e->stopping;
    if (first) {
        e->stop_reason = strdup(reason == NULL ? "" : reason);
        e->stopping = true;
    }
    pthread_mutex_unlock(&e->lock);
    if (!first) {
        return;
    }
    ptc_loop_wake(e);
    pthread_join(e->loop_thread, NULL);
    pthread_mutex_lock(&e->lock);
    e->helper_ends = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->helper_thread, NULL);
    pthread_mutex_lock(&e->lock);
    while (e->away > 0) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    e->stopped = true;
}

void ptc_engine_free(struct ptc_engine *e)
{
    if (e == NULL) {
        return;
    }
    ptc_engine_stop(e, "the service is stopping");
    release(e);
}

enum ptc_enforcement ptc_engine_enforcement(const struct ptc_engine *e)
{
    return e->enforcement;
}

const char *ptc_engine_reason(const struct ptc_engine *e)
{
    return e->reason;
}

int64_t ptc_engine_ready(struct ptc_engine *e)
{
    pthread_mutex_lock(&e->lock);
    int64_t ready = e->ready;
    pthread_mutex_unlock(&e->lock);
    return ready;
}
