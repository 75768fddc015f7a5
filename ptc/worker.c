#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "ptc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { READ_SIZE = 64 * 1024, READS_MAX = 16, REFILL_AFTER_MS = 1000, CLOSED_MS = 1000 };
enum { LEAD2 = 0xc2, LEAD3 = 0xe0, LEAD4 = 0xf0, LEAD_END = 0xf5, CONTINUES = 0x80, TOP2 = 0xc0 };
enum { DECIMAL = 10 };

struct ptc_worker *ptc_worker_new(struct ptc_engine *e, const struct ptc_kind *kind)
{
    struct ptc_worker *w = calloc(1, sizeof(*w));
    if (w == NULL || ptc_kind_copy(kind, &w->kind) != 0) {
        free(w);
        return NULL;
    }
    w->engine = e;
    w->inner_fd = w->node_fd = -1;
    w->slot = -1;
    w->deadline = -1;
    for (int i = 0; i < PTC_WATCH_COUNT; i++) {
        w->watch[i] = (struct ptc_watch){.what = (enum ptc_watch_what)i, .fd = -1, .worker = w};
    }
    ptc_frames_init(&w->frames, e->config.message_max);
    buf_init(&w->tail, PTC_TAIL_MAX + READ_SIZE);
    return w;
}

void ptc_worker_close(struct ptc_worker *w, enum ptc_watch_what what)
{
    if (w->watch[what].fd >= 0) {
        /* Closing alone does not do it while a process that is being started has a copy. */
        (void)epoll_ctl(w->engine->epoll, EPOLL_CTL_DEL, w->watch[what].fd, NULL);
        close(w->watch[what].fd);
        w->watch[what].fd = -1;
    }
}

void ptc_worker_free(struct ptc_worker *w)
{
    for (int i = 0; i < PTC_WATCH_COUNT; i++) {
        ptc_worker_close(w, (enum ptc_watch_what)i);
    }
    cleanup_close(&w->inner_fd);
    cleanup_close(&w->node_fd);
    cgroup_set_close(&w->group);
    ptc_frames_done(&w->frames);
    buf_done(&w->tail);
    ptc_kind_done(&w->kind);
    free(w);
}

void ptc_worker_want_write(struct ptc_worker *w, bool wanted)
{
    struct ptc_watch *watch = &w->watch[PTC_WATCH_CONTROL];
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = watch};
    if (watch->fd >= 0) {
        (void)epoll_ctl(w->engine->epoll, EPOLL_CTL_MOD, watch->fd, &event);
    }
}

/* --- the end --- */

static void gone_if_all_is(struct ptc_worker *w)
{
    if (w->state == PTC_WORKER_ENDING && w->exited && w->watch[PTC_WATCH_OUT].fd < 0 &&
        w->watch[PTC_WATCH_ERR].fd < 0) {
        w->state = PTC_WORKER_GONE;
        ptc_helper_remove(w);
    }
}

void ptc_worker_kill(struct ptc_worker *w)
{
    if (w->state == PTC_WORKER_ENDING || w->state == PTC_WORKER_GONE) {
        return;
    }
    w->state = PTC_WORKER_ENDING;
    if (!w->arrived) {
        return; /* the helper has it; it dies when it arrives */
    }
    w->deadline = clock_mono_ms() + w->engine->config.grace_ms;
    ptc_worker_close(w, PTC_WATCH_CONTROL);
    if (w->inside) {
        ptc_execution_kill(w);
        gone_if_all_is(w);
        return;
    }
    if (w->node_fd >= 0) {
        /* It has the most to give back: first, and by two processors. */
        (void)pidfd_send_signal(w->node_fd, SIGKILL, NULL, 0);
        ptc_helper_empty(w->engine, TAKE_FD(w->node_fd));
    }
    (void)!cgroup_kill(&w->group);
    if (w->inner_fd >= 0) {
        (void)pidfd_send_signal(w->inner_fd, SIGKILL, NULL, 0);
    }
    /* Without process 1 inside known, the one outside takes it along. */
    if (w->spawned && !w->exited && w->inner_fd < 0) {
        (void)pidfd_send_signal(w->watch[PTC_WATCH_EXIT].fd, SIGKILL, NULL, 0);
    }
    gone_if_all_is(w);
}

