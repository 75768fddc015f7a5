#include "base/pool.h"

#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct job {
    struct job *next;
    pool_fn fn;
    void *arg;
};

struct kind {
    struct job *first;
    struct job **last;
    unsigned threads_max;
    unsigned running;
    unsigned load; /* waiting and running */
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct kind kinds[POOL_KINDS];
    pthread_t *threads;
    unsigned threads_max; /* of all kinds together */
    unsigned started;
    unsigned idle;
    unsigned waiting_max;
    bool stopping;
    atomic_uint load;
};

/* --- workers; with the mutex held unless said --- */

static bool is_runnable(const struct kind *k)
{
    return k->first != NULL && k->running < k->threads_max;
}

/* NULL: nothing may run now. */
static struct kind *runnable_kind(struct pool *p)
{
    for (unsigned i = 0; i < POOL_KINDS; i++) {
        if (is_runnable(&p->kinds[i])) {
            return &p->kinds[i];
        }
    }
    return NULL;
}

/* How many threads could begin something now. */
static unsigned runnable_count(const struct pool *p)
{
    unsigned count = 0;

    for (unsigned i = 0; i < POOL_KINDS; i++) {
        const struct kind *k = &p->kinds[i];
        unsigned waiting = k->load - k->running;
        unsigned room = k->threads_max - k->running;

        count += waiting < room ? waiting : room;
    }
    return count;
}

static struct job *take_job(struct kind *k)
{
    struct job *job = k->first;

    k->first = job->next;
    if (k->first == NULL) {
        k->last = &k->first;
    }
    k->running++;
    return job;
}

static void *work(void *arg);

/* Failure is no harm as long as one thread lives. */
static int start_thread(struct pool *p)
{
    int errnum = pthread_create(&p->threads[p->started], NULL, work, p);

    if (errnum == 0) {
        p->started++;
    }
    return errnum;
}

/* Something may have become runnable: sees that there is a thread for it. True when one is to be
 * woken, which is best done without the mutex: it would run into it. */
static bool stir(struct pool *p)
{
    unsigned runnable = runnable_count(p);

    if (p->idle < runnable && p->started < p->threads_max && !p->stopping) {
        (void)start_thread(p);
    }
    return runnable > 0 && p->idle > 0;
}

static void run_job(struct pool *p, struct kind *k)
{
    struct job *job = take_job(k);

    bool more = stir(p); /* what waited behind its kind's bound may run since the last job's end */

    pthread_mutex_unlock(&p->mutex);
    if (more) {
        pthread_cond_signal(&p->work);
    }
    job->fn(job->arg);
    free(job);
    atomic_fetch_sub(&p->load, 1);
    pthread_mutex_lock(&p->mutex);
    k->running--;
    k->load--;
}

static void *work(void *arg)
{
    struct pool *p = arg;
    struct kind *k;

    pthread_mutex_lock(&p->mutex);
    for (;;) {
        p->idle++;
        while ((k = runnable_kind(p)) == NULL && !p->stopping) {
            pthread_cond_wait(&p->work, &p->mutex);
        }
        p->idle--;
        if (k == NULL) {
            break; /* what waits behind its kind's bound is run by those who run that kind */
        }
        run_job(p, k);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* --- life --- */

int pool_new(unsigned threads, unsigned queue, struct pool **out, struct error *err)
{
    const unsigned kinds[POOL_KINDS] = {threads == 0 ? 1 : threads};

    return pool_new_of_kinds(kinds, queue, out, err);
}

int pool_new_of_kinds(const unsigned threads[POOL_KINDS], unsigned queue, struct pool **out,
                      struct error *err)
{
    struct pool *p = calloc(1, sizeof(*p));
    int errnum;

    for (unsigned i = 0; p != NULL && i < POOL_KINDS; i++) {
        p->kinds[i].threads_max = threads[i];
        p->kinds[i].last = &p->kinds[i].first;
        p->threads_max += threads[i];
    }
    if (p == NULL || (p->threads = calloc(p->threads_max, sizeof(*p->threads))) == NULL) {
        free(p);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    p->waiting_max = queue;
    atomic_init(&p->load, 0);
    pthread_mutex_lock(&p->mutex);
    errnum = start_thread(p);
    pthread_mutex_unlock(&p->mutex);
    if (errnum != 0) {
        pool_free(p);
        return error_set_errno(err, ERROR_INTERNAL, errnum, "cannot start a worker thread");
    }
    *out = p;
    return 0;
}

void pool_free(struct pool *p)
{
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
    /* No thread is started any more, so `started` does not change. */
    for (unsigned i = 0; i < p->started; i++) {
        pthread_join(p->threads[i], NULL);
    }
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->mutex);
    free(p->threads);
    free(p);
}

/* --- submitting --- */

/* Takes `job` unless the kind's queue is full. */
static bool enqueue(struct pool *p, unsigned kind, struct job *job, bool bounded)
{
    struct kind *k = &p->kinds[kind];
    bool wake = false;
    bool taken;

    pthread_mutex_lock(&p->mutex);
    /* A job that a thread will pick up at once does not count as waiting. */
    taken = !bounded || k->load < k->threads_max + p->waiting_max;
    if (taken) {
        *k->last = job;
        k->last = &job->next;
        k->load++;
        atomic_fetch_add(&p->load, 1);
        wake = stir(p);
    }
    pthread_mutex_unlock(&p->mutex);
    if (wake) {
        pthread_cond_signal(&p->work);
    }
    return taken;
}

static struct job *job_new(pool_fn fn, void *arg)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job != NULL) {
        job->fn = fn;
        job->arg = arg;
    }
    return job;
}

int pool_submit(struct pool *p, pool_fn fn, void *arg, struct error *err)
{
    return pool_submit_kind(p, 0, fn, arg, err);
}

void pool_submit_always(struct pool *p, pool_fn fn, void *arg)
{
    pool_submit_kind_always(p, 0, fn, arg);
}

int pool_submit_kind(struct pool *p, unsigned kind, pool_fn fn, void *arg, struct error *err)
{
    struct job *job = job_new(fn, arg);

    if (job == NULL || !enqueue(p, kind, job, true)) {
        free(job);
        return error_set(err, ERROR_OVERLOADED, "too much work is waiting");
    }
    return 0;
}

void pool_submit_kind_always(struct pool *p, unsigned kind, pool_fn fn, void *arg)
{
    struct job *job = job_new(fn, arg);

    if (job == NULL) {
        /* Forgetting the end of something would leak it; the next start makes it good. */
        log_error("out of memory for a job that must run", NULL);
        abort();
    }
    (void)enqueue(p, kind, job, false);
}

void pool_kind_load(struct pool *p, unsigned kind, struct pool_kind_load *out)
{
    const struct kind *k = &p->kinds[kind];

    pthread_mutex_lock(&p->mutex);
    *out = (struct pool_kind_load){.waiting = k->load - k->running, .running = k->running};
    pthread_mutex_unlock(&p->mutex);
}

unsigned pool_load(const struct pool *p)
{
    return atomic_load(&p->load);
}
