#include "base/pool.h"

#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

struct job {
    struct job *next;
    pool_fn fn;
    void *arg;
    struct log_trace trace;
};

/* What one owner has of one kind. */
struct share {
    TAILQ_ENTRY(share) entry; /* while something waits */
    struct job *first;
    struct job **last;
    unsigned waiting;
    unsigned running;
    bool bound;
};

TAILQ_HEAD(share_queue, share);

struct kind {
    struct share_queue queue; /* shares with something that waits: who is next, first */
    unsigned threads_max;
    unsigned running;
    unsigned load; /* waiting and running */
};

struct owner {
    LIST_ENTRY(owner) entry;
    struct share shares[POOL_KINDS];
    char name[];
};

LIST_HEAD(owners, owner);
enum { BUCKETS = 64, GREED = 3 };

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct kind kinds[POOL_KINDS];
    struct share nobody[POOL_KINDS];
    struct owners owners[BUCKETS];
    pthread_t *threads;
    unsigned threads_max; /* of all kinds together */
    unsigned started;
    unsigned idle;
    unsigned waiting_max;
    bool stopping;
    atomic_uint load;
};

/* --- who may have more; with the mutex held --- */

/* Whether one who has `used` may have one more of the `left` that nobody has. */
static bool is_fair(unsigned used, unsigned left)
{
    return left > 0 && (used == 0 || used < GREED * (left - 1));
}

static bool may_begin(const struct kind *k, const struct share *s)
{
    unsigned left = k->threads_max - k->running;

    return left > 0 && (!s->bound || is_fair(s->running, left));
}

/* A job that a thread will pick up at once does not count as waiting. */
static bool may_wait(const struct pool *p, const struct kind *k, const struct share *s)
{
    unsigned max = k->threads_max + p->waiting_max;

    return k->load < max && (!s->bound || is_fair(s->waiting, max - k->load));
}

static struct share *next_share(const struct kind *k)
{
    struct share *s;

    TAILQ_FOREACH(s, &k->queue, entry)
    {
        if (may_begin(k, s)) {
            return s;
        }
    }
    return NULL;
}

/* How many of its own that wait could begin now, or a few more. */
static unsigned could_begin(const struct kind *k, const struct share *s)
{
    unsigned left = k->threads_max - k->running;
    unsigned room = left;

    if (!may_begin(k, s)) {
        return 0;
    }
    if (s->bound && s->running > 0) {
        room = GREED * (left - 1) - s->running;
    }
    room = room < left ? room : left;
    return s->waiting < room ? s->waiting : room;
}

/* --- owners; with the mutex held --- */

static void share_init(struct share *s, bool bound)
{
    *s = (struct share){.bound = bound};
    s->last = &s->first;
}

static struct owners *bucket_of(struct pool *p, const char *name)
{
    uint32_t hash = 2166136261U;

    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    return &p->owners[hash % BUCKETS];
}

/* Nobody's where memory is out: work is not lost for that. */
static struct share *share_of(struct pool *p, unsigned kind, const char *name)
{
    struct owners *bucket;
    struct owner *o;
    size_t size;

    if (name == NULL) {
        return &p->nobody[kind];
    }
    bucket = bucket_of(p, name);
    LIST_FOREACH(o, bucket, entry)
    {
        if (strcmp(o->name, name) == 0) {
            return &o->shares[kind];
        }
    }
    size = strlen(name) + 1;
    o = malloc(sizeof(*o) + size);
    if (o == NULL) {
        return &p->nobody[kind];
    }
    memcpy(o->name, name, size);
    for (unsigned i = 0; i < POOL_KINDS; i++) {
        share_init(&o->shares[i], true);
    }
    LIST_INSERT_HEAD(bucket, o, entry);
    return &o->shares[kind];
}

static void owners_free(struct pool *p)
{
    struct owner *o;

    for (unsigned i = 0; i < BUCKETS; i++) {
        while ((o = LIST_FIRST(&p->owners[i])) != NULL) {
            LIST_REMOVE(o, entry);
            free(o);
        }
    }
}

/* --- workers; with the mutex held unless said --- */

/* NULL: nothing may run now. */
static struct kind *runnable_kind(struct pool *p, struct share **share)
{
    for (unsigned i = 0; i < POOL_KINDS; i++) {
        *share = next_share(&p->kinds[i]);
        if (*share != NULL) {
            return &p->kinds[i];
        }
    }
    return NULL;
}

