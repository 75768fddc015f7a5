/* One thread for every stream. Socket streams sit in an epoll set of their own, which the multi
 * handle waits for as for one more descriptor: what curl_multi_poll tells of foreign descriptors
 * leaves out hang-ups and errors, and would be asked anew for each of them every time. */
#include "host/docker/engine_loop_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

enum { LOOP_BATCH = 64 };

struct engine_stream {
    struct engine_stream *next;
    struct engine_stream *previous;
    struct engine_stream *next_roused;
    bool roused;  /* [lock] in the loop's list of those */
    short wanted; /* what it is armed for */
    int fd;
    struct engine_stream_events handler;
};

struct engine_loop {
    struct engine *engine;
    CURLM *multi;
    int epoll_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* streams, roused, fresh, stop */
    struct engine_stream *streams;
    struct engine_stream *roused; /* [lock] */
    struct engine_watch *fresh;   /* handed over by other threads */
    struct engine_watch *watches;
    bool stop;
};

static void take_fresh(struct engine_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    while (loop->fresh != NULL) {
        struct engine_watch *w = loop->fresh;

        loop->fresh = *engine_watch_next(w);
        *engine_watch_next(w) = loop->watches;
        loop->watches = w;
    }
    pthread_mutex_unlock(&loop->lock);
}

static int tick_watches(struct engine_loop *loop)
{
    int64_t wait = 60 * 1000;

    for (struct engine_watch *w = loop->watches; w != NULL; w = *engine_watch_next(w)) {
        int64_t left = engine_watch_tick(w, loop->multi);

        if (left >= 0 && left < wait) {
            wait = left;
        }
    }
    return (int)wait;
}

static void reap_transfers(struct engine_loop *loop)
{
    int left;
    CURLMsg *message;

    while ((message = curl_multi_info_read(loop->multi, &left)) != NULL) {
        CURL *easy = message->easy_handle;

        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        for (struct engine_watch *w = loop->watches; w != NULL; w = *engine_watch_next(w)) {
            if (engine_watch_ended(w, loop->multi, easy)) {
                break;
            }
        }
    }
}

static void unlink_stream(struct engine_loop *loop, struct engine_stream *s)
{
    pthread_mutex_lock(&loop->lock);
    if (s->previous != NULL) {
        s->previous->next = s->next;
    } else {
        loop->streams = s->next;
    }
    if (s->next != NULL) {
        s->next->previous = s->previous;
    }
    for (struct engine_stream **at = &loop->roused; s->roused; at = &(*at)->next_roused) {
        if (*at == s) {
            *at = s->next_roused;
            s->roused = false;
            break;
        }
    }
    pthread_mutex_unlock(&loop->lock);
}

static void arm(struct engine_loop *loop, struct engine_stream *s, short wanted)
{
    struct epoll_event event = {.events = (uint32_t)(unsigned short)wanted | EPOLLONESHOT,
                                .data.ptr = s};

    s->wanted = wanted;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &event);
}

/* Arming is this thread's alone: nobody can lose what another has asked for. */
static void arm_roused(struct engine_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    while (loop->roused != NULL) {
        struct engine_stream *s = loop->roused;

        loop->roused = s->next_roused;
        s->roused = false;
        arm(loop, s, (short)(s->wanted | POLLOUT));
    }
    pthread_mutex_unlock(&loop->lock);
}

void engine_loop_rouse(struct engine_loop *loop, struct engine_stream *stream)
{
    pthread_mutex_lock(&loop->lock);
    if (!stream->roused) {
        stream->roused = true;
        stream->next_roused = loop->roused;
        loop->roused = stream;
    }
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
}

/* One shot each: a descriptor that its callback has closed may live on for a moment in a child that
 * is just being started, and must not report for a stream that is gone. */
static void run_stream(struct engine_loop *loop, struct engine_stream *s, uint32_t events)
{
    short wanted = s->handler.ready(s->handler.ctx, s->fd, (short)events);

    if (wanted == 0) {
        unlink_stream(loop, s);
        free(s);
        return;
    }
    arm(loop, s, wanted);
}

static void run_streams(struct engine_loop *loop)
{
    struct epoll_event events[LOOP_BATCH];
    int count = epoll_wait(loop->epoll_fd, events, LOOP_BATCH, 0);

    for (int i = 0; i < count; i++) {
        run_stream(loop, events[i].data.ptr, events[i].events);
    }
}

