#include "base/timer.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>

/* A timer lives in a slot, and the heap holds slot numbers ordered by time. An id is the slot
 * number and how often the slot was used, so that an id of the past never meets a later timer. */
struct slot {
    int64_t at;
    timer_fn fn;
    timer_fn drop; /* NULL: nothing is held */
    void *arg;
    struct log_trace trace;
    uint32_t uses;
    uint32_t heap_index; /* while pending */
    uint32_t next_free;  /* while free */
    bool pending;
};

struct timers {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    struct slot *slots;
    uint32_t *heap;
    uint32_t slot_count; /* also the room in `heap` */
    uint32_t heap_len;
    uint32_t first_free;
    bool stopping;
};

enum { FIRST_SLOTS = 64 };
static const uint32_t NO_SLOT = UINT32_MAX;

static bool heap_before(const struct timers *t, uint32_t a, uint32_t b)
{
    return t->slots[t->heap[a]].at < t->slots[t->heap[b]].at;
}

static void heap_swap(struct timers *t, uint32_t a, uint32_t b)
{
    uint32_t slot = t->heap[a];

    t->heap[a] = t->heap[b];
    t->heap[b] = slot;
    t->slots[t->heap[a]].heap_index = a;
    t->slots[t->heap[b]].heap_index = b;
}

static void heap_up(struct timers *t, uint32_t at)
{
    while (at > 0 && heap_before(t, at, (at - 1) / 2)) {
        heap_swap(t, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static void heap_down(struct timers *t, uint32_t at)
{
    for (;;) {
        uint32_t best = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < t->heap_len; child++) {
            if (heap_before(t, child, best)) {
                best = child;
            }
        }
        if (best == at) {
            return;
        }
        heap_swap(t, at, best);
        at = best;
    }
}

/* Takes a pending timer out of the heap and frees its slot. */
static void slot_release(struct timers *t, uint32_t index)
{
    uint32_t hole = t->slots[index].heap_index;
    uint32_t end = --t->heap_len;

    if (hole != end) {
        heap_swap(t, hole, end);
        heap_up(t, hole);
        heap_down(t, hole);
    }
    t->slots[index].pending = false;
    t->slots[index].next_free = t->first_free;
    t->first_free = index;
}

static int slots_grow(struct timers *t)
{
    uint32_t count = t->slot_count == 0 ? FIRST_SLOTS : t->slot_count * 2;
    struct slot *slots = realloc(t->slots, count * sizeof(*slots));
    uint32_t *heap;

    if (slots == NULL) {
        return -1;
    }
    t->slots = slots;
    heap = realloc(t->heap, count * sizeof(*heap));
    if (heap == NULL) {
        return -1;
    }
    t->heap = heap;
    for (uint32_t i = t->slot_count; i < count; i++) {
        t->slots[i] = (struct slot){.next_free = i + 1 < count ? i + 1 : NO_SLOT};
    }
    t->first_free = t->slot_count;
    t->slot_count = count;
    return 0;
}

/* With the mutex held: runs what is due, without the mutex while a callback runs. */
static void run_due(struct timers *t)
{
    while (!t->stopping && t->heap_len > 0) {
        struct slot due = t->slots[t->heap[0]];

        if (due.at > clock_mono_ms()) {
            return;
        }
        slot_release(t, t->heap[0]);
        pthread_mutex_unlock(&t->mutex);
        log_trace_set(due.trace);
        due.fn(due.arg);
        pthread_mutex_lock(&t->mutex);
    }
}

static void *timers_run(void *arg)
{
    struct timers *t = arg;

    pthread_mutex_lock(&t->mutex);
    while (!t->stopping) {
        run_due(t);
        if (t->stopping) {
            break;
        }
        if (t->heap_len == 0) {
            pthread_cond_wait(&t->changed, &t->mutex);
        } else {
            int64_t at = t->slots[t->heap[0]].at;
            struct timespec until = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};

            pthread_cond_timedwait(&t->changed, &t->mutex, &until);
        }
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

static void timers_destroy(struct timers *t)
{
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    free(t->slots);
    free(t->heap);
    free(t);
}

int timers_new(struct timers **out, struct error *err)
{
    struct timers *t = calloc(1, sizeof(*t));
    pthread_condattr_t attr;
    int errnum;

    if (t == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    t->first_free = NO_SLOT;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &attr);
    pthread_condattr_destroy(&attr);
    errnum = pthread_create(&t->thread, NULL, timers_run, t);
    if (errnum != 0) {
        timers_destroy(t);
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot start the timer thread");
    }
    *out = t;
    return 0;
}

void timers_stop(struct timers *t)
{
    bool first;

    pthread_mutex_lock(&t->mutex);
    first = !t->stopping;
    t->stopping = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    if (first) {
        pthread_join(t->thread, NULL);
    }
}

/* No thread is left: what a callback would have taken over goes now. */
static void drop_pending(struct timers *t)
{
    for (uint32_t i = 0; i < t->heap_len; i++) {
        const struct slot *slot = &t->slots[t->heap[i]];

        if (slot->drop != NULL) {
            slot->drop(slot->arg);
        }
    }
}

void timers_free(struct timers *t)
{
    if (t == NULL) {
        return;
    }
    timers_stop(t);
    drop_pending(t);
    timers_destroy(t);
}

uint64_t timers_add_held(struct timers *t, int64_t at_mono_ms, timer_fn fn, timer_fn drop,
                         void *arg)
{
    struct slot *slot;
    uint32_t index;
    uint64_t id;

    pthread_mutex_lock(&t->mutex);
    if (t->first_free == NO_SLOT && slots_grow(t) != 0) {
        /* A deadline that is never kept would be worse than a restart. */
        log_error("out of memory for a timer", NULL);
        abort();
    }
    index = t->first_free;
    slot = &t->slots[index];
    t->first_free = slot->next_free;
    slot->at = at_mono_ms < 0 ? 0 : at_mono_ms;
    slot->fn = fn;
    slot->drop = drop;
    slot->arg = arg;
    slot->trace = log_trace_now();
    slot->uses++;
    slot->pending = true;
    slot->heap_index = t->heap_len;
    t->heap[t->heap_len++] = index;
    heap_up(t, slot->heap_index);
    id = (uint64_t)slot->uses << 32 | index;
    if (t->heap[0] == index) {
        pthread_cond_signal(&t->changed);
    }
    pthread_mutex_unlock(&t->mutex);
    return id;
}

uint64_t timers_add(struct timers *t, int64_t at_mono_ms, timer_fn fn, void *arg)
{
    return timers_add_held(t, at_mono_ms, fn, NULL, arg);
}

bool timers_cancel(struct timers *t, uint64_t id)
{
    uint32_t index = (uint32_t)id;
    bool cancelled = false;

    pthread_mutex_lock(&t->mutex);
    if (index < t->slot_count && t->slots[index].pending &&
        t->slots[index].uses == (uint32_t)(id >> 32)) {
        slot_release(t, index);
        cancelled = true;
    }
    pthread_mutex_unlock(&t->mutex);
    return cancelled;
}
