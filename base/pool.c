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

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct job *first;
    struct job **last;
    pthread_t *threads;
    unsigned threads_max;
    unsigned started;
    unsigned idle;
    unsigned waiting;
    unsigned waiting_max;
    bool stopping;
    atomic_uint load;
};

static struct job *take_job(struct pool *p)
{
    struct job *job = p->first;

    p->first = job->next;
    if (p->first == NULL) {
        p->last = &p->first;
    }
    p->waiting--;
    return job;
}

static void *work(void *arg)
{
    struct pool *p = arg;

    pthread_mutex_lock(&p->mutex);
    for (;;) {
        struct job *job;

        p->idle++;
        while (p->first == NULL && !p->stopping) {
            pthread_cond_wait(&p->work, &p->mutex);
        }
        p->idle--;
        if (p->first == NULL) {
            break;
        }
        job = take_job(p);
        pthread_mutex_unlock(&p->mutex);
        job->fn(job->arg);
        free(job);
        atomic_fetch_sub(&p->load, 1);
        pthread_mutex_lock(&p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Called with the mutex held. Failure is no harm as long as one thread lives. */
static int start_thread(struct pool *p)
{
    int errnum = pthread_create(&p->threads[p->started], NULL, work, p);

    if (errnum == 0) {
        p->started++;
    }
    return errnum;
}

int pool_new(unsigned threads, unsigned queue, struct pool **out, struct error *err)
{
    struct pool *p = calloc(1, sizeof(*p));
    int errnum;

    if (threads == 0) {
        threads = 1;
    }
    if (p == NULL || (p->threads = calloc(threads, sizeof(*p->threads))) == NULL) {
        free(p);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    p->last = &p->first;
    p->threads_max = threads;
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

/* Takes `job` unless the queue is full. */
static bool enqueue(struct pool *p, struct job *job, bool bounded)
{
    bool taken;

    pthread_mutex_lock(&p->mutex);
    if (p->idle <= p->waiting && p->started < p->threads_max && !p->stopping) {
        (void)start_thread(p);
    }
    /* A job that a free or just started thread will pick up does not count as waiting. */
    taken = !bounded || atomic_load(&p->load) < p->started + p->waiting_max;
    if (taken) {
        *p->last = job;
        p->last = &job->next;
        p->waiting++;
        atomic_fetch_add(&p->load, 1);
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->mutex);
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
    struct job *job = job_new(fn, arg);

    if (job == NULL || !enqueue(p, job, true)) {
        free(job);
        return error_set(err, ERROR_OVERLOADED, "too much work is waiting");
    }
    return 0;
}

void pool_submit_always(struct pool *p, pool_fn fn, void *arg)
{
    struct job *job = job_new(fn, arg);

    if (job == NULL) {
        /* Forgetting the end of something would leak it; the next start makes it good. */
        log_error("out of memory for a job that must run", NULL);
        abort();
    }
    (void)enqueue(p, job, false);
}

unsigned pool_load(const struct pool *p)
{
    return atomic_load(&p->load);
}
