/* Processes of runs inside of an execution: the host starts them and tells of their end. */
#include "base/clock.h"
#include "host/host.h"
#include "ptc/inside/protocol.h"
#include "ptc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(__builtin_strcmp(INSIDE_FAULT, HOST_PROGRAM_FAULT) == 0,
               "both are looked for as one");

enum { MIB = 1024 * 1024, STREAMS = 4 };

/* --- descriptors --- */

static int open_pipe(int *far, struct ptc_watch *watch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    watch->fd = ends[0];
    *far = ends[1];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

static int open_control(int *far, struct ptc_watch *watch)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    watch->fd = ends[0];
    *far = ends[1];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

static int open_streams(struct ptc_worker *w, int streams[STREAMS])
{
    streams[STDIN_FILENO] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return streams[STDIN_FILENO] < 0 ||
                   open_pipe(&streams[STDOUT_FILENO], &w->watch[PTC_WATCH_OUT]) != 0 ||
                   open_pipe(&streams[STDERR_FILENO], &w->watch[PTC_WATCH_ERR]) != 0 ||
                   open_control(&streams[STREAMS - 1], &w->watch[PTC_WATCH_CONTROL]) != 0
               ? -1
               : 0;
}

/* --- starting --- */

static int start(struct ptc_worker *w, struct host_program_plan *plan, struct error *err)
{
    const struct ptc_engine *e = w->engine;
    struct host *host = w->execution.host;
    char heap[48];
    const char *argv[INSIDE_ARGS + 1] = {"node", heap, e->loader, e->electron ? "electron" : "",
                                         NULL};
    (void)snprintf(heap, sizeof(heap), "--max-old-space-size=%lld",
                   (long long)(w->kind.heap_bytes / MIB));
    plan->argv = argv;
    return host->ops->program(host, plan, &w->watch[PTC_WATCH_EXIT].fd, err);
}

static int spawn(struct ptc_worker *w, int streams[STREAMS], struct error *err)
{
    const struct ptc_engine *e = w->engine;
    _cleanup_close_ int lent = -1;
    _cleanup_close_ int node = -1;
    if (open_streams(w, streams) != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "descriptors for a process");
    }
    if (ptc_lend_mounts(e, &lent, &node) != 0) {
        return error_set_errno(err, ERROR_HOST_UNAVAILABLE, errno, "mounting what is lent");
    }
    struct host_program_plan plan = {
        .handle = w->execution.handle,
        .program = e->inside_fd,
        .lent = lent,
        .lent_file = node,
        .cpu_ms = w->cpu_ms,
        .read_only = w->kind.mode == PTC_READ_ONLY,
    };
    memcpy(plan.streams, streams, sizeof(plan.streams));
    return start(w, &plan, err);
}

int ptc_execution_spawn(struct ptc_worker *w, struct error *err)
{
    int streams[STREAMS] = {-1, -1, -1, -1};
    int result = spawn(w, streams, err);
    for (size_t i = 0; i < STREAMS; i++) {
        cleanup_close(&streams[i]);
    }
    if (result == 0) {
        w->spawned = true;
    }
    return result;
}

/* --- the thread --- */

static void *away(void *worker)
{
    struct ptc_worker *w = worker;
    struct ptc_engine *e = w->engine;
    (void)!ptc_execution_spawn(w, &w->failure);
    ptc_helper_give_back(w);
    pthread_mutex_lock(&e->lock);
    e->away--;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

void ptc_execution_start(struct ptc_worker *w)
{
    struct ptc_engine *e = w->engine;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_mutex_lock(&e->lock);
    e->away++;
    pthread_mutex_unlock(&e->lock);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int result = pthread_create(&thread, &attributes, away, w);
    pthread_attr_destroy(&attributes);
    if (result != 0) {
        (void)error_set_errno(&w->failure, ERROR_INTERNAL, result, "starting a thread");
        pthread_mutex_lock(&e->lock);
        e->away--;
        pthread_mutex_unlock(&e->lock);
        ptc_helper_give_back(w);
    }
}

/* --- its end --- */

bool ptc_execution_ended(struct ptc_worker *w)
{
    struct host_program_end end;
    ssize_t n = recv(w->watch[PTC_WATCH_EXIT].fd, &end, sizeof(end), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    w->lost = n != (ssize_t)sizeof(end);
    w->used_up = !w->lost && end.cpu_used_up != 0;
    w->starved = !w->lost && end.oom_killed != 0;
    w->status = w->lost ? 0 : end.status;
    return true;
}

void ptc_execution_kill(struct ptc_worker *w)
{
    if (w->watch[PTC_WATCH_EXIT].fd >= 0) {
        (void)shutdown(w->watch[PTC_WATCH_EXIT].fd, SHUT_WR);
    }
}
