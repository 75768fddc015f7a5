#include "base/clock.h"
#include "ptc/internal.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { EVENTS_MAX = 64, TICK_MS = 1000, CPU_LOOK_MS = 100 };

void ptc_loop_wake(struct ptc_engine *e)
{
    (void)eventfd_write(e->wake.fd, 1);
}

int ptc_loop_watch(struct ptc_engine *e, struct ptc_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(e->epoll, EPOLL_CTL_ADD, watch->fd, &event);
}

/* --- letters --- */

static struct ptc_run *take_runs(struct ptc_engine *e, struct ptc_run **list)
{
    pthread_mutex_lock(&e->lock);
    struct ptc_run *runs = *list;
    *list = NULL;
    pthread_mutex_unlock(&e->lock);
    return runs;
}

static void take_new_runs(struct ptc_engine *e)
{
    struct ptc_run *newest_first = take_runs(e, &e->new_runs);
    struct ptc_run *ordered = NULL;
    while (newest_first != NULL) {
        struct ptc_run *run = newest_first;
        newest_first = run->letter;
        run->letter = ordered;
        ordered = run;
    }
    while (ordered != NULL) {
        struct ptc_run *run = ordered;
        ordered = run->letter;
        run->letter = NULL;
        run->next = e->runs;
        e->runs = run;
        ptc_run_begin(run);
    }
}

static void take_stirred(struct ptc_engine *e)
{
    struct ptc_run *list = take_runs(e, &e->stirred);
    while (list != NULL) {
        struct ptc_run *run = list;
        list = run->letter;
        ptc_run_stir(run);
        ptc_run_release(run);
    }
}

static void unlink_worker(struct ptc_engine *e, struct ptc_worker *w)
{
    struct ptc_worker **at = &e->workers;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
}

static void bury(struct ptc_engine *e, struct ptc_worker *w)
{
    struct ptc_run *run = w->run;
    if (run != NULL) {
        if (w->stuck) {
            ptc_run_replace(run, PTC_WORKER_EXIT,
                            "the processes of the program could not be ended");
        }
        ptc_run_finish(run);
    }
    unlink_worker(e, w);
    ptc_worker_free(w);
}

static void take_arrived(struct ptc_engine *e)
{
    pthread_mutex_lock(&e->lock);
    struct ptc_worker *list = e->arrived;
    e->arrived = NULL;
    pthread_mutex_unlock(&e->lock);
    while (list != NULL) {
        struct ptc_worker *w = list;
        list = w->letter;
        w->letter = NULL;
        if (w->state == PTC_WORKER_GONE) {
            bury(e, w);
        } else {
            ptc_worker_arrived(w);
        }
    }
}

/* --- time --- */

static void look(struct ptc_engine *e, int64_t now)
{
    bool count_cpu = now >= e->cpu_look_at;
    for (struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        ptc_worker_look(w, now);
    }
    for (struct ptc_run *run = e->runs, *next = NULL; run != NULL; run = next) {
        next = run->next;
        if (count_cpu || (run->deadline >= 0 && now >= run->deadline)) {
            ptc_run_look(run, now);
        }
    }
    if (count_cpu) {
        e->cpu_look_at = now + CPU_LOOK_MS;
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return b >= 0 && b < a ? b : a;
}

static int find_pause(const struct ptc_engine *e, int64_t now)
{
    int64_t at = now + TICK_MS;
    for (const struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        at = sooner(at, w->deadline);
    }
    for (const struct ptc_run *run = e->runs; run != NULL; run = run->next) {
        at = sooner(at, run->chosen ? -1 : run->deadline);
    }
    if (e->runs != NULL) {
        at = sooner(at, e->cpu_look_at);
    }
    if (e->quiet_until > now) {
        at = sooner(at, e->quiet_until);
    }
    return at > now ? (int)(at - now) : 0;
}

/* --- the end --- */

static void stop_all(struct ptc_engine *e)
{
    for (struct ptc_run *run = e->runs, *next = NULL; run != NULL; run = next) {
        next = run->next;
        ptc_run_abort(run, e->stop_reason);
    }
    take_stirred(e);
    for (struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        ptc_worker_kill(w);
    }
}

static bool is_stopping(struct ptc_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool stopping = e->stopping;
    pthread_mutex_unlock(&e->lock);
    return stopping;
}

static void count_ready(struct ptc_engine *e)
{
    int64_t ready = 0;
    for (const struct ptc_worker *w = e->workers; w != NULL; w = w->next) {
        ready += w->state == PTC_WORKER_READY && w->run == NULL;
    }
    pthread_mutex_lock(&e->lock);
    e->ready = ready;
    pthread_mutex_unlock(&e->lock);
}

/* True when nothing is left to do for ever. */
static bool tend(struct ptc_engine *e)
{
    bool stopping = is_stopping(e);
    take_arrived(e);
    take_new_runs(e);
    take_stirred(e);
    look(e, clock_mono_ms());
    if (stopping) {
        stop_all(e);
    } else {
        ptc_pool_tend(e, clock_mono_ms());
    }
    count_ready(e);
    return stopping && e->workers == NULL && e->runs == NULL;
}

static void take_event(struct ptc_engine *e, const struct epoll_event *event)
{
    struct ptc_watch *watch = event->data.ptr;
    if (watch->what == PTC_WATCH_WAKE) {
        eventfd_t count;
        (void)eventfd_read(e->wake.fd, &count);
    } else {
        ptc_worker_event(watch->worker, watch->what, event->events);
    }
}

/* Workers are freed by tend alone, so that no event of a batch is for one that is gone. */
void *ptc_loop_main(void *engine)
{
    struct ptc_engine *e = engine;
    struct epoll_event events[EVENTS_MAX];
    while (!tend(e)) {
        int count = epoll_wait(e->epoll, events, EVENTS_MAX, find_pause(e, clock_mono_ms()));
        for (int i = 0; i < count; i++) {
            take_event(e, &events[i]);
        }
    }
    return NULL;
}
