#include "server/http/exchange.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* One subscription. A waker may still be at it when the exchange has gone on and waits anew, so it
 * has a life of its own: references of the exchange, the topic and the timer. */
struct wait_entry {
    atomic_uint refs;
    struct http_exchange *x; /* with a reference */
    struct topic_waiter waiter;
    uint64_t timer; /* 0: no deadline */
};

static struct wait_entry *entry_new(struct http_exchange *x)
{
    struct wait_entry *e = calloc(1, sizeof(*e));

    if (e != NULL) {
        atomic_init(&e->refs, 1);
        e->x = x;
        exchange_ref(x);
    }
    return e;
}

static void entry_unref(struct wait_entry *e)
{
    if (atomic_fetch_sub(&e->refs, 1) == 1) {
        exchange_unref(e->x);
        free(e);
    }
}

/* `e`: the subscription that speaks, NULL for whichever is current. The first reason counts. What a
 * guard has begun is brought to its answer, whoever is there to read it. */
static void wake(struct http_exchange *x, const struct wait_entry *e, enum exchange_wake reason)
{
    bool deaf;

    pthread_mutex_lock(&x->lock);
    deaf = reason == WAKE_PEER_GONE && x->guard_state != NULL;
    if (!deaf && (e == NULL || e == x->waiting) && x->wake == WAKE_NONE) {
        if (x->phase == EXCHANGE_ARMING) {
            /* A stream may be sending now: that tells soon enough whether somebody reads. */
            x->wake = reason == WAKE_PEER_GONE ? WAKE_NONE : reason;
        } else if (x->phase == EXCHANGE_WAITING) {
            x->wake = reason;
            exchange_resume_locked(x);
        }
    }
    pthread_mutex_unlock(&x->lock);
}

static void on_topic(struct topic_waiter *w)
{
    struct wait_entry *e = (struct wait_entry *)((char *)w - offsetof(struct wait_entry, waiter));

    wake(e->x, e, WAKE_TOPIC);
    entry_unref(e);
}

static void on_deadline(void *arg)
{
    struct wait_entry *e = arg;

    wake(e->x, e, WAKE_TIMEOUT);
    entry_unref(e);
}

void http_wait(struct http_exchange *x, const char *topic, int64_t deadline_mono_ms,
               bool (*ready)(struct http_exchange *x), http_handler again)
{
    x->wait = (struct wait_request){
        .asked = true, .deadline_mono_ms = deadline_mono_ms, .ready = ready, .again = again};
    snprintf(x->wait.topic, sizeof(x->wait.topic), "%s", topic);
}

static void list_entry(struct http_exchange *x)
{
    struct http_server *s = x->server;
    bool stopping;

    pthread_mutex_lock(&s->lock);
    TAILQ_INSERT_TAIL(&s->waiting, x, entry);
    stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    if (stopping) {
        wake(x, NULL, WAKE_STOPPING);
    }
}

static void set_deadline(struct http_exchange *x, struct wait_entry *e, int64_t at_mono_ms)
{
    atomic_fetch_add(&e->refs, 1);
    e->timer = timers_add(x->server->timers, at_mono_ms, on_deadline, e);
}

/* NULL, and woken as if the server stopped, when memory is out. */
static struct wait_entry *subscribe(struct http_exchange *x)
{
    struct wait_entry *e = entry_new(x);

    pthread_mutex_lock(&x->lock);
    x->phase = EXCHANGE_ARMING;
    x->wake = e == NULL ? WAKE_STOPPING : WAKE_NONE;
    x->waiting = e;
    pthread_mutex_unlock(&x->lock);
    if (e != NULL) {
        list_entry(x);
        e->waiter.wake = on_topic;
        atomic_fetch_add(&e->refs, 1);
        topics_join(x->server->topics, x->wait.topic, &e->waiter);
    }
    return e;
}