static bool stopped(struct engine_loop *loop)
{
    bool stop;

    pthread_mutex_lock(&loop->lock);
    stop = loop->stop;
    pthread_mutex_unlock(&loop->lock);
    return stop;
}

static void *loop_main(void *arg)
{
    struct engine_loop *loop = arg;

    while (!stopped(loop)) {
        struct curl_waitfd extra = {.fd = loop->epoll_fd, .events = CURL_WAIT_POLLIN};
        int running;

        take_fresh(loop);
        arm_roused(loop);
        curl_multi_perform(loop->multi, &running);
        reap_transfers(loop);
        /* Last, because what has just ended says how long to wait. */
        curl_multi_poll(loop->multi, &extra, 1, tick_watches(loop), NULL);
        run_streams(loop);
    }
    return NULL;
}

static int loop_start(struct engine_loop *loop, struct error *err)
{
    int code;

    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "epoll");
    }
    loop->multi = curl_multi_init();
    if (loop->multi == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    code = pthread_create(&loop->thread, NULL, loop_main, loop);
    if (code != 0) {
        return error_set_errno(err, ERROR_INTERNAL, code, "thread");
    }
    return 0;
}

static void loop_destroy(struct engine_loop *loop)
{
    if (loop->multi != NULL) {
        curl_multi_cleanup(loop->multi);
    }
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

int engine_loop_new(struct engine *e, struct engine_loop **out, struct error *err)
{
    struct engine_loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    loop->engine = e;
    loop->epoll_fd = -1;
    pthread_mutex_init(&loop->lock, NULL);
    if (loop_start(loop, err) < 0) {
        loop_destroy(loop);
        return -1;
    }
    *out = loop;
    return 0;
}

static void drop_all(struct engine_loop *loop)
{
    take_fresh(loop);
    while (loop->watches != NULL) {
        struct engine_watch *w = loop->watches;

        loop->watches = *engine_watch_next(w);
        engine_watch_free(w, loop->multi);
    }
    while (loop->streams != NULL) {
        struct engine_stream *s = loop->streams;

        unlink_stream(loop, s);
        if (s->handler.dropped != NULL) {
            s->handler.dropped(s->handler.ctx, s->fd);
        }
        free(s);
    }
}

void engine_loop_stop(struct engine_loop *loop)
{
    bool first;

    pthread_mutex_lock(&loop->lock);
    first = !loop->stop;
    loop->stop = true;
    pthread_mutex_unlock(&loop->lock);
    if (first) {
        curl_multi_wakeup(loop->multi);
        pthread_join(loop->thread, NULL);
        drop_all(loop);
    }
}

void engine_loop_free(struct engine_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    engine_loop_stop(loop);
    loop_destroy(loop);
}

int engine_loop_add(struct engine_loop *loop, int fd, short events,
                    const struct engine_stream_events *handler, struct error *err)
{
    struct engine_stream *s = calloc(1, sizeof(*s));
    struct epoll_event wanted = {.events = (uint32_t)(unsigned short)events | EPOLLONESHOT,
                                 .data.ptr = s};
    int code;

    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    s->fd = fd;
    s->wanted = events;
    s->handler = *handler;
    if (handler->stream != NULL) {
        *handler->stream = s;
    }
    pthread_mutex_lock(&loop->lock);
    if (loop->stop) {
        pthread_mutex_unlock(&loop->lock);
        free(s);
        return error_set(err, ERROR_HOST_UNAVAILABLE, "the service is stopping");
    }
    s->next = loop->streams;
    if (s->next != NULL) {
        s->next->previous = s;
    }
    loop->streams = s;
    code = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0 ? errno : 0;
    if (code != 0) {
        loop->streams = s->next;
        if (s->next != NULL) {
            s->next->previous = NULL;
        }
    }
    pthread_mutex_unlock(&loop->lock);
    if (code != 0) {
        free(s);
        return error_set_errno(err, ERROR_INTERNAL, code, "epoll");
    }
    return 0;
}

int engine_loop_watch(struct engine_loop *loop, const char *label,
                      const struct engine_watch_events *handler, struct error *err)
{
    struct engine_watch *w;

    if (engine_watch_new(loop->engine, label, handler, &w, err) < 0) {
        return -1;
    }
    pthread_mutex_lock(&loop->lock);
    *engine_watch_next(w) = loop->fresh;
    loop->fresh = w;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
    return 0;
}
