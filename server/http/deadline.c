/* libmicrohttpd's timeout is one of idleness: a peer that sends a byte now and then keeps its
 * connection. Here every request has a time by which its head, and then its body, is there. */
#include "server/http/exchange.h"

#include "base/clock.h"

#include <sys/socket.h>

enum { LOOK_EVERY_MS = 500 };

/* One connection. In the list while bytes of a request are awaited. */
struct peer {
    struct deadlines *deadlines;
    TAILQ_ENTRY(peer) entry;
    int fd;                    /* libmicrohttpd's; open for as long as the peer is known */
    bool listed;               /* [lock] */
    int64_t due;               /* [lock] monotonic ms, without what the body's bytes allow */
    _Atomic int64_t body_size; /* so far */
    bool in_body;              /* [lock] */
};

struct deadlines {
    struct deadline_config config;
    struct timers *timers;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    TAILQ_HEAD(peer_list, peer) peers; /* [lock] */
    uint64_t timer;                    /* [lock] 0 while it runs and once it has stopped */
    bool running;                      /* [lock] */
    bool stopping;                     /* [lock] */
};

/* --- connections --- */

/* [lock] Bytes are awaited until `due`. */
static void await(struct peer *p, int64_t due)
{
    p->due = due;
    if (!p->listed) {
        p->listed = true;
        TAILQ_INSERT_TAIL(&p->deadlines->peers, p, entry);
    }
}

/* [lock] */
static void rest(struct peer *p)
{
    if (p->listed) {
        p->listed = false;
        TAILQ_REMOVE(&p->deadlines->peers, p, entry);
    }
}

static void peer_new(struct deadlines *d, struct MHD_Connection *c, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct peer *p = calloc(1, sizeof(*p));

    if (p == NULL || info == NULL) {
        free(p);
        return; /* its idleness is bounded all the same */
    }
    p->deadlines = d;
    p->fd = info->connect_fd;
    pthread_mutex_lock(&d->lock);
    await(p, clock_mono_ms() + d->config.head_ms);
    pthread_mutex_unlock(&d->lock);
    *context = p;
}

static void peer_free(struct deadlines *d, struct peer *p)
{
    pthread_mutex_lock(&d->lock);
    rest(p);
    pthread_mutex_unlock(&d->lock);
    free(p);
}

void deadline_on_connection(void *cls, struct MHD_Connection *c, void **context,
                            enum MHD_ConnectionNotificationCode code)
{
    struct http_server *s = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        peer_new(s->deadlines, c, context);
    } else if (*context != NULL) {
        peer_free(s->deadlines, TAKE_PTR(*context));
    }
}

/* --- requests --- */

struct peer *deadline_peer(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

void deadline_head_read(struct peer *p)
{
    if (p == NULL) {
        return;
    }
    atomic_store(&p->body_size, 0);
    pthread_mutex_lock(&p->deadlines->lock);
    p->in_body = true;
    await(p, clock_mono_ms() + p->deadlines->config.body_ms);
    pthread_mutex_unlock(&p->deadlines->lock);
}

void deadline_body_grew(struct peer *p, size_t size)
{
    if (p != NULL) {
        atomic_fetch_add(&p->body_size, (int64_t)size);
    }
}

void deadline_request_read(struct peer *p)
{
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->deadlines->lock);
    p->in_body = false;
    rest(p);
    pthread_mutex_unlock(&p->deadlines->lock);
}

void deadline_request_over(struct peer *p)
{
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->deadlines->lock);
    p->in_body = false;
    await(p, clock_mono_ms() + p->deadlines->config.idle_ms + p->deadlines->config.head_ms);
    pthread_mutex_unlock(&p->deadlines->lock);
}

/* --- the look at all --- */

static bool is_late(struct peer *p, int64_t now)
{
    int64_t due = p->due;

    if (p->in_body) {
        due += atomic_load(&p->body_size) * 1000 / p->deadlines->config.body_rate;
    }
    return now > due;
}

/* Its event thread sees the end of the connection then, and does the rest. */
static void cut_late(struct deadlines *d)
{
    int64_t now = clock_mono_ms();
    struct peer *p;
    struct peer *next;

    pthread_mutex_lock(&d->lock);
    for (p = TAILQ_FIRST(&d->peers); p != NULL; p = next) {
        next = TAILQ_NEXT(p, entry);
        if (is_late(p, now)) {
            shutdown(p->fd, SHUT_RDWR);
            rest(p);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

static void look(void *arg)
{
    struct deadlines *d = arg;

    pthread_mutex_lock(&d->lock);
    d->timer = 0;
    d->running = true;
    pthread_mutex_unlock(&d->lock);
    cut_late(d);
    pthread_mutex_lock(&d->lock);
    d->running = false;
    if (!d->stopping) {
        d->timer = timers_add(d->timers, clock_mono_ms() + LOOK_EVERY_MS, look, d);
    }
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

int deadlines_new(const struct deadline_config *config, struct timers *timers,
                  struct deadlines **out, struct error *err)
{
    struct deadlines *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    d->config = *config;
    d->timers = timers;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    TAILQ_INIT(&d->peers);
    pthread_mutex_lock(&d->lock);
    d->timer = timers_add(timers, clock_mono_ms() + LOOK_EVERY_MS, look, d);
    pthread_mutex_unlock(&d->lock);
    *out = d;
    return 0;
}

void deadlines_free(struct deadlines *d)
{
    if (d == NULL) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    d->stopping = true;
    /* Not cancelled: it is about to run, and will not set itself again. */
    if (d->timer != 0 && timers_cancel(d->timers, d->timer)) {
        d->timer = 0;
    }
    while (d->timer != 0 || d->running) {
        pthread_cond_wait(&d->changed, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}