bool wait_begin(struct http_exchange *x, bool on_event_thread)
{
    struct wait_entry *e = subscribe(x);
    bool woken;

    x->wait.asked = false;
    x->timed_out = false;
    if (e != NULL && x->wait.ready != NULL && x->wait.ready(x)) {
        wake(x, e, WAKE_TOPIC);
    } else if (e != NULL && x->wait.deadline_mono_ms != 0) {
        set_deadline(x, e, x->wait.deadline_mono_ms);
    }
    pthread_mutex_lock(&x->lock);
    woken = x->wake != WAKE_NONE;
    if (!woken) {
        x->phase = EXCHANGE_WAITING;
        if (on_event_thread) {
            MHD_suspend_connection(x->connection);
        }
    } else if (!on_event_thread) {
        exchange_resume_locked(x);
    }
    pthread_mutex_unlock(&x->lock);
    return !on_event_thread || !woken;
}

void wait_end(struct http_exchange *x)
{
    struct http_server *s = x->server;
    struct wait_entry *e;

    pthread_mutex_lock(&x->lock);
    e = TAKE_PTR(x->waiting);
    x->phase = EXCHANGE_RESUMED;
    pthread_mutex_unlock(&x->lock);
    pthread_mutex_lock(&s->lock);
    TAILQ_REMOVE(&s->waiting, x, entry);
    pthread_mutex_unlock(&s->lock);
    if (e->timer != 0 && timers_cancel(s->timers, e->timer)) {
        entry_unref(e);
    }
    if (topics_leave(s->topics, &e->waiter)) {
        entry_unref(e);
    }
    entry_unref(e);
}

static enum exchange_wake take_wake(struct http_exchange *x)
{
    enum exchange_wake reason;

    pthread_mutex_lock(&x->lock);
    reason = x->wake;
    x->wake = WAKE_NONE;
    pthread_mutex_unlock(&x->lock);
    return reason;
}

enum exchange_wake wait_renew(struct http_exchange *x)
{
    enum exchange_wake reason = take_wake(x);

    if (x->waiting != NULL && reason == WAKE_NONE) {
        return reason;
    }
    if (x->waiting != NULL) {
        wait_end(x);
    }
    return subscribe(x) != NULL ? reason : WAKE_STOPPING;
}

bool wait_sleep(struct http_exchange *x, int64_t deadline_mono_ms)
{
    bool sleeps;

    set_deadline(x, x->waiting, deadline_mono_ms);
    pthread_mutex_lock(&x->lock);
    sleeps = x->wake == WAKE_NONE;
    if (sleeps) {
        x->phase = EXCHANGE_WAITING;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return sleeps;
}

/* --- peers --- */

/* A peer that has closed its sending side counts as gone: whether it still reads can't be seen. */
static bool peer_is_gone(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void wait_probe_peers(struct http_server *s)
{
    struct http_exchange *x;

    pthread_mutex_lock(&s->lock);
    TAILQ_FOREACH(x, &s->waiting, entry)
    {
        if (peer_is_gone(x->fd)) {
            wake(x, NULL, WAKE_PEER_GONE);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void on_heartbeat(void *arg)
{
    struct http_server *s = arg;

    pthread_mutex_lock(&s->lock);
    s->heartbeat = 0;
    s->heartbeat_running = true;
    pthread_mutex_unlock(&s->lock);
    wait_probe_peers(s);
    pthread_mutex_lock(&s->lock);
    s->heartbeat_running = false;
    if (!s->stopping) {
        s->heartbeat = timers_add(s->timers, clock_mono_ms() + s->heartbeat_ms, on_heartbeat, s);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void wait_heartbeat_start(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->heartbeat = timers_add(s->timers, clock_mono_ms() + s->heartbeat_ms, on_heartbeat, s);
    pthread_mutex_unlock(&s->lock);
}

static void stop_heartbeat(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    /* Not cancelled: it is about to run, and will not set itself again. */
    if (s->heartbeat != 0 && timers_cancel(s->timers, s->heartbeat)) {
        s->heartbeat = 0;
    }
    while (s->heartbeat != 0 || s->heartbeat_running) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

void wait_stop(struct http_server *s)
{
    struct http_exchange *x;

    stop_heartbeat(s);
    pthread_mutex_lock(&s->lock);
    TAILQ_FOREACH(x, &s->waiting, entry)
    {
        wake(x, NULL, WAKE_STOPPING);
    }
    pthread_mutex_unlock(&s->lock);
}