/* How many threads could begin something now, or a few more. */
static unsigned runnable_count(const struct pool *p)
{
    unsigned count = 0;

    for (unsigned i = 0; i < POOL_KINDS; i++) {
        const struct kind *k = &p->kinds[i];
        unsigned room = k->threads_max - k->running;
        unsigned could = 0;
        const struct share *s;

        TAILQ_FOREACH(s, &k->queue, entry)
        {
            could += could_begin(k, s);
        }
        count += could < room ? could : room;
    }
    return count;
}

static struct job *take_job(struct kind *k, struct share *s)
{
    struct job *job = s->first;

    TAILQ_REMOVE(&k->queue, s, entry);
    s->first = job->next;
    s->waiting--;
    if (s->first == NULL) {
        s->last = &s->first;
    } else {
        TAILQ_INSERT_TAIL(&k->queue, s, entry); /* the others first */
    }
    s->running++;
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

static void run_job(struct pool *p, struct kind *k, struct share *s)
{
    struct job *job = take_job(k, s);

    bool more = stir(p); /* what waited behind its kind's bound may run since the last job's end */

    pthread_mutex_unlock(&p->mutex);
    if (more) {
        pthread_cond_signal(&p->work);
    }
    log_trace_set(job->trace);
    job->fn(job->arg);
    free(job);
    atomic_fetch_sub(&p->load, 1);
    pthread_mutex_lock(&p->mutex);
    s->running--;
    k->running--;
    k->load--;
}

static void *work(void *arg)
{
    struct pool *p = arg;
    struct share *s;
    struct kind *k;

    pthread_mutex_lock(&p->mutex);
    for (;;) {
        p->idle++;
        while ((k = runnable_kind(p, &s)) == NULL && !p->stopping) {
            pthread_cond_wait(&p->work, &p->mutex);
        }
        p->idle--;
        if (k == NULL) {
            break; /* what waits behind its kind's bound is run by those who run that kind */
        }
        run_job(p, k, s);
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
        TAILQ_INIT(&p->kinds[i].queue);
        share_init(&p->nobody[i], false);
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
    owners_free(p);
    free(p->threads);
    free(p);
}

/* --- submitting --- */

/* Takes `job` unless the kind's queue is full. */
static bool enqueue(struct pool *p, unsigned kind, const char *owner, struct job *job, bool bounded)
{
    struct kind *k = &p->kinds[kind];
    bool wake = false;
    bool taken;

    pthread_mutex_lock(&p->mutex);
    struct share *s = share_of(p, kind, owner);
    taken = !bounded || may_wait(p, k, s);
    if (taken) {
        if (s->first == NULL) {
            TAILQ_INSERT_TAIL(&k->queue, s, entry);
        }
        *s->last = job;
        s->last = &job->next;
        s->waiting++;
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
        job->trace = log_trace_now();
    }
    return job;
}

int pool_submit_owned(struct pool *p, unsigned kind, const char *owner, pool_fn fn, void *arg,
                      struct error *err)
{
    struct job *job = job_new(fn, arg);

    if (job == NULL || !enqueue(p, kind, owner, job, true)) {
        free(job);
        return error_set(err, ERROR_OVERLOADED, "too much work is waiting");
    }
    return 0;
}

void pool_submit_owned_always(struct pool *p, unsigned kind, const char *owner, pool_fn fn,
                              void *arg)
{
    struct job *job = job_new(fn, arg);

    if (job == NULL) {
        /* Forgetting the end of something would leak it; the next start makes it good. */
        log_error("out of memory for a job that must run", NULL);
        abort();
    }
    (void)enqueue(p, kind, owner, job, false);
}

int pool_submit_kind(struct pool *p, unsigned kind, pool_fn fn, void *arg, struct error *err)
{
    return pool_submit_owned(p, kind, NULL, fn, arg, err);
}

void pool_submit_kind_always(struct pool *p, unsigned kind, pool_fn fn, void *arg)
{
    pool_submit_owned_always(p, kind, NULL, fn, arg);
}

int pool_submit(struct pool *p, pool_fn fn, void *arg, struct error *err)
{
    return pool_submit_owned(p, 0, NULL, fn, arg, err);
}

void pool_submit_always(struct pool *p, pool_fn fn, void *arg)
{
    pool_submit_owned_always(p, 0, NULL, fn, arg);
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
