#include "host/native/link.h"

#include "base/clock.h"
#include "base/fault.h"
#include "host/native/link_internal.h"
#include "host/native/wire.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { HANG_UP_MS = 200 };
enum { EVENTS_MAX = 64, SEND_WAIT_MS = 1000, RECEIVE_MAX = 64 };

/* --- the table --- */

static size_t bucket_of(const char *key)
{
    uint32_t hash = 2166136261U;
    for (; *key != '\0'; key++) {
        hash = (hash ^ (uint8_t)*key) * 16777619U;
    }
    return hash % LINK_BUCKETS;
}

struct link *link_ref(struct link *k)
{
    atomic_fetch_add(&k->refs, 1);
    return k;
}

void link_unref(struct link *k)
{
    if (k == NULL || atomic_fetch_sub(&k->refs, 1) != 1) {
        return;
    }
    if (k->fd >= 0) {
        close(k->fd);
    }
    for (char **variable = k->environment; variable != NULL && *variable != NULL; variable++) {
        free(*variable);
    }
    free(k->environment);
    link_command_forget(k);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

struct link *link_find(struct links *l, const char *key)
{
    struct link *k;
    pthread_mutex_lock(&l->lock);
    LIST_FOREACH(k, &l->buckets[bucket_of(key)], entry)
    {
        if (strcmp(k->key, key) == 0) {
            link_ref(k);
            break;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return k;
}

/* Gives back the table's reference, once. */
static void take_out(struct link *k)
{
    struct links *l = k->links;
    pthread_mutex_lock(&l->lock);
    bool mine = k->listed;
    if (mine) {
        LIST_REMOVE(k, entry);
        k->listed = false;
    }
    pthread_mutex_unlock(&l->lock);
    if (mine) {
        link_unref(k);
    }
}

static void put_in(struct link *k)
{
    struct links *l = k->links;
    pthread_mutex_lock(&l->lock);
    k->listed = true;
    link_ref(k);
    LIST_INSERT_HEAD(&l->buckets[bucket_of(k->key)], k, entry);
    pthread_mutex_unlock(&l->lock);
}

static int link_new(struct links *l, const char *key, struct link **out)
{
    struct link *k = calloc(1, sizeof(*k));
    pthread_condattr_t attributes;
    if (k == NULL) {
        return -1;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&k->lock, NULL);
    snprintf(k->key, sizeof(k->key), "%s", key);
    k->links = l;
    k->refs = 1;
    k->fd = -1;
    k->command.spool = -1;
    *out = k;
    return 0;
}

int link_add(struct links *l, const char *key, struct link_start *start, char **environment,
             struct link **out, struct error *err)
{
    struct link *k = NULL;
    if (link_new(l, key, &k) != 0) {
        for (char **variable = environment; variable != NULL && *variable != NULL; variable++) {
            free(*variable);
        }
        free(environment);
        close(TAKE_FD(start->fd));
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    k->fd = TAKE_FD(start->fd);
    k->child = start->child;
    k->pid = (pid_t)start->greeting.pid;
    k->alive = start->greeting.alive != 0;
    k->frozen = start->greeting.frozen != 0;
    k->environment = environment;
    put_in(k);
    struct epoll_event watch = {.events = EPOLLIN, .data.ptr = link_ref(k)};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, k->fd, &watch) != 0) {
        int errnum = errno;
        link_unref(k);
        take_out(k);
        link_unref(k);
        return error_set_errno(err, ERROR_RUNTIME, errnum, "watching a shim");
    }
    *out = k;
    return 0;
}

/* --- looks --- */

bool link_publish(struct link *k)
{
    pthread_mutex_lock(&k->lock);
    bool alive = k->alive && !k->closed;
    k->published = alive;
    pthread_mutex_unlock(&k->lock);
    return alive;
}

void link_withdraw(struct link *k)
{
    pthread_mutex_lock(&k->lock);
    k->published = false;
    pthread_mutex_unlock(&k->lock);
}

bool link_alive(struct link *k)
{
    pthread_mutex_lock(&k->lock);
    bool alive = k->alive && !k->closed;
    pthread_mutex_unlock(&k->lock);
    return alive;
}

bool link_frozen(struct link *k)
{
    return k->frozen;
}

char *const *link_environment(const struct link *k)
{
    return k->environment;
}

pid_t link_pid(const struct link *k)
{
    return k->pid;
}

/* --- requests --- */

static struct timespec at_mono(int64_t ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
}

/* [lock] */
static int send_locked(struct link *k, const struct link_call *call, struct error *err)
{
    struct pollfd room = {.fd = k->fd, .events = POLLOUT};
    for (int tries = 0; !k->closed && tries < 2; tries++) {
        if (wire_send(k->fd, &call->request, sizeof(call->request), call->fds, call->fd_count,
                      MSG_DONTWAIT) == 0) {
            return 0;
        }
        if (errno != EAGAIN || poll(&room, 1, SEND_WAIT_MS) <= 0) {
            break;
        }
    }
    return error_set(err, ERROR_RUNTIME,
                     k->closed ? "the execution's shim is gone"
                               : "the execution's shim takes no requests");
}

int link_request(struct link *k, const struct link_call *call, struct shim_event *reply,
                 struct error *err)
{
    struct link_call numbered = *call;
    struct link_waiter waiter = {.done = false};
    struct timespec until = at_mono(clock_mono_ms() + call->timeout_ms);
    int fault = fault_point("native.request");
    if (fault != 0) {
        return error_set_errno(err, ERROR_RUNTIME, fault, "speaking to the execution's shim");
    }
    pthread_mutex_lock(&k->lock);
    waiter.serial = ++k->serial;
    numbered.request.serial = waiter.serial;
    LIST_INSERT_HEAD(&k->waiters, &waiter, entry);
    int result = send_locked(k, &numbered, err);
    int waited = 0;
    while (result == 0 && !waiter.done && !k->closed && waited == 0) {
        waited = pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    LIST_REMOVE(&waiter, entry);
    bool closed = k->closed;
    pthread_mutex_unlock(&k->lock);
    if (result == 0 && !waiter.done) {
        return error_set(err, ERROR_RUNTIME,
                         closed ? "the execution's shim is gone"
                                : "the execution's shim does not answer");
    }
    if (result == 0 && reply != NULL) {
        *reply = waiter.reply;
    }
    return result;
}

int link_wait_gone(struct link *k, int timeout_ms, struct error *err)
{
    struct timespec until = at_mono(clock_mono_ms() + timeout_ms);
    int waited = 0;
    pthread_mutex_lock(&k->lock);
    while (!k->closed && waited == 0) {
        waited = pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    bool closed = k->closed;
    pthread_mutex_unlock(&k->lock);
    return closed ? 0 : error_set(err, ERROR_RUNTIME, "the execution's shim does not end");
}

int link_command(struct link *k, const struct link_command *command, const struct link_call *call,
                 struct error *err)
{
    int fault = fault_point("native.command");
    if (fault != 0) {
        return error_set_errno(err, ERROR_RUNTIME, fault, "speaking to the execution's shim");
    }
    pthread_mutex_lock(&k->lock);
    int result = link_command_begin(k, command, err);
    if (result == 0) {
        result = send_locked(k, call, err);
        if (result != 0) {
            k->command.active = false;
        }
    }
    pthread_mutex_unlock(&k->lock);
    return result;
}

int link_helper_status(struct link *k, uint32_t serial, int timeout_ms)
{
    struct timespec until = at_mono(clock_mono_ms() + timeout_ms);
    int status = -1;
    int waited = 0;
    pthread_mutex_lock(&k->lock);
    while (status < 0) {
        for (size_t i = 0; i < LINK_HELPED_MAX; i++) {
            if (k->helped[i].serial == serial) {
                status = k->helped[i].status;
            }
        }
        if (status >= 0 || k->closed || waited != 0) {
            break;
        }
        waited = pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    pthread_mutex_unlock(&k->lock);
    return status;
}

/* --- what comes, on the thread --- */

static void take_reply(struct link *k, const struct shim_event *event)
{
    struct link_waiter *waiter;
    LIST_FOREACH(waiter, &k->waiters, entry)
    {
        if (waiter->serial == event->serial) {
            waiter->reply = *event;
            waiter->done = true;
        }
    }
}

static void tell_gone(struct link *k, const char *detail)
{
    char key[LINK_KEY_SIZE];
    struct host_identity id;
    pthread_mutex_lock(&k->lock);
    bool tell = k->published;
    k->published = false;
    k->alive = false;
    pthread_mutex_unlock(&k->lock);
    memcpy(key, k->key, sizeof(key));
    if (tell && link_key_parse(key, &id)) {
        k->links->observer.gone(k->links->observer.ctx, &id, detail);
    }
}

void link_ended(struct link *k)
{
    pthread_mutex_lock(&k->lock);
    k->alive = false;
    k->published = false;
    pthread_mutex_unlock(&k->lock);
}

static void handle(struct link *k, const struct shim_event *event)
{
    switch ((enum shim_event_type)event->type) {
    case SHIM_OUTPUT: link_command_output(k, event); return;
    case SHIM_FINISHED: link_command_finished(k, event); return;
    case SHIM_GONE: tell_gone(k, "everything inside has ended"); return;
    case SHIM_REPLY:
    case SHIM_HELPED:
    case SHIM_READY:
    case SHIM_FAILED: break;
    }
    pthread_mutex_lock(&k->lock);
    if (event->type == SHIM_REPLY) {
        take_reply(k, event);
    } else if (event->type == SHIM_HELPED) {
        k->helped[k->helped_next++ % LINK_HELPED_MAX] =
            (struct link_helped){.serial = event->serial, .status = event->status};
    }
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* One that has hung up and lives on is of no use to anybody. */
static void reap(pid_t child)
{
    _cleanup_close_ int fd = pidfd_open(child, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (poll(&ended, 1, HANG_UP_MS) <= 0) {
        (void)kill(child, SIGKILL);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* The shim is gone: its descriptor, its zombie, and whoever waits for it. */
static void close_link(struct link *k)
{
    (void)epoll_ctl(k->links->epoll, EPOLL_CTL_DEL, k->fd, NULL);
    if (k->child > 0) {
        reap(k->child);
    }
    link_command_lost(k, "the execution's shim is gone");
    tell_gone(k, "the execution's shim is gone");
    pthread_mutex_lock(&k->lock);
    k->closed = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    take_out(k);
    link_unref(k);
}

static void receive(struct link *k)
{
    struct shim_event event;
    for (int i = 0; i < RECEIVE_MAX; i++) {
        size_t none = 0;
        int got = wire_receive(k->fd, &event, sizeof(event), NULL, &none, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got != 1) {
            close_link(k);
            return;
        }
        event.command[SHIM_ID_SIZE - 1] = '\0';
        handle(k, &event);
    }
}

static void *run(void *arg)
{
    struct links *l = arg;
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int count = epoll_wait(l->epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL) {
                return NULL;
            }
            receive(events[i].data.ptr);
        }
    }
}

/* --- start and end --- */

int links_new(int run_fd, const struct host_observer *observer, struct links **out,
              struct error *err)
{
    struct links *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&l->lock, NULL);
    l->run_fd = run_fd;
    l->observer = *observer;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event watch = {.events = EPOLLIN, .data.ptr = NULL};
    if (l->epoll < 0 || l->stop < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->stop, &watch) != 0 ||
        pthread_create(&l->thread, NULL, run, l) != 0) {
        links_free(l);
        return error_set(err, ERROR_INTERNAL, "the thread that listens to shims can't be started");
    }
    l->running = true;
    *out = l;
    return 0;
}

void links_stop(struct links *l)
{
    uint64_t one = 1;
    if (!l->running) {
        return;
    }
    (void)!write(l->stop, &one, sizeof(one));
    pthread_join(l->thread, NULL);
    l->running = false;
    for (size_t i = 0; i < LINK_BUCKETS; i++) {
        struct link *k;
        LIST_FOREACH(k, &l->buckets[i], entry)
        {
            link_command_let_go(k);
        }
    }
}

/* Shims go on without the service; the connections end with it. */
void links_free(struct links *l)
{
    if (l == NULL) {
        return;
    }
    links_stop(l);
    for (size_t i = 0; i < LINK_BUCKETS; i++) {
        struct link *k;
        while ((k = LIST_FIRST(&l->buckets[i])) != NULL) {
            take_out(k);
            link_unref(k); /* what the thread held */
        }
    }
    if (l->epoll >= 0) {
        close(l->epoll);
    }
    if (l->stop >= 0) {
        close(l->stop);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}