/* It did not become ready. */
static void fail_start(struct ptc_worker *w, const char *why)
{
    struct ptc_engine *e = w->engine;
    if (w->inside) {
        return; /* which says nothing of other processes */
    }
    pthread_mutex_lock(&e->lock);
    if (!e->probed) {
        e->enforcement = PTC_ENFORCEMENT_NONE;
        (void)snprintf(e->reason, sizeof(e->reason), "%s", why);
        e->probed = true;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    e->refill_at = clock_mono_ms() + REFILL_AFTER_MS;
    if (w->run == NULL && w->state != PTC_WORKER_ENDING) {
        log_warn("a process for programs did not start", "reason", why, NULL);
    }
}

static bool is_confinement_fault(const struct ptc_worker *w)
{
    const char *text = buf_str(&w->tail);
    return strncmp(text, "bwrap: ", strlen("bwrap: ")) == 0 ||
           strncmp(text, "launch: ", strlen("launch: ")) == 0;
}

static void lose_start(struct ptc_worker *w)
{
    size_t len = strcspn(buf_str(&w->tail), "\n");
    char why[PTC_REASON_MAX];
    (void)snprintf(why, sizeof(why), "%.*s", (int)utf8_cut(buf_str(&w->tail), len, sizeof(why) - 1),
                   buf_str(&w->tail));
    fail_start(w, why[0] == '\0' ? "the process ended before it was ready" : why);
    if (w->run == NULL) {
        return;
    }
    if (is_confinement_fault(w)) {
        ptc_run_choose(w->run, PTC_SANDBOX_UNAVAILABLE, "the sandbox could not be set up: %s", why);
    } else {
        ptc_run_lost(w->run, "could not start");
    }
}

/* Outcome of a process that ended by itself. */
static void lose(struct ptc_worker *w)
{
    char how[64];
    if (w->run != NULL && (w->lost || w->used_up)) {
        ptc_run_lost(w->run, w->lost ? "ended with its execution" : "used all of its CPU time");
    } else if (w->state == PTC_WORKER_STARTING) {
        lose_start(w);
    } else if (w->run != NULL) {
        int code = WIFEXITED(w->status) ? WEXITSTATUS(w->status) : 128 + WTERMSIG(w->status);
        (void)snprintf(how, sizeof(how), "exited with code %d", code);
        ptc_run_lost(w->run, how);
    }
}

/* --- what it says --- */

/* In its group are bubblewrap, process 1 inside and the one that has just spoken. */
static void find_node(struct ptc_worker *w)
{
    char text[128];
    int directory = cgroup_directory(&w->group, CGROUP_MEMORY);
    _cleanup_close_ int fd =
        directory < 0 ? -1 : openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        pid_t pid = (pid_t)strtol(line, NULL, DECIMAL);
        if (pid > 0 && pid != w->pid && pid != w->inner_pid && w->node_fd < 0) {
            w->node_fd = pidfd_open(pid, 0);
        }
    }
}

static void become_ready(struct ptc_worker *w)
{
    struct ptc_engine *e = w->engine;
    w->state = PTC_WORKER_READY;
    if (!w->inside) {
        find_node(w);
    }
    pthread_mutex_lock(&e->lock);
    e->probed = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (w->run != NULL) {
        ptc_run_ready(w->run);
    }
}

static void take_greeting(struct ptc_worker *w)
{
    struct ptc_text body;
    struct ptc_message message;
    const char *why = NULL;
    int result = ptc_frames_next(&w->frames, &body);
    if (result == 0) {
        return;
    }
    if (result > 0 && ptc_message_read(body, &w->engine->room, &message, &why) == 0 &&
        message.type == PTC_MESSAGE_READY) {
        become_ready(w);
        return;
    }
    if (w->run != NULL) {
        ptc_run_choose(w->run, PTC_PROTOCOL, "the process did not say that it is ready");
    }
    ptc_worker_kill(w);
}

