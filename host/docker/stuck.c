#include "host/docker/stuck.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/docker/container.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

/* What has been held up once, and helped, is held up again by the next. */
enum { AGAIN_MS = 1000, AGAIN_SHARE = 4, AFTER_HELP_MS = 250 };

struct stuck_wait {
    struct stuck *owner;
    char container[CONTAINER_ID_SIZE];
    unsigned want;
    int64_t since_ms;
    int64_t next_ms;
    bool helped;
    TAILQ_ENTRY(stuck_wait) entry;
};

struct stuck {
    int64_t delay_ms;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    pthread_cond_t looked;
    TAILQ_HEAD(stuck_waits, stuck_wait) waits;
    char looking[CONTAINER_ID_SIZE]; /* which container is being helped, "" for none */
    bool stop;
    pthread_t thread;
};

/* --- the thread --- */

/* [lock] The wait that is due first; NULL when there is none. */
static struct stuck_wait *first_due(struct stuck *s)
{
    struct stuck_wait *first = NULL;
    struct stuck_wait *w;

    TAILQ_FOREACH(w, &s->waits, entry)
    {
        if (first == NULL || w->next_ms < first->next_ms) {
            first = w;
        }
    }
    return first;
}

/* [lock] Everything that waits long enough for this container is helped in one go; what takes ever
 * longer is looked at ever more rarely, for it may just take long. */
static unsigned wants_of(struct stuck *s, const char *container, int64_t now)
{
    unsigned wants = 0;
    struct stuck_wait *w;

    TAILQ_FOREACH(w, &s->waits, entry)
    {
        if (now >= w->since_ms + s->delay_ms && strcmp(w->container, container) == 0) {
            int64_t share = (now - w->since_ms) / AGAIN_SHARE;

            wants |= w->want;
            w->next_ms = now + (share > AGAIN_MS ? share : AGAIN_MS);
        }
    }
    return wants;
}

/* [lock] What was tried for this container at `now` had effect. True when it is the first time. */
static bool note_help(struct stuck *s, const char *container, int64_t now)
{
    bool first = true;
    struct stuck_wait *w;

    TAILQ_FOREACH(w, &s->waits, entry)
    {
        if (strcmp(w->container, container) == 0) {
            first = first && !w->helped;
            w->helped = true;
            if (now >= w->since_ms + s->delay_ms) {
                w->next_ms = now + AFTER_HELP_MS;
            }
        }
    }
    return first;
}

/* [lock, given up meanwhile] */
static void help(struct stuck *s, const char *container, int64_t now)
{
    unsigned wants;
    unsigned killed;

    memcpy(s->looking, container, sizeof(s->looking));
    wants = wants_of(s, s->looking, now);
    pthread_mutex_unlock(&s->lock);
    killed = stuck_release(s->looking, wants);
    pthread_mutex_lock(&s->lock);
    /* One line for each time that somebody waits, however often it takes. */
    if (killed > 0 && note_help(s, s->looking, now)) {
        log_warn((wants & STUCK_END) != 0
                     ? "the engine was slow to end a container, so its processes were killed"
                     : "a program had stopped the engine's runtime, which was killed",
                 "container", s->looking, NULL);
    }
    s->looking[0] = '\0';
    pthread_cond_broadcast(&s->looked);
}

static void *stuck_main(void *arg)
{
    struct stuck *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        const struct stuck_wait *w = first_due(s);
        int64_t now = clock_mono_ms();

        if (w == NULL) {
            pthread_cond_wait(&s->changed, &s->lock);
        } else if (w->next_ms > now) {
            const struct timespec until = {.tv_sec = w->next_ms / 1000,
                                           .tv_nsec = w->next_ms % 1000 * 1000000};

            (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
        } else {
            help(s, w->container, now);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- waits --- */

struct stuck_wait *stuck_wait_begin(struct stuck *s, const char *container, enum stuck_want want)
{
    struct stuck_wait *w;

    if (s == NULL || !container_id_valid(container) || strlen(container) != CONTAINER_ID_SIZE - 1 ||
        (w = calloc(1, sizeof(*w))) == NULL) {
        return NULL;
    }
    w->owner = s;
    memcpy(w->container, container, sizeof(w->container));
    w->want = want;
    w->since_ms = clock_mono_ms();
    w->next_ms = w->since_ms + s->delay_ms;
    pthread_mutex_lock(&s->lock);
    TAILQ_INSERT_TAIL(&s->waits, w, entry);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return w;
}

bool stuck_wait_end(struct stuck_wait **wait)
{
    struct stuck_wait *w = TAKE_PTR(*wait);
    bool helped;

    if (w == NULL) {
        return false;
    }
    pthread_mutex_lock(&w->owner->lock);
    /* The help may have been what ended the wait. */
    while (strcmp(w->owner->looking, w->container) == 0) {
        pthread_cond_wait(&w->owner->looked, &w->owner->lock);
    }
    TAILQ_REMOVE(&w->owner->waits, w, entry);
    helped = w->helped;
    pthread_mutex_unlock(&w->owner->lock);
    free(w);
    return helped;
}

/* --- life --- */

int stuck_new(int64_t delay_ms, struct stuck **out, struct error *err)
{
    struct stuck *s = calloc(1, sizeof(*s));
    pthread_condattr_t clock;
    int code;

    if (s == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    s->delay_ms = delay_ms;
    TAILQ_INIT(&s->waits);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &clock);
    pthread_cond_init(&s->looked, NULL);
    pthread_condattr_destroy(&clock);
    code = pthread_create(&s->thread, NULL, stuck_main, s);
    if (code != 0) {
        pthread_cond_destroy(&s->looked);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return error_set_errno(err, ERROR_INTERNAL, code, "thread");
    }
    *out = s;
    return 0;
}

void stuck_free(struct stuck *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->looked);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