static void take_frames(struct ptc_worker *w)
{
    if (w->state == PTC_WORKER_STARTING) {
        take_greeting(w);
    }
    if (w->state == PTC_WORKER_RUNNING && w->run != NULL) {
        ptc_run_frames(w->run);
    } else if (w->state == PTC_WORKER_READY && w->frames.held.len > w->frames.at) {
        /* It speaks before it was spoken to. */
        ptc_worker_kill(w);
    }
}

static void read_control(struct ptc_worker *w)
{
    char data[READ_SIZE];
    struct ptc_watch *watch = &w->watch[PTC_WATCH_CONTROL];
    for (int i = 0; i < READS_MAX && watch->fd >= 0; i++) {
        ssize_t n = recv(watch->fd, data, sizeof(data), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            ptc_worker_close(w, PTC_WATCH_CONTROL);
            w->channel_closed = true;
            w->deadline = clock_mono_ms() + CLOSED_MS;
            return;
        }
        if (ptc_frames_put(&w->frames, data, (size_t)n) != 0) {
            if (w->run != NULL) {
                ptc_run_choose(w->run, PTC_PROTOCOL, "more than one frame may have is waiting");
            }
            ptc_worker_kill(w);
            return;
        }
        take_frames(w);
    }
}

/* --- what it prints --- */

/* Bytes at the end that may be the start of a character. */
static size_t count_unfinished(const char *data, size_t len)
{
    for (size_t back = 1; back < PTC_CARRY_MAX && back <= len; back++) {
        unsigned char c = (unsigned char)data[len - back];
        if ((c & TOP2) == CONTINUES) {
            continue;
        }
        size_t need = c >= LEAD4 && c < LEAD_END ? 4
                      : c >= LEAD3 && c < LEAD4  ? 3
                      : c >= LEAD2 && c < LEAD3  ? 2
                                                 : 1;
        return need > back ? back : 0;
    }
    return 0;
}

static void keep_tail(struct ptc_worker *w, const char *data, size_t len)
{
    if (buf_add(&w->tail, data, len) == 0 && w->tail.len > PTC_TAIL_MAX) {
        buf_consume(&w->tail, w->tail.len - PTC_TAIL_MAX);
    }
}

/* `data` has room for what was carried before its `len` bytes. */
static void take_output(struct ptc_worker *w, size_t stream, char *data, size_t len)
{
    size_t carried = w->carry_len[stream];
    memcpy(data - carried, w->carry[stream], carried);
    data -= carried;
    size_t all = len + carried;
    size_t rest = len == 0 ? 0 : count_unfinished(data, all);
    memcpy(w->carry[stream], data + all - rest, rest);
    w->carry_len[stream] = rest;
    if (w->run != NULL && all > rest) {
        ptc_run_output(w->run, (struct ptc_text){data, all - rest});
    }
}

static void read_output(struct ptc_worker *w, enum ptc_watch_what what)
{
    char data[PTC_CARRY_MAX + READ_SIZE];
    size_t stream = what == PTC_WATCH_OUT ? 0 : 1;
    for (int i = 0; i < READS_MAX && w->watch[what].fd >= 0; i++) {
        ssize_t n = read(w->watch[what].fd, data + PTC_CARRY_MAX, READ_SIZE);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        size_t len = n > 0 ? (size_t)n : 0;
        if (what == PTC_WATCH_ERR) {
            keep_tail(w, data + PTC_CARRY_MAX, len);
        }
        take_output(w, stream, data + PTC_CARRY_MAX, len);
        if (n <= 0) {
            ptc_worker_close(w, what);
            gone_if_all_is(w);
        }
    }
}

/* --- what bubblewrap says --- */

/* Its first write names process 1 inside; it wants to be read to the end. */
static void read_info(struct ptc_worker *w)
{
    static const char key[] = "\"child-pid\":";
    char text[512];
    ssize_t n = read(w->watch[PTC_WATCH_INFO].fd, text, sizeof(text) - 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        ptc_worker_close(w, PTC_WATCH_INFO);
        return;
    }
    text[n] = '\0';
    const char *at = strstr(text, key);
    if (at != NULL && w->inner_fd < 0) {
        w->inner_pid = (pid_t)strtol(at + strlen(key), NULL, DECIMAL);
        w->inner_fd = pidfd_open(w->inner_pid, 0);
    }
}

static void read_exit(struct ptc_worker *w)
{
    if (w->inside ? !ptc_execution_ended(w) : waitpid(w->pid, &w->status, WNOHANG) != w->pid) {
        return;
    }
    w->exited = true;
    ptc_worker_close(w, PTC_WATCH_EXIT);
    /* What it said before it ended counts. */
    while (w->watch[PTC_WATCH_CONTROL].fd >= 0) {
        struct ptc_watch *watch = &w->watch[PTC_WATCH_CONTROL];
        char byte;
        ssize_t n = recv(watch->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        if (n < 0) {
            break;
        }
        read_control(w);
    }
    if (w->watch[PTC_WATCH_ERR].fd >= 0) {
        read_output(w, PTC_WATCH_ERR);
    }
    if (w->state != PTC_WORKER_ENDING && w->state != PTC_WORKER_GONE) {
        lose(w);
        ptc_worker_kill(w);
    }
    gone_if_all_is(w);
}

void ptc_worker_event(struct ptc_worker *w, enum ptc_watch_what what, uint32_t events)
{
    if (w->watch[what].fd < 0) {
        return;
    }
    switch (what) {
    case PTC_WATCH_CONTROL:
        if ((events & EPOLLOUT) != 0 && w->run != NULL) {
            ptc_run_flush(w->run);
        }
        read_control(w);
        return;
    case PTC_WATCH_OUT:
    case PTC_WATCH_ERR: read_output(w, what); return;
    case PTC_WATCH_INFO: read_info(w); return;
    case PTC_WATCH_EXIT: read_exit(w); return;
    default: return;
    }
}

static int watch_all(struct ptc_worker *w)
{
    for (int i = PTC_WATCH_CONTROL; i < PTC_WATCH_COUNT; i++) {
        if (w->watch[i].fd >= 0 && ptc_loop_watch(w->engine, &w->watch[i], EPOLLIN) != 0) {
            return -1;
        }
    }
    return 0;
}

void ptc_worker_arrived(struct ptc_worker *w)
{
    bool unwanted = w->state == PTC_WORKER_ENDING;
    w->arrived = true;
    if (w->failure.code == ERROR_NONE && watch_all(w) != 0) {
        (void)error_set_errno(&w->failure, ERROR_HOST_UNAVAILABLE, errno, "watching a process");
    }
    if (w->failure.code == ERROR_NONE) {
        if (unwanted) {
            w->state = PTC_WORKER_STARTING;
            ptc_worker_kill(w);
        }
        return;
    }
    if (!w->spawned) {
        w->exited = true;
        ptc_worker_close(w, PTC_WATCH_OUT);
        ptc_worker_close(w, PTC_WATCH_ERR);
    }
    w->state = PTC_WORKER_STARTING;
    fail_start(w, w->failure.detail);
    if (w->run != NULL) {
        ptc_run_choose(w->run, PTC_SANDBOX_UNAVAILABLE, "the sandbox could not be set up: %s",
                       w->failure.detail);
    }
    ptc_worker_kill(w);
}

/* --- time --- */

void ptc_worker_look(struct ptc_worker *w, int64_t now)
{
    if (w->deadline < 0 || now < w->deadline) {
        return;
    }
    w->deadline = -1;
    if (w->state != PTC_WORKER_ENDING) {
        if (w->run != NULL) {
            ptc_run_lost(w->run, "closed its channel");
        }
        ptc_worker_kill(w);
        return;
    }
    if (w->run != NULL && !w->exited) {
        ptc_run_replace(w->run, PTC_WORKER_EXIT, "the processes of the program could not be ended");
    } else if (w->run != NULL && w->run->kind == PTC_OK) {
        ptc_run_replace(w->run, PTC_WORKER_EXIT,
                        "the output of the program was not closed in time");
    }
    ptc_worker_close(w, PTC_WATCH_OUT);
    ptc_worker_close(w, PTC_WATCH_ERR);
    w->stuck = w->stuck || !w->exited;
    w->exited = true;
    gone_if_all_is(w);
}
